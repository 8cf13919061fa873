"""Read one segment file. Nothing in it is trusted: not its size, its tables nor its times.

Files are read, not mapped: somebody who truncates a mapped file kills the reader (SIGBUS).
"""

from __future__ import annotations

import os
import re
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from frostline import format as fmt
from frostline.recording.layout import RECORD, RECORD_SIZE, Array
from frostline.recording.loss import Losses
from frostline.recording.process import is_alive

FILE_NAME = re.compile(r"^(\d{1,10})-(\d{1,20})-(\d{1,10})\.(\d{4,8})" + re.escape(fmt.SUFFIX) + "$")
#: The writer's largest segment is 1 MiB. What is far larger is not ours, or damaged.
MAX_SEGMENT_BYTES = 64 * 1024 * 1024
#: Read a region in pieces of this many bytes: a sparse giant costs time, not memory.
PIECE = 1024 * 1024

_NAMES = [name for name, _, _ in fmt.HEADER_FIELDS]
_WORD_NAMES = [name for name, _ in fmt.WORD_FIELDS]
_SIGNED_WORDS = {"arg0", "arg1", "arg2", "result"}


@dataclass(frozen=True)
class Region:
    kind: int
    offset: int
    capacity: int


@dataclass(frozen=True)
class Segment:
    """Header of one segment; its records are read by :func:`records`."""

    path: Path
    size: int
    #: Live means that the writer may still be adding to it.
    live: bool
    pid: int
    series: int
    interpreter: int
    number: int
    header: dict[str, int]
    text: dict[str, tuple[str, ...]]
    words: dict[str, int]
    regions: tuple[Region, ...]


def open_file(path: Path) -> int:
    """A descriptor for a regular file; never follows a link, never blocks on a pipe."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError("not a regular file")
    return descriptor


def read_segment(path: Path, losses: Losses, live: bool = False) -> Segment | None:
    """The segment at ``path``, or None with the reason in ``losses``.

    Raises:
        FileNotFoundError: it was moved meanwhile; the caller looks where sealed files are.
    """
    named = FILE_NAME.match(path.name)
    pid, series = (int(named[1]), int(named[2])) if named else (0, 0)
    try:
        descriptor = open_file(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        losses.add("segment-unreadable", f"cannot read this file: {reason}", path, 0, pid, series)
        return None
    try:
        size = os.fstat(descriptor).st_size
        head = os.pread(descriptor, fmt.HEADER_SIZE, 0)
    except OSError as error:
        losses.add("segment-unreadable", f"cannot read this file: {error.strerror}", path, 0, pid, series)
        return None
    finally:
        os.close(descriptor)
    problem = _problem_of(head)
    if problem is not None:
        slug, message = problem
        if slug == "segment-unfinished" and live:
            return None  # being created just now
        losses.add(slug, message, path, 0, pid, series)
        return None
    values = struct.unpack_from(fmt.HEADER, head)
    header = {name: value for name, value in zip(_NAMES, values, strict=True) if name != "magic"}
    if named:
        known = (int(named[1]), int(named[2]), int(named[3]), int(named[4]))
        said = (header["pid"], header["series"], header["interpreter"], header["segment"])
        if known != said:
            message = "the header contradicts the file's name, which is believed"
            losses.add("segment-header", message, path, 0, pid, series)
        pid, series, interpreter, number = known
    else:
        pid, series = header["pid"], header["series"]
        interpreter, number = header["interpreter"], header["segment"]
    regions = _regions(head, header, size, path, losses, pid, series)
    return Segment(
        path=path,
        size=size,
        # Without a tmpfs a living process writes into the session folder itself.
        live=live or is_alive(header["pid"], header["process_start"], header["pid_namespace"]),
        pid=pid,
        series=series,
        interpreter=interpreter,
        number=number,
        header=header,
        text=_text(head, header["text_size"]),
        words=_words(head) if number == 0 else {},
        regions=regions,
    )


def _problem_of(head: bytes) -> tuple[str, str] | None:
    if not head:
        return "segment-empty", "the file is empty"
    if len(head) >= 8 and head[:8] == bytes(8):
        return "segment-unfinished", "the header was never finished: its process died while opening it"
    if head[:8] != fmt.MAGIC:
        return "segment-foreign", "this is not a Frostline segment (wrong magic)"
    if len(head) < fmt.HEADER_SIZE:
        return "segment-short", f"only {len(head)} bytes are left, less than a header"
    (version,) = struct.unpack_from("<I", head, 8)
    if version != fmt.VERSION:
        return (
            "segment-version",
            f"its format has version {version}, this Frostline reads version {fmt.VERSION}: "
            "read it with the Frostline that wrote it",
        )
    return None


def _regions(
    head: bytes, header: dict[str, int], size: int, path: Path, losses: Losses, pid: int, series: int
) -> tuple[Region, ...]:
    found: list[Region] = []
    count = header["regions"]
    if count > fmt.MAX_REGIONS:
        losses.add("segment-header", f"claims {count} regions", path, 0, pid, series)
        count = fmt.MAX_REGIONS
    step = struct.calcsize(fmt.REGION)
    used: list[tuple[int, int]] = []
    for i in range(count):
        kind, record_size, offset, capacity = struct.unpack_from(
            fmt.REGION, head, fmt.REGION_TABLE + i * step
        )
        label = fmt.REGION_LABELS.get(kind)
        if label is None or record_size != RECORD_SIZE[kind] or offset < fmt.HEADER_SIZE or offset % 8:
            message = f"entry {i} of the region table makes no sense: that region is lost"
            losses.add("region-damaged", message, path, 0, pid, series)
            continue
        fits = max(0, (min(size, MAX_SEGMENT_BYTES) - offset) // record_size)
        if capacity > fits:
            message = f"{label}: {capacity} slots claimed, the file holds {fits}: cut short or damaged"
            losses.add("region-short", message, path, 0, pid, series)
            capacity = fits
        end = offset + capacity * record_size
        if any(offset < other_end and other < end for other, other_end in used):
            losses.add("region-damaged", f"{label}: lies over another region: lost", path, 0, pid, series)
            continue
        if capacity:
            used.append((offset, end))
            found.append(Region(kind, offset, capacity))
    return tuple(found)


def _text(head: bytes, used: int) -> dict[str, tuple[str, ...]]:
    area = head[fmt.TEXT : fmt.TEXT + min(used, fmt.TEXT_SIZE)].decode("utf-8", "replace")
    text: dict[str, tuple[str, ...]] = {}
    for line in area.split("\n"):
        key, tab, value = line.partition("\t")
        if tab:
            text[key] = (*text.get(key, ()), unescape(value))
    return text


def unescape(value: str) -> str:
    r"""Undo the text area's escapes: ``\\``, ``\t``, ``\n``."""
    if "\\" not in value:
        return value
    out: list[str] = []
    rest = iter(value)
    for character in rest:
        if character == "\\":
            following = next(rest, "")
            out.append({"t": "\t", "n": "\n", "r": "\r"}.get(following, following))
        else:
            out.append(character)
    return "".join(out)


