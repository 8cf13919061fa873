"""Why each full pass started, and when the next one will (D4).

The generational collector takes the oldest generation whose count is over its threshold, and the
oldest only if the survivors of gen-1 passes since the last full pass (pending) are a quarter of what
that one left (total). Both follow from the record: a gen-1 pass adds what it walked less what it
reclaimed to pending, a full pass sets total to that and pending to 0. A freeze changes neither, but
sets the counts to 0.

What a gen-1 pass walked is known as net growth only, which is too little where new objects replace
old ones. But a full pass that the quarter rule let through says what pending was, to one gen-1 pass:
where the sum does not agree with that, it is scaled so that it does, from there on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from frostline import format as fmt
from frostline.analysis.pauses import Pauses
from frostline.analysis.walked import from_start
from frostline.recording import Series
from frostline.recording.layout import Array, Int64

QUARTER = "quarter rule"
THRESHOLD = "threshold 2"
INCREMENT = "increment"
WHOLE = "whole heap in every pass"
#: ns at the end of the recording from which the rate of allocation is taken.
_RECENT = 60_000_000_000
_UNKNOWN = -1


@dataclass(frozen=True)
class Forecast:
    """The next full pass of one process, as its own counts have it at the end of the recording.

    Attributes:
        allocations: net container allocations until it starts; 0 where it is due.
        seconds: the same by the recent rate of allocation, None where there was none.
        rule: what it waits for, QUARTER or THRESHOLD.
        error: median relative error of the same forecast at the full passes before; None where none was.
        tried: how many those are.
        right: full passes that the counts at the pass before said would come next, of ``called`` so called
            and ``came`` that came.
    """

    allocations: int
    seconds: float | None
    rule: str
    error: float | None
    tried: int
    right: int
    called: int
    came: int


@dataclass(frozen=True)
class _State:
    """CPython's two numbers before each pass, and after the last; -1 unknown. One longer than the passes."""

    total: Int64
    pending: Int64
    #: Survivors of gen-1 passes, mean of the interval before each full pass; -1 unknown. By pass.
    survivors: Int64


def forecast(series: Series, pauses: Pauses) -> Forecast | None:
    """When the next full pass of a series comes; None where its counts cannot say."""
    passes = series.passes
    if series.free_threaded or _incremental(series) or not len(passes):
        return None
    return _forecast(series, pauses, _states(series, pauses), np.flatnonzero(passes["generation"] == 2))


def reason(series: Series, pauses: Pauses, i: int) -> str:
    """Why pass ``i`` started, if it started by itself: what its counts and the build say."""
    if series.free_threaded:
        return WHOLE
    row = series.passes[i]
    if not pauses.automatic[i]:
        return ""
    if _incremental(series):
        return INCREMENT
    if row["generation"] != 2:
        return f"threshold {int(row['generation'])}"
    # Over by more than one: it was let by, since pending was too small.
    return QUARTER if row["count2"] > row["threshold2"] + 1 else THRESHOLD


def _incremental(series: Series) -> bool:
    return (3, 14, 0) <= series.version < (3, 14, 5)


def _states(series: Series, pauses: Pauses) -> _State:
    passes = series.passes
    n = len(passes)
    total = np.full(n + 1, _UNKNOWN, np.int64)
    pending = np.full(n + 1, _UNKNOWN, np.int64)
    survivors = np.full(n, _UNKNOWN, np.int64)
    walked = pauses.heap.walked
    # Seen from its start, an interpreter has had no full pass: both are 0.
    now_total, now_pending = (0, 0.0) if from_start(series) else (_UNKNOWN, float(_UNKNOWN))
    count = 0
    scale = 1.0
    at = 0
    for i in np.flatnonzero(passes["generation"] >= 1).tolist():
        total[at : i + 1] = now_total
        pending[at : i + 1] = int(now_pending)
        first, at = at, i + 1
        left = max(0, int(walked[i]) - int(passes["collected"][i])) if walked[i] >= 0 else _UNKNOWN
        if passes["generation"][i] == 2:
            if count and now_pending > 0:
                correction = _correction(reason(series, pauses, i), now_total, now_pending, count)
                scale *= correction
                survivors[i] = int(now_pending * correction / count)
            now_total, now_pending, count = left, 0.0, 0
        else:
            count += 1
            quarter = now_total // 4
            over = passes["count2"][i] > passes["threshold2"][i] and bool(pauses.automatic[i])
            if over and now_pending >= quarter > 0:
                # It was passed over for this one, or a young one before it: pending was smaller.
                scale *= (quarter - 1) / now_pending
                now_pending = float(quarter - 1)
                pending[first + 1 : i + 1] = quarter - 1
            now_pending = now_pending + left * scale if now_pending >= 0 and left >= 0 else float(_UNKNOWN)
    total[at:] = now_total
    pending[at:] = int(now_pending)
    return _State(total, pending, survivors)


