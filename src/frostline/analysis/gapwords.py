"""What is said of a rank's gaps, once it is known what they are consistent with."""

from __future__ import annotations

import numpy as np

from frostline.analysis.gaps import by_length
from frostline.analysis.model import MissedProcess, ProcessReport
from frostline.analysis.passes import pass_text, sum_walked
from frostline.analysis.ranks import CONSISTENT, SUPPLY, UNEXPLAINED, Consistent, LongGap, Rank, RankBucket
from frostline.analysis.waits import Demand, Match, Work, lived
from frostline.recording.layout import Array, Int64

#: Gaps kept one by one for each rank; all are counted.
LISTED = 1_000
NO_REQUESTS = "no request was recorded, and no step says that it was empty"
#: Process ids without a recorder that one gap names.
NAMED = 5


def rank_of(
    work: Work,
    roots: tuple[Int64, Int64],
    processes: tuple[ProcessReport, ...],
    demand: Demand | None,
    missed: tuple[MissedProcess, ...],
    clock_error: int,
) -> Rank:
    """Everything that a report says about one rank.

    ``roots`` are, for each gap, the process and its pass that cover most of it, or -1.
    """
    process = processes[work.index]
    length = work.stop - work.start
    explained = work.explained()
    kind: Array = np.where(explained, CONSISTENT, np.where(work.supply, SUPPLY, UNEXPLAINED)).astype(np.uint8)
    asked = int(length[kind != SUPPLY].sum())
    consistent = [_consistent(work, i, one, asked, processes, clock_error) for i, one in work.matches.items()]
    unclear = kind == UNEXPLAINED
    open_start, open_stop = work.start[unclear], work.stop[unclear]
    missing = [one for one in missed if one.python and bool(lived(one, open_start, open_stop).any())]
    return Rank(
        process=process.name,
        role=process.role,
        pid=process.pid,
        session=process.session,
        labels=work.labels,
        floor=work.floor,
        median=work.median,
        wall=work.window[1] - work.window[0],
        steps=work.steps,
        count=len(length),
        total=int(length.sum()),
        supply=int(np.count_nonzero(kind == SUPPLY)) if work.supply_how else None,
        supply_total=int(length[kind == SUPPLY].sum()),
        supply_how=work.supply_how,
        supply_unknown="" if work.supply_how else demand.doubt if demand is not None else NO_REQUESTS,
        explained=int(np.count_nonzero(explained)),
        explained_total=int(length[explained].sum()),
        unexplained=int(np.count_nonzero(unclear)),
        unexplained_total=int(length[unclear].sum()),
        longest_explained=int(length[explained].max(initial=0)),
        longest_unexplained=int(length[unclear].max(initial=0)),
        in_flight=int(demand.union.overlap(open_start, open_stop).sum()) if demand is not None else None,
        no_recorder=tuple((one.name, one.pid) for one in missing),
        doubt=(
            "spans were lost: some of these gaps may be steps"
            if process.lost_spans or process.series.incomplete
            else ""
        ),
        tried=work.tried,
        buckets=_buckets(length, kind),
        consistent=tuple(sorted(consistent, key=lambda one: (not one.claimed, -one.total))),
        longest=_longest(work, kind, roots, processes, missing),
        start=work.start,
        stop=work.stop,
        kind=kind,
    )


