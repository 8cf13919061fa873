"""Writes recordings from the format's tables alone: what a reader must be able to read.

Shares nothing with the probe but ``frostline.format``, so that a mistake in the writer
cannot hide one in the reader.
"""

from __future__ import annotations

import json
import struct
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from frostline import format as fmt

MS = 1_000_000
TABLES = {
    fmt.REGION_PASSES: (fmt.PASS_FIELDS, fmt.PASS_SIZE),
    fmt.REGION_SPANS: (fmt.SPAN_FIELDS, fmt.SPAN_SIZE),
    fmt.REGION_MARKS: (fmt.MARK_FIELDS, fmt.MARK_SIZE),
    fmt.REGION_NAMES: (fmt.NAME_FIELDS, fmt.NAME_SIZE),
}
PASS_DEFAULTS: dict[str, Any] = {
    "candidates": -1,
    "duration": -1.0,
    "flags": fmt.PASS_FULL,
    "count0": 701,
    "threshold0": 700,
    "threshold1": 10,
    "threshold2": 10,
}
SPAN_DEFAULTS: dict[str, Any] = {"kind": fmt.SPAN_SYNC, "value0": -1, "value1": -1, "thread": 1}
HEX_311 = 0x030B07F0


def pack(kind: int, slot: int, values: dict[str, Any]) -> bytes:
    """One committed record."""
    fields, size = TABLES[kind]
    unknown = set(values) - {name for name, _, _ in fields}
    assert not unknown, unknown
    code = "<" + "".join(c for _, c, _ in fields)
    body = struct.pack(code, *(values.get(name, b"" if c.endswith("s") else 0) for name, c, _ in fields))
    return body.ljust(size - 8, b"\0") + struct.pack("<Q", slot + 1)


