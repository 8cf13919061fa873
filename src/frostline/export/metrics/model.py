"""One process, as metrics tell of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from frostline.recording.layout import Int64
from frostline.recording.tail import BOUNDS, CAUSES, COLLECTED, GENERATIONS, PAUSED, UNCOLLECTABLE

#: Upper bounds of a pause, seconds.
BOUNDS_S = tuple(bound / 1e9 for bound in BOUNDS)


@dataclass(frozen=True)
class Process:
    """A process of a session. ``counts`` as ``recording.tail`` has them.

    Attributes:
        name: as the report has it, without the pid.
        frozen: a freeze is in force in it.
        started: the recording began, ns since the epoch.
    """

    name: str
    pid: int
    python: str
    policy: str
    frozen: bool
    started: int
    lost: int
    counts: Int64


@dataclass(frozen=True)
class Told:
    """A session at one look.

    Attributes:
        missed: Python processes that were seen and are not recorded.
        damaged: files that cannot be read, or not as far as they should be.
    """

    processes: list[Process]
    missed: int
    damaged: int


@dataclass(frozen=True)
class Pauses:
    """Passes of one generation and cause. ``buckets`` are not cumulative; ``seconds`` their sum."""

    generation: int
    cause: str
    buckets: tuple[int, ...]
    seconds: float


def pauses(process: Process) -> Iterator[Pauses]:
    """By generation and cause; causes that never were are left out, but for the interpreter's own."""
    for generation in range(GENERATIONS):
        for number, cause in enumerate(CAUSES):
            row = process.counts[generation, number]
            buckets = tuple(row[: len(BOUNDS) + 1].tolist())
            if any(buckets) or number == len(CAUSES) - 1:
                yield Pauses(generation, cause, buckets, int(row[PAUSED]) / 1e9)


def collected(process: Process) -> list[int]:
    """Objects reclaimed, by generation."""
    return _by_generation(process, COLLECTED)


def uncollectable(process: Process) -> list[int]:
    """Objects found uncollectable, by generation; noted of full passes alone."""
    return _by_generation(process, UNCOLLECTABLE)


def _by_generation(process: Process, column: int) -> list[int]:
    total: Int64 = np.sum(process.counts[:, :, column], axis=1)
    return [int(value) for value in total.tolist()]
