"""Mutator utilisation: what of each window of time the collector leaves to the program.

MMU(w), Cheng and Blelloch 2001, is the least share of any window of length w. BMU(w), Sachindran,
Moss and Berger 2004, is the least MMU of any window of length w or more, so that a longer window
never looks worse than a shorter one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frostline.analysis.intervals import Union, union
from frostline.recording.layout import Array, Int64

Float64 = npt.NDArray[np.float64]

#: Windows of a curve, ns: from 1 ms to 100 s, ten to a factor of ten.
WINDOWS: Int64 = np.unique(np.rint(10 ** np.arange(6, 11.0001, 0.1)).astype(np.int64))


@dataclass(frozen=True)
class Curve:
    """MMU and BMU by window. NaN where the recording is shorter than the window."""

    windows: Int64
    mmu: Float64
    bmu: Float64

    def at(self, window: int) -> float | None:
        """BMU of the shortest window of the curve that is at least as long; None where it is not known."""
        i = int(np.searchsorted(self.windows, window))
        if i >= len(self.windows) or np.isnan(self.bmu[i]):
            return None
        return float(self.bmu[i])


#: Of more pauses than twice this, stretches in which no window can be the worst are ruled out first.
BINS = 8_192


def mmu(pauses: Union, start: int, stop: int, windows: Int64, bins: int = BINS) -> Float64:
    """MMU of each window length, exactly.

    The part of a window that pauses fill changes only in slope as the window slides, so its maximum
    lies where the window begins at a pause's start, or ends at a pause's end, or at an end of the time.

    Args:
        pauses: disjoint, in ns.
        start: first instant of the time looked at.
        stop: last instant.
        windows: lengths, ns, each at least 1.

    Returns:
        Shares from 0 to 1; NaN where ``stop - start`` is shorter than the window.
    """
    found = np.full(len(windows), np.nan)
    inside = np.minimum(pauses.stop, stop) - np.maximum(pauses.start, start)
    longest = int(inside.max()) if len(inside) else 0
    for i, window in enumerate(windows.tolist()):
        if window > stop - start:
            continue
        within = window <= longest
        paused = window if within else _most_paused(pauses, start, stop - window, window, bins)
        found[i] = (window - paused) / window
    return found


def _most_paused(pauses: Union, low: int, high: int, window: int, bins: int) -> int:
    """The most that pauses fill of any window that begins from ``low`` to ``high``."""
    few = len(pauses.start) <= 2 * bins
    edges = low + np.rint(np.linspace(0, high - low, 2 if few else bins + 1)).astype(np.int64)
    before, after = pauses.covered_until(edges), pauses.covered_until(edges + window)
    most = int((after - before).max())
    # No window that begins between two edges holds more than all from the one to the other's end.
    open_ = np.flatnonzero(after[1:] - before[:-1] > most)
    first, last = edges[open_], edges[open_ + 1]
    # What is paused up to a pause is known: one search a window is enough.
    i = _between(pauses.start, first, last)
    begun = pauses.covered_until(pauses.start[i] + window) - pauses.before[i]
    i = _between(pauses.stop, first + window, last + window)
    length = pauses.stop[i] - pauses.start[i]
    ended = pauses.before[i] + length - pauses.covered_until(pauses.stop[i] - window)
    return max(most, int(begun.max(initial=0)), int(ended.max(initial=0)))


def _between(values: Int64, low: Int64, high: Int64) -> Int64:
    """Indices of those of the rising values that lie in one of the stretches, ends included."""
    steps = np.zeros(len(values) + 1, np.int64)
    np.add.at(steps, np.searchsorted(values, low, "left"), 1)
    np.add.at(steps, np.searchsorted(values, high, "right"), -1)
    return np.flatnonzero(np.cumsum(steps[:-1]))


def curve(pauses: Union, start: int, stop: int, windows: Int64 = WINDOWS) -> Curve:
    """MMU, and BMU on the same windows (between two of them it is not looked)."""
    shares = mmu(pauses, start, stop, windows)
    known = np.where(np.isnan(shares), np.inf, shares)
    bounded = np.minimum.accumulate(known[::-1])[::-1]
    return Curve(windows, shares, np.where(np.isnan(shares), np.nan, bounded))


def of_several(pauses: Sequence[Union]) -> Union:
    """The times at which at least one of several processes stood still."""
    if not pauses:
        return union(np.zeros(0, np.int64), np.zeros(0, np.int64))
    return union(np.concatenate([one.start for one in pauses]), np.concatenate([one.stop for one in pauses]))


def per_hour(lengths: Array, limit: int, wall: int) -> float:
    """Pauses over ``limit`` ns, an hour of ``wall`` ns."""
    return float(np.count_nonzero(lengths > limit)) * 3_600e9 / max(1, wall)
