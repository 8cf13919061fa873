"""Ranks that idle between their steps, and whose passes that is consistent with (A10, A11, D2).

A rank is a process that runs steps from begin to end in one thread: a worker, an engine core. An
idle one emits nothing, so the gap between two of its steps is all that there is to see; what held
it up is looked for in every process of the session, its own passes included.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from frostline.analysis.elsewhere import TRIED, off_path
from frostline.analysis.gaps import COVERS, RESUME, SHIFTS, SLACK, by_chance, match, together
from frostline.analysis.gapwords import rank_of
from frostline.analysis.intervals import Union, union
from frostline.analysis.model import MissedProcess, Options, ProcessReport
from frostline.analysis.ranks import Rank
from frostline.analysis.waits import Demand, Match, Work, demand_of, nothing, spans_of, work_of
from frostline.recording.layout import Int64

#: Chance of a false claim in a rank, over all the processes that are tried.
LEVEL = 0.05
#: ns. Passes that are less apart leave no time for a step between them.
APART = 2_000_000
#: Shifts by which it is seen how many gaps a process's passes would be given by accident.
ACCIDENTS = 200
#: How many ranks may lie between a gap and the pass at its root.
HOPS = 3


@dataclass(frozen=True)
class _Passes:
    """Passes of one process that are long enough to explain a gap, disjoint, and which they are."""

    union: Union
    which: Int64


def idle_ranks(
    processes: tuple[ProcessReport, ...],
    missed: tuple[MissedProcess, ...],
    clock_error: int,
    options: Options,
) -> tuple[Rank, ...]:
    """Every rank that has a gap from its floor on, in the order of the processes.

    A gap counts, as a slow step does, from ``long_floor`` on and over ``long_factor`` times the
    rank's median gap. A pass of a process that takes no requests counts only for the time in which
    a request was in flight, where that is known: in the rest there was nothing to hold up. A process
    is claimed if the null finds as much in few enough of its shifts: all that are tried together get a
    false claim in LEVEL of cases at most (Holm 1979). And of the gaps that it is given at most LEVEL may
    be so by accident (``_accidents``).
    """
    demand = demand_of(processes)
    found = (work_of(i, processes, demand, missed, options) for i in range(len(processes)))
    works = [work for work in found if work is not None]
    ranks = frozenset(work.index for work in works)
    for work in works:
        _direct(work, processes, demand, ranks, clock_error)
    for _ in range(HOPS):
        if not _through(works, processes, clock_error):
            break
    return tuple(
        rank_of(work, roots(work, processes), processes, demand, missed, clock_error) for work in works
    )


def _passes(process: ProcessReport, least: float) -> _Passes:
    """The passes of at least ``least`` ns. Those of one interpreter do not overlap; damaged ones may.

    Pauses that are for the most part another tool's callback are that tool's, and are left out.
    Some that follow each other at once (``collect`` twice) are one: together they cover what none does.
    """
    pauses = process.pauses
    kept = np.flatnonzero((pauses.length >= least) & (2 * pauses.others <= pauses.length))
    joined = union(pauses.start[kept], pauses.stop[kept] + APART)
    joined = union(joined.start, joined.stop - APART)
    return _Passes(joined, kept[np.searchsorted(pauses.start[kept], joined.start, "left")])


def _direct(
    work: Work,
    processes: tuple[ProcessReport, ...],
    demand: Demand | None,
    ranks: frozenset[int],
    clock_error: int,
) -> None:
    """Tries every process with passes that are long enough to explain a gap of the floor's length."""
    least = COVERS * work.floor
    low, high = work.window
    tried: dict[int, _Passes] = {}
    for index, process in enumerate(processes):
        passes = _passes(process, least)
        if bool(((passes.union.stop > low) & (passes.union.start < high)).any()):
            tried[index] = passes
    work.tried = len(tried)
    # The more are tried, the smaller the chance that is asked for, and the finer it is computed.
    shifts = max(SHIFTS, int(2 * len(tried) / LEVEL))
    asked = ~work.supply
    without = union(work.start[work.supply], work.stop[work.supply])
    for index, passes in tried.items():
        error = clock_error if processes[index].session != processes[work.index].session else 0
        # While a front end stands still no request can begin: what it holds up is not in flight yet.
        known = demand is not None and not demand.doubt
        bound = index not in demand.takers if demand is not None and known else index in ranks
        limit = demand.union if demand is not None and known and bound else None
        begins, ends = passes.union.start, passes.union.stop
        by = match(work.start, work.stop, begins, ends, SLACK + error, RESUME + error, limit)
        first, last = together(work.start, work.stop, passes.union, SLACK + error, RESUME + error, limit)
        first, last = np.where(by >= 0, by, first), np.where(by >= 0, by, last)
        if bound:
            first[work.supply] = last[work.supply] = -1
        hit = np.flatnonzero(first >= 0)
        if not len(hit):
            continue
        by = nothing(len(first))
        by[hit] = _longest(passes.union, first[hit], last[hit])
        start, stop, cut = (
            (work.start[asked], work.stop[asked], without) if bound else (work.start, work.stop, None)
        )
        wide = SLACK + error, RESUME + error
        chance = by_chance(start, stop, passes.union, work.window, index, cut, shifts, *wide, several=True)
        work.matches[index] = Match(
            by=np.where(by >= 0, passes.which[np.maximum(by, 0)], -1),
            chance=chance,
            claimed=False,
            via=nothing(len(by)),
            many=np.where(by >= 0, last - first + 1, 0),
            passes=passes.which[_between(first[hit], last[hit], len(passes.which))],
        )
    spans = union(*spans_of(processes[work.index], set(work.labels)))
    for i, (index, one) in enumerate(sorted(work.matches.items(), key=lambda item: item[1].chance)):
        if one.chance > LEVEL / (work.tried - i):
            break
        found = int(np.count_nonzero(one.by >= 0))
        one.claimed = _accidents(work, tried[index].union, spans) <= LEVEL * found


