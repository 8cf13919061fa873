"""What a recording says of a stretch of time, by the role of the processes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from frostline.analysis import Analysis, ProcessReport, analyse
from frostline.reach.sealing import seal_dead
from frostline.recording import read_session


@dataclass(frozen=True)
class Pauses:
    """Of the processes of one role in the window.

    Attributes:
        processes: how many there were.
        pause_s: seconds in passes of any generation, as the processes felt them, cut to the window.
        full, longest_ms: passes of the oldest generation that ended in it, and the longest.
        walked: objects that these walked, as far as is known (an estimate before 3.15, rather too high).
        unknown: full passes of which nothing sound is known.
        python: CPython's version there; several with a comma.
    """

    role: str
    processes: int
    pause_s: float
    full: int
    longest_ms: float
    walked: int
    unknown: int
    python: str = ""


def measure(path: Path, window: tuple[int, int]) -> tuple[Pauses, ...]:
    """Reads a session that has ended.

    Args:
        window: ns of CLOCK_MONOTONIC.
    """
    seal_dead(str(path))
    return of_analysis(analyse(read_session(path)), window)


def of_analysis(analysis: Analysis, window: tuple[int, int] | None = None) -> tuple[Pauses, ...]:
    """The same of what is read already; of all of it without a window."""
    by_role: dict[str, list[ProcessReport]] = {}
    for process in analysis.processes:
        by_role.setdefault(process.role, []).append(process)
    found = window or (analysis.start, analysis.stop)
    return tuple(_role(role, by_role[role], found) for role in sorted(by_role))


def _role(role: str, processes: Iterable[ProcessReport], window: tuple[int, int]) -> Pauses:
    begun, ended = window
    many = full = walked = unknown = 0
    pause = longest = 0
    versions = set()
    for process in processes:
        versions.add(process.python)
        many += process.start < ended and process.stop > begun
        pauses = process.pauses
        inside = np.minimum(pauses.stop, ended) - np.maximum(pauses.start, begun)
        pause += int(inside[inside > 0].sum())
        oldest = (process.series.passes["generation"] == 2) & (pauses.stop >= begun) & (pauses.stop <= ended)
        full += int(oldest.sum())
        longest = max(longest, int(pauses.length[oldest].max(initial=0)))
        said = pauses.heap.walked[oldest]
        walked += int(said[said >= 0].sum())
        unknown += int((said < 0).sum())
    return Pauses(role, many, pause / 1e9, full, longest / 1e6, walked, unknown, ", ".join(sorted(versions)))
