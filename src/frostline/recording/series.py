"""One series: what one interpreter of one process wrote, in one or in many segments."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from frostline import format as fmt
from frostline.format import told
from frostline.recording.account import note_end, note_gaps, note_losses
from frostline.recording.layout import MARK, PASS, RECORD_SIZE, SPAN_COLUMNS, SPAN_TOLD, Array, Int64
from frostline.recording.loss import Losses
from frostline.recording.model import Mark, Series
from frostline.recording.segment import Segment, read_segment, records
from frostline.recording.young import fill_young

#: No pass takes ten minutes: a longer one is a damaged record.
_LONGEST_PASS = 600 * 10**9
_DAY = 86_400 * 10**9
_MARK_KINDS = np.array([kind for kind, _, _ in fmt.MARK_KINDS], dtype=np.uint32)
_MAX_CAPTURED_THREADS = 65_535
_FULL_ONLY = ("trigger_file", "trigger_line", "trigger_function", "tid", "uncollectable")
_EVERY_PASS = tuple(
    name
    for name in PASS.names or ()
    if name not in (*_FULL_ONLY, "thread", "candidates", "duration", "begin", "end")
)


Progress = Callable[[int], None]


def read_series(
    paths: list[Path],
    losses: Losses,
    live: Callable[[Path], bool],
    fallback: Callable[[Path], Path | None],
    progress: Progress | None = None,
    dropped: dict[tuple[int, int], tuple[int, int]] | None = None,
) -> Series | None:
    """Reads the segments of one series, in order. None when none of them can be read.

    ``fallback`` says where a file may be that was moved between listing and reading.
    """
    segments: list[Segment] = []
    for path in paths:
        segment = _open(path, losses, live(path), fallback)
        if segment is not None:
            segments.append(segment)
    if not segments:
        return None
    segments.sort(key=lambda segment: segment.number)
    first = segments[0]
    series = Series(first.pid, first.series, first.interpreter)
    take_header(series, first)
    spans_dropped, series.dropped_passes = (dropped or {}).get((series.pid, series.series), (0, 0))
    series.words["dropped_spans"] = series.words.get("dropped_spans", 0) + spans_dropped
    note_gaps(series, segments, losses)
    sane = TimeRange(series)
    capacity = dict.fromkeys(RECORD_SIZE, 0)
    for segment in segments:
        for region in segment.regions:
            capacity[region.kind] += region.capacity
    # Pages of an empty array cost nothing until they are filled, so the upper bound is free.
    passes = np.zeros(capacity[fmt.REGION_PASSES], PASS)
    spans = {name: np.empty(capacity[fmt.REGION_SPANS], code) for name, code in SPAN_COLUMNS}
    spans |= {name: np.zeros(capacity[fmt.REGION_SPANS], code) for name, code in SPAN_TOLD}
    filled = Filled()
    raw_marks: list[Array] = []
    full: dict[int, int] = {}
    for segment in segments:
        for region in segment.regions:
            label = fmt.REGION_LABELS[region.kind]
            written = 0
            try:
                for piece in records(segment, region):
                    written += len(piece.records)
                    _count(series.unfinished, label, piece.holes)
                    bad = piece.damaged
                    if region.kind == fmt.REGION_PASSES:
                        bad += add_passes(passes, filled, piece.records, sane, series.threads)
                    elif region.kind == fmt.REGION_SPANS:
                        bad += _add_spans(spans, filled, piece.records, sane, series.threads)
                    elif region.kind == fmt.REGION_MARKS:
                        bad += _add_marks(raw_marks, piece.records, sane)
                    else:
                        bad += _add_names(series.names, piece.records)
                    _count(series.damaged, label, bad)
            except OSError as error:
                reason = error.strerror or str(error)
                message = f"{label}: reading stopped in the middle: {reason}"
                losses.add("segment-unreadable", message, segment.path, 0, series.pid, series.series)
            full[region.kind] = region.capacity if written == region.capacity else 0
        if progress is not None:
            progress(segment.size)
        series.bytes += segment.size
        series.segments += 1
        series.live = series.live or segment.live
    series.passes = passes[: filled.passes]
    if len(series.passes) and bool(np.any(np.diff(series.passes["start"]) < 0)):
        series.passes = series.passes[np.argsort(series.passes["start"], kind="stable")]
    series.spans = {name: column[: filled.spans] for name, column in spans.items()}
    series.marks = _marks(series, raw_marks)
    fill_young(series)
    note_losses(series, segments[0].path, losses)
    note_end(series, full, segments[0].path.parent, losses)
    return series


def _open(path: Path, losses: Losses, live: bool, fallback: Callable[[Path], Path | None]) -> Segment | None:
    elsewhere = fallback(path)
    try:
        if elsewhere is not None:
            return read_segment(elsewhere, losses, False)
        return read_segment(path, losses, live)
    except FileNotFoundError:
        moved = fallback(path)
        try:
            if moved is not None:
                return read_segment(moved, losses, False)
        except FileNotFoundError:
            pass
        losses.add("segment-gone", "the file vanished while it was read", path)
        return None


class Filled:
    passes = 0
    spans = 0


class TimeRange:
    """Instants that a record of this series can name: nothing after now, nothing from another boot."""

    def __init__(self, series: Series) -> None:
        monotonic, realtime, _ = series.anchor
        since = time.time_ns() - realtime
        if not 0 <= since < 4000 * _DAY:
            since = 4000 * _DAY
        start = max(series.series, monotonic)
        self.high = np.uint64(min(start + since + _DAY, 2**62))
        self.low = np.uint64(max(1, min(series.series, monotonic or series.series) - 400 * _DAY))

    def holds(self, times: Array) -> Array:
        inside: Array = (times >= self.low) & (times <= self.high)
        return inside


def _count(counts: dict[str, int], label: str, more: int) -> None:
    if more:
        counts[label] = counts.get(label, 0) + more


def take_header(series: Series, segment: Segment) -> None:
    header = segment.header
    series.parent = header["parent"]
    series.pid_namespace = header["pid_namespace"]
    series.process_start = header["process_start"]
    series.hexversion = header["hexversion"]
    series.build = header["build"]
    series.anchor = (header["anchor_monotonic"], header["anchor_realtime"], header["anchor_error"])
    series.text = segment.text
    series.words = segment.words


def add_passes(out: Array, filled: Filled, found: Array, sane: TimeRange, threads: dict[int, int]) -> int:
    if not len(found):
        return 0
    start, stop = found["start"], found["stop"]
    good = sane.holds(start) & sane.holds(stop) & (start <= stop) & (stop - start <= _LONGEST_PASS)
    good &= (found["generation"] <= 2) & (found["collected"] >= 0)
    bad = len(found) - int(np.count_nonzero(good))
    if bad:
        found = found[good]
    at, end = filled.passes, filled.passes + len(found)
    part = out[at:end]
    full = np.flatnonzero(found["flags"] & fmt.PASS_FULL)
    for name in _EVERY_PASS:
        part[name] = np.minimum(found[name], 2**31 - 1) if name == "collected" else found[name]
    part["thread"] = _thread_indices(threads, found["thread"])
    # What a young pass does not fill stays as it was made: 0, or -1 for unknown.
    for name in _FULL_ONLY:
        part[name][full] = found[name][full]
    part["candidates"] = -1
    part["duration"] = -1
    candidates = found["candidates"][full]
    part["candidates"][full] = np.where(candidates < 0, -1, np.minimum(candidates, 2**31 - 1))
    with np.errstate(over="ignore", invalid="ignore"):  # a damaged duration
        duration = found["duration"][full]
        part["duration"][full] = np.where((duration >= 0) & (duration <= 600), duration, -1)
    # What our last callback saw is written after the commit word: absent, or torn, means none.
    for name in ("begin", "end"):
        if bool(found[name].any()):
            part[name] = found[name]
    begin, last = part["begin"], part["end"]
    if bool(begin.any()):
        begin[(begin < part["start"]) | (begin > part["stop"])] = 0
    if bool(last.any()):
        last[(last < part["stop"]) | (last - part["stop"] > _LONGEST_PASS)] = 0
    filled.passes = end
    return bad


def _add_spans(
    out: dict[str, Array], filled: Filled, found: Array, sane: TimeRange, threads: dict[int, int]
) -> int:
    if not len(found):
        return 0
    start, stop = found["start"], found["stop"]
    good = sane.holds(start) & sane.holds(stop) & (start <= stop) & (found["label"] > 0)
    good &= (found["kind"] >= fmt.SPAN_SYNC) & (found["kind"] <= fmt.SPAN_SPLIT)
    bad = len(found) - int(np.count_nonzero(good))
    if bad:
        found = found[good]
        if not len(found):
            return bad
    at, end = filled.spans, filled.spans + len(found)
    for name in ("start", "stop", "label", "kind", "flags"):
        out[name][at:end] = found[name]
    thread = found["thread"]
    out["thread"][at:end] = _thread_indices(threads, thread)
    for name, flag, value in (("batch", told.FLAG_BATCH, "value0"), ("group", told.FLAG_GROUP, "value1")):
        which = np.flatnonzero(found["flags"] & flag)
        if len(which):
            out[name][at + which] = np.clip(found[value][which], 0, 2**31 - 1)
    filled.spans = end
    return bad


def _thread_indices(threads: dict[int, int], found: Array) -> Array | int:
    """A small number for each thread's ident, given out in order of appearance."""
    if not len(found):
        return 0
    if bool(np.all(found == found[0])):  # the common case, without a sort
        return _thread_index(threads, int(found[0]))
    idents, inverse = np.unique(found, return_inverse=True)
    indices: Array = np.array([_thread_index(threads, int(i)) for i in idents], dtype=np.uint16)[inverse]
    return indices