def _accidents(work: Work, passes: Union, spans: Union) -> float:
    """How many gaps these passes would be given by accident, as for slow steps (``elsewhere``).

    That is what they are given on average where they are shifted round in the time in which there was
    work, times the share of them in whose second half the rank did steps: those it did not wait for.
    """
    off = off_path(spans.start, spans.stop, _late(passes, work.floor), work.floor // 2, work.window)
    if off == 0:
        return 0.0
    low, high = work.window
    begins, ends = np.maximum(passes.start, low), np.minimum(passes.stop, high)
    inside = begins < ends
    begins, ends = begins[inside], ends[inside]
    twice = union(np.concatenate((begins, begins + high - low)), np.concatenate((ends, ends + high - low)))
    asked = np.flatnonzero(~work.supply)
    some = asked[np.linspace(0, len(asked) - 1, min(len(asked), TRIED)).astype(np.int64)]
    if not len(some) or not len(begins):
        return 0.0
    shifts = np.random.default_rng(0).integers(0, high - low, (ACCIDENTS, 1))
    by = match(work.start[some] + shifts, work.stop[some] + shifts, twice.start, twice.stop)
    given = np.count_nonzero(by >= 0) / ACCIDENTS * len(asked) / len(some)
    supply = int((work.stop - work.start)[work.supply].sum())
    return float((1.0 if off is None else off) * given * (high - low) / max(1, high - low - supply))


def _late(passes: Union, floor: int) -> Union:
    """The second half of each long pass: what was queued when it began is done in the first."""
    long = passes.stop - passes.start >= floor
    start, stop = passes.start[long], passes.stop[long]
    return union(start + (stop - start) // 2, stop)


def _longest(passes: Union, first: Int64, last: Int64) -> Int64:
    """The longest pass of each range."""
    length = passes.stop - passes.start
    found: Int64 = first.copy()
    for i in np.flatnonzero(last > first).tolist():
        found[i] = first[i] + int(length[first[i] : last[i] + 1].argmax())
    return found


def _between(first: Int64, last: Int64, count: int) -> Int64:
    """The indices that lie in any of the ranges."""
    edges = np.bincount(first, minlength=count + 1) - np.bincount(last + 1, minlength=count + 1)
    inside: Int64 = np.flatnonzero(np.cumsum(edges)[:count] > 0)
    return inside


def roots(work: Work, processes: tuple[ProcessReport, ...]) -> tuple[Int64, Int64]:
    """For each gap (process, pass) of the claimed pass that covers most of it; -1 where there is none."""
    who, which = nothing(len(work.start)), nothing(len(work.start))
    most = np.zeros(len(work.start), np.int64)
    for index, one in work.matches.items():
        if not one.claimed:
            continue
        pauses = processes[index].pauses
        at = np.flatnonzero(one.by >= 0)
        begins, ends = pauses.start[one.by[at]], pauses.stop[one.by[at]]
        inside = np.minimum(ends, work.stop[at]) - np.maximum(begins, work.start[at])
        inside = np.maximum(inside, 1)  # found through another rank's gap, it may lie before this one
        better = inside > most[at]
        who[at[better]], which[at[better]] = index, one.by[at[better]]
        most[at[better]] = inside[better]
    return who, which


def _through(works: list[Work], processes: tuple[ProcessReport, ...], clock_error: int) -> bool:
    """One hop: a gap that lies in another rank's gap has the root of that one. Whether any was found."""
    known = [roots(work, processes) for work in works]
    found = False
    for work in works:
        for other, (who, which) in zip(works, known, strict=True):
            held = np.flatnonzero(who >= 0)
            unclear = np.flatnonzero(~work.explained() & ~work.supply)
            if other is work or not len(held) or not len(unclear):
                continue
            here, there = processes[work.index], processes[other.index]
            error = clock_error if here.session != there.session else 0
            begins, ends = other.start[held], other.stop[held]
            start, stop = work.start[unclear], work.stop[unclear]
            by = match(start, stop, begins, ends, SLACK + error, RESUME + error)
            hit = np.flatnonzero(by >= 0)
            if not len(hit):
                continue
            chance = by_chance(
                start,
                stop,
                union(begins, ends),
                work.window,
                other.index,
                slack=SLACK + error,
                resume=RESUME + error,
            )
            if chance > LEVEL / (len(works) - 1):
                continue
            found = True
            gap, root = unclear[hit], held[by[hit]]
            for index in np.unique(who[root]).tolist():
                one = work.matches.get(index)
                if one is None or not one.claimed:
                    none = nothing(len(work.start))
                    one = work.matches[index] = Match(
                        none, chance, True, none.copy(), none.copy(), np.zeros(0, np.int64)
                    )
                mine = who[root] == index
                one.by[gap[mine]] = which[root[mine]]
                one.via[gap[mine]] = other.index
                one.many[gap[mine]] = 1
                one.passes = np.concatenate((one.passes, which[root[mine]]))
    return found
