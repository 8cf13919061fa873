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

from frostline.analysis.intervals import Union, union
from frostline.recording.layout import Array, Int64

#: A pass explains a gap of which it covers at least this part.
COVERS = 0.5
#: ns. A gap may open this long before the pass starts (work that was queued is done first), ...
SLACK = 20_000_000
#: ... and close this long after the pass ends (work has to be queued again).
RESUME = 50_000_000
SHIFTS = 1_000
#: Of more gaps than this the null looks at the longest.
SAMPLE = 1_000
#: Gaps times shifts that are computed at once.
_CELLS = 500_000
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
    """Applies the gap rule for one process, and its null.

    Args:
        start: where gaps open, ns, rising; ``stop``: where they close.
        candidate: its passes, disjoint and rising.
        window: the time looked at; the null shifts passes round within it.
        slack: how much later than a gap its pass may start.
        resume: how much later than its pass a gap may close.
    """
    by = match(start, stop, candidate.start, candidate.stop, slack, resume)
    covered = int(candidate.union.overlap(start, stop).sum())
    chance = by_chance(start, stop, candidate.union, window, seed) if covered else 1.0
    return Found(candidate.name, by, covered, chance)


def match(
    start: Int64,
    stop: Int64,
    begins: Int64,
    ends: Int64,
    slack: int = SLACK,
    resume: int = RESUME,
    demand: Union | None = None,
) -> Int64:
    """The gap rule: for each gap the index of the pass that covers most of it, or -1.

    A pass explains a gap if it covers COVERS of it, starts no later than ``slack`` after the gap
    opens, and ends no earlier than ``resume`` before it closes.

    Args:
        start: where gaps open, ns, rising and disjoint; ``stop``: where they close.
        begins: where passes begin, rising and disjoint; ``ends``: where they end.
        demand: only what a pass covers of the gap within these times counts; None for all times.
    """
    by = np.full(len(start), -1, np.int64)
    first = np.searchsorted(ends, start, "right")
    many = np.maximum(np.searchsorted(begins, stop, "left") - first, 0)
    # Gaps are disjoint, and so are passes: there are no more pairs than gaps and passes together.
    total = int(many.sum())
    if not total:
        return by
    gap = np.repeat(np.arange(len(start)), many)
    which = np.arange(total) - np.repeat(np.cumsum(many) - many, many) + np.repeat(first, many)
    opened, closed = start[gap], stop[gap]
    low, high = np.maximum(begins[which], opened), np.minimum(ends[which], closed)
    inside = high - low if demand is None else demand.overlap(low, high)
    fits = (inside >= COVERS * (closed - opened)) & (begins[which] <= opened + slack)
    fits &= closed <= ends[which] + resume
    at = np.flatnonzero(fits)
    if len(at):
        at = at[np.lexsort((inside[at], gap[at]))]
        best = at[np.append(gap[at][1:] != gap[at][:-1], True)]
        by[gap[best]] = which[best]
    return by


def by_chance(
    start: Int64,
    stop: Int64,
    passes: Union,
    window: tuple[int, int],
    seed: int = 0,
    left_out: Union | None = None,
    shifts: int = SHIFTS,
) -> float:
    """The share of circular shifts of the passes that cover as much of the gaps as they do, or more.

    For gaps that know nothing of the passes it is uniform: at most 5 % of them get 0.05 or less
    (a permutation test, with the observed placement counted as one of the shifts).

    Args:
        start: where gaps open, ns, rising; ``stop``: where they close. Of more than SAMPLE the longest
            are looked at, which is a choice that does not depend on the passes.
        passes: disjoint; what lies outside the window is left out.
        window: the time in which passes are shifted round.
        left_out: times that are cut out of the window first (no work was to be done), since both
            passes and gaps keep to the time in which there is work.
    """
    if len(start) > SAMPLE:
        longest = np.sort(np.argpartition(start - stop, SAMPLE)[:SAMPLE])
        start, stop = start[longest], stop[longest]
    low, high = window
    if left_out is not None and len(left_out.start):
        edges = np.array([low, high], np.int64)
        low, high = (edges - left_out.covered_until(edges)).tolist()
        start, stop = start - left_out.covered_until(start), stop - left_out.covered_until(stop)
        begins = passes.start - left_out.covered_until(passes.start)
        passes = union(begins, passes.stop - left_out.covered_until(passes.stop))
    length = high - low
    if not len(start) or length <= 0:
        return 1.0
    before, upto = passes.covered_until(np.array([low, high], np.int64)).tolist()

    def until(at: Int64) -> Int64:
        rounds, rest = np.divmod(at - low, length)
        found: Int64 = rounds * (upto - before) + passes.covered_until(low + rest) - before
        return found

    observed = int((until(stop) - until(start)).sum())
    if not observed:
        return 1.0
    offsets = (np.random.default_rng(seed).random(shifts) * length).astype(np.int64)
    rows = max(1, _CELLS // len(start))
    as_much = 0
    # Shifting the gaps one way is shifting the passes the other way.
    for at in range(0, shifts, rows):
        moved = offsets[at : at + rows, None]
        covered = until((stop + moved).ravel()) - until((start + moved).ravel())
        as_much += int(np.count_nonzero(covered.reshape(len(moved), -1).sum(axis=1) >= observed))
    return (as_much + 1) / (shifts + 1)


def buckets(start: Int64, stop: Int64, found: Sequence[Found]) -> tuple[Bucket, ...]:
    """Gaps by length (the table of A10), the longest last; empty buckets are left out."""
    length = stop - start
    explained: Array = np.zeros(len(start), bool)
    for one in found:
        explained |= one.by >= 0
    rows = []
    for low, high, here in by_length(length):
        hit = here & explained
        rows.append(
            Bucket(
                low,
                high,
                int(np.count_nonzero(here)),
                int(length[here].sum()),
                int(np.count_nonzero(hit)),
                int(length[hit].sum()),
            )
        )
    return tuple(rows)


def by_length(length: Int64) -> list[tuple[int, int, Array]]:
    """(low, high, which) of each bucket that holds a gap, the longest last; ``high`` is 0 for no limit."""
    bounds = [0, *(bound * 1_000_000 for bound in BUCKETS), 0]
    found = []
    for low, high in itertools.pairwise(bounds):
        here = (length >= low) & ((length < high) if high else True)
        if bool(here.any()):
            found.append((low, high, here))
    return found
