"""The gap rule against its definition, and the null against what it promises (method.md)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frostline.analysis.gaps import COVERS, RESUME_SHARE, SAMPLE, SLACK_SHARE, by_chance, match
from frostline.analysis.intervals import Union, union
from frostline.recording.layout import Int64

MS = 1_000_000
intervals = st.lists(st.tuples(st.integers(0, 900), st.integers(1, 80)), max_size=14)


def disjoint(pairs: list[tuple[int, int]], unit: int = MS) -> Union:
    return union(
        np.array([at * unit for at, _ in pairs], np.int64),
        np.array([(at + length) * unit for at, length in pairs], np.int64),
    )


def by_definition(
    gaps: Union, passes: Union, slack: int, resume: int, demand: Union | None
) -> list[set[int]]:
    """For each gap the passes that explain it best; empty if none does."""
    found = []
    for start, stop in zip(gaps.start.tolist(), gaps.stop.tolist(), strict=True):
        inside = {}
        for i, (begin, end) in enumerate(zip(passes.start.tolist(), passes.stop.tolist(), strict=True)):
            low, high = max(begin, start), min(end, stop)
            if low >= high:
                continue
            covered = high - low
            if demand is not None:
                covered = sum(
                    max(0, min(high, b) - max(low, a))
                    for a, b in zip(demand.start.tolist(), demand.stop.tolist(), strict=True)
                )
            length = stop - start
            early = begin - start <= max(slack, SLACK_SHARE * length)
            late = stop - end <= max(resume, RESUME_SHARE * length)
            waits = end - stop <= max(slack, SLACK_SHARE * length)
            if covered >= COVERS * length and early and late and waits:
                inside[i] = covered
        found.append({i for i, covered in inside.items() if covered == max(inside.values())})
    return found


@given(intervals, intervals, st.none() | intervals, st.integers(0, 50), st.integers(0, 50))
def test_the_rule_is_its_definition(
    gaps: list[tuple[int, int]],
    passes: list[tuple[int, int]],
    demand: list[tuple[int, int]] | None,
    slack: int,
    resume: int,
) -> None:
    g, p = disjoint(gaps), disjoint(passes)
    d = None if demand is None else disjoint(demand)
    by = match(g.start, g.stop, p.start, p.stop, slack * MS, resume * MS, d)
    for which, best in zip(by.tolist(), by_definition(g, p, slack * MS, resume * MS, d), strict=True):
        assert which in best if best else which == -1


@given(intervals, intervals, st.integers(-(10**15), 10**15), st.integers(1, 1000))
def test_neither_rule_nor_null_depends_on_when_or_on_the_unit(
    gaps: list[tuple[int, int]], passes: list[tuple[int, int]], shift: int, scale: int
) -> None:
    g, p = disjoint(gaps), disjoint(passes)
    window = (0, 1_000 * MS)

    def both(k: int, by: int) -> tuple[list[int], float]:
        moved = [(array * k + by) for array in (g.start, g.stop, p.start, p.stop)]
        wide = {"slack": 20 * MS * k, "resume": 50 * MS * k}
        found = match(*moved, **wide)
        there = (window[0] * k + by, window[1] * k + by)
        return found.tolist(), by_chance(moved[0], moved[1], union(moved[2], moved[3]), there, **wide)

    rule, chance = both(1, 0)
    assert both(1, shift) == (rule, chance)
    scaled, near = both(scale, 0)
    assert scaled == rule
    assert abs(near - chance) <= 0.02  # a shift of a fraction of a unit may tip a tie


def renewals(dice: np.random.Generator, count: int, every: float, length: float) -> Union:
    """Stretches that come by chance: gamma-distributed pauses between them, as passes have."""
    at = np.cumsum(dice.gamma(3.0, every / 3, count))
    took = dice.gamma(4.0, length / 4, count)
    start: Int64 = (at * MS).astype(np.int64)
    return union(start, start + np.minimum(took, every / 2).astype(np.int64) * MS)


@pytest.mark.parametrize("several", [False, True])
def test_the_null_is_uniform_for_gaps_that_know_nothing_of_the_passes(several: bool) -> None:
    """At most 5 % of independent pairs get 5 % or less, and 1 % get 1 %: within what 600 draws allow."""
    chances = []
    for seed in range(600):
        dice = np.random.default_rng(seed)
        gaps = renewals(dice, 25, 900, 200)
        passes = renewals(dice, 40, 600, 150)
        until = int(min(gaps.stop[-1], passes.stop[-1]))
        inside = gaps.stop <= until
        start, stop = gaps.start[inside], gaps.stop[inside]
        chances.append(by_chance(start, stop, passes, (0, until), seed, shifts=200, several=several))
    found = np.array(chances)
    # Three standard deviations of a binomial of 600 above what is promised.
    for level in (0.01, 0.05, 0.1, 0.5):
        expected = 600 * level
        assert np.count_nonzero(found <= level) <= expected + 3 * np.sqrt(expected * (1 - level)) + 1, level
    # And not by never claiming anything: half of the mass is where half of it belongs.
    assert np.count_nonzero(found <= 0.5) >= 200


def test_one_gap_that_one_pass_fills_is_enough_to_be_no_accident() -> None:
    gaps, passes = disjoint([(5_000, 400)]), disjoint([(5_001, 395)])
    assert by_chance(gaps.start, gaps.stop, passes, (0, 20_000 * MS)) <= 0.005


def test_what_is_cut_out_of_the_window_is_no_place_for_a_pass() -> None:
    """Work in a tenth of the time: passes and gaps keep to it, and meet there by chance."""
    idle = disjoint([(0, 10_000)])
    gaps = disjoint([(at, 60) for at in range(10_000, 11_000, 100)])
    passes = disjoint([(at, 60) for at in range(10_015, 11_000, 100)])
    window = (0, 11_000 * MS)
    whole = by_chance(gaps.start, gaps.stop, passes, window)
    cut = by_chance(gaps.start, gaps.stop, passes, window, left_out=idle)
    assert whole <= 0.01 < 0.25 <= cut


def test_of_very_many_gaps_the_longest_are_looked_at() -> None:
    many = disjoint([(at * 10, 2) for at in range(5 * SAMPLE)])
    long = disjoint([(at * 10_000 + 5, 3) for at in range(5)])
    both = union(np.concatenate((many.start, long.start)), np.concatenate((many.stop, long.stop)))
    assert by_chance(both.start, both.stop, long, (0, 50_000 * MS)) <= 0.01
