"""Laws of the interval arithmetic and the quantiles, against oracles that need no cleverness."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from frostline.analysis.intervals import intersection, quantile, quantiles, union

interval = st.tuples(st.integers(0, 60), st.integers(0, 20)).map(lambda pair: (pair[0], pair[0] + pair[1]))
intervals = st.lists(interval, max_size=12)


def columns(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    array = np.array(pairs, np.int64).reshape(-1, 2)
    return array[:, 0], array[:, 1]


def points(pairs: list[tuple[int, int]]) -> set[int]:
    """The unit cells that the intervals cover."""
    return {cell for start, stop in pairs for cell in range(start, stop)}


@given(intervals)
def test_a_union_covers_the_same_once(pairs: list[tuple[int, int]]) -> None:
    result = union(*columns(pairs))
    assert result.total == len(points(pairs))
    assert bool(np.all(result.start[1:] > result.stop[:-1]))  # disjoint, in order
    assert points(list(zip(result.start.tolist(), result.stop.tolist(), strict=True))) == points(pairs)


@given(intervals, intervals)
def test_overlap_is_what_a_brute_force_count_says(
    passes: list[tuple[int, int]], spans: list[tuple[int, int]]
) -> None:
    result = union(*columns(passes))
    covered = points(passes)
    expected = [sum(cell in covered for cell in range(start, stop)) for start, stop in spans]
    assert result.overlap(*columns(spans)).tolist() == expected


@given(intervals, interval)
def test_an_overlap_is_never_longer_than_either(passes: list[tuple[int, int]], span: tuple[int, int]) -> None:
    result = union(*columns(passes))
    overlap = int(result.overlap(*columns([span]))[0])
    assert 0 <= overlap <= min(span[1] - span[0], result.total)


@given(st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=300), st.floats(0, 1))
def test_a_quantile_is_the_nearest_rank(values: list[int], q: float) -> None:
    rank = max(1, math.ceil(q * len(values)))
    found = quantile(np.array(values, np.int64), q)
    assert found == sorted(values)[rank - 1]
    assert found in values


@given(st.lists(st.integers(0, 10**9), max_size=50))
def test_several_quantiles_are_the_single_ones(values: list[int]) -> None:
    array = np.array(values, np.int64)
    assert quantiles(array, (0.5, 0.99, 1.0)) == tuple(quantile(array, q) for q in (0.5, 0.99, 1.0))


@given(intervals, intervals)
def test_an_intersection_is_what_both_cover(one: list[tuple[int, int]], two: list[tuple[int, int]]) -> None:
    both = intersection(union(*columns(one)), union(*columns(two)))
    assert points(list(zip(both.start.tolist(), both.stop.tolist(), strict=True))) == points(one) & points(
        two
    )
    assert both.total == len(points(one) & points(two))
