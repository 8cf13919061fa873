"""CPython's generational collector in a few lines, its own numbers known: what ``pending`` must find out."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from frostline.format import counts
from tests.synthetic import Process

T0, T1, T2 = 700, 10, 10


@dataclass
class Collector:
    """Writes the passes that it makes; ``truth`` has (total, pending) before each, as it was."""

    process: Process
    old: int = 0
    count1: int = 0
    count2: int = 0
    total: int = 0
    pending: int = 0
    at: int = 1_000_000
    truth: list[tuple[int, int]] = field(default_factory=list)
    #: (pass before which, before, after, count2, total, pending)
    readings: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)

    def young(self, survivors: int, net: int = T0 + 1, wait: int = 1_000_000) -> int:
        """One trigger: the pass that is due, if of gen 1 it leaves ``survivors``. Returns its generation."""
        generation = 1 if self.count1 > T1 else 0
        if self.count2 > T2 and self.pending >= self.total // 4:
            generation = 2
        self.truth.append((self.total, self.pending))
        took = (
            20_000
            if generation == 0
            else 1000 + 40 * survivors
            if generation == 1
            else 60 * (self.old + 1000)
        )
        self.process.add_pass(
            self.at,
            took,
            generation=generation,
            count0=net,
            count1=self.count1,
            count2=self.count2,
            threshold0=T0,
            threshold1=T1,
            threshold2=T2,
        )
        self.at += took + wait
        if generation == 0:
            self.count1 += 1
        elif generation == 1:
            self.count1, self.count2 = 0, self.count2 + 1
            self.pending += survivors
            self.old += survivors
        else:
            self.count1 = self.count2 = 0
            self.total, self.pending = self.old, 0
        return generation

    def read(self) -> None:
        """What the helper would read now: in the middle of the wait before the next pass."""
        when = self.process.opened + self.at - 500_000
        self.readings.append((len(self.truth), when, when + 10_000, self.count2, self.total, self.pending))

    def write(self, folder: Path) -> None:
        self.process.write(folder)
        if self.readings:
            write_counts(folder, self.process, self.readings)


def write_counts(
    folder: Path, process: Process, readings: Iterable[tuple[int, int, int, int, int, int]]
) -> Path:
    """A file as the helper writes it."""
    path = folder / f"{counts.PREFIX}7-1{counts.SUFFIX}"
    body = b"".join(
        struct.pack(
            counts.RECORD, before, after, process.process_start, process.pid, 5, 0, count2, total, pending
        )
        for _, before, after, count2, total, pending in readings
    )
    path.write_bytes(counts.MAGIC + body)
    return path
