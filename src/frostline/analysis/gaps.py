"""Gaps in one process's or device's work, and the passes of another process that lie in them.

Across processes an overlap is no cause: what is found is *consistent with* a pass, and beside it
stands how often as much would be found if the passes lay elsewhere (the null). Only an ablation
says *caused*.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from frostline.analysis.intervals import Union
from frostline.recording.layout import Array, Int64

#: A pass explains a gap of which it covers at least this part.
COVERS = 0.5
#: ns. A gap may open this long before the pass starts (work that was queued is done first), ...
SLACK = 20_000_000
#: ... and close this long after the pass ends (work has to be queued again).
RESUME = 50_000_000
SHIFTS = 1_000
#: Lower bounds of the buckets of gap lengths, ms.
BUCKETS = (1, 5, 20, 50, 100, 400, 700)


@dataclass(frozen=True)
class Candidate:
    """A process whose passes may explain gaps."""

    name: str
    start: Int64
    stop: Int64
    union: Union


@dataclass(frozen=True)
class Found:
    """What one process's passes explain, by the gap rule.

    ``by_chance`` is the share of circular shifts of its passes that cover as much of the gaps or
    more: small where the overlap is no accident.
    """

    name: str
    #: One entry a gap: the pass that covers most of it, or -1.
    by: Int64
    covered: int
    by_chance: float


@dataclass(frozen=True)
class Bucket:
    """Gaps of one range of lengths: ``low <= length < high`` in ns; ``high`` is 0 for no limit."""

    low: int
    high: int
    count: int
    total: int
    #: Consistent with passes of at least one candidate: how many, and their total length.
    explained: int
    explained_total: int


def gaps_between(busy: Union, least: int) -> tuple[Int64, Int64]:
    """(start, stop) of the times of at least ``least`` ns between stretches of work."""
    start, stop = busy.stop[:-1], busy.start[1:]
    long = stop - start >= least
    return start[long], stop[long]


def explain(
    start: Int64,
    stop: Int64,
    candidate: Candidate,
    window: tuple[int, int],
    slack: int = SLACK,
    resume: int = RESUME,
    seed: int = 0,
) -> Found:
    """Applies the gap rule for one process.

    Args:
        start: where gaps open, ns, rising; ``stop``: where they close.
        candidate: its passes, disjoint and rising.
        window: the time looked at; the null shifts passes round within it.
        slack: how much later than a gap its pass may start.
        resume: how much later than its pass a gap may close.
    """
    by = np.full(len(start), -1, np.int64)
    first = np.searchsorted(candidate.stop, start, "right")
    last = np.searchsorted(candidate.start, stop, "left")
    for i in range(len(start)):
        low, high = int(first[i]), int(last[i])
        if low >= high:
            continue
        begins, ends = candidate.start[low:high], candidate.stop[low:high]
        inside = np.minimum(ends, stop[i]) - np.maximum(begins, start[i])
        fits = inside >= COVERS * (stop[i] - start[i])
        fits &= (begins <= start[i] + slack) & (stop[i] <= ends + resume)
        if bool(fits.any()):
            by[i] = low + int(np.where(fits, inside, -1).argmax())
    covered = int(candidate.union.overlap(start, stop).sum())
    return Found(candidate.name, by, covered, _by_chance(start, stop, candidate.union, window, covered, seed))


def _by_chance(
    start: Int64, stop: Int64, passes: Union, window: tuple[int, int], covered: int, seed: int
) -> float:
    """The share of circular shifts that cover as much; the gaps are shifted, which is the same."""
    length = window[1] - window[0]
    if not len(start) or not covered or length <= 0:
        return 1.0
    total = int(passes.overlap(np.array([window[0]]), np.array([window[1]]))[0])

    def until(at: Int64) -> Int64:
        rounds, rest = np.divmod(at - window[0], length)
        base = passes.covered_until(np.full(len(at), window[0], np.int64))
        return rounds * total + passes.covered_until(window[0] + rest) - base

    as_much = 0
    for shift in np.random.default_rng(seed).integers(0, length, SHIFTS).tolist():
        as_much += int((until(stop + shift) - until(start + shift)).sum()) >= covered
    return (as_much + 1) / (SHIFTS + 1)


def buckets(start: Int64, stop: Int64, found: Sequence[Found]) -> tuple[Bucket, ...]:
    """Gaps by length (the table of A10), the longest last; empty buckets are left out."""
    length = stop - start
    explained: Array = np.zeros(len(start), bool)
    for one in found:
        explained |= one.by >= 0
    bounds = [0, *(bound * 1_000_000 for bound in BUCKETS), 0]
    rows = []
    for low, high in itertools.pairwise(bounds):
        here = (length >= low) & ((length < high) if high else True)
        count = int(np.count_nonzero(here))
        if count:
            hit = here & explained
            rows.append(
                Bucket(
                    low,
                    high,
                    count,
                    int(length[here].sum()),
                    int(np.count_nonzero(hit)),
                    int(length[hit].sum()),
                )
            )
    return tuple(rows)
