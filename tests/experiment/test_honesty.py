"""The benchmark that holds the judge to its promise: its binomial test by hand, and that it could fail."""

from __future__ import annotations

import math

import pytest
from benchmarks import honesty


def test_the_binomial_is_exact() -> None:
    assert honesty.at_least(0, 10, 0.05) == pytest.approx(1)
    assert honesty.at_least(10, 10, 0.05) == pytest.approx(0.05**10)
    by_hand = sum(math.comb(20, k) * 0.05**k * 0.95 ** (20 - k) for k in range(3, 21))
    assert honesty.at_least(3, 20, 0.05) == pytest.approx(by_hand)


def test_a_fixed_order_takes_the_same_drift_for_an_effect_and_the_blocks_do_not() -> None:
    claimed = sum(honesty.fixed_order(0.02, seed) for seed in range(200))
    assert honesty.at_least(claimed, 200, 0.05) < 0.01
    verdicts = [honesty.simulated(1, 6, 0.02, 1.0, seed)[0] for seed in range(200)]
    assert honesty.at_least(sum(one in honesty.CLAIMS for one in verdicts), 200, 0.05) > 0.05


def test_what_is_there_is_found() -> None:
    told = [honesty.simulated(1, 6, 0.002, 0.9, seed)[0] for seed in range(50)]
    assert told.count("improved") > 45
