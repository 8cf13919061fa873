"""Pause budgets: how often a process pauses for over so long, and what windows of time it keeps (MMU)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from frostline.analysis.intervals import Union
from frostline.analysis.utilisation import mmu, of_several, per_hour
from frostline.recording.layout import Int64

if TYPE_CHECKING:
    from frostline.analysis.model import ProcessReport
    from frostline.analysis.ranks import Rank

#: Pauses over these lengths are counted, ns.
LIMITS = tuple(ms * 1_000_000 for ms in (1, 5, 10, 20, 50, 100, 200, 500))
#: MMU is said of windows of these lengths, ns.
WINDOWS = (10_000_000, 100_000_000, 1_000_000_000, 10_000_000_000)
#: ns: a shorter recording is extrapolated where pauses an hour are told.
HOUR = 3_600_000_000_000


@dataclass(frozen=True)
class Budget:
    """Pauses of one process after its start-up, or of several together."""

    #: Empty for several: times at which at least one of them stood still.
    process: str
    #: Whose pauses are counted.
    of: tuple[str, ...]
    wall: int
    pauses: int
    #: Pauses over each of LIMITS, and the same an hour.
    over: tuple[int, ...]
    per_hour: tuple[float, ...]
    #: Least share of any window of each of WINDOWS that is left to the program; None where the time is
    #: shorter.
    mmu: tuple[float | None, ...]

    @property
    def extrapolated(self) -> bool:
        """It lasted under an hour."""
        return self.wall < HOUR


def since(process: ProcessReport) -> int:
    """From when on its pauses count: the end of start-up where that is known."""
    return process.serving if process.start < process.serving < process.stop else process.start


def budgets(processes: Sequence[ProcessReport], ranks: Sequence[Rank] = ()) -> tuple[Budget, ...]:
    """One entry for each process that paused, and one for all on the request's path together.

    Those are the processes whose work was recorded, and those that ranks are found to wait for: whoever
    waits for all of them waits whenever one stands still. Without any recorded work, all processes.
    """
    found = [
        _budget(p.name, (p.name,), p.pauses.union, p.pauses.start, p.pauses.length, since(p), p.stop)
        for p in processes
        if len(p.pauses.start)
    ]
    waited = {(c.session, c.process) for rank in ranks for c in rank.consistent if c.claimed}
    path = [p for p in processes if p.labels or (p.session, p.name) in waited] or list(processes)
    if len(path) > 1 and any(len(p.pauses.start) for p in path):
        both = of_several([p.pauses.union for p in path])
        start, stop = min(since(p) for p in path), max(p.stop for p in path)
        names = tuple(p.name for p in path)
        found.append(_budget("", names, both, both.start, both.stop - both.start, start, stop))
    return tuple(found)


def _budget(
    name: str, of: tuple[str, ...], paused: Union, begins: Int64, length: Int64, start: int, stop: int
) -> Budget:
    wall = max(1, stop - start)
    length = length[begins >= start]
    shares = mmu(paused, start, stop, np.array(WINDOWS, np.int64))
    return Budget(
        process=name,
        of=of,
        wall=wall,
        pauses=len(length),
        over=tuple(int(np.count_nonzero(length > limit)) for limit in LIMITS),
        per_hour=tuple(per_hour(length, limit, wall) for limit in LIMITS),
        mmu=tuple(None if np.isnan(share) else float(share) for share in shares),
    )
