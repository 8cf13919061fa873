"""Where the start-up heap comes from: net tracked objects and passes, by import and by phase (row B12).

At each import's beginning and end the process told ``gc.get_count()[0]``; what passes and freezes have set
back to 0 was recorded as they ran. So between any two events the net container allocations follow: the
difference of the counts, and what was set back in between, less what those passes reclaimed. That is "at
most": CPython does not count the deaths of objects while count 0 is 0. An object that a pass reclaims is
taken off the import that the pass ran in, whoever made it.

Of two events the stretch between them belongs to the innermost import that was open in the thread that
tells the second one, else in the thread that told the first: exact with one importing thread.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from frostline import format as fmt
from frostline.analysis.model import Analysis, ProcessReport
from frostline.recording.layout import Int64
from frostline.recording.startup import ImportLog

#: Imports count as over when this share of the time in them is: a stray import of a long-running program
#: does not make all before it a time of importing.
LOADED = 0.99
BETWEEN, WARM_UP, AFTER_BOUNDARY = "between imports", "set-up and warm-up", "boundary to READY"


@dataclass
class Passes:
    """Passes that ran somewhere: how many of each generation, and their pauses together, ns."""

    counts: list[int] = field(default_factory=lambda: [0, 0, 0])
    pause: int = 0
    longest: int = 0
    #: Of the automatic ones alone: their pauses, and what they reclaimed.
    automatic: int = 0
    reclaimed: int = 0

    def add(self, other: Passes) -> None:
        self.counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        self.pause += other.pause
        self.longest = max(self.longest, other.longest)
        self.automatic += other.automatic
        self.reclaimed += other.reclaimed

    def note(self, generation: int, pause: int, automatic: bool, reclaimed: int) -> None:
        self.counts[generation] += 1
        self.pause += pause
        self.longest = max(self.longest, pause)
        if automatic:
            self.automatic += pause
            self.reclaimed += reclaimed


@dataclass
class Import:
    """The import of one module, with those that it caused. Times in ns."""

    module: str
    start: int
    stop: int
    #: It had not ended when start-up did, or when the process died.
    unfinished: bool = False
    children: list[Import] = field(default_factory=list, repr=False)
    #: Its own, those of ``children`` left out.
    objects: int = 0
    passes: Passes = field(default_factory=Passes)
    #: Those of ``children`` included; filled when all is read.
    all_objects: int = 0
    all_passes: Passes = field(default_factory=Passes)

    @property
    def time(self) -> int:
        return self.stop - self.start

    @property
    def own_time(self) -> int:
        return max(0, self.time - sum(child.time for child in self.children))


@dataclass
class Phase:
    """A part of start-up that is no import."""

    name: str
    time: int = 0
    objects: int = 0
    passes: Passes = field(default_factory=Passes)


@dataclass(frozen=True)
class StartUp:
    """The start-up of one process, from the beginning of its recording to ``stop``."""

    process: ProcessReport
    start: int
    stop: int
    #: What ended it, in words.
    ended_by: str
    #: Objects tracked when the recording began, None if not counted.
    before: int | None
    #: (when, objects tracked then): the last time that they were counted.
    tracked: tuple[int, int] | None
    #: False where the interpreter's counts do not say it (free-threaded, incremental collector).
    counted: bool
    imports: tuple[Import, ...]
    phases: tuple[Phase, ...]
    passes: Passes
    #: (index into the process's passes, what was being done) of each pass of generation 2.
    full: tuple[tuple[int, str], ...]
    #: More than one thread was importing at a time: who allocated what is then a guess.
    threads: bool
    damaged: int
    truncated: bool

    @property
    def objects(self) -> int:
        """Net growth in all."""
        return sum(i.all_objects for i in self.imports) + sum(p.objects for p in self.phases)

    def importing(self) -> tuple[int, int, Passes]:
        """(time inside imports, ns; net objects; passes) of all imports together."""
        passes = Passes()
        for top in self.imports:
            passes.add(top.all_passes)
        # Of several threads' imports that overlap, the time counts once.
        time = (self.stop - self.start) - sum(phase.time for phase in self.phases)
        return time, sum(top.all_objects for top in self.imports), passes

    def walk(self) -> Iterator[Import]:
        """Every import, parents first."""
        waiting = list(reversed(self.imports))
        while waiting:
            one = waiting.pop()
            yield one
            waiting.extend(reversed(one.children))


def start_ups(analysis: Analysis, logs: dict[tuple[int, int, int], ImportLog], until: int) -> list[StartUp]:
    """The start-ups of the processes that told of their imports, the largest growth first.

    Args:
        analysis: of the session.
        logs: from ``recording.startup.read_imports``.
        until: ns after the first process began, at which start-up ends at the latest; 0 for no such end.
    """
    limit = analysis.start + until if until else 0
    ready = analysis.ready[1] if analysis.ready else 0
    found = []
    for process in analysis.processes:
        log = logs.get(process.series.key)
        if log is not None:
            found.append(_start_up(process, log, ready, limit))
    return sorted(found, key=lambda one: -one.objects)


def _end(process: ProcessReport, log: ImportLog, ready: int, limit: int) -> tuple[int, str]:
    # A process that was killed may have told of imports after the last of its records.
    last = max(process.stop, log.events[-1].time if log.events else 0)
    ends = [(last, "the last that it told" if not process.closed else "the end of the process")]
    if ready:
        ends.append((ready, "READY"))
    elif process.boundary:
        ends.append((process.boundary, "the boundary"))
    if limit:
        ends.append((limit, "--until"))
    return min((end for end in ends if end[0] > process.start), default=ends[0])


class _Sum:
    """Net container allocations from the beginning of the recording to any event."""

    def __init__(self, process: ProcessReport) -> None:
        passes, marks = process.series.passes, process.series.marks
        frozen = [m for m in marks if m.kind == fmt.MARK_FREEZE and m.values[2] > 0]
        at = np.concatenate((passes["start"].astype(np.int64), np.array([m.time for m in frozen], np.int64)))
        taken = np.maximum(passes["count0"], 0).astype(np.int64) - passes["collected"].astype(np.int64)
        by = np.concatenate((taken, np.array([m.values[2] - 1 for m in frozen], np.int64)))
        order = np.argsort(at, kind="stable")
        self._times: Int64 = at[order]
        self._sums: Int64 = np.concatenate((np.zeros(1, np.int64), np.cumsum(by[order])))
        states = [m for m in marks if m.kind == fmt.MARK_STATE and m.values[0] == 0]
        closing = [m for m in states if m.flags & fmt.MARK_FLAG_CLOSING]
        opening = [m for m in states if not m.flags & fmt.MARK_FLAG_CLOSING]
        #: When the recording began, None where that is not known.
        self.first = self.at(opening[0].time, max(0, opening[0].values[4])) if opening else None
        self._close = closing[-1] if closing else None

    def at(self, time: int, count: int) -> int:
        """At an instant at which count 0 was ``count``."""
        return int(self._sums[np.searchsorted(self._times, time, "right")]) + count

    def about(self, time: int, since: int, then: int) -> int:
        """At an instant of which nothing was told: what it was at the last pass before it.

        Where none ran ``since``, at which it was ``then``: that.
        """
        close = self._close
        if close is not None and since <= close.time <= time:
            return self.at(close.time, max(0, close.values[4]))
        first, last = np.searchsorted(self._times, (since, time), "right")
        return int(self._sums[last]) if last > first else then


def _start_up(process: ProcessReport, log: ImportLog, ready: int, limit: int) -> StartUp:
    stop, ended_by = _end(process, log, ready, limit)
    series = process.series
    total = _Sum(process)
    start = process.start
    counted = not series.free_threaded and not (3, 14, 0) <= series.version < (3, 14, 5)
    attached = next((m for m in series.marks if m.kind == fmt.MARK_ATTACH), None)
    before = attached.values[1] - 1 if attached is not None and attached.values[1] > 0 else None
    tree = _Tree(start, total.first)
    for event in log.events:
        if event.time > stop:
            break
        tree.take(event.time, event.thread, event.module, total.at(event.time, event.count0))
    tree.finish(stop, total)
    loaded = _loaded(tree.top, start)
    boundary = process.boundary if start < process.boundary < stop else 0
    edges = (loaded, boundary or stop)
    phases = [Phase(BETWEEN), Phase(WARM_UP), Phase(AFTER_BOUNDARY)]

    def phase(time: int) -> Phase:
        return phases[sum(time >= edge for edge in edges)]

    for begin, end, first, last in tree.outside:
        for cut in (*(edge for edge in edges if begin < edge < end), end):
            then = total.about(cut, begin, first) if cut < end else last
            phase(begin).objects += then - first
            phase(begin).time += cut - begin
            begin, first = cut, then
    every = Passes()
    full: list[tuple[int, str]] = []
    idents = {index: ident for ident, index in series.threads.items()}
    length = process.pauses.length
    for i in np.flatnonzero((series.passes["start"] >= start) & (series.passes["start"] <= stop)).tolist():
        row = series.passes[i]
        time, generation, pause = int(row["start"]), int(row["generation"]), int(length[i])
        where = tree.at(idents.get(int(row["thread"]), 0), time)
        told = generation, pause, bool(process.pauses.automatic[i]), int(row["collected"])
        (where.passes if where is not None else phase(time).passes).note(*told)
        every.note(*told)
        if generation == 2:
            full.append((i, f"import of {where.module}" if where is not None else phase(time).name))
    _sum_up(tree.top)
    return StartUp(
        process=process,
        start=start,
        stop=stop,
        ended_by=ended_by,
        before=before,
        tracked=max((entry for entry in log.counted if entry[0] <= stop), default=None),
        counted=counted,
        imports=tuple(tree.top),
        phases=tuple(p for p in phases if p.time or p.objects or any(p.passes.counts)),
        passes=every,
        full=tuple(full),
        threads=tree.threads,
        damaged=log.damaged,
        truncated=log.full,
    )


def _loaded(top: list[Import], start: int) -> int:
    """When LOADED of the time in imports of the top was over."""
    wanted = LOADED * sum(one.time for one in top)
    done = 0
    for one in sorted(top, key=lambda one: one.stop):
        done += one.time
        if done >= wanted:
            return one.stop
    return start


class _Tree:
    """Imports as they nest, thread by thread."""

    def __init__(self, start: int, grown: int | None) -> None:
        self.top: list[Import] = []
        #: (begin, end, the sum then and then) of each stretch in which no thread was importing.
        self.outside: list[tuple[int, int, int, int]] = []
        self.threads = False
        self._open: dict[int, list[Import]] = {}
        #: thread -> its imports of the top, in order.
        self._of: dict[int, list[Import]] = {}
        self._time, self._thread, self._sum = start, 0, grown

    def take(self, time: int, thread: int, module: str, grown: int) -> None:
        """One event: what has been allocated since the one before belongs to what was open."""
        self._share(time, thread, grown)
        stack = self._open.setdefault(thread, [])
        if module:
            new = Import(module, time, time)
            if stack:
                stack[-1].children.append(new)
            else:
                self.top.append(new)
                self._of.setdefault(thread, []).append(new)
            stack.append(new)
            self.threads = self.threads or sum(map(bool, self._open.values())) > 1
        elif stack:  # one that was open at a fork ends in the child without having begun there
            stack.pop().stop = time
        self._thread = thread

    def finish(self, stop: int, total: _Sum) -> None:
        """The end of start-up: what is still open ends there."""
        last = self._sum if self._sum is not None else 0
        self._share(stop, self._thread, total.about(stop, self._time, last))
        for stack in self._open.values():
            for one in stack:
                one.stop, one.unfinished = stop, True

    def _share(self, time: int, thread: int, grown: int) -> None:
        # Nothing known of before: what was there at the first event is no growth.
        first = self._sum if self._sum is not None else grown
        stack = self._open.get(thread) or self._open.get(self._thread)
        if stack:
            stack[-1].objects += grown - first
        else:
            self.outside.append((self._time, max(time, self._time), first, grown))
        self._time, self._sum = max(self._time, time), grown

    def at(self, thread: int, time: int) -> Import | None:
        """The innermost import of a thread at an instant."""
        found = None
        level = self._of.get(thread, [])
        while True:
            # Of one thread they follow each other.
            number = bisect_right(level, time, key=lambda one: one.start) - 1
            if number < 0 or time > level[number].stop:
                return found
            found = level[number]
            level = found.children


def _sum_up(top: list[Import]) -> None:
    """Fills what includes the children, without recursion: imports nest deeply."""
    order: list[Import] = []
    waiting = list(top)
    while waiting:
        one = waiting.pop()
        order.append(one)
        waiting.extend(one.children)
    for one in reversed(order):
        one.all_objects = one.objects + sum(child.all_objects for child in one.children)
        one.all_passes.add(one.passes)
        for child in one.children:
            one.all_passes.add(child.all_passes)
