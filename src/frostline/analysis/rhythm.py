"""Whether full passes come sooner as the load grows, and why that is the quarter rule's doing (C7).

A full pass that the quarter rule has held back comes when gen-1 passes have left a quarter of what the
last full pass left. How long that takes is a matter of how fast objects are made. So under more load the
period shrinks, although nothing else has changed; seen from outside it looks like pauses that grow worse.

It is stated where it is there: the load has to have changed, and the period to have followed it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from frostline import format as fmt
from frostline.analysis.pauses import Pauses
from frostline.analysis.triggers import held_back
from frostline.recording import Series
from frostline.recording.layout import Array, Int64

#: Full passes needed, and how much more load the busiest quarter of them must have had than the quietest.
FEW, LOADED = 8, 1.3
#: Rank correlation of load and period from which one follows the other: for 8 intervals, p < 0.01 by chance.
FOLLOWS = -0.85


@dataclass(frozen=True)
class Rhythm:
    """The period of full passes where it shrank as load grew, in one process.

    Attributes:
        intervals: from one full pass that the quarter rule held back to the next.
        quiet, busy: median period of the quarter of them with the least and with the most load, ns.
        quiet_rate, busy_rate: their load, net container allocations a second, median.
        correlation: rank correlation of load and period.
    """

    intervals: int
    quiet: int
    busy: int
    quiet_rate: float
    busy_rate: float
    correlation: float


def rhythm(series: Series, pauses: Pauses) -> Rhythm | None:
    """The signature of C7 in one series; None where it is not there, or cannot be told."""
    passes = series.passes
    if series.free_threaded or (3, 14, 0) <= series.version < (3, 14, 5) or not len(passes):
        return None
    full = np.flatnonzero(passes["generation"] == 2)
    if len(full) < FEW:
        return None
    made = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.maximum(passes["count0"], 0), dtype=np.int64)))
    start: Int64 = passes["start"][full]
    period = np.diff(start)
    allocated = made[full[1:] + 1] - made[full[:-1] + 1]
    counts = held_back(series, pauses)[full[1:]] & (period > 0) & (allocated > 0) & ~_disturbed(series, start)
    if int(np.count_nonzero(counts)) < FEW:
        return None
    period, allocated = period[counts], allocated[counts]
    rate = allocated / (period / 1e9)
    order = np.argsort(rate, kind="stable")
    some = max(2, len(order) // 4)
    quiet, busy = order[:some], order[-some:]
    quiet_rate, busy_rate = float(np.median(rate[quiet])), float(np.median(rate[busy]))
    shorter, longer = int(np.median(period[busy])), int(np.median(period[quiet]))
    correlation = _ranked(rate, period)
    if busy_rate < LOADED * quiet_rate or longer < LOADED * shorter or correlation > FOLLOWS:
        return None
    return Rhythm(len(order), longer, shorter, quiet_rate, busy_rate, correlation)


def _disturbed(series: Series, start: Int64) -> Array:
    """Intervals in which somebody froze, thawed or changed thresholds: the period is theirs."""
    kinds = (fmt.MARK_FREEZE, fmt.MARK_THAW, fmt.MARK_THRESHOLD)
    marks = np.array([m.time for m in series.marks if m.kind in kinds], np.int64)
    place = np.searchsorted(marks, start)
    found: Array = place[1:] != place[:-1]
    return found


def _ranked(one: Array, other: Array) -> float:
    """Spearman's rank correlation."""
    first, second = (np.argsort(np.argsort(values, kind="stable"), kind="stable") for values in (one, other))
    return float(np.corrcoef(first, second)[0, 1])
