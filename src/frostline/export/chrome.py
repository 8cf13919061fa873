"""Chrome's trace events, which Perfetto reads too: passes, spans, marks and the heap of every process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from frostline import format as fmt
from frostline.analysis import Analysis, ProcessReport
from frostline.analysis.passes import kind_of
from frostline.recording.layout import Array, Int64
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
    yield metadata("process_name", process.pid, 0, process.name)
    yield from pass_events(process, convert, np.arange(len(process.series.passes)), process.pid)
    if spans:
        yield from _spans(process, convert)
        yield from _marks(process, convert)
        yield from _heap(process, convert)


def metadata(kind: str, pid: int | str, tid: int, name: str) -> str:
    """An event that names a process or a thread."""
    where = f'"pid":{json.dumps(pid)},"tid":{tid}'
    return f'{{"ph":"M","name":"{kind}",{where},"args":{{"name":{json.dumps(name)}}}}}'


def pass_events(
    process: ProcessReport, convert: Convert, which: Int64, pid: int, apart: int = 0
) -> Iterator[str]:
    """Its passes, those of the indices ``which``, as slices of ``pid``, in threads ``apart`` from its own."""
    series, pauses = process.series, process.pauses
    start = convert(pauses.start)
    length = pauses.length
    for i in which.tolist():
        row = series.passes[i]
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
            f'{{"ph":"X","cat":"python_gc","name":"GC gen{int(row["generation"])}","pid":{pid},'
            f'"tid":{int(row["tid"]) + apart},"ts":{microseconds(int(start[i]))},'
            f'"dur":{microseconds(int(length[i]))},"args":{json.dumps(arguments)}}}'
        )


def _spans(process: ProcessReport, convert: Convert) -> Iterator[str]:
    spans = process.series.spans
    if not len(spans.get("start", ())):
        return
    tids = tids_of(process.series)
    start, stop = convert(spans["start"]), convert(spans["stop"])
    names = {number: json.dumps(process.series.name(number)) for number in np.unique(spans["label"]).tolist()}
    # Of an asynchronous event the id is compared across processes: this one is no other's.
    series = f"{process.series.series:x}.{process.pid:x}.{process.interpreter:x}"
    for i in range(len(start)):
        name = names[int(spans["label"][i])]
        tid = int(tids[int(spans["thread"][i])])
        where = f'"cat":"span","name":{name},"pid":{process.pid},"tid":{tid}'
        if spans["kind"][i] == fmt.SPAN_SYNC:
            length = int(stop[i] - start[i])
            yield f'{{"ph":"X",{where},"ts":{microseconds(int(start[i]))},"dur":{microseconds(length)}}}'
        else:  # others ran in between: slices of one thread would have to nest
            own = f'"id":"{series}.{i:x}",{where}'
            yield f'{{"ph":"b",{own},"ts":{microseconds(int(start[i]))}}}'
            yield f'{{"ph":"e",{own},"ts":{microseconds(int(stop[i]))}}}'


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
