"""Segment files as the outside handles them: header, commit words, mailbox words.

Records are read by ``frostline.recording``; here only what moving and asking need.
"""

import mmap
import os
import re
import struct
from typing import NamedTuple

from frostline import format as layout
from frostline.reach import files

_NAME = re.compile(r"^([0-9]+)-([0-9]+)-([0-9]+)\.([0-9]+)" + re.escape(layout.SUFFIX) + r"$")
_HEADER = struct.Struct(layout.HEADER)
_HEADER_NAMES = [name for name, _, _ in layout.HEADER_FIELDS]
_REGION = struct.Struct(layout.REGION)


class Region(NamedTuple):
    """One entry of the region table."""

    kind: int
    record_size: int
    offset: int
    capacity: int

    def slots(self, size: int) -> range:
        """The slots that lie whole in a file of ``size`` bytes: a damaged table may promise any number."""
        if self.record_size < 8:
            return range(0)
        return range(max(0, min(self.capacity, (size - self.offset) // self.record_size)))


class SegmentName(NamedTuple):
    """What a segment's file name says."""

    pid: int
    series: int
    interpreter: int
    segment: int


class Header(NamedTuple):
    """What a segment's header says, as far as we use it."""

    version: int
    pid: int
    parent: int
    series: int
    segment: int
    interpreter: int
    pid_namespace: int
    process_start: int
    hexversion: int
    build: int
    regions: tuple[Region, ...]
    text: dict[str, list[str]]


def parse_name(name: str) -> "SegmentName | None":
    """The numbers in a segment's file name, None for another file."""
    found = _NAME.match(name)
    return SegmentName(*(int(part) for part in found.groups())) if found else None


def listing(folder: str) -> dict[SegmentName, str]:
    """The segments of a folder, oldest first; empty if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
    except OSError:
        return {}
    found = [(parsed, name) for name in names if (parsed := parse_name(name)) is not None]
    return {parsed: os.path.join(folder, name) for parsed, name in sorted(found)}


def runs(folder: str) -> list[str]:
    """The notes of each ``frostline run`` that writes, or wrote, into a session."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return [name for name in names if name.startswith("run-") and name.endswith(".json")]


def parse_header(page: bytes) -> "Header | None":
    """The header of a segment; None if it is unfinished, damaged or of another format."""
    if len(page) < layout.HEADER_SIZE or page[: len(layout.MAGIC)] != layout.MAGIC:
        return None
    value = dict(zip(_HEADER_NAMES, _HEADER.unpack_from(page), strict=True))
    if value["version"] != layout.VERSION or value["regions"] > layout.MAX_REGIONS:
        return None
    regions = tuple(
        Region(*_REGION.unpack_from(page, layout.REGION_TABLE + i * _REGION.size))
        for i in range(value["regions"])
    )
    text: dict[str, list[str]] = {}
    size = min(value["text_size"], layout.TEXT_SIZE)
    for line in page[layout.TEXT : layout.TEXT + size].decode("utf-8", "replace").splitlines():
        key, tab, content = line.partition("\t")
        if tab:
            text.setdefault(key, []).append(_unescaped(content))
    return Header(
        value["version"],
        value["pid"],
        value["parent"],
        value["series"],
        value["segment"],
        value["interpreter"],
        value["pid_namespace"],
        value["process_start"],
        value["hexversion"],
        value["build"],
        regions,
        text,
    )


def read_header(path: str) -> "Header | None":
    """The header of a segment file; None if it is not there or not readable as one."""
    try:
        return parse_header(files.read(path, layout.HEADER_SIZE))
    except OSError:
        return None


def read_words(path: str) -> "dict[str, int] | None":
    """The live words of a series' first segment; None if it is not there."""
    try:
        page = files.read(path, layout.HEADER_SIZE)
    except OSError:
        return None
    if parse_header(page) is None:
        return None
    count = len(layout.WORD_FIELDS)
    values = struct.unpack_from(f"<{count}Q", page, layout.WORDS)
    return {name: values[i] for i, (name, _) in enumerate(layout.WORD_FIELDS)}


def committed(data: "bytes | mmap.mmap", region: Region) -> int:
    """How many slots of a region hold a complete record."""
    size = region.record_size
    ends = (region.offset + size * (slot + 1) for slot in region.slots(len(data)))
    return sum(1 for end in ends if data[end - 8 : end] != b"\0\0\0\0\0\0\0\0")


def has_spans(path: str) -> bool:
    """Whether a series' first segment holds a span."""
    try:
        data = files.read(path, layout.FIRST_SEGMENT_SIZE)
    except OSError:
        return False
    header = parse_header(data[: layout.HEADER_SIZE])
    regions = header.regions if header is not None else ()
    for kind, size, offset, _ in regions:
        if kind == layout.REGION_SPANS and size >= 8 and offset + size <= len(data):
            return data[offset + size - 8 : offset + size] != b"\0\0\0\0\0\0\0\0"
    return False


def is_full(path: str) -> bool:
    """Whether every slot of every region of a segment is committed."""
    try:
        data = files.read(path)
    except OSError:
        return False
    header = parse_header(data[: layout.HEADER_SIZE])
    if header is None:
        return False
    return all(committed(data, region) == region.capacity for region in header.regions)


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    out, pending = [], False
    for character in text:
        if pending:
            out.append({"t": "\t", "n": "\n", "r": "\r"}.get(character, character))
            pending = False
        elif character == "\\":
            pending = True
        else:
            out.append(character)
    return "".join(out)


def size(path: str) -> int:
    """A file's size, 0 if it is not there."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
