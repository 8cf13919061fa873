"""Puts a session's passes into a trace of torch's profiler, and looks for the device's gaps in it.

The trace is of one process, and the process that stopped is often another: its passes come from its
own recording. The text of the trace is kept as it is; ours is put in front of its first event. It is
read twice, once to know it and once to copy it, and never held whole.
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from frostline.analysis import Analysis, ProcessReport
from frostline.analysis.clock import Clock, clock
from frostline.analysis.gaps import Bucket, Candidate, Found, buckets, explain, gaps_between
from frostline.analysis.intervals import union
from frostline.errors import FrostlineError
from frostline.export.chrome import metadata, microseconds, pass_events
from frostline.export.kineto import Trace, opened, scan
from frostline.recording.layout import Array, Int64

#: ns of passes kept before the trace's first event and after its last.
_AROUND = 1_000_000_000
#: The thread, below each device, that shows its gaps. No native thread has so large an id.
GAP_THREAD = 2_000_000_001
#: What is added to a pid that a device has for its number, and to the threads of a process that the
#: trace has itself. No pid is so large.
_APART = 1_000_000_000
#: Gaps of a device that are written into the trace, the longest.
MOST_GAPS = 20_000


@dataclass(frozen=True)
class Gap:
    """A time in which a device did nothing. ``start`` is ns since the epoch, ``length`` ns."""

    start: int
    length: int
    #: What is consistent with it: a process, and its pass in words. Empty if nothing is.
    passes: tuple[str, ...]


@dataclass(frozen=True)
class DeviceGaps:
    """Gaps of one device (a pid of the trace), with what is consistent with them.

    In a trace without a device these are times in which a profiled process ran no operator.
    """

    device: str
    #: What the trace calls it, such as ``GPU 0``, or the session, of a process; may be empty.
    label: str
    #: It is a process, by its operators, for want of a device.
    operators: bool
    buckets: tuple[Bucket, ...]
    found: tuple[Found, ...]
    #: In order of time.
    gaps: tuple[Gap, ...]


@dataclass(frozen=True)
class Merged:
    """What was written."""

    passes: int
    #: Passes that torch had recorded itself, in the traced process: they were not written twice.
    already: int
    #: Passes of the session outside the trace's time.
    outside: int
    #: How far our clock and the trace's may differ, ns, as far as our side of it is known.
    error: int
    devices: tuple[DeviceGaps, ...]
    #: Profiled processes of which the session has no recording: nothing is known of their passes.
    unrecorded: tuple[int, ...]
    #: The first event of the trace, ns since the epoch.
    start: int


def merge_into(analysis: Analysis, trace: Path, out: Path, least: int = 5_000_000) -> Merged:
    """Writes ``trace`` with the session's passes, and its devices' gaps, to ``out``.

    Args:
        trace: Kineto's JSON, also compressed by gzip.
        out: compressed if its name ends in ``.gz``.
        least: ns; a device's gap is one from this length on.

    Raises:
        FrostlineError: ``bad-trace``, ``no-anchors`` or ``trace-elsewhen``.
    """
    known = scan(trace)
    ours = clock(analysis.anchors)
    chosen: list[tuple[ProcessReport, Int64]] = []
    passes = already = outside = 0
    for process in analysis.processes:
        if not len(process.series.passes):
            continue
        start, stop = ours.unix(process.pauses.start), ours.unix(process.pauses.stop)
        inside = (stop >= known.base + known.low - _AROUND) & (start <= known.base + known.high + _AROUND)
        twice = _recorded_twice(start, stop, known, process.pid) & inside
        keep = inside & ~twice
        already += int(np.count_nonzero(twice))
        outside += int(np.count_nonzero(~inside))
        passes += int(np.count_nonzero(keep))
        chosen.append((process, np.flatnonzero(keep)))
    if not passes and not already:
        raise FrostlineError(
            "trace-elsewhen",
            f"no pass of the session lies in the time of {trace.name}",
            "Record and profile the same server at the same time, on one machine.",
        )
    devices = _devices(analysis, known, ours, least)
    recorded = {process.pid for process in analysis.processes}

    def lines() -> Iterator[str]:
        for process, which in chosen:
            pid = _pid(process.pid, known)
            apart = 0
            if pid in known.hosts:
                # Torch's slices of that thread are on its own clock: ours would cut them by microseconds,
                # and slices of one thread that overlap must lie one in the other.
                apart = _APART
                for tid in np.unique(process.series.passes["tid"][which]).tolist():
                    yield metadata("thread_name", pid, tid + apart, f"passes in thread {tid} (Frostline)")
            else:
                yield metadata("process_name", pid, 0, process.name)
            yield from pass_events(process, lambda times: ours.unix(times) - known.base, which, pid, apart)
        for device in devices:
            yield from _gap_events(device, known)

    _write(trace, known, lines(), out)
    unrecorded = tuple(sorted(known.hosts - recorded))
    return Merged(passes, already, outside, ours.error, devices, unrecorded, known.base + known.low)


def _pid(pid: int, known: Trace) -> int:
    """A process's number in the trace: devices are numbered from 0, and a container's processes from 1."""
    return pid + _APART if pid in known.pids.values() and pid not in known.hosts else pid


def _recorded_twice(start: Int64, stop: Int64, known: Trace, pid: int) -> Array:
    """Which passes lie for half of their length or more in one of torch's own slices."""
    own = known.passes.get(pid)
    if own is None:
        return np.zeros(len(start), bool)
    covered = union(*own.since(known.base)).overlap(start, stop)
    twice: Array = 2 * covered >= np.maximum(stop - start, 1)
    return twice


