"""Makes a large session without a target: ``make(folder, records)``."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np

from frostline import format as layout
from frostline.recording.layout import RECORD, Array

PROCESSES = 4
#: One record of twenty is a pass, unless told otherwise.
PASS_SHARE = 20
#: ns from one step to the next.
STEP = 5_000_000
START = 10**12
LABELS = ("step", "schedule", "execute_model")


def header(pid: int, series: int, segment: int, table: list[tuple[int, int, int, int]]) -> bytearray:
    raw = bytearray(layout.HEADER_SIZE)
    text = b"python\t3.11.7\nargv\tserver.py\nfrostline\tsynthetic\n"
    raw[layout.TEXT : layout.TEXT + len(text)] = text
    for number, entry in enumerate(table):
        struct.pack_into(layout.REGION, raw, layout.REGION_TABLE + 24 * number, *entry)
    struct.pack_into(
        layout.HEADER, raw, 0, layout.MAGIC, layout.VERSION, layout.HEADER_SIZE, pid, 1, series, segment,
        0, 1, 1, START, 1_800_000_000 * 10**9, 50, 0x030B07F0, 0, len(table), len(text),
    )  # fmt: skip
    if segment == 0:
        struct.pack_into("<Q", raw, 8 * layout.WORD["state"], layout.STATE_CLOSED)
        struct.pack_into("<Q", raw, 8 * layout.WORD["closed"], START + 10**15)
    return raw


def spans(first: int, many: int, dice: np.random.Generator) -> Array:
    """Steps of 5 ms, some slow; labels in turn."""
    rows: Array = np.zeros(many, RECORD[layout.REGION_SPANS])
    number = np.arange(first, first + many, dtype=np.uint64)
    length = dice.integers(3_000_000, 5_000_000, many).astype(np.uint64)
    length[dice.random(many) < 0.0005] = 120_000_000
    rows["start"] = np.uint64(START) + number * np.uint64(STEP)
    rows["stop"] = rows["start"] + length
    rows["thread"] = 140_000_000_000_000
    rows["label"] = 1 + number % np.uint64(len(LABELS))
    rows["kind"] = layout.SPAN_SYNC
    rows["value0"] = rows["value1"] = -1
    return rows


def pass_starts(number: Array, share: int) -> Array:
    """When the passes of these numbers start: spread over the time of the steps."""
    starts: Array = np.uint64(START) + number * np.uint64(STEP * (share - 1)) + np.uint64(1_000_000)
    return starts


def passes(first: int, many: int, dice: np.random.Generator, share: int = PASS_SHARE) -> Array:
    rows: Array = np.zeros(many, RECORD[layout.REGION_PASSES])
    number = np.arange(first, first + many, dtype=np.uint64)
    generation = np.where(number % 1000 == 999, 2, np.where(number % 11 == 10, 1, 0))
    rows["start"] = pass_starts(number, share)
    length = np.choose(generation, (50_000, 400_000, 110_000_000)) + dice.integers(0, 20_000, many)
    rows["stop"] = rows["start"] + length.astype(np.uint64)
    rows["thread"] = 140_000_000_000_000
    rows["generation"] = generation
    rows["count0"], rows["count1"], rows["count2"] = 701, np.where(generation > 0, 11, 3), 2
    full = generation == 2
    rows["flags"] = np.where(full, layout.PASS_FULL, 0)
    for name, value in (
        ("threshold0", 700),
        ("threshold1", 10),
        ("threshold2", 10),
        ("tid", 77),
        ("trigger_line", 9),
    ):
        rows[name] = np.where(full, value, 0)
    rows["candidates"], rows["duration"] = np.where(full, -1, 0), np.where(full, -1.0, 0.0)
    return rows


def write_segments(folder: Path, pid: int, kind: int, rows: Array, segment: int) -> int:
    """Segments of the largest size, as a long run has; returns the next segment's number."""
    size = rows.dtype.itemsize
    capacity = (layout.GROWN_SEGMENT_SIZES[-1] - layout.HEADER_SIZE) // size
    for first in range(0, len(rows), capacity):
        part = np.zeros(capacity, rows.dtype)
        some = rows[first : first + capacity]
        part[: len(some)] = some
        part["commit"][: len(some)] = np.arange(1, len(some) + 1)
        name = layout.segment_name(pid, START + pid, 0, segment)
        with (folder / name).open("wb") as file:
            file.write(header(pid, START + pid, segment, [(kind, size, layout.HEADER_SIZE, capacity)]))
            file.write(part.tobytes())
        segment += 1
    return segment


def make(folder: Path, records: int, share: int = PASS_SHARE) -> None:
    """A session of PROCESSES processes with ``records`` passes and spans in all, one of ``share`` a pass."""
    dice = np.random.default_rng(1)
    each = records // PROCESSES
    many_passes = each // share
    for process in range(PROCESSES):
        pid = 1000 + process
        names: Array = np.zeros(len(LABELS), RECORD[layout.REGION_NAMES])
        for number, text in enumerate(LABELS):
            names[number] = (number + 1, 0, len(text), text.encode(), number + 1)
        table = [(layout.REGION_NAMES, layout.NAME_SIZE, layout.HEADER_SIZE, len(LABELS))]
        first = folder / layout.segment_name(pid, START + pid, 0, 0)
        first.write_bytes(bytes(header(pid, START + pid, 0, table)) + names.tobytes())
        following = write_segments(folder, pid, layout.REGION_PASSES, passes(0, many_passes, dice, share), 1)
        write_segments(folder, pid, layout.REGION_SPANS, spans(0, each - many_passes, dice), following)
    note = {"frostline": "synthetic", "pid": 1000, "command": ["server.py"], "policy": "off", "cpus": 2}
    note |= {
        "started_monotonic_ns": START,
        "started_realtime_ns": 1_800_000_000 * 10**9,
        "boot_id": "",
        "host": "",
    }
    (folder / f"run-1000-{START}.json").write_text(json.dumps(note))