def _consistent(
    work: Work,
    index: int,
    one: Match,
    asked: int,
    processes: tuple[ProcessReport, ...],
    clock_error: int,
) -> Consistent:
    other = processes[index]
    hit = one.by >= 0
    total = int((work.stop - work.start)[hit].sum())
    which: Array = np.zeros(len(other.pauses.start), bool)
    which[one.passes] = True
    generation = other.series.passes["generation"][which]
    counts = np.bincount(generation, minlength=3).tolist()
    return Consistent(
        process=other.name,
        role=other.role,
        pid=other.pid,
        session=other.session,
        own=index == work.index,
        gaps=int(np.count_nonzero(hit)),
        total=total,
        share=total / max(1, asked),
        covered=int(other.pauses.union.overlap(work.start[hit], work.stop[hit]).sum()),
        by_chance=one.chance,
        claimed=one.claimed,
        passes=int(np.count_nonzero(which)),
        generations=(counts[0], counts[1], counts[2]),
        longest=int(other.pauses.length[which].max(initial=0)),
        walked=sum_walked(other.pauses.heap, which, int(generation.max(initial=0))),
        reclaimed=int(other.series.passes["collected"][which].sum(dtype=np.int64)),
        via=tuple(sorted(processes[i].name for i in one.through())),
        clock_error=clock_error if other.session != processes[work.index].session else 0,
        by=one.by,
    )


def _buckets(length: Int64, kind: Array) -> tuple[RankBucket, ...]:
    rows = []
    for low, high, here in by_length(length):
        hit, none = here & (kind == CONSISTENT), here & (kind == SUPPLY)
        counts = [value for part in (here, hit, none) for value in (part.sum(), length[part].sum())]
        rows.append(RankBucket(low, high, *(int(value) for value in counts)))
    return tuple(rows)


def _longest(
    work: Work,
    kind: Array,
    roots: tuple[Int64, Int64],
    processes: tuple[ProcessReport, ...],
    missing: list[MissedProcess],
) -> tuple[LongGap, ...]:
    who, which = roots
    found = []
    for i in np.argsort(work.start - work.stop, kind="stable")[:LISTED].tolist():
        root = processes[int(who[i])] if kind[i] == CONSISTENT else None
        found.append(
            LongGap(
                start=int(work.start[i]),
                length=int(work.stop[i] - work.start[i]),
                kind=int(kind[i]),
                verdict=_verdict(work, i, int(kind[i]), processes, missing),
                process=root.name if root is not None else "",
                pass_text=_pass_words(root, int(which[i])) if root is not None else "",
            )
        )
    return tuple(found)


def _verdict(
    work: Work, i: int, kind: int, processes: tuple[ProcessReport, ...], missing: list[MissedProcess]
) -> str:
    """One gap in words; several processes are all named."""
    if kind == SUPPLY:
        return f"supply gap: {work.supply_how}"
    if kind == UNEXPLAINED:
        here = work.start[i : i + 1], work.stop[i : i + 1]
        pids = [str(one.pid) for one in missing if bool(lived(one, *here)[0])]
        return f"unexplained: no recorder in pid {', '.join(pids[:NAMED])}" if pids else "unexplained"
    claimed = {index: one for index, one in work.matches.items() if one.claimed and one.by[i] >= 0}
    others = [
        f"{_several(one, i, 'a pass')} in {processes[index].name}{_via(one, i, processes)}"
        for index, one in claimed.items()
        if index != work.index
    ]
    own = claimed.get(work.index)
    parts = [f"its own {_several(own, i, 'pass')}"] if own is not None else []
    if others:
        parts.append(f"consistent with {' and '.join(others)}")
    return "; also ".join(parts)


def _several(one: Match, i: int, alone: str) -> str:
    return f"{int(one.many[i]):,} passes" if one.many[i] > 1 else alone


def _via(one: Match, i: int, processes: tuple[ProcessReport, ...]) -> str:
    """The rank that waited between, where the pass itself does not explain the gap."""
    return f" (through a gap of {processes[int(one.via[i])].name})" if one.via[i] >= 0 else ""


def _pass_words(process: ProcessReport, i: int) -> str:
    """A pass, what it walked and what it reclaimed."""
    passes, heap = process.series.passes, process.pauses.heap
    text = pass_text(process.series, process.pauses, i)
    if heap.walked[i] >= 0:
        sign = "" if heap.exact[i] else "<=" if passes["generation"][i] == 2 else "~"
        text += f", walked {sign}{int(heap.walked[i]):,}"
    return f"{text}, reclaimed {int(passes['collected'][i]):,}"
