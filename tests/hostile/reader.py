"""Reads a recording with the tables of ``frostline.format`` and ``struct`` alone.

A second opinion beside ``frostline.recording``: what these tests say of the probe must not
depend on the reader that users have.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from frostline import format as layout

Record = dict[str, Any]
_CODES = {kind: "<" + "".join(code for _, code, _ in fields) for kind, _, fields in layout.RECORDS}
_NAMES = {kind: [name for name, _, _ in fields] for kind, _, fields in layout.RECORDS}


@dataclass
class Series:
    """What one interpreter wrote."""

    pid: int
    number: int
    interpreter: int
    header: dict[str, Any] = field(default_factory=dict)
    words: dict[str, int] = field(default_factory=dict)
    text: dict[str, list[str]] = field(default_factory=dict)
    records: dict[int, list[Record]] = field(default_factory=dict)
    #: Slots with another commit word than 0 or their own.
    damaged: int = 0
    #: Empty slots before a committed one.
    holes: int = 0
    segments: int = 0

    @property
    def passes(self) -> list[Record]:
        return self.records.get(layout.REGION_PASSES, [])

    @property
    def spans(self) -> list[Record]:
        return self.records.get(layout.REGION_SPANS, [])

    @property
    def names(self) -> dict[int, str]:
        found = {}
        for record in self.records.get(layout.REGION_NAMES, []):
            found[record["id"]] = record["text"][: record["length"]].decode()
        return found

    def marks(self, kind: int) -> list[Record]:
        return [mark for mark in self.records.get(layout.REGION_MARKS, []) if mark["kind"] == kind]

    def has(self, kind: int) -> bool:
        return bool(self.marks(kind))

    def spans_of(self, label: str) -> list[Record]:
        names = self.names
        return [span for span in self.spans if names.get(span["label"]) == label]


def read(*folders: Path) -> list[Series]:
    """Every series in these folders, oldest first."""
    found: dict[tuple[int, int, int], Series] = {}
    paths = {
        path.name: path for folder in folders if folder.is_dir() for path in folder.glob("*" + layout.SUFFIX)
    }
    for name in sorted(paths):
        raw = paths[name].read_bytes()
        if raw[:8] != layout.MAGIC:
            continue  # died while it was being opened
        _read_segment(raw, found)
    return sorted(found.values(), key=lambda series: series.number)


def _read_segment(raw: bytes, found: dict[tuple[int, int, int], Series]) -> None:
    values = dict(
        zip(
            (name for name, _, _ in layout.HEADER_FIELDS), struct.unpack_from(layout.HEADER, raw), strict=True
        )
    )
    key = (values["pid"], values["series"], values["interpreter"])
    series = found.setdefault(key, Series(*key))
    series.segments += 1
    if values["segment"] == 0:
        series.header = values
        for number, (name, _) in enumerate(layout.WORD_FIELDS):
            (series.words[name],) = struct.unpack_from("<Q", raw, layout.WORDS + 8 * number)
        text = raw[layout.TEXT : layout.TEXT + values["text_size"]].decode()
        for line in text.splitlines():
            name, _, value = line.partition("\t")
            series.text.setdefault(name, []).append(value)
    for number in range(values["regions"]):
        kind, size, offset, capacity = struct.unpack_from(
            layout.REGION, raw, layout.REGION_TABLE + 24 * number
        )
        last = -1
        empty = 0
        for slot, record in _committed(raw, kind, size, offset, capacity):
            if record is None:
                series.damaged += 1
                continue
            empty += slot - last - 1
            last = slot
            series.records.setdefault(kind, []).append(record)
        series.holes += empty


def _committed(
    raw: bytes, kind: int, size: int, offset: int, capacity: int
) -> Iterator[tuple[int, Record | None]]:
    for slot in range(capacity):
        at = offset + slot * size
        (commit,) = struct.unpack_from("<Q", raw, at + size - 8)
        if commit == slot + 1:
            values = struct.unpack_from(_CODES[kind], raw, at)
            yield slot, dict(zip(_NAMES[kind], values, strict=True))
        elif commit:
            yield slot, None
