"""Counts the passes of a session while it grows, for figures that are asked for again and again.

A segment that is finished is read once: what a look costs grows with the processes that live, and neither
with how long they have run nor with how much they have written. Nobody in the target is asked anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from frostline import format as fmt
from frostline.recording.layout import PASS, Array, Int64
from frostline.recording.loss import Losses
from frostline.recording.model import Key, Series
from frostline.recording.process import is_dead
from frostline.recording.segment import Segment, read_segment, records
from frostline.recording.series import Filled, TimeRange, add_passes, take_header
from frostline.recording.session import Files, find_files

#: Upper bounds of a pause, ns; above the last is one bucket more.
BOUNDS = (
    100_000, 500_000, 1_000_000, 5_000_000, 10_000_000, 20_000_000, 50_000_000, 100_000_000, 200_000_000,
    500_000_000, 1_000_000_000, 2_000_000_000, 5_000_000_000,
)  # fmt: skip
GENERATIONS = 3
#: Why a pass ran, as far as the recorder saw it: a call of ``gc.collect()``, Frostline's own, and the rest
#: (thresholds, or C code that asks for it).
EXPLICIT, FROSTLINE, OTHER = range(3)
CAUSES = ("explicit", "frostline", "other")
#: Columns of a row: pauses by bucket, then their sum (ns), objects reclaimed, and objects uncollectable.
PAUSED, COLLECTED, UNCOLLECTABLE = range(len(BOUNDS) + 1, len(BOUNDS) + 4)
COLUMNS = len(BOUNDS) + 4


def nothing() -> Int64:
    """Counts of no pass: generation x cause x column."""
    return np.zeros((GENERATIONS, len(CAUSES), COLUMNS), np.int64)


@dataclass
class Counted:
    """One series as it is now.

    Attributes:
        paths: its segments that are there, in order.
        header: of its first segment; empty where that cannot be read.
        counts: generation x cause x column. None of it ever falls.
        lost: passes that the recorder saw and could not write.
        dead: the process is certainly gone.
    """

    key: Key
    paths: list[Path] = field(default_factory=list)
    header: dict[str, int] = field(default_factory=dict)
    counts: Int64 = field(default_factory=nothing)
    lost: int = 0
    dead: bool = False
    #: Of its files, those that cannot be read, or not as far as they should be.
    damaged: set[str] = field(default_factory=set)
    #: Of finished segments, and their names.
    sealed: Int64 = field(default_factory=nothing)
    finished: set[str] = field(default_factory=set)


class Tail:
    """A session that is looked at again and again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[Key, Counted] = {}
        self._absent: set[Key] = set()

    def look(self) -> list[Counted]:
        """Each series as it is now; what cannot be read is as it was.

        A series without a file is gone at the second look: one that is moved between two listings is in none.

        Raises:
            FrostlineError: ``session-unreadable``.
        """
        files = find_files(self.folder, Losses())
        absent = self._known.keys() - files.by_series.keys()
        for key in self._absent & absent:
            del self._known[key]
        self._absent = absent - self._absent
        for key, paths in files.by_series.items():
            self._count(self._known.setdefault(key, Counted(key)), sorted(paths), files)
        return [self._known[key] for key in sorted(self._known)]

    def _count(self, known: Counted, paths: list[Path], files: Files) -> None:
        known.paths = paths
        if known.dead and known.finished.issuperset(path.name for path in paths):
            return  # there will be no more of it: a folder that many runs have written into costs a listing
        now = nothing()
        for path in paths:
            if path.name in known.finished and path is not paths[0]:
                continue
            found = self._read(known, path, files)
            if found is None:
                continue
            segment, counts, whole = found
            if segment.number == 0:
                self._first(known, segment)
            if path.name in known.finished:
                continue
            if whole or not segment.live:
                known.sealed += counts
                known.finished.add(path.name)
            else:
                now += counts
        # A file that is moved while it is read is missing in one look.
        known.counts = np.maximum(known.counts, known.sealed + now)

    def _read(self, known: Counted, path: Path, files: Files) -> tuple[Segment, Int64, bool] | None:
        """A segment and its counts. One that is moved meanwhile is read where it has been moved to: what it
        leaves is emptied before it goes.
        """
        live = files.active is not None and path.parent == files.active
        moved = self.folder / path.name
        while True:
            here = live and not moved.exists()
            losses = Losses()
            try:
                segment = read_segment(path if here else moved, losses, here)
            except FileNotFoundError:
                segment = None
            counts, whole = nothing(), False
            if segment is not None and path.name not in known.finished:
                counts, whole = count(segment)
            if here and moved.exists():
                continue
            if losses.items:
                known.damaged.add(path.name)
            return None if segment is None else (segment, counts, whole)

    def _first(self, known: Counted, segment: Segment) -> None:
        known.header = segment.header
        known.lost = max(known.lost, segment.words.get("lost_passes", 0))
        process = (segment.pid, segment.header["process_start"], segment.header["pid_namespace"])
        known.dead = known.dead or is_dead(*process)


def count(segment: Segment) -> tuple[Int64, bool]:
    """Counts of one segment's passes, and whether it can get no more: each slot for a pass is filled."""
    counts, whole = nothing(), True
    series = Series(segment.pid, segment.series, segment.interpreter)
    take_header(series, segment)
    sane = TimeRange(series)
    for region in segment.regions:
        if region.kind != fmt.REGION_PASSES:
            continue
        there = 0
        try:
            for piece in records(segment, region):
                there += len(piece.records) + piece.damaged
                passes, filled = np.zeros(len(piece.records), PASS), Filled()
                add_passes(passes, filled, piece.records, sane, {})
                counts += _of(passes[: filled.passes])
        except OSError:
            whole = False
        whole = whole and there == region.capacity
    return counts, whole


def _of(passes: Array) -> Int64:
    """Pauses as ``analysis.passes`` has them: from *start* to where *stop* reached the last callback."""
    end = np.where(passes["end"] > 0, passes["end"], passes["stop"])
    pause: Int64 = end - passes["start"]
    flags = passes["flags"]
    cause = np.where(
        flags & fmt.PASS_FROSTLINE, FROSTLINE, np.where(flags & fmt.PASS_EXPLICIT, EXPLICIT, OTHER)
    )
    counts = nothing()
    generation = passes["generation"].astype(np.intp)
    bucket = np.searchsorted(np.array(BOUNDS), pause)
    for column, values in (
        (bucket, 1),
        (PAUSED, pause),
        (COLLECTED, passes["collected"].astype(np.int64)),
        (UNCOLLECTABLE, passes["uncollectable"].astype(np.int64)),
    ):
        place: Any = (generation, cause, column)
        np.add.at(counts, place, values)
    return counts
