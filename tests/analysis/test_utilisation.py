"""MMU and BMU against their definitions, window by window."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from frostline.analysis.intervals import union
from frostline.analysis.utilisation import curve, mmu, of_several, per_hour

LENGTH = 60
#: Of 40 with 60 between them, docs/report.md's example.
REGULAR = [(i * 100, 40) for i in range(10)]
intervals = st.lists(st.tuples(st.integers(0, LENGTH - 1), st.integers(1, 12)), max_size=8)


def as_union(pairs: list[tuple[int, int]]):  # type: ignore[no-untyped-def]
    start = np.array([begin for begin, _ in pairs], np.int64)
    stop = np.array([min(LENGTH, begin + length) for begin, length in pairs], np.int64)
    return union(start, stop)


def by_definition(pairs: list[tuple[int, int]], window: int) -> float:
    paused = np.zeros(LENGTH, bool)
    for begin, length in pairs:
        paused[begin : min(LENGTH, begin + length)] = True
    return min(float((window - paused[at : at + window].sum()) / window) for at in range(LENGTH - window + 1))


@given(intervals)
def test_mmu_is_the_least_share_of_any_window(pairs: list[tuple[int, int]]) -> None:
    windows = np.arange(1, LENGTH + 1)
    found = mmu(as_union(pairs), 0, LENGTH, windows)
    assert np.allclose(found, [by_definition(pairs, int(window)) for window in windows])


@given(st.lists(st.tuples(st.integers(0, LENGTH - 1), st.integers(1, 3)), max_size=20), st.integers(1, 7))
def test_of_many_pauses_ruling_stretches_out_changes_nothing(pairs: list[tuple[int, int]], bins: int) -> None:
    windows = np.arange(1, LENGTH + 1)
    found = mmu(as_union(pairs), 0, LENGTH, windows, bins)
    assert np.allclose(found, [by_definition(pairs, int(window)) for window in windows])


@given(intervals)
def test_bmu_never_falls_and_is_at_most_mmu(pairs: list[tuple[int, int]]) -> None:
    windows = np.arange(1, LENGTH + 20)
    found = curve(as_union(pairs), 0, LENGTH, windows)
    known = ~np.isnan(found.mmu)
    assert known.sum() == LENGTH
    assert np.all(np.diff(found.bmu[known]) >= 0)
    assert np.all(found.bmu[known] <= found.mmu[known])
    assert found.at(LENGTH + 1) is None
    assert found.at(LENGTH) == found.mmu[LENGTH - 1]


@given(intervals, intervals)
def test_several_processes_are_one_that_pauses_whenever_any_does(
    one: list[tuple[int, int]], two: list[tuple[int, int]]
) -> None:
    windows = np.array([7, 30])
    both = of_several([as_union(one), as_union(two)])
    assert np.allclose(
        mmu(both, 0, LENGTH, windows), [by_definition(one + two, 7), by_definition(one + two, 30)]
    )
    assert both.total <= as_union(one).total + as_union(two).total


def test_nothing_recorded_is_no_pause() -> None:
    assert np.all(mmu(of_several([]), 0, 10, np.array([1, 10])) == 1)
    assert per_hour(np.array([5, 20, 30]), 10, 3_600_000_000_000) == 2


def test_a_longer_window_can_have_less_and_bmu_says_so() -> None:
    start = np.array([begin for begin, _ in REGULAR], np.int64)
    found = curve(union(start, start + 40), 0, 1_000, np.arange(40, 300))
    shares = {int(window): i for i, window in enumerate(found.windows)}
    assert found.mmu[shares[100]] == 0.6 and round(float(found.mmu[shares[140]]), 2) == 0.43
    assert found.bmu[shares[100]] == found.mmu[shares[140]] and found.at(100) == found.bmu[shares[100]]
