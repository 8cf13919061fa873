"""What is looked at for gaps: the steps of a rank, the gaps between them, and the requests in flight."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from frostline import format as fmt
from frostline.analysis.gaps import gaps_between
from frostline.analysis.intervals import Union, quantiles, union
from frostline.analysis.model import MissedProcess, Options, ProcessReport
from frostline.analysis.steps import ids_of, label_ids, request_label
from frostline.format import told
from frostline.recording.layout import Array, Int64

#: Work that arrives from outside: the time between two of them is the client's.
ARRIVES = frozenset(("request", "task"))
#: Work in front ends on what steps have produced, or before them: no steps of a rank.
AROUND = frozenset(("process outputs", "detokenize", "preprocess", "post-process"))
#: Steps also where the same process takes requests.
STEPS = frozenset(("step", "engine step", "execute model"))
#: How it is known that a gap is for want of requests.
BY_REQUESTS = "no request was in flight"
BY_STAGES = "from an empty step to a prefill"
#: Fewer stretches of work have no rhythm to speak of.
RHYTHM = 20


@dataclass(frozen=True)
class Demand:
    """When requests were in flight, as far as the session's front ends say."""

    union: Union
    #: When each began, rising.
    begins: Int64
    #: Indices of the processes that take them.
    takers: frozenset[int]
    #: Why what they say may not be all, in words; else empty.
    doubt: str


@dataclass
class Match:
    """What of a rank's gaps the rule gives to one process."""

    #: One entry a gap: the pass (index among its process's), or -1. The other arrays too, but for ``passes``.
    by: Int64
    chance: float
    claimed: bool
    #: Through a gap of which rank (index of its process) it was found, -1 for the pass itself.
    via: Int64
    #: How many passes explain it together; ``by`` is the longest of them.
    many: Int64
    #: All these passes.
    passes: Int64

    def through(self) -> list[int]:
        """The ranks that lie between some gap and its root."""
        found: list[int] = np.unique(self.via[(self.via >= 0) & (self.by >= 0)]).tolist()
        return found


def nothing(count: int) -> Int64:
    """-1 for each of so many gaps."""
    return np.full(count, -1, np.int64)


@dataclass
class Work:
    """One rank while it is looked at."""

    index: int
    labels: tuple[str, ...]
    #: Its gaps from ``floor`` on, rising and disjoint.
    start: Int64
    stop: Int64
    floor: int
    median: int
    #: From the first step after start-up to the end of the last, and stretches of work in it.
    window: tuple[int, int]
    steps: int
    supply: Array
    #: How that is known, in words; empty where it is not.
    supply_how: str
    #: Processes with passes that are long enough to explain some gap.
    tried: int = 0
    matches: dict[int, Match] = field(default_factory=dict)

    def explained(self) -> Array:
        """Gaps that are consistent with a pass of a process that is claimed."""
        found: Array = np.zeros(len(self.start), bool)
        for one in self.matches.values():
            if one.claimed:
                found |= one.by >= 0
        return found


def requests_of(process: ProcessReport) -> set[str]:
    """Labels of a process that are requests: what it takes from outside."""
    found = {label.label for label in process.labels if label.label in ARRIVES}
    outermost = request_label(process.labels)
    return found | {outermost.label} if outermost is not None else found


def steps_of(process: ProcessReport) -> set[str]:
    """Labels that one thread runs from begin to end and that are a rank's steps; empty for a front end."""
    own = {s.label for s in process.labels if s.primary and s.kind == fmt.SPAN_SYNC and not s.few}
    own -= ARRIVES | AROUND
    return own if own & STEPS or not requests_of(process) else set()


def spans_of(process: ProcessReport, labels: set[str]) -> tuple[Int64, Int64]:
    """(start, stop) of the spans of these labels."""
    spans = process.series.spans
    if not len(spans["start"]):
        return spans["start"], spans["stop"]
    ids = ids_of(process.series, labels)
    if len(ids) == len(label_ids(spans["label"])):
        return spans["start"], spans["stop"]
    which = np.isin(spans["label"], ids)
    return spans["start"][which], spans["stop"][which]


def demand_of(processes: tuple[ProcessReport, ...]) -> Demand | None:
    """The requests of all front ends; None where none was recorded."""
    takers = {i: labels for i, p in enumerate(processes) if (labels := requests_of(p))}
    if not takers:
        return None
    parts = [spans_of(processes[i], labels) for i, labels in takers.items()]
    start, stop = (np.concatenate([part[side] for part in parts]) for side in (0, 1))
    lost = [processes[i].name for i in takers if processes[i].lost_spans or processes[i].series.incomplete]
    doubt = f"requests may be missing from the recording of {', '.join(lost[:3])}" if lost else ""
    return Demand(union(start, stop), np.sort(start), frozenset(takers), doubt)


