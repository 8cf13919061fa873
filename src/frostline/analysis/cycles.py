"""Cycles that a command made: what looks in all of its processes found, added up by signature (B10).

A cycle's signature is its path in words. Counts are *at least*: only passes that were looked at are in them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from frostline import format as fmt
from frostline.analysis.model import Analysis, ProcessReport
from frostline.format import cycles as layout
from frostline.recording.cycles import FoundKind, Look, LookLog
from frostline.recording.model import Key


@dataclass
class Cycle:
    """Cycles of one signature, of all looks together. See ``heap.cycles.Kind`` for the figures."""

    path: str
    pattern: str
    remedy: str
    finalized: bool
    count: int = 0
    objects: int = 0
    hanging: int = 0
    size: int = 0
    largest: int = 0
    #: Of the look that left most.
    one: int = 0
    left: int = -1
    weak: int = 0
    #: Looks that found any, and those of them at exits.
    looks: int = 0
    exits: int = 0
    #: Where the first of each look was allocated, if tracemalloc was on -> in how many looks.
    sites: dict[str, int] = field(default_factory=dict)
    #: Names of the processes that made them -> how many.
    processes: dict[str, int] = field(default_factory=dict)

    def add(self, kind: FoundKind, process: str, at_exit: bool) -> None:
        self.count += kind.count
        self.objects += kind.objects
        self.hanging += kind.hanging
        self.size += kind.size
        self.largest = max(self.largest, kind.largest)
        if kind.left > self.left:
            self.one, self.left = kind.one, kind.left
        self.weak += kind.weak
        self.looks += 1
        self.exits += at_exit
        if kind.site:
            self.sites[kind.site] = self.sites.get(kind.site, 0) + 1
        self.processes[process] = self.processes.get(process, 0) + kind.count


@dataclass
class Looked:
    """What the looks at one span, or at the whole command (``span`` empty), found.

    Attributes:
        looks: how many, by what they were at: ``format.cycles.BY_*``, or ``recording.cycles.ASKED``.
        cycles: the largest first.
        found: objects, and ``looked_at`` of these.
        others: cycles of kinds beyond those that a look lists.
        passes: of a span: passes that ran inside its calls.
        unfinished: calls that had not ended at the exit.
        others_ran: other threads or tasks may have run in some call: what they made is in it.
    """

    span: str
    looks: dict[str, int] = field(default_factory=dict)
    cycles: list[Cycle] = field(default_factory=list)
    found: int = 0
    looked_at: int = 0
    others: int = 0
    unseen: int = 0
    cut: int = 0
    passes: int = 0
    unfinished: int = 0
    others_ran: bool = False

    @property
    def count(self) -> int:
        """Looks in all."""
        return sum(self.looks.values())


@dataclass(frozen=True)
class Elsewhere:
    """Finalizers that ran in a thread that is not the main one (case 42): types, and how many of each."""

    process: str
    tid: int
    passes: int
    types: dict[str, int]


@dataclass(frozen=True)
class CycleReport:
    """All of one command.

    Attributes:
        looked: one for each span, or the one of the command.
        watched: names of the processes that told.
        unended: those of them that never came to their exit: killed, or ``os._exit``. Only what their passes
            had told by then is known. ``running``: they run still.
        reclaimed: objects that passes of the program's own reclaimed in all of them, and ``seen`` those in
            passes that were looked at.
        skipped: passes that were not looked at, for time or for room.
        stopped: seconds that looks stopped processes for in all, and ``longest`` the longest.
        elsewhere: of passes outside the main thread.
        tracemalloc: (process, what it cost) where it was on.
        damaged: lines that could not be read; ``full``: processes that told as much as they may.
        silent: processes that were asked while they ran and did not answer -> why, the last time.
    """

    path: Path
    looked: tuple[Looked, ...]
    watched: tuple[str, ...]
    unended: tuple[str, ...]
    running: tuple[str, ...]
    reclaimed: int
    seen: int
    skipped: int
    stopped: float
    longest: float
    elsewhere: tuple[Elsewhere, ...]
    tracemalloc: tuple[tuple[str, dict[str, float]], ...]
    damaged: int
    full: tuple[str, ...]
    silent: dict[str, str]


def gather(
    analysis: Analysis,
    logs: dict[Key, LookLog],
    asked: Iterable[tuple[int, Look]],
    silent: dict[int, str],
    spans: Iterable[str] = (),
) -> CycleReport:
    """Adds up.

    Args:
        analysis: of the session, for the names of its processes and what their passes reclaimed.
        logs: from ``recording.cycles.read_looks``.
        asked: (pid, look) of each that a live process was asked for.
        silent: pid of a process that did not answer -> why, the last time.
        spans: labels of the spans that were asked for: one that no look was at has an entry too.
    """
    by_key = {process.series.key: process for process in analysis.processes}
    names = {key: by_key[key].name if key in by_key else f"pid {key[0]}" for key in logs}
    told = [(names[key], look) for key, log in logs.items() for look in log.looks]
    by_pid = {process.pid: process.name for process in analysis.processes}
    every = [*told, *((by_pid.get(pid, f"pid {pid}"), look) for pid, look in asked)]
    open_ones = [key for key, log in logs.items() if not log.ended]
    alive = [key for key in open_ones if key in by_key and by_key[key].series.live]
    groups: dict[str, Looked] = {label: Looked(label) for label in spans}
    if not groups:
        groups[""] = Looked("")
    merged: dict[str, dict[tuple[str, bool], Cycle]] = {}
    for name, look in every:
        looked = groups.setdefault(look.span, Looked(look.span))
        _add(looked, merged.setdefault(look.span, {}), name, look)
    for label, cycles in merged.items():
        groups[label].cycles = sorted(
            cycles.values(), key=lambda one: (-(one.objects + one.hanging), one.path)
        )
    return CycleReport(
        path=analysis.path,
        looked=tuple(groups.values()),
        watched=tuple(names.values()),
        unended=tuple(names[key] for key in open_ones if key not in alive),
        running=tuple(names[key] for key in alive),
        reclaimed=sum(_reclaimed(by_key[key]) for key in logs if key in by_key),
        seen=sum(look.found for _, look in told if look.why == layout.BY_PASS),
        skipped=sum(log.skipped for log in logs.values()),
        stopped=sum(look.stopped for _, look in every),
        longest=max((look.stopped for _, look in every), default=0.0),
        elsewhere=_elsewhere(names, logs),
        tracemalloc=tuple((names[key], log.tracemalloc) for key, log in logs.items() if log.tracemalloc),
        damaged=sum(log.damaged for log in logs.values()),
        full=tuple(names[key] for key, log in logs.items() if log.full),
        silent={by_pid.get(pid, f"pid {pid}"): why for pid, why in silent.items()},
    )


def _add(looked: Looked, merged: dict[tuple[str, bool], Cycle], name: str, look: Look) -> None:
    looked.looks[look.why] = looked.looks.get(look.why, 0) + 1
    looked.found += look.found
    looked.looked_at += look.looked_at
    looked.others += look.others
    looked.unseen += look.unseen
    looked.cut += look.cut
    looked.passes += look.passes
    looked.unfinished += not look.finished
    looked.others_ran = looked.others_ran or look.others_ran
    for kind in look.kinds:
        signature = kind.path, kind.finalized
        if signature not in merged:
            merged[signature] = Cycle(kind.path, kind.pattern, kind.remedy, kind.finalized)
        merged[signature].add(kind, name, look.why == layout.BY_EXIT)


def _reclaimed(process: ProcessReport) -> int:
    """Objects that the program's own passes reclaimed."""
    passes = process.series.passes
    own = (passes["flags"] & fmt.PASS_FROSTLINE) == 0
    return int(np.maximum(passes["collected"][own], 0).sum())


def _elsewhere(names: dict[Key, str], logs: dict[Key, LookLog]) -> tuple[Elsewhere, ...]:
    found: list[Elsewhere] = []
    for key, log in logs.items():
        by_thread: dict[int, dict[str, int]] = {}
        passes: dict[int, int] = {}
        for look in log.looks:
            if look.why != layout.BY_PASS or not look.finalizers:
                continue
            types = by_thread.setdefault(look.tid, {})
            passes[look.tid] = passes.get(look.tid, 0) + 1
            for name, count in look.finalizers.items():
                types[name] = types.get(name, 0) + count
        found += [Elsewhere(names[key], tid, passes[tid], types) for tid, types in by_thread.items()]
    return tuple(found)
