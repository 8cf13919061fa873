"""Segments made by hand, for what must be exact: which slots are committed, how large it is."""

from __future__ import annotations

import struct
from pathlib import Path

from frostline import format as layout

HEADER_NAMES = [name for name, _, _ in layout.HEADER_FIELDS]


def header(kind: int, size: int, capacity: int, **values: int) -> bytearray:
    page = bytearray(layout.HEADER_SIZE)
    fields: dict[str, object] = dict.fromkeys(HEADER_NAMES, 0)
    fields |= {
        "magic": layout.MAGIC,
        "version": layout.VERSION,
        "header_size": layout.HEADER_SIZE,
        "regions": 1,
    }
    fields |= values
    struct.pack_into(layout.HEADER, page, 0, *(fields[name] for name in HEADER_NAMES))
    struct.pack_into(layout.REGION, page, layout.REGION_TABLE, kind, size, layout.HEADER_SIZE, capacity)
    return page


def write_passes(
    path: Path, passes: list[tuple[int, int, int, int]], capacity: int = 0, **values: int
) -> None:
    """A segment of passes: (start, stop, generation, flags) each."""
    capacity = capacity or len(passes)
    data = header(layout.REGION_PASSES, layout.PASS_SIZE, capacity, **values)
    names = [name for name, _, _ in layout.PASS_FIELDS]
    for slot, (start, stop, generation, flags) in enumerate(passes, 1):
        fields: dict[str, float] = dict.fromkeys(names, 0)
        fields |= {"start": start, "stop": stop, "generation": generation, "flags": flags}
        record = struct.pack(layout.PASS, *(fields[name] for name in names))
        data += record.ljust(layout.PASS_SIZE - 8, b"\0")[: layout.PASS_SIZE - 8] + slot.to_bytes(8, "little")
    data += bytes(layout.PASS_SIZE * (capacity - len(passes)))
    path.write_bytes(data)


def write_spans(path: Path, count: int, capacity: int = 0, **values: int) -> None:
    """A segment of spans that are all zero but for their commit words."""
    capacity = capacity or count
    data = header(layout.REGION_SPANS, layout.SPAN_SIZE, capacity, **values)
    for slot in range(1, capacity + 1):
        commit = slot if slot <= count else 0
        data += bytes(layout.SPAN_SIZE - 8) + commit.to_bytes(8, "little")
    path.write_bytes(data)
