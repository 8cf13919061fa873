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

from frostline.analysis.intervals import Union, intersection
from frostline.recording.layout import Array, Int64

#: A pass explains a gap of which it covers at least this part.
COVERS = 0.5
#: ns. A gap may open this long before the pass starts, ...
SLACK = 20_000_000
#: ... and close this long after the pass ends (work has to be queued again).
RESUME = 50_000_000
#: Or by these parts of the gap, where that is longer: what resumes on a busy machine does so late.
SLACK_SHARE, RESUME_SHARE = 0.1, 0.25
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

    ``by_chance`` is the share of circular shifts of its passes that cover as much of the gaps that they
    explain, or more: small where the overlap is no accident.
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
        slack: how much later than a gap its pass may start (or SLACK_SHARE of it).
        resume: how much later than its pass a gap may close (or RESUME_SHARE of it).
    """
    by = match(start, stop, candidate.start, candidate.stop, slack, resume)
    covered = int(candidate.union.overlap(start, stop).sum())
    chance = by_chance(start, stop, candidate.union, window, seed, slack=slack, resume=resume)
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
    """The gap rule: for each gap the index of the pass that explains it, or -1.

    A pass explains a gap if it covers COVERS of it, starts no later than ``slack`` (or SLACK_SHARE of
    the gap) after it opens, and ends no earlier than ``resume`` (or RESUME_SHARE of it) before it
    closes. Nor may work resume while the pass still runs, by more than ``slack`` (or SLACK_SHARE):
    who goes on meanwhile does not wait for it.

    Args:
        start: where gaps open, ns; ``stop``: where they close.
        begins: where passes begin, rising and disjoint; ``ends``: where they end.
        demand: only what a pass covers of the gap within these times counts; None for all times.
    """
    which, low, high = _meeting(start, stop, begins, ends, slack, resume)
    inside = high - low if demand is None else demand.overlap(low, np.maximum(low, high))
    return np.where((which >= 0) & (inside >= COVERS * (stop - start)), which, -1)


def _meeting(
    start: Int64, stop: Int64, begins: Int64, ends: Int64, slack: int, resume: int
) -> tuple[Int64, Int64, Int64]:
    """(which pass, from, to): for each gap the only pass that may cover half of it, and where it does.

    That is the one in which the middle of the gap lies; -1 where there is none, or where it begins
    too late, or ends too early or too late.
    """
    if not len(begins):
        none = np.full(len(start), -1, np.int64)
        return none, start, start
    length = stop - start
    which = np.searchsorted(begins, start + length // 2, "right") - 1
    at = np.maximum(which, 0)
    begin, end = begins[at], ends[at]
    early = np.maximum(slack, SLACK_SHARE * length)
    fits = (which >= 0) & (begin - start <= early) & (end - stop <= early)
    fits &= stop - end <= np.maximum(resume, RESUME_SHARE * length)
    return np.where(fits, which, -1), np.maximum(begin, start), np.minimum(end, stop)


def together(
    start: Int64,
    stop: Int64,
    passes: Union,
    slack: int = SLACK,
    resume: int = RESUME,
    demand: Union | None = None,
) -> tuple[Int64, Int64]:
    """The gap rule for several passes of one process, none of which explains a gap alone.

    The first of them takes the place of the pass that starts, the last one that of the pass that ends,
    and they cover COVERS of the gap together: a front end that collects again and again while it
    writes one large answer.

    Args:
        passes: only those that are long enough to matter: a short one would do as the first or last.

    Returns:
        (index of the first, of the last) for each gap; -1 where they do not explain it.
    """
    covering = passes if demand is None else intersection(passes, demand)
    first, last, fits = _range(start, stop, passes, slack, resume)
    fits &= covering.overlap(start, stop) >= COVERS * (stop - start)
    return np.where(fits, first, -1), np.where(fits, last, -1)


def _range(start: Int64, stop: Int64, passes: Union, slack: int, resume: int) -> tuple[Int64, Int64, Array]:
    """(first, last, whether) two or more passes meet a gap, from its beginning to its end."""
    if not len(passes.start):
        none = np.zeros(len(start), np.int64)
        return none, none, np.zeros(len(start), bool)
    length = stop - start
    first = np.searchsorted(passes.stop, start, "right")
    last = np.searchsorted(passes.start, stop, "left") - 1
    fits: Array = last > first
    end = passes.stop[np.maximum(last, 0)]
    early = np.maximum(slack, SLACK_SHARE * length)
    fits &= passes.start[np.minimum(first, len(passes.start) - 1)] - start <= early
    fits &= (end - stop <= early) & (stop - end <= np.maximum(resume, RESUME_SHARE * length))
    return first, last, fits


def by_chance(
    start: Int64,
    stop: Int64,
    passes: Union,
    window: tuple[int, int],
    seed: int = 0,
    left_out: Union | None = None,
    shifts: int = SHIFTS,
    slack: int = SLACK,
    resume: int = RESUME,
    several: bool = False,
) -> float:
    """The share of circular shifts of the passes that cover as much of the gaps as they do, or more.

    Counted is what passes cover of the gaps that they explain by the rule. For gaps that know nothing
    of the passes at most 5 % get 0.05 or less (a permutation test, with the observed placement counted
    as one of the shifts).

    Args:
        start: where gaps open, ns; ``stop``: where they close. Of more than SAMPLE the longest are
            looked at, which is a choice that does not depend on the passes.
        passes: disjoint; what lies outside the window is left out.
        window: the time in which passes are shifted round.
        left_out: times that are cut out of the window first (no work was to be done), since both
            passes and gaps keep to the time in which there is work.
        slack: as in ``match``; ``resume`` too.
        several: several passes may explain a gap ``together``.
    """
    if len(start) > SAMPLE:
        longest = np.argpartition(start - stop, SAMPLE)[:SAMPLE]
        start, stop = start[longest], stop[longest]
    low, high = window
    begins, ends = np.clip(passes.start, low, high), np.clip(passes.stop, low, high)
    if left_out is not None and len(left_out.start):
        begins, ends = begins - left_out.covered_until(begins), ends - left_out.covered_until(ends)
        start, stop = start - left_out.covered_until(start), stop - left_out.covered_until(stop)
        edges = np.array([low, high], np.int64)
        low, high = (edges - left_out.covered_until(edges)).tolist()
    length = high - low
    real = ends > begins
    if not len(start) or length <= 0 or not bool(real.any()):
        return 1.0
    # Twice, one behind the other: a gap that is moved over the end of the window meets its beginning.
    begins = np.concatenate((begins[real], begins[real] + length))
    ends = np.concatenate((ends[real], ends[real] + length))
    both = Union(begins, ends, np.cumsum(ends - begins) - (ends - begins))

    def explained(opened: Int64, closed: Int64) -> Int64:
        which, since, until = _meeting(opened, closed, begins, ends, slack, resume)
        inside, half = until - since, COVERS * (closed - opened)
        found: Int64 = np.where((which >= 0) & (inside >= half), inside, 0)
        if several:
            covered = both.overlap(opened, closed)
            at = np.flatnonzero((found == 0) & (covered >= half))
            fits = _range(opened[at], closed[at], both, slack, resume)[2]
            found[at[fits]] = covered[at[fits]]
        return found

    observed = int(explained(start, stop).sum())
    if not observed:
        return 1.0
    offsets = (np.random.default_rng(seed).random(shifts) * length).astype(np.int64)
    rows = max(1, _CELLS // len(start))
    as_much = 0
    # Shifting the gaps one way is shifting the passes the other way.
    for at in range(0, shifts, rows):
        opened = start + offsets[at : at + rows, None]
        opened = np.where(opened >= high, opened - length, opened)
        covered = explained(opened.ravel(), (opened + (stop - start)).ravel())
        as_much += int(np.count_nonzero(covered.reshape(len(opened), -1).sum(axis=1) >= observed))
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