def _words(head: bytes) -> dict[str, int]:
    words: dict[str, int] = {}
    for i, name in enumerate(_WORD_NAMES):
        code = "<q" if name in _SIGNED_WORDS else "<Q"
        (words[name],) = struct.unpack_from(code, head, fmt.WORDS + 8 * i)
    return words


@dataclass(frozen=True)
class Piece:
    """Committed records of a part of a region, in slot order."""

    records: Array
    #: Slots without a record before a committed one: unfinished, or lost with their writer.
    holes: int
    #: Slots whose commit word is neither 0 nor their own.
    damaged: int


def records(segment: Segment, region: Region) -> Iterator[Piece]:
    """The committed records of one region. Trusts only commit words.

    A live segment is read twice and the commit words of the *first* reading count: a record
    committed between the two halves of one copy would otherwise be taken with old bytes.
    """
    dtype: np.dtype[Any] = RECORD[region.kind]
    per_piece = max(1, PIECE // dtype.itemsize)
    descriptor = open_file(segment.path)
    pending_holes = 0
    try:
        for first in range(0, region.capacity, per_piece):
            slots = min(per_piece, region.capacity - first)
            at = region.offset + first * dtype.itemsize
            raw = os.pread(descriptor, slots * dtype.itemsize, at)
            slots = len(raw) // dtype.itemsize
            if not slots:
                return
            found: Array = np.frombuffer(raw, dtype, slots)
            commit = found["commit"]
            good = commit == np.arange(first + 1, first + slots + 1, dtype=np.uint64)
            if segment.live:
                again = os.pread(descriptor, slots * dtype.itemsize, at)
                if len(again) == len(raw):
                    found = np.frombuffer(again, dtype, slots)
            count = int(np.count_nonzero(good))
            damaged = int(np.count_nonzero(commit)) - count
            holes = 0
            if count or damaged:
                last = int(np.flatnonzero(commit)[-1])
                holes = pending_holes + last + 1 - count - damaged
                pending_holes = slots - last - 1
            else:
                pending_holes += slots
            yield Piece(found if count == slots else found[good], holes, damaged)
    finally:
        os.close(descriptor)