def _thread_index(threads: dict[int, int], ident: int) -> int:
    if len(threads) >= _MAX_CAPTURED_THREADS:
        return threads.get(ident, _MAX_CAPTURED_THREADS)
    return threads.setdefault(ident, len(threads))


def _add_marks(out: list[Array], found: Array, sane: TimeRange) -> int:
    if not len(found):
        return 0
    good = sane.holds(found["time"]) & sane.holds(found["stop"]) & (found["time"] <= found["stop"])
    good &= np.isin(found["kind"], _MARK_KINDS)
    kept = found[good]
    part = np.empty(len(kept), MARK)
    for name in MARK.names or ():
        part[name] = kept[name]
    out.append(part)
    return len(found) - len(kept)


def _add_names(names: dict[int, str], found: Array) -> int:
    bad = 0
    for number, length, text in zip(found["id"], found["length"], found["text"], strict=True):
        if not number or length > fmt.NAME_SIZE - 16:
            bad += 1
        else:
            names[int(number)] = bytes(text)[: int(length)].decode("utf-8", "replace")
    return bad


def _marks(series: Series, parts: list[Array]) -> tuple[Mark, ...]:
    marks: list[Mark] = []
    for part in parts:
        for row in part:
            values = (int(row["a"]), int(row["b"]), int(row["c"]), int(row["d"]), int(row["e"]))
            marks.append(
                Mark(
                    time=int(row["time"]),
                    stop=int(row["stop"]),
                    kind=int(row["kind"]),
                    flags=int(row["flags"]),
                    thread=int(row["thread"]),
                    tid=int(row["tid"]),
                    file=series.name(int(row["file"])),
                    line=int(row["line"]),
                    function=series.name(int(row["function"])),
                    values=values,
                )
            )
    marks.sort(key=lambda mark: mark.time)
    return tuple(marks)


def shift(series: Series, by: int) -> None:
    """Moves every instant of a series by ``by`` ns: another host's clock onto ours."""
    if not by:
        return
    for name in ("start", "stop"):
        series.passes[name] += by
        series.spans[name] += by
    for name in ("begin", "end"):
        column: Int64 = series.passes[name]
        column[column > 0] += by
    for name in ("before", "after"):
        series.counted[name] += by
    series.marks = tuple(replace(m, time=m.time + by, stop=m.stop + by) for m in series.marks)
    for word in ("closed", "boundary"):
        if series.words.get(word):
            series.words[word] += by
