"""Puts a session's passes into a trace of torch's profiler, and looks for the device's gaps in it.

The trace is of one process, and the process that stopped is often another: its passes come from its
own recording. Kineto's ``ts`` is microseconds since ``baseTimeNanoseconds`` (none before torch 2.4: 0)
on the wall clock. The text of the trace is kept as it is; ours is put in front of its first event.
"""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from frostline.analysis import Analysis
from frostline.analysis.clock import Clock, clock
from frostline.analysis.gaps import Bucket, Candidate, Found, buckets, explain, gaps_between
from frostline.analysis.intervals import union
from frostline.errors import FrostlineError
from frostline.export.chrome import process_events
from frostline.recording.layout import Int64

#: Categories of events during which a device works.
_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
#: Torch's own slice for a pass (``record_python_gc_info``).
_TORCH_PASS = "Python GC"
#: ns of passes kept before the trace's first event and after its last.
_AROUND = 1_000_000_000
_EVENTS = re.compile(r'"traceEvents"\s*:\s*\[')


@dataclass(frozen=True)
class DeviceGaps:
    """Gaps of one device (a pid of the trace), with what is consistent with them."""

    device: str
    buckets: tuple[Bucket, ...]
    found: tuple[Found, ...]


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


def merge_into(analysis: Analysis, trace: Path, out: Path, least: int = 5_000_000) -> Merged:
    """Writes ``trace`` with the session's passes to ``out``.

    Args:
        trace: Kineto's JSON, also compressed by gzip.
        out: compressed if its name ends in ``.gz``.
        least: ns; a device's gap is one from this length on.

    Raises:
        FrostlineError: ``bad-trace``, ``no-anchors`` or ``trace-elsewhen``.
    """
    text = _read(trace)
    data = _parse(text, trace)
    base = int(data.get("baseTimeNanoseconds") or 0)
    events = data["traceEvents"]
    low, high = _extent(events, base, trace)
    ours = clock(analysis.anchors)
    own = _torch_passes(events, base)
    lines: list[str] = []
    passes = already = outside = 0
    for process in analysis.processes:
        if not len(process.series.passes):
            continue
        start, stop = ours.unix(process.pauses.start), ours.unix(process.pauses.stop)
        inside = (stop >= low - _AROUND) & (start <= high + _AROUND)
        twice = _recorded_twice(start, stop, own.get(process.pid)) & inside
        keep = inside & ~twice
        already += int(np.count_nonzero(twice))
        outside += int(np.count_nonzero(~inside))
        passes += int(np.count_nonzero(keep))
        written = list(process_events(process, lambda times: ours.unix(times) - base, spans=False))
        lines.append(written[0])
        lines += [written[1 + i] for i in np.flatnonzero(keep)]
    if not passes and not already:
        raise FrostlineError(
            "trace-elsewhen",
            f"no pass of the session lies in the time of {trace.name}",
            "Record and profile the same server at the same time, on one machine.",
        )
    _write(text, lines, out, bool(events))
    return Merged(passes, already, outside, ours.error, _devices(analysis, events, base, ours, least))


def _read(path: Path) -> str:
    raw = path.read_bytes()
    try:
        return (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise _bad(path, str(error)) from error


def _parse(text: str, path: Path) -> dict[str, Any]:
    try:
        # As text: 5e12 microseconds with three decimals is more than a float64 holds for certain.
        data = json.loads(text, parse_float=str)
    except (ValueError, RecursionError) as error:
        raise _bad(path, str(error)) from error
    if not isinstance(data, dict) or not isinstance(data.get("traceEvents"), list):
        raise _bad(path, "it has no traceEvents")
    data["traceEvents"] = [event for event in data["traceEvents"] if isinstance(event, dict)]
    return data


def _bad(path: Path, why: str) -> FrostlineError:
    return FrostlineError(
        "bad-trace",
        f"{path} is no trace that torch's profiler wrote: {why[:200]}",
        "Give the JSON file of torch.profiler's export_chrome_trace or tensorboard_trace_handler.",
    )


def _ns(value: object) -> int:
    """Microseconds as the trace writes them, in ns."""
    return int(Decimal(str(value)) * 1000)


def _extent(events: list[dict[str, Any]], base: int, path: Path) -> tuple[int, int]:
    slices = [event for event in events if event.get("ph") == "X" and "ts" in event]
    if not slices:
        raise _bad(path, "it has no slices")
    starts = [_ns(event["ts"]) for event in slices]
    ends = [at + _ns(event.get("dur", 0)) for at, event in zip(starts, slices, strict=True)]
    return base + min(starts), base + max(ends)


def _torch_passes(events: list[dict[str, Any]], base: int) -> dict[int, tuple[Int64, Int64]]:
    """Pid -> (start, stop) of the passes that torch itself has in the trace."""
    by_pid: dict[int, list[tuple[int, int]]] = {}
    for event in events:
        if event.get("name") == _TORCH_PASS and event.get("ph") == "X" and isinstance(event.get("pid"), int):
            start = base + _ns(event["ts"])
            by_pid.setdefault(event["pid"], []).append((start, start + _ns(event.get("dur", 0))))
    found = {}
    for pid, pairs in by_pid.items():
        columns = np.array(sorted(pairs), np.int64)
        found[pid] = (columns[:, 0], columns[:, 1])
    return found


def _recorded_twice(start: Int64, stop: Int64, own: tuple[Int64, Int64] | None) -> Any:
    """Which passes lie for half of their length or more in one of torch's own slices."""
    if own is None:
        return np.zeros(len(start), bool)
    covered = union(*own).overlap(start, stop)
    return 2 * covered >= np.maximum(stop - start, 1)


def _write(text: str, lines: list[str], out: Path, more: bool) -> None:
    place = _EVENTS.search(text)
    assert place is not None  # the JSON has it
    head, tail = text[: place.end()], text[place.end() :]
    ours = ",\n".join(lines) + ("," if more else "")
    whole = f"{head}\n{ours}{tail}".encode()
    out.write_bytes(gzip.compress(whole, 5) if out.suffix == ".gz" else whole)


def _devices(
    analysis: Analysis, events: list[dict[str, Any]], base: int, ours: Clock, least: int
) -> tuple[DeviceGaps, ...]:
    """Every device of the trace: when none of its kernels and copies ran, and which passes lie there."""
    by_device: dict[str, list[tuple[int, int]]] = {}
    for event in events:
        if event.get("ph") == "X" and event.get("cat") in _DEVICE:
            at = base + _ns(event["ts"])
            by_device.setdefault(str(event.get("pid")), []).append((at, at + _ns(event.get("dur", 0))))
    candidates = []
    for process in analysis.processes:
        passes = process.pauses.union
        moved = union(ours.unix(passes.start), ours.unix(passes.stop))
        candidates.append(Candidate(process.name, moved.start, moved.stop, moved))
    found = []
    for device, pairs in sorted(by_device.items()):
        columns = np.array(pairs, np.int64)
        busy = union(columns[:, 0], columns[:, 1])
        start, stop = gaps_between(busy, least)
        window = (int(busy.start[0]), int(busy.stop[-1]))
        explained = tuple(explain(start, stop, candidate, window) for candidate in candidates)
        hits = tuple(one for one in explained if bool((one.by >= 0).any()))
        found.append(DeviceGaps(device, buckets(start, stop, hits), hits))
    return tuple(found)
