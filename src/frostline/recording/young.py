"""What a young pass does not say itself, since writing it would cost the host more than the pass.

Thresholds and "enabled" change seldom, and each change is a mark or shows in the next full pass:
what was last said holds. A thread's native id stands in its marks and in its full passes.
"""

from __future__ import annotations

import numpy as np

from frostline import format as fmt
from frostline.recording.layout import Array, Int64
from frostline.recording.model import Series


def fill_young(series: Series) -> None:
    """Fills thresholds, PASS_DISABLED and tid of the passes without PASS_FULL.

    ``threshold0`` is -1 where nothing in the recording says it; ``tid`` 0.
    """
    passes = series.passes
    full = (passes["flags"] & fmt.PASS_FULL) != 0
    young = np.flatnonzero(~full)
    if not len(young):
        return
    said: list[tuple[int, tuple[int, int, int]]] = []
    enabled: list[tuple[int, int]] = []
    tids = tids_of(series)
    for mark in series.marks:
        a, b, c, d, e = mark.values
        if mark.kind == fmt.MARK_STATE and a == 3:
            said.append((mark.time, (b, c, d)))
            enabled.append((mark.time, e))
        elif mark.kind == fmt.MARK_THRESHOLD:
            said.append((mark.time, (a, b, c)))
        elif mark.kind in (fmt.MARK_ENABLE, fmt.MARK_DISABLE):
            enabled.append((mark.time, int(mark.kind == fmt.MARK_ENABLE)))
    for i in np.flatnonzero(full):
        row = passes[i]
        thresholds = (int(row["threshold0"]), int(row["threshold1"]), int(row["threshold2"]))
        said.append((int(row["start"]), thresholds))
        enabled.append((int(row["start"]), int(not row["flags"] & fmt.PASS_DISABLED)))
    said.sort()
    enabled.sort()
    start: Int64 = passes["start"][young]
    at = np.searchsorted(np.array([time for time, _ in said], np.int64), start, "right")
    for k, name in enumerate(("threshold0", "threshold1", "threshold2")):
        values = np.array([-1, *(_small(thresholds[k]) for _, thresholds in said)], np.int32)
        passes[name][young] = values[at]
    at = np.searchsorted(np.array([time for time, _ in enabled], np.int64), start, "right")
    off = np.array([0, *(fmt.PASS_DISABLED if not on else 0 for _, on in enabled)], np.uint8)
    passes["flags"][young] |= off[at]
    passes["tid"][young] = tids[passes["thread"][young]]


def _small(value: int) -> int:
    return max(-(2**31), min(value, 2**31 - 1))


def tids_of(series: Series) -> Array:
    """Native thread id by the index that passes and spans hold; 0 where nothing says it."""
    tids = np.zeros(2**16, np.uint32)
    for mark in series.marks:
        if mark.tid and mark.thread in series.threads:
            tids[series.threads[mark.thread]] = mark.tid
    passes = series.passes
    full = passes[(passes["flags"] & fmt.PASS_FULL) != 0]
    tids[full["thread"]] = full["tid"]
    return tids