def work_of(
    index: int,
    processes: tuple[ProcessReport, ...],
    demand: Demand | None,
    missed: tuple[MissedProcess, ...],
    options: Options,
) -> Work | None:
    """The gaps of one process; None where it is no rank, or has none from its floor on."""
    process = processes[index]
    labels = steps_of(process)
    if not labels:
        return None
    start, stop = spans_of(process, labels)
    if process.serving > process.start:
        served = stop > process.serving
        if not bool(served.all()):
            start, stop = start[served], stop[served]
    busy = union(start, stop)
    if len(busy.start) < RHYTHM:
        return None
    opened, closed = gaps_between(busy, 1)
    floor, median = _floor(opened, closed, processes, options)
    long = np.flatnonzero(closed - opened > floor)
    if not len(long):
        return None
    opened, closed = opened[long], closed[long]
    known = demand is not None and not demand.doubt
    empty = None if known else _by_stages(process, busy, long)
    supply = _supply(opened, closed, demand, missed) if empty is None else empty
    return Work(
        index=index,
        labels=tuple(sorted(labels)),
        start=opened,
        stop=closed,
        floor=floor,
        median=median,
        window=(int(busy.start[0]), int(busy.stop[-1])),
        steps=len(busy.start),
        supply=supply,
        supply_how=BY_REQUESTS if known else BY_STAGES if empty is not None else "",
    )


def _floor(
    start: Int64, stop: Int64, processes: tuple[ProcessReport, ...], options: Options
) -> tuple[int, int]:
    """(from which length on a gap counts, the median gap), as for steps.

    Where passes fill the median itself, the median of what they leave stands in for it.
    """
    length = stop - start
    median = quantiles(length, (0.5,))[0]
    usual = median
    if median > options.long_floor:
        net = length.copy()
        for other in processes:
            net = np.minimum(net, length - other.pauses.union.overlap(start, stop))
        without = quantiles(net, (0.5,))[0]
        usual = without if without < median / 2 else median
    return max(options.long_floor, int(options.long_factor * usual)), median


def _supply(start: Int64, stop: Int64, demand: Demand | None, missed: tuple[MissedProcess, ...]) -> Array:
    """Gaps that a request ended, and in half of which or more none was in flight (A11).

    Only where that is shown: not where a front end lost spans, nor where a Python process without
    a recorder lived, which may have been a front end.
    """
    if demand is None or demand.doubt:
        return np.zeros(len(start), bool)
    none = 2 * demand.union.overlap(start, stop) < stop - start
    came = np.searchsorted(demand.begins, stop, "right") > np.searchsorted(demand.begins, start, "right")
    shown: Array = none & came
    for one in missed:
        if one.python:
            shown &= ~lived(one, start, stop)
    return shown


def _by_stages(process: ProcessReport, busy: Union, long: Int64) -> Array | None:
    """Gaps that open on an empty step and close on a prefill (A11), by what the steps tell of themselves.

    None where no empty step was told: there nothing shows that requests had drained. ``long`` are the
    gaps, by the stretch of work before each.
    """
    spans = process.series.spans
    stage = (spans["flags"] & told.STAGE_MASK) >> told.STAGE_SHIFT
    tells = np.flatnonzero(stage)
    if not bool(np.any(stage[tells] == told.EMPTY)):
        return None
    start, stop, stage = spans["start"][tells], spans["stop"][tells], stage[tells]
    by_stop, by_start = np.argsort(stop, kind="stable"), np.argsort(start, kind="stable")
    last = np.searchsorted(stop[by_stop], busy.stop[long], "right") - 1
    first = np.searchsorted(start[by_start], busy.start[long + 1], "left")
    before = by_stop[np.maximum(last, 0)]
    after = by_start[np.minimum(first, len(tells) - 1)]
    drained = (last >= 0) & (start[before] >= busy.start[long]) & (stage[before] == told.EMPTY)
    begun = (first < len(tells)) & (start[after] < busy.stop[long + 1]) & (stage[after] == told.PREFILL)
    found: Array = drained & begun
    return found


def lived(one: MissedProcess, start: Int64, stop: Int64) -> Array:
    """Gaps in which a missed process was there, or may have been."""
    if not one.last_seen:
        return np.ones(len(start), bool)
    found: Array = (start < one.last_seen) & (stop > one.first_seen)
    return found
