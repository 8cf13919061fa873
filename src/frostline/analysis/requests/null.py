"""What chance would do: the passes shifted, and a closed loop's events as an open loop had seen them."""

from __future__ import annotations

import numpy as np

from frostline.analysis.intervals import Union
from frostline.analysis.requests.model import NEVER
from frostline.recording.layout import Int64

SHIFTS = 1_000
#: Slow ones that the null looks at; of more, these many, evenly spaced.
SAMPLED = 1_000


def shifted(
    start: Int64,
    stop: Int64,
    most: Int64,
    passes: Union,
    window: tuple[int, int],
    shifts: int = SHIFTS,
    seed: int = 0,
) -> tuple[float, float]:
    """The null: what the same passes cover if they are shifted circularly within the window.

    Args:
        start, stop: the slow items, inside the window.
        most: what counts of each at most, ns: its excess over the median.

    Returns:
        the mean share of ``most`` that is covered, and the share of shifts that cover as much as the
        passes where they are (with the one where they are counted in, so never 0; 1 of nothing).
    """
    if len(start) > SAMPLED:
        chosen = np.linspace(0, len(start) - 1, SAMPLED).astype(np.int64)
        start, stop, most = start[chosen], stop[chosen], most[chosen]
    length, wanted = window[1] - window[0], int(most.sum())
    covered = int(np.minimum(passes.overlap(start, stop), most).sum())
    if length <= 0 or not wanted:
        return 0.0, 1.0
    low = np.full(1, window[0], np.int64)
    before = int(passes.covered_until(low)[0])
    total = int(passes.covered_until(low + length)[0]) - before

    def until(at: Int64) -> Int64:
        rounds, rest = np.divmod(at - window[0], length)
        counted: Int64 = rounds * total + passes.covered_until(window[0] + rest) - before
        return counted

    as_much, found = 0, 0
    # The items are shifted, which is the same; all of one shift at once.
    for shift in np.random.default_rng(seed).integers(0, length, shifts).tolist():
        here = int(np.minimum(until(stop + shift) - until(start + shift), most).sum())
        found += here
        as_much += here >= covered
    return found / shifts / wanted, (as_much + 1) / (shifts + 1) if covered else 1.0


def metered(start: Int64, value: Int64, window: int | None) -> Int64:
    """DaCapo's metered latency: what an open loop would have seen of a closed loop's events.

    Each event is given a start on an even grid of the events that began within half a window of it
    (of all, if ``window`` is None), and counts from there if that is earlier (Blackburn and others,
    "Rethinking Java Performance Analysis", 2025).

    Args:
        start: in rising order, ns; ``value``: how long each took, ``NEVER`` for one without an end.
    """
    n = len(start)
    at = np.arange(n)
    if window is None:
        first, last = np.zeros(n, np.int64), np.full(n, n - 1)
    else:
        first = np.searchsorted(start, start - window // 2, "left")
        last = np.searchsorted(start, start + window // 2, "right") - 1
    interval = (start[last] - start[first]) / np.maximum(last - first, 1)
    planned = start[first] + np.rint((at - first) * interval).astype(np.int64)
    return np.where(value == NEVER, NEVER, np.maximum(value, value + (start - planned)))
