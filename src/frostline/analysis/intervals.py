"""Interval arithmetic and quantiles, on arrays of int64 nanoseconds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from frostline.recording.layout import Array, Int64


def quantile(values: Array, q: float) -> int:
    """The nearest-rank quantile: a value that occurred, never one between two. 0 of nothing."""
    n = len(values)
    if not n:
        return 0
    rank = min(n - 1, max(0, int(np.ceil(q * n)) - 1))
    return int(np.partition(values, rank)[rank])


def quantiles(values: Array, qs: tuple[float, ...]) -> tuple[int, ...]:
    """Several nearest-rank quantiles for one partition of the array."""
    n = len(values)
    if not n:
        return (0,) * len(qs)
    ranks = [min(n - 1, max(0, int(np.ceil(q * n)) - 1)) for q in qs]
    parted = np.partition(values, sorted(set(ranks)))
    return tuple(int(parted[rank]) for rank in ranks)


@dataclass(frozen=True)
class Union:
    """Disjoint intervals in rising order, with the length covered before each."""

    start: Int64
    stop: Int64
    before: Int64

    @property
    def total(self) -> int:
        return int(self.before[-1] + self.stop[-1] - self.start[-1]) if len(self.start) else 0

    def covered_until(self, at: Int64) -> Int64:
        """Length of the union left of each instant."""
        if not len(self.start):
            return np.zeros(len(at), np.int64)
        i = np.searchsorted(self.start, at, "right") - 1
        safe = np.maximum(i, 0)
        inside = np.minimum(at, self.stop[safe]) - self.start[safe]
        covered: Int64 = np.where(i >= 0, self.before[safe] + inside, 0)
        return covered

    def overlap(self, start: Int64, stop: Int64) -> Int64:
        """How much of each [start, stop] the union covers: nothing is counted twice."""
        return self.covered_until(stop) - self.covered_until(start)

    def meets(self, start: Int64, stop: Int64) -> Array:
        """Which of [start, stop] the union lies in or cuts, by more than an end."""
        found: Array = np.searchsorted(self.start, stop, "left") > np.searchsorted(self.stop, start, "right")
        return found


def intersection(one: Union, other: Union) -> Union:
    """What two unions have in common."""
    first = np.searchsorted(other.stop, one.start, "right")
    many = np.maximum(np.searchsorted(other.start, one.stop, "left") - first, 0)
    # Both are disjoint: there are no more pairs that meet than intervals in both together.
    mine = np.repeat(np.arange(len(many)), many)
    theirs = np.arange(len(mine)) - np.repeat(np.cumsum(many) - many, many) + np.repeat(first, many)
    return union(
        np.maximum(one.start[mine], other.start[theirs]), np.minimum(one.stop[mine], other.stop[theirs])
    )


def union(start: Int64, stop: Int64) -> Union:
    """The union of closed intervals, which may overlap and need no order."""
    if not len(start):
        empty = np.zeros(0, np.int64)
        return Union(empty, empty, empty)
    order = np.argsort(start, kind="stable")
    start = start[order]
    reach = np.maximum.accumulate(stop[order])
    first = np.ones(len(start), bool)
    first[1:] = start[1:] > reach[:-1]
    begins = start[first]
    ends = reach[np.append(np.flatnonzero(first)[1:] - 1, len(start) - 1)]
    before = np.concatenate((np.zeros(1, np.int64), np.cumsum(ends - begins)[:-1]))
    return Union(begins, ends, before)