@contextmanager
def _writable(out: Path) -> Iterator[BinaryIO]:
    if out.suffix == ".gz":
        with gzip.open(out, "wb", compresslevel=5) as packed:
            yield cast(BinaryIO, packed)
    else:
        with out.open("wb") as plain:
            yield plain


def _write(trace: Path, known: Trace, lines: Iterator[str], out: Path) -> None:
    with opened(trace) as source, _writable(out) as target:
        left = known.place
        while left:
            piece = source.read(min(left, 1 << 20))
            target.write(piece)
            left -= len(piece)
        for i, line in enumerate(lines):
            target.write(f"{',' if i else ''}\n{line}".encode())
        if known.events:
            target.write(b",")
        shutil.copyfileobj(source, target, 1 << 20)


@dataclass(frozen=True)
class _Recorded:
    """A process of the session, and when its passes began, ns since the epoch."""

    process: ProcessReport
    start: Int64


def _candidates(analysis: Analysis, known: Trace, ours: Clock) -> list[tuple[Candidate, _Recorded | None]]:
    """Whose passes may lie in a gap: those of the session, and what torch says of processes not in it."""
    found: list[tuple[Candidate, _Recorded | None]] = []
    for process in analysis.processes:
        passes = process.pauses.union
        moved = union(ours.unix(passes.start), ours.unix(passes.stop))
        recorded_as = _Recorded(process, ours.unix(process.pauses.start))
        found.append((Candidate(process.name, moved.start, moved.stop, moved), recorded_as))
    recorded = {process.pid for process in analysis.processes}
    for pid, own in sorted(known.passes.items()):
        if pid not in recorded:
            told = union(*own.since(known.base))
            found.append((Candidate(f"pid {pid}, as torch recorded it", told.start, told.stop, told), None))
    return found


def _devices(analysis: Analysis, known: Trace, ours: Clock, least: int) -> tuple[DeviceGaps, ...]:
    """Every device of the trace: when none of its kernels and copies ran, and which passes lie there.

    Of a trace without a device every profiled process: when none of its operators did.
    """
    candidates = _candidates(analysis, known, ours)
    found = []
    names = {str(process.pid): process.name for process in analysis.processes}
    labels = known.labels if known.devices else names
    for device, works in sorted(known.workers().items()):
        busy = union(*works.since(known.base))
        start, stop = gaps_between(busy, least)
        window = (int(busy.start[0]), int(busy.stop[-1]))
        explained = [(explain(start, stop, one, window), one, process) for one, process in candidates]
        hits = [one for one in explained if bool((one[0].by >= 0).any())]
        words: list[list[str]] = [[] for _ in range(len(start))]
        for one, candidate, process in hits:
            for i in np.flatnonzero(one.by >= 0).tolist():
                words[i].append(_in_words(candidate, process, int(one.by[i])))
        gaps = tuple(
            Gap(begins, ends - begins, tuple(texts))
            for begins, ends, texts in zip(start.tolist(), stop.tolist(), words, strict=True)
        )
        rows = buckets(start, stop, [one for one, _, _ in hits])
        label, explaining = labels.get(device, ""), tuple(one for one, _, _ in hits)
        found.append(DeviceGaps(device, label, not known.devices, rows, explaining, gaps))
    return tuple(found)


def _in_words(candidate: Candidate, recorded: _Recorded | None, at: int) -> str:
    """The longest pass in stretch ``at`` of a candidate's union, and whose it is."""
    begins, ends = int(candidate.start[at]), int(candidate.stop[at])
    if recorded is None:
        return f"{candidate.name}: {(ends - begins) / 1e6:,.1f} ms"
    process, pauses = recorded.process, recorded.process.pauses
    # A union's stretch holds whole passes: its bounds are bounds of theirs, moved by the same clock.
    first = int(np.searchsorted(recorded.start, begins, "left"))
    last = max(first + 1, int(np.searchsorted(recorded.start, ends, "right")))
    i = first + int(np.argmax(pauses.length[first:last]))
    row = process.series.passes[i]
    walked = int(pauses.heap.walked[i])
    sign = "" if pauses.heap.exact[i] else "<=" if row["generation"] == 2 else "~"
    seen = f", walked {sign}{walked:,}" if walked >= 0 else ""
    return (
        f"{process.name}: gen {int(row['generation'])}, {int(pauses.length[i]) / 1e6:,.1f} ms{seen}, "
        f"reclaimed {int(row['collected']):,}"
    )


def _gap_events(device: DeviceGaps, known: Trace) -> Iterator[str]:
    """A thread below the device: each gap, and what is consistent with it."""
    if not device.gaps:
        return
    pid = int(device.device) if device.operators else known.pids[device.device]
    yield metadata("thread_name", pid, GAP_THREAD, "gaps, found by Frostline")
    shown = sorted(sorted(device.gaps, key=lambda gap: -gap.length)[:MOST_GAPS], key=lambda gap: gap.start)
    for gap in shown:
        arguments = json.dumps({"consistent with": "; ".join(gap.passes) or "no pass", "by": "Frostline"})
        name = f"gap {gap.length / 1e6:,.1f} ms" + (": consistent with a pass" if gap.passes else "")
        yield (
            f'{{"ph":"X","cat":"frostline_gap","name":"{name}","pid":{json.dumps(pid)},"tid":{GAP_THREAD},'
            f'"ts":{microseconds(gap.start - known.base)},"dur":{microseconds(gap.length)},'
            f'"args":{arguments}}}'
        )
