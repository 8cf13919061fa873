"""Writes traces as torch's profiler does (Kineto's JSON, torch 2.4 and later), without a device or torch.

The layout, the keys and the odd ones among them (a pid that is a word, flows, events without a
duration) are those of traces that torch wrote; the values are made up.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

MS = 1_000_000
#: (start, length, name) in ns of the trace's clock.
Works = Iterable[tuple[int, int, str]]


def microseconds(ns: int) -> str:
    """As Kineto prints them: three decimals."""
    return f"{ns // 1000}.{ns % 1000:03d}"


@dataclass
class Kineto:
    """One profiled process, and its devices by number. Times are ns of the wall clock."""

    pid: int
    tid: int
    #: Kineto's is a quarter of a year before the trace: ``ts`` is then large.
    base: int
    works: dict[int, Works] = field(default_factory=dict)
    #: (start, length) of the passes that torch records itself (``record_python_gc_info``).
    passes: list[tuple[int, int]] = field(default_factory=list)
    #: Names of operators, so that the text has what JSON escapes.
    operator: str = "aten::addmm"

    def write(self, path: Path) -> Path:
        packed = path.suffix == ".gz"
        with gzip.open(path, "wt", encoding="utf-8") if packed else path.open("w", encoding="utf-8") as file:
            self._write(file)
        return path

    def text(self) -> str:
        file = io.StringIO()
        self._write(file)
        return file.getvalue()

    def _write(self, file: IO[str]) -> None:
        devices = ",".join(
            f'\n    {{"id": {number}, "name": "NVIDIA H200", "totalGlobalMem": 150109880320, '
            f'"computeMajor": 9, "computeMinor": 0, "numSms": 132}}'
            for number in self.works
        )
        file.write(
            f'\n{{\n  "schemaVersion": 1,\n  "deviceProperties": [{devices}\n  ],\n'
            '  "cupti_version": 26, "cuda_runtime_version": 12080, "with_flops": 0, "record_shapes": 1,\n'
            '  "trace_id": "1B03C17C", "displayTimeUnit": "ms",\n'
            f'  "baseTimeNanoseconds": {self.base},\n  "traceEvents": [\n'
        )
        for i, event in enumerate(self.events()):
            file.write(f"{',' if i else ''}\n  {event}")
        file.write('\n  ],\n  "traceName": "/tmp/rank0.1790000000.pt.trace.json"\n}\n')

    def events(self) -> Iterator[str]:
        first, last, number = 2**63, 0, 0
        yield self._named("process_name", self.pid, 0, name="python3.11")
        yield self._named("process_labels", self.pid, 0, labels="CPU")
        yield self._named("process_sort_index", self.pid, 0, sort_index=self.pid)
        for device, works in self.works.items():
            yield self._named("process_name", device, 0, name="python3.11")
            yield self._named("process_labels", device, 0, labels=f"GPU {device}")
            yield self._named("thread_name", device, 7, name="stream 7 ")
            for start, length, name in works:
                first, last, number = min(first, start), max(last, start + length), number + 1
                yield from self._launch(device, start, length, name, number)
        for start, length in self.passes:
            first, last = min(first, start), max(last, start + length)
            more = {"cat": "user_annotation", "name": "Python GC", "pid": self.pid, "tid": self.tid}
            yield self._slice(start, length, more, {"Ev Idx": 1})
        yield self._named("thread_name", self.pid, self.tid, name=f"thread {self.tid} (python3.11)")
        span = {"cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler"}
        yield self._slice(first, last - first, span, {"Op count": 0})
        at = f'"pid": {self.pid}, "tid": {self.tid}, "ts": {microseconds(first - self.base)}'
        yield f'{{"name": "Iteration Start: PyTorch Profiler", "ph": "i", "s": "g", {at}}}'
        end = f'"pid": "", "tid": "", "ts": {microseconds(last - self.base)}'
        yield f'{{"name": "Record Window End", "ph": "i", "s": "g", {end}}}'

    def _launch(self, device: int, start: int, length: int, name: str, number: int) -> Iterator[str]:
        """An operator, the call that launches, the flow from it, and what runs on the device."""
        before = start - 30_000
        host = {"pid": self.pid, "tid": self.tid}
        shapes = {"Input Dims": [[4096], [8, 4096], [4096, 4096]], "Input type": ["c10::BFloat16"] * 3}
        operator = {"cat": "cpu_op", "name": self.operator, **host}
        yield self._slice(before, 20_000, operator, {"External id": number, "Ev Idx": number, **shapes})
        call = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", **host}
        yield self._slice(before + 2_000, 5_000, call, {"cbid": 211, "correlation": number})
        where = f'"ph": "s", "id": {number}, "pid": {self.pid}, "tid": {self.tid}'
        yield f'{{{where}, "ts": {microseconds(before + 2_000 - self.base)}, "cat": "ac2g", "name": "ac2g"}}'
        category = {"Memcpy": "gpu_memcpy", "Memset": "gpu_memset"}.get(name.split(" ")[0], "kernel")
        run = {"cat": category, "name": name, "pid": device, "tid": 7}
        grid = {
            "registers per thread": 168,
            "shared memory": 231424,
            "grid": [132, 1, 1],
            "block": [384, 1, 1],
        }
        yield self._slice(start, length, run, {"device": device, "stream": 7, "correlation": number, **grid})
        where = f'"ph": "f", "id": {number}, "pid": {device}, "tid": 7, "bp": "e"'
        yield f'{{{where}, "ts": {microseconds(start - self.base)}, "cat": "ac2g", "name": "ac2g"}}'

    def _slice(self, start: int, length: int, fields: dict[str, Any], arguments: dict[str, Any]) -> str:
        when = f'"ts": {microseconds(start - self.base)}, "dur": {microseconds(length)}'
        named = json.dumps(fields)[1:-1]
        return f'{{\n    "ph": "X", {named},\n    {when},\n    "args": {json.dumps(arguments)}\n  }}'

    def _named(self, kind: str, pid: int, tid: int, /, **arguments: object) -> str:
        where = f'"ts": {microseconds(0)}, "pid": {pid}, "tid": {tid}'
        return f'{{\n    "name": "{kind}", "ph": "M", {where},\n    "args": {json.dumps(arguments)}\n  }}'