def _correction(why: str, total: int, pending: float, count: int) -> float:
    """What pending is to be multiplied by, so that it agrees with the full pass that came now."""
    quarter = total // 4
    if why == QUARTER:
        if quarter <= pending <= quarter + 2 * pending / count:
            return 1.0
        return quarter * count / (count - 0.5) / pending  # it was enough now, and not a gen-1 pass before
    if why == THRESHOLD and pending < quarter:
        return quarter / pending
    return 1.0


def _to_next(
    total: int, pending: int, each: int, count2: int, thresholds: tuple[int, int, int]
) -> tuple[int, str]:
    """(net allocations to the next full pass, the rule that it waits for), from ``docs/report.md``."""
    period = (thresholds[1] + 2) * (thresholds[0] + 1)
    by_count = max(0, thresholds[2] + 1 - count2)
    lacking = max(0, total // 4 - pending)
    by_quarter = -(-lacking // max(1, each))
    rule = QUARTER if by_quarter > by_count else THRESHOLD
    return max(by_count, by_quarter) * period + thresholds[0] + 1, rule


def _thresholds(row: Array) -> tuple[int, int, int]:
    return int(row["threshold0"]), int(row["threshold1"]), int(row["threshold2"])


def _forecast(series: Series, pauses: Pauses, state: _State, full: Int64) -> Forecast | None:
    passes = series.passes
    right, called, came = _called(series, pauses, state)
    errors = _errors(series, pauses, state, full)
    if not len(full) or state.total[-1] < 0 or state.pending[-1] < 0:
        return None
    last = passes[-1]
    thresholds = _thresholds(last)
    if min(thresholds[0], thresholds[2]) < 0 or thresholds[0] == 0:
        return None  # unknown, or the collector never starts by itself
    each = _each(passes, state, full)
    if each <= 0:
        return None
    count2 = 0 if last["generation"] == 2 else int(last["count2"]) + int(last["generation"] == 1)
    frozen_since = any(
        mark.kind in (fmt.MARK_FREEZE, fmt.MARK_THAW) and mark.time > int(last["stop"])
        for mark in series.marks
    )
    allocations, rule = _to_next(
        int(state.total[-1]), int(state.pending[-1]), each, 0 if frozen_since else count2, thresholds
    )
    return Forecast(
        allocations=allocations,
        seconds=_seconds(passes, allocations),
        rule=rule,
        error=float(np.median(errors)) if errors else None,
        tried=len(errors),
        right=right,
        called=called,
        came=came,
    )


def _each(passes: Array, state: _State, full: Int64) -> int:
    """Survivors of a gen-1 pass: since the last full pass if there were some, else before it."""
    since = int(np.count_nonzero(passes["generation"][full[-1] + 1 :] == 1))
    if since:
        return int(state.pending[-1]) // since
    return int(state.survivors[full[-1]])


def _seconds(passes: Array, allocations: int) -> float | None:
    stop = int(passes["stop"][-1])
    recent = passes["start"] >= stop - _RECENT
    first = int(passes["start"][int(np.argmax(recent))])
    made = int(np.maximum(passes["count0"][recent], 0).sum())
    return allocations * (stop - first) / made / 1e9 if made > 0 and stop > first else None


def _called(series: Series, pauses: Pauses, state: _State) -> tuple[int, int, int]:
    """(rightly called, called, came): whether the counts before each automatic pass called it a full one."""
    passes = series.passes
    known = pauses.automatic & (state.total[:-1] >= 0) & (state.pending[:-1] >= 0)
    says = known & (passes["count2"] > passes["threshold2"]) & (state.pending[:-1] >= state.total[:-1] // 4)
    came = known & (passes["generation"] == 2)
    return int(np.count_nonzero(says & came)), int(np.count_nonzero(says)), int(np.count_nonzero(came))


def _errors(series: Series, pauses: Pauses, state: _State, full: Int64) -> list[float]:
    """Relative errors of the forecast made at each full pass, where the next came by itself undisturbed."""
    passes = series.passes
    disturbed = np.array(
        [m.time for m in series.marks if m.kind in (fmt.MARK_FREEZE, fmt.MARK_THAW, fmt.MARK_THRESHOLD)],
        np.int64,
    )
    errors = []
    for at, following in zip(full[:-1].tolist(), full[1:].tolist(), strict=True):
        each = int(state.survivors[at])
        if not pauses.automatic[following] or each <= 0 or state.total[at + 1] < 0:
            continue
        low, high = int(passes["start"][at]), int(passes["start"][following])
        if bool(np.any((disturbed >= low) & (disturbed <= high))):
            continue
        said, _ = _to_next(int(state.total[at + 1]), 0, each, 0, _thresholds(passes[at]))
        made = int(passes["count0"][at + 1 : following + 1].sum(dtype=np.int64))
        errors.append(abs(said - made) / max(1, made))
    return errors
