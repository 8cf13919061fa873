"""Chrome's trace events, which Perfetto reads too: passes, spans, marks and the heap of every process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from frostline import format as fmt
from frostline.analysis import Analysis, ProcessReport
from frostline.analysis.passes import kind_of
from frostline.recording.layout import Array
from frostline.recording.young import tids_of

#: Values of the heap's counters that are written for a process, at most.
COUNTERS = 2_000

Convert = Callable[[Array], Array]


def microseconds(ns: int) -> str:
    """ns as decimal text in microseconds: a float64 would lose the last digits of a wall clock."""
    sign = "-" if ns < 0 else ""
    return f"{sign}{abs(ns) // 1000}.{abs(ns) % 1000:03d}"


def write_chrome(analysis: Analysis, path: Path, spans: bool = True) -> int:
    """Writes the session; times are microseconds since its start. Returns the number of events."""
    count = 0
    with path.open("w", encoding="utf-8") as file:
        file.write('{"displayTimeUnit":"ms","traceEvents":[\n')
        for process in analysis.processes:
            for event in process_events(process, lambda times: times - analysis.start, spans):
                file.write(event if not count else ",\n" + event)
                count += 1
        file.write("\n]}\n")
    return count


def process_events(process: ProcessReport, convert: Convert, spans: bool = True) -> Iterator[str]:
    """The events of one process as JSON texts.

    Args:
        convert: CLOCK_MONOTONIC to the trace's clock, both in ns.
        spans: with its spans and marks, or passes alone.
    """
    pid = process.pid
    yield _name("process_name", pid, 0, process.name)
    yield from _passes(process, convert)
    if spans:
        yield from _spans(process, convert)
        yield from _marks(process, convert)
        yield from _heap(process, convert)


def _name(kind: str, pid: int, tid: int, name: str) -> str:
    return f'{{"ph":"M","name":"{kind}","pid":{pid},"tid":{tid},"args":{{"name":{json.dumps(name)}}}}}'


def _passes(process: ProcessReport, convert: Convert) -> Iterator[str]:
    series, pauses = process.series, process.pauses
    start = convert(pauses.start)
    length = pauses.length
    for i, row in enumerate(series.passes):
        arguments: dict[str, object] = {
            "reclaimed": int(row["collected"]),
            "why": kind_of(series, pauses, i),
            "by": "Frostline recording",
        }
        walked = int(pauses.heap.walked[i])
        if walked >= 0:
            arguments["walked" if pauses.heap.exact[i] else "walked (estimated)"] = walked
        file = series.name(int(row["trigger_file"]))
        if file:
            arguments["trigger (not the cause)"] = f"{file}:{int(row['trigger_line'])}"
        yield (
            f'{{"ph":"X","cat":"python_gc","name":"GC gen{int(row["generation"])}","pid":{process.pid},'
            f'"tid":{int(row["tid"])},"ts":{microseconds(int(start[i]))},"dur":{microseconds(int(length[i]))},'
            f'"args":{json.dumps(arguments)}}}'
        )


def _spans(process: ProcessReport, convert: Convert) -> Iterator[str]:
    spans = process.series.spans
    if not len(spans.get("start", ())):
        return
    tids = tids_of(process.series)
    start, stop = convert(spans["start"]), convert(spans["stop"])
    names = {number: json.dumps(process.series.name(number)) for number in np.unique(spans["label"]).tolist()}
    for i in range(len(start)):
        name = names[int(spans["label"][i])]
        tid = int(tids[int(spans["thread"][i])])
        where = f'"cat":"span","name":{name},"pid":{process.pid},"tid":{tid}'
        if spans["kind"][i] == fmt.SPAN_SYNC:
            length = int(stop[i] - start[i])
            yield f'{{"ph":"X",{where},"ts":{microseconds(int(start[i]))},"dur":{microseconds(length)}}}'
        else:  # others ran in between: slices of one thread would have to nest
            yield f'{{"ph":"b","id":{i},{where},"ts":{microseconds(int(start[i]))}}}'
            yield f'{{"ph":"e","id":{i},{where},"ts":{microseconds(int(stop[i]))}}}'


def _marks(process: ProcessReport, convert: Convert) -> Iterator[str]:
    if not process.events:
        return
    times = convert(np.array([event.time for event in process.events], np.int64))
    for at, event in zip(times.tolist(), process.events, strict=True):
        text = json.dumps(f"{event.kind}: {event.text}")
        where = f'"pid":{process.pid},"tid":0,"ts":{microseconds(at)}'
        yield f'{{"ph":"i","s":"p","cat":"mark","name":{text},{where}}}'


def _heap(process: ProcessReport, convert: Convert) -> Iterator[str]:
    heap = process.pauses.heap
    if heap.stops is None or not len(heap.stops):
        return
    at = heap.stops[:: max(1, len(heap.stops) // COUNTERS)]
    for ns, time in zip(at.tolist(), convert(at).tolist(), strict=True):
        here = heap.at(ns)
        if here is not None:
            values = f'{{"not frozen":{here[0]},"frozen":{here[1]}}}'
            where = f'"pid":{process.pid},"ts":{microseconds(time)}'
            yield f'{{"ph":"C","name":"tracked objects (estimated)",{where},"args":{values}}}'
