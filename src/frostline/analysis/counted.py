"""Readings of the collector's counters, laid beside the passes: which of them say something exact (D4).

A reading lies between two passes if neither overlaps the moment of the read. Then it is what the
collector had from the end of the one to the start of the other, since nothing else changes these numbers.
Count 2 is in both, in the reading and in the record of the next pass: a reading that does not agree with
it is not believed, and where one in twenty does not, none is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from frostline import format as fmt
from frostline.recording import Series
from frostline.recording.layout import Array, Int64

#: Share of readings that may disagree with the record. A few do by right: a freeze sets count 2 to 0.
_DOUBTFUL = 0.05


@dataclass(frozen=True)
class Counted:
    """Readings in order: the pass that each stands before (the number of passes, after the last)."""

    at: Int64
    total: Int64
    pending: Int64
    #: Readings that were left out, since they do not agree with the record.
    doubted: int = 0

    def __len__(self) -> int:
        return len(self.at)


def none(doubted: int = 0) -> Counted:
    """Where nothing was read, or nothing can be believed."""
    empty = np.zeros(0, np.int64)
    return Counted(empty, empty, empty, doubted)


def counted(series: Series) -> Counted:
    """The readings of one series that can be believed."""
    readings, passes = series.counted, series.passes
    if not len(readings) or not len(passes):
        return none()
    at = np.searchsorted(passes["stop"], readings["before"], "right")
    start = np.append(passes["start"], np.iinfo(np.int64).max)
    between = readings["after"] < start[at]
    # The reading is the later one of two programs' where the record begins after it.
    expected = np.append(passes["count2"].astype(np.int64), _after_last(passes))
    agree = readings["count2"] == expected[at]
    agree |= _touched(series, readings, at)
    inside = int(np.count_nonzero(between))
    doubted = int(np.count_nonzero(between & ~agree))
    if doubted > max(1, _DOUBTFUL * inside):
        return none(doubted)
    good = between & agree
    return Counted(
        at[good].astype(np.int64),
        readings["total"][good].astype(np.int64),
        readings["pending"][good].astype(np.int64),
        doubted,
    )


def _after_last(passes: Array) -> int:
    last = passes[-1]
    return 0 if last["generation"] == 2 else int(last["count2"]) + int(last["generation"] == 1)


def _touched(series: Series, readings: Array, at: Int64) -> Array:
    """Readings with a freeze between them and the passes beside them: it sets count 2 to 0."""
    marks = np.array([m.time for m in series.marks if m.kind == fmt.MARK_FREEZE], np.int64)
    if not len(marks):
        return np.zeros(len(readings), bool)
    stop = np.concatenate((np.zeros(1, np.int64), series.passes["stop"]))
    start = np.append(series.passes["start"], np.iinfo(np.int64).max)
    found: Array = np.searchsorted(marks, stop[at]) != np.searchsorted(marks, start[at])
    return found
