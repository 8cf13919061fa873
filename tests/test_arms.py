"""The statistics of ``benchmarks.arms``: by hand, and where they must refuse to conclude."""

from __future__ import annotations

import math

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
        a, b, metric = "", "--policy follow", "logprobs:chunks_s"

    whole = [run(0, place, arm, 100.0 if arm == "A" else 0.0) for place, arm in enumerate("ABBA")]
    assert arms.report(Options(), whole[:3]) == 1  # type: ignore[arg-type]
    assert arms.report(Options(), whole) == 0  # type: ignore[arg-type]
    text = capsys.readouterr().out  # type: ignore[attr-defined]
    assert "B/A   0.0010" in text, "100 ms against the floor of 0.1 ms"
    assert "nothing is concluded" in text and math.isfinite(arms.median([1.0, 2.0]))
