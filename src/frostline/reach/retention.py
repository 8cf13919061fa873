"""The limit on what one process keeps: spans go first, then young passes; the rest never.

Only sealed segments are touched. What was dropped is counted, by series, for the report.
"""

import mmap
import os
import struct
from collections.abc import Iterator

from frostline import format as layout
from frostline.reach import files, segments
from frostline.reach.segments import Region, SegmentName

DEFAULT = 256 << 20
_PASS = struct.Struct(layout.PASS)
_PASS_NAMES = [name for name, _, _ in layout.PASS_FIELDS]
_START = _PASS_NAMES.index("start")
_STOP = _PASS_NAMES.index("stop")
_GENERATION = _PASS_NAMES.index("generation")
_FLAGS = _PASS_NAMES.index("flags")
_KEEP = layout.PASS_FULL | layout.PASS_FROSTLINE


class Retention:
    """Keeps each series under the limit."""

    def __init__(self, session: str, limit: int) -> None:
        self.session = session
        self.limit = limit
        #: "pid-series" -> what was dropped.
        self.dropped: dict[str, dict[str, int]] = {}
        self._compacted: set[SegmentName] = set()

    def apply(self, active: dict[SegmentName, str]) -> bool:
        """One look over the sealed segments. True if anything was dropped."""
        if self.limit <= 0:
            return False
        sealed = segments.listing(self.session)
        sizes: dict[tuple[int, int, int], int] = {}
        for name, path in [*sealed.items(), *active.items()]:
            sizes[name[:3]] = sizes.get(name[:3], 0) + segments.size(path)
        changed = False
        for series, total in sizes.items():
            if total > self.limit:
                mine = [(name, path) for name, path in sealed.items() if name[:3] == series]
                changed |= self._shrink(mine, total - self.limit)
        return changed

    def _shrink(self, members: list[tuple[SegmentName, str]], excess: int) -> bool:
        before = excess
        for kind, drop in ((layout.REGION_SPANS, self._drop), (layout.REGION_PASSES, self._compact)):
            for name, path in members:
                if excess <= 0:
                    return excess != before
                if name.segment == 0 or name in self._compacted:
                    continue
                header = segments.read_header(path)
                if header is not None and len(header.regions) == 1 and header.regions[0].kind == kind:
                    excess -= drop(name, path, header.regions[0])
        return excess != before

    def _count(self, name: SegmentName, what: str, number: int) -> None:
        entry = self.dropped.setdefault(f"{name.pid}-{name.series}", {"spans": 0, "young_passes": 0})
        entry[what] += number

    def _drop(self, name: SegmentName, path: str, region: Region) -> int:
        try:
            number = segments.committed(files.read(path), region)
            size = os.stat(path).st_size
            os.unlink(path)
        except OSError:
            return 0
        self._count(name, "spans", number)
        return size

    def _compact(self, name: SegmentName, path: str, region: Region) -> int:
        """Writes a segment of passes again with the full ones alone."""
        self._compacted.add(name)
        if region.record_size != layout.PASS_SIZE:
            return 0  # damaged: nothing that we understand
        try:
            data = files.read(path)
            kept, young = [], 0
            for record, fields in _records(data, region):
                if fields[_GENERATION] >= 2 or fields[_FLAGS] & _KEEP:
                    kept.append(record)
                else:
                    young += 1
            page = bytearray(data[: layout.HEADER_SIZE])
            entry = Region(region.kind, region.record_size, layout.HEADER_SIZE, len(kept))
            struct.pack_into(layout.REGION, page, layout.REGION_TABLE, *entry)
            for slot, record in enumerate(kept, 1):
                page += record[:-8] + slot.to_bytes(8, "little")
            temporary = f"{path}.{os.getpid()}"
            with open(temporary, "wb") as file:
                file.write(page)
            os.rename(temporary, path)
        except OSError:
            return 0
        self._count(name, "young_passes", young)
        return len(data) - len(page)


def allow(path: str, limit: int) -> None:
    """Tells a recorder how much it may have written in all, by its live words.

    The recorder stops at its limit, for the time when nobody takes anything away. What has been
    moved no longer counts: without this it would stop although there is room, and lose the full
    passes that the limit never drops.
    """
    try:
        with (
            os.fdopen(files.open_regular(path, os.O_RDWR), "r+b") as file,
            mmap.mmap(file.fileno(), layout.HEADER_SIZE) as page,
        ):
            words = memoryview(page).cast("Q")
            words[layout.WORD["retention"]] = limit
            words.release()
    except (OSError, ValueError):
        pass  # it has gone


def _records(data: "bytes | mmap.mmap", region: Region) -> "Iterator[tuple[bytes, tuple[int, ...]]]":
    for slot in region.slots(len(data)):
        at = region.offset + slot * region.record_size
        record = bytes(data[at : at + region.record_size])
        if len(record) == region.record_size and int.from_bytes(record[-8:], "little") == slot + 1:
            yield record, _PASS.unpack_from(record)


def longest_pass(path: str) -> int:
    """The longest pass in a segment, ns; 0 if it holds none."""
    try:
        data = files.read(path)
    except OSError:
        return 0
    header = segments.parse_header(data[: layout.HEADER_SIZE])
    if header is None:
        return 0
    found = 0
    for region in header.regions:
        if region.kind == layout.REGION_PASSES and region.record_size == layout.PASS_SIZE:
            for _, fields in _records(data, region):
                found = max(found, fields[_STOP] - fields[_START])
    return found
