"""Reads what targets wrote. Counts only what the commit words say is complete."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from frostline import format as layout
from frostline.recording.layout import RECORD, Array
from frostline.recording.loss import Losses
from frostline.recording.segment import Segment, read_segment, records


def segments(folder: Path) -> list[Segment]:
    """The segments of a session, in the order of their numbers."""
    losses = Losses()
    found = []
    for place in (folder, folder / "active"):
        for path in sorted(place.glob("*" + layout.SUFFIX)):
            segment = read_segment(path, losses)
            if segment is not None:
                found.append(segment)
    return sorted(found, key=lambda segment: (segment.series, segment.number))


def all_records(parts: list[Segment], kind: int) -> tuple[Array, int, int]:
    """Records of one kind as they stand in the files, empty slots before them, damaged slots."""
    found: list[Array] = []
    holes = damaged = 0
    for segment in parts:
        for region in segment.regions:
            if region.kind == kind:
                for piece in records(segment, region):
                    found.append(piece.records)
                    holes += piece.holes
                    damaged += piece.damaged
    return (np.concatenate(found) if found else np.empty(0, RECORD[kind])), holes, damaged