@dataclass
class Process:
    """One series to be written. ``at`` in the helpers is ns after ``opened``."""

    pid: int = 4711
    opened: int = 0
    interpreter: int = 0
    hexversion: int = HEX_311
    build: int = 0
    process_start: int = 1
    pid_namespace: int = 1
    words: dict[str, int] = field(default_factory=dict)
    text: list[tuple[str, str]] = field(default_factory=list)
    passes: list[dict[str, Any]] = field(default_factory=list)
    spans: list[dict[str, Any]] = field(default_factory=list)
    marks: list[dict[str, Any]] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.opened:
            self.opened = time.monotonic_ns() - 10**9 + self.pid

    def name(self, text: str) -> int:
        return self.names.setdefault(text, len(self.names) + 1) if text else 0

    def add_pass(self, at: int, took: int, generation: int = 2, **values: Any) -> None:
        for key in ("begin", "end"):
            if values.get(key):
                values[key] += self.opened
        start = self.opened + at
        self.passes.append(
            {**PASS_DEFAULTS, "start": start, "stop": start + took, "generation": generation, **values}
        )

    def add_span(self, label: str, at: int, took: int, **values: Any) -> None:
        start = self.opened + at
        self.spans.append(
            {**SPAN_DEFAULTS, "start": start, "stop": start + took, "label": self.name(label), **values}
        )

    def add_mark(self, kind: int, at: int, took: int = 0, file: str = "", **values: Any) -> None:
        start = self.opened + at
        self.marks.append(
            {"time": start, "stop": start + took, "kind": kind, "file": self.name(file), **values}
        )

    def add_identity(self, role: str, rank: int = -1, source: int = fmt.IDENTITY_PROGRAM) -> None:
        self.add_mark(fmt.MARK_IDENTITY, 0, a=self.name(role), b=rank, c=source)

    def add_state(
        self, at: int, collections: tuple[int, int, int], frozen: int = 0, closing: bool = False
    ) -> None:
        flags = fmt.MARK_FLAG_CLOSING if closing else 0
        for generation, count in enumerate(collections):
            self.add_mark(fmt.MARK_STATE, at, flags=flags, a=generation, b=count)
        self.add_mark(fmt.MARK_STATE, at, flags=flags, a=3, b=700, c=10, d=10, e=1)
        self.add_mark(fmt.MARK_STATE, at, flags=flags, a=4, b=frozen)

    # --- writing -------------------------------------------------------------------
    def header(self, number: int, table: list[tuple[int, int, int, int]]) -> bytearray:
        head = bytearray(fmt.HEADER_SIZE)
        text = "".join(f"{key}\t{value}\n" for key, value in self.text).encode() if number == 0 else b""
        values = {
            "magic": fmt.MAGIC,
            "version": fmt.VERSION,
            "header_size": fmt.HEADER_SIZE,
            "pid": self.pid,
            "parent": 1,
            "series": self.opened,
            "segment": number,
            "interpreter": self.interpreter,
            "pid_namespace": self.pid_namespace,
            "process_start": self.process_start,
            "anchor_monotonic": self.opened,
            "anchor_realtime": time.time_ns() - time.monotonic_ns() + self.opened,
            "anchor_error": 500,
            "hexversion": self.hexversion,
            "build": self.build,
            "regions": len(table),
            "text_size": len(text),
        }
        struct.pack_into(fmt.HEADER, head, 0, *(values[name] for name, _, _ in fmt.HEADER_FIELDS))
        for i, entry in enumerate(table):
            struct.pack_into(fmt.REGION, head, fmt.REGION_TABLE + i * struct.calcsize(fmt.REGION), *entry)
        head[fmt.TEXT : fmt.TEXT + len(text)] = text
        if number == 0:
            for word, value in self.words.items():
                struct.pack_into("<q", head, 8 * fmt.WORD[word], value)
        return head

    def write(self, folder: Path, per_segment: int = 10_000) -> list[Path]:
        """The first segment as the format lays it out; what does not fit goes into later ones."""
        names = [
            {"id": i, "length": len(text.encode()[-240:]), "text": text.encode()[-240:]}
            for text, i in self.names.items()
        ]
        rest = {
            fmt.REGION_NAMES: names,
            fmt.REGION_MARKS: self.marks,
            fmt.REGION_PASSES: self.passes,
            fmt.REGION_SPANS: self.spans,
        }
        table, body, offset = [], b"", fmt.HEADER_SIZE
        for kind, size, capacity in fmt.FIRST_REGIONS:
            table.append((kind, size, offset, capacity))
            first, rest[kind] = rest[kind][:capacity], rest[kind][capacity:]
            body += b"".join(pack(kind, i, r) for i, r in enumerate(first)).ljust(size * capacity, b"\0")
            offset += size * capacity
        written = [self._file(folder, 0, bytes(self.header(0, table)) + body)]
        for kind, records in rest.items():
            size = TABLES[kind][1]
            for at in range(0, len(records), per_segment):
                part = records[at : at + per_segment]
                number = len(written)
                head = self.header(number, [(kind, size, fmt.HEADER_SIZE, per_segment)])
                packed = b"".join(pack(kind, i, r) for i, r in enumerate(part))
                written.append(
                    self._file(folder, number, bytes(head) + packed.ljust(size * per_segment, b"\0"))
                )
        return written

    def _file(self, folder: Path, number: int, data: bytes) -> Path:
        path = folder / fmt.segment_name(self.pid, self.opened, self.interpreter, number)
        path.write_bytes(data)
        return path


def write_run(folder: Path, command: list[str], **values: Any) -> None:
    data = {
        "frostline": "0.1.0",
        "pid": 1,
        "command": command,
        "policy": "off",
        "started_monotonic_ns": 1,
        "started_realtime_ns": 1,
        "boot_id": "boot",
        "host": "host",
        "cpus": 2,
        **values,
    }
    (folder / f"run-{data['pid']}-1.json").write_text(json.dumps(data))


def write_helper(folder: Path, processes: list[dict[str, Any]], **values: Any) -> None:
    data = {
        "pid": 2,
        "root": 1,
        "ended": True,
        "processes": processes,
        "ready": None,
        "warnings": [],
        **values,
    }
    (folder / "helper-2-1.json").write_text(json.dumps(data))
