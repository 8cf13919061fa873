"""Between CLOCK_MONOTONIC, on which everything is recorded, and the wall clock that other files are on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from frostline.errors import FrostlineError
from frostline.recording.layout import Array, Int64


@dataclass(frozen=True)
class Clock:
    """Unix time by interpolation between anchors: reads of both clocks at one instant.

    ``error`` is in ns: half of the widest bracket, and the largest step that the difference of the
    clocks makes between two neighbouring anchors (the wall clock is slewed, or set).
    """

    monotonic: Int64
    difference: Int64
    error: int

    def unix(self, times: Array) -> Int64:
        """ns since the epoch."""
        if len(self.monotonic) == 1:
            shifted: Int64 = np.asarray(times, np.int64) + self.difference[0]
            return shifted
        # Interpolated from the first anchor's difference: a float64 holds ns since the epoch to 256 only.
        drift = np.interp(times, self.monotonic, (self.difference - self.difference[0]).astype(np.float64))
        moved: Int64 = np.asarray(times, np.int64) + self.difference[0] + np.rint(drift).astype(np.int64)
        return moved

    def from_unix(self, times: Array) -> Int64:
        """The way back: CLOCK_MONOTONIC of ns since the epoch.

        Where the wall clock was set back, one of its times stands for two; ``error`` covers the step.
        """
        unix = np.asarray(times, np.int64)
        wall = np.maximum.accumulate(self.monotonic + self.difference)
        drift = np.interp(
            unix - wall[0], wall - wall[0], (self.difference - self.difference[0]).astype(float)
        )
        moved: Int64 = unix - self.difference[0] - np.rint(drift).astype(np.int64)
        return moved


def clock(anchors: Sequence[tuple[int, int, int]]) -> Clock:
    """The clock of a session.

    Args:
        anchors: (monotonic, realtime, half of the bracket) in ns, in order.

    Raises:
        FrostlineError: ``no-anchors``.
    """
    if not anchors:
        raise FrostlineError(
            "no-anchors",
            "the recording says nowhere how its clock stands to the wall clock",
            "Record again: every segment that Frostline writes has an anchor in its header.",
        )
    columns = np.array(anchors, np.int64)
    difference = columns[:, 1] - columns[:, 0]
    steps = int(np.abs(np.diff(difference)).max()) if len(anchors) > 1 else 0
    return Clock(columns[:, 0], difference, int(columns[:, 2].max()) + steps)
