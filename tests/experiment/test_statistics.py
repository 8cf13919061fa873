"""The laws that "improved" rests on (A10, D7): exactness, symmetry, no more false claims than promised."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frostline.experiment import statistics as judge

EFFECTS = st.lists(st.floats(-2, 2, allow_subnormal=False), min_size=1, max_size=9)


@given(EFFECTS)
def test_p_is_the_share_of_flips_as_far(effects: list[float]) -> None:
    seen = abs(math.fsum(effects))
    flips = [
        abs(math.fsum(s * e for s, e in zip(signs, effects, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(effects))
    ]
    slack = 1e-9 * max(1.0, sum(map(abs, effects)))
    least = sum(flip >= seen + slack for flip in flips) / len(flips)
    most = sum(flip >= seen - slack for flip in flips) / len(flips)
    assert least <= judge.sign_flip(effects) <= most


@given(EFFECTS)
def test_the_arms_may_be_swapped(effects: list[float]) -> None:
    assert judge.sign_flip(effects) == pytest.approx(judge.sign_flip([-e for e in effects]))
    ends, other = judge.interval(effects), judge.interval([-e for e in effects])
    assert (ends is None) == (other is None)
    if ends is not None and other is not None:
        assert ends == pytest.approx((-other[1], -other[0]), abs=1e-6)


@given(EFFECTS, st.floats(-1, 1))
def test_the_interval_moves_with_the_effects(effects: list[float], by: float) -> None:
    ends, moved = judge.interval(effects), judge.interval([e + by for e in effects])
    if ends is not None and moved is not None:
        assert moved == pytest.approx((ends[0] + by, ends[1] + by), abs=1e-6)
        assert ends[0] <= sum(effects) / len(effects) + 1e-9 and ends[1] >= sum(effects) / len(effects) - 1e-9


@given(st.lists(st.floats(-2, 2, allow_subnormal=False), min_size=6, max_size=9), st.floats(0.001, 0.2))
def test_the_interval_is_what_the_test_does_not_refuse(effects: list[float], out: float) -> None:
    ends = judge.interval(effects)
    assert ends is not None
    assert judge.sign_flip(effects, (ends[0] + ends[1]) / 2) > judge.LEVEL or ends[0] == ends[1]
    assert judge.sign_flip(effects, ends[0] - out) <= judge.LEVEL
    assert judge.sign_flip(effects, ends[1] + out) <= judge.LEVEL


@pytest.mark.parametrize("count", range(1, 6))
def test_fewer_than_six_blocks_cannot_conclude(count: int) -> None:
    found = judge.effect([((100.0, 100.0), (10.0, 10.0))] * count, higher_is_better=False)
    assert found.low is None and found.verdict == judge.INCONCLUSIVE and found.needed == 6
    assert judge.least_blocks() == 6


@pytest.mark.parametrize(("arms", "least"), [(1, 6), (2, 7), (3, 7), (4, 8), (8, 9)])
def test_more_arms_need_more_blocks(arms: int, least: int) -> None:
    assert judge.least_blocks(arms=arms) == least
    assert 2 / 2**least <= 0.05 / arms < 2 / 2 ** (least - 1)


def test_a_clear_effect_is_said_with_its_direction() -> None:
    rng = np.random.default_rng(1)

    def runs(level: float) -> tuple[float, float]:
        one, other = level * np.exp(rng.normal(0, 0.02, 2))
        return float(one), float(other)

    blocks = [(runs(100), runs(80)) for _ in range(6)]
    faster = judge.effect(blocks, higher_is_better=False)
    assert faster.verdict == judge.IMPROVED and faster.p == 2 / 64
    assert faster.low is not None and faster.high is not None and faster.low < 0.8 < faster.high < 0.9
    assert judge.effect(blocks, higher_is_better=True).verdict == judge.REGRESSED


def test_no_effect_is_said_only_inside_the_margin() -> None:
    rng = np.random.default_rng(2)

    def blocks(noise: float) -> list[tuple[tuple[float, float], tuple[float, float]]]:
        values = np.exp(rng.normal(0, noise, (8, 4)))
        return [((v[0], v[3]), (v[1], v[2])) for v in values.tolist()]

    assert judge.effect(blocks(0.003), higher_is_better=True).verdict == judge.NO_EFFECT
    noisy = judge.effect(blocks(0.2), higher_is_better=True)
    assert noisy.verdict == judge.INCONCLUSIVE
    assert noisy.needed is None or noisy.needed > 8


def test_a_against_a_is_claimed_in_one_of_twenty_at_most() -> None:
    """2,000 experiments of six blocks without any effect, under a drift; an exact binomial bound."""
    rng = np.random.default_rng(3)
    claimed = 0
    for _ in range(2_000):
        drift = rng.normal(0, 0.02, (6, 1)) * np.arange(4)
        values = np.exp(drift + rng.normal(0, 0.05, (6, 4)))
        blocks = [((v[0], v[3]), (v[1], v[2])) for v in values.tolist()]
        claimed += judge.effect(blocks, higher_is_better=True).verdict in (judge.IMPROVED, judge.REGRESSED)
    # P(X >= claimed | 2,000, 0.05) must not be below 1 %.
    tail = sum(math.exp(_log_binomial(2_000, k, 0.05)) for k in range(claimed, 2_001))
    assert tail > 0.01, claimed


def _log_binomial(n: int, k: int, p: float) -> float:
    ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return ways + k * math.log(p) + (n - k) * math.log1p(-p)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_is_never_less_than_p_nor_more_than_bonferroni(ps: list[float]) -> None:
    for p, adjusted in zip(ps, judge.holm(ps), strict=True):
        assert p <= adjusted <= min(1.0, len(ps) * p) + 1e-12


@given(st.integers(2, 7), st.integers(0, 40))
def test_each_block_is_mirrored(arms: int, block: int) -> None:
    runs = judge.order(arms, block)
    assert runs == runs[::-1] and sorted(runs) == sorted(2 * list(range(arms)))
