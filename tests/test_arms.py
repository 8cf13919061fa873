"""The statistics of ``benchmarks.arms``: by hand, and where they must refuse to conclude."""

from __future__ import annotations

import argparse
import math

import pytest
from benchmarks import arms


def test_six_blocks_of_one_sign_are_the_least_that_concludes() -> None:
    assert arms.sign_flip([-1.0] * 6) == 2 / 64
    assert arms.sign_flip([-1.0] * 5) == 2 / 32
    assert arms.interval([-1.0] * 5) is None
    # One block against the five: of 64 sums, those of |4| and |6|.
    assert arms.sign_flip([-1.0] * 5 + [1.0]) == (2 + 12) / 64


def test_the_interval_holds_the_shifts_that_are_not_refused() -> None:
    values = [-0.5, -0.4, -0.45, -0.55, -0.35, -0.6, -0.42]
    found = arms.interval(values)
    assert found is not None
    low, high = found
    assert min(values) < low < sum(values) / len(values) < high < max(values)
    for end, outwards in ((low, -1e-6), (high, 1e-6)):
        assert arms.sign_flip(values, end - outwards) > 0.05 >= arms.sign_flip(values, end + outwards)


def test_a_block_is_its_four_sessions_and_a_sum_of_nothing_has_a_logarithm(capsys: object) -> None:
    def run(block: int, place: int, arm: str, total: float) -> arms.Run:
        return arms.Run(block, place, arm, 45.0, int(total > 0), total, total, 5.0, 0, 0.0, 0.0, 100.0)

    class Options:
        a, b, metric, pairs = "", "--policy follow", "logprobs:chunks_s", False

    whole = [run(0, place, arm, 100.0 if arm == "A" else 0.0) for place, arm in enumerate("ABBA")]
    assert arms.report(Options(), whole[:3]) == 1  # type: ignore[arg-type]
    assert arms.report(Options(), whole) == 0  # type: ignore[arg-type]
    text = capsys.readouterr().out  # type: ignore[attr-defined]
    assert "B/A   0.0010" in text, "100 ms against the floor of 0.1 ms"
    assert "nothing is concluded" in text and math.isfinite(arms.median([1.0, 2.0]))


def test_pairs_are_blocks_of_two_in_turn(capsys: pytest.CaptureFixture[str]) -> None:
    def run(block: int, place: int, metric: float) -> arms.Run:
        arm = "ABBA"[place]
        return arms.Run(block, place, arm, 45, 10, 1000, 100, 1, 0, 0, 0, metric)

    runs = [
        run(block, place, 50 if "ABBA"[place] == "A" else 100) for block in range(3) for place in range(4)
    ]
    options = argparse.Namespace(metric="m", a="", b="", pairs=True)
    assert arms.report(options, runs) == 0
    text = capsys.readouterr().out
    assert "6 blocks of A B and B A in turn" in text and "nothing is concluded" not in text
    assert "B/A   2.0000" in text and "p 0.0312" in text
    options.pairs = False
    arms.report(options, runs)
    assert "fewer than 6 blocks" in capsys.readouterr().out
