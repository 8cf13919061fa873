"""Why each full pass started, and when the next one will (D4).

The generational collector takes the oldest generation whose count is over its threshold, and the
oldest only if the survivors of gen-1 passes since the last full pass (pending) are a quarter of what
that one left (total). Both follow from the record: a gen-1 pass adds what it walked less what it
reclaimed to pending, a full pass sets total to that and pending to 0. A freeze changes neither, but
sets the counts to 0.

What is known of the two, and how, is in ``pending``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from frostline import format as fmt
from frostline.analysis.counted import counted
from frostline.analysis.pauses import Pauses
from frostline.analysis.pending import State, states
from frostline.recording import Series
from frostline.recording.layout import Array, Int64

QUARTER = "quarter rule"
THRESHOLD = "threshold 2"
INCREMENT = "increment"
WHOLE = "whole heap in every pass"
#: Weight of the last interval, in what a gen-1 pass leaves.
_NEW = 0.5
#: A change of it by this much is another load, not chance.
_CHANGED = 1.3
#: ns at the end of the recording from which the rate of allocation is taken.
_RECENT = 60_000_000_000


@dataclass(frozen=True)
class Forecast:
    """The next full pass of one process, as its own counts have it at the end of the recording.

    Attributes:
        allocations: net container allocations until it starts; 0 where it is due.
        seconds: the same by the recent rate of allocation, None where there was none.
        rule: what it waits for, QUARTER or THRESHOLD.
        error: median relative error of the same forecast at the full passes before; None where none was.
        tried: how many those are.
        right: full passes called at the stop before, of ``called`` so called and ``came`` that came.
        read: times that the interpreter's own numbers were read, from outside; 0 where the record is all
            there is.
    """

    allocations: int
    seconds: float | None
    rule: str
    error: float | None
    tried: int
    right: int
    called: int
    came: int
    read: int = 0


def forecast(series: Series, pauses: Pauses) -> Forecast | None:
    """When the next full pass of a series comes; None where its counts cannot say."""
    passes = series.passes
    if series.free_threaded or _incremental(series) or not len(passes):
        return None
    state = states(series, pauses, counted(series), held_back(series, pauses))
    return _forecast(series, pauses, state, np.flatnonzero(passes["generation"] == 2))


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


def held_back(series: Series, pauses: Pauses) -> Array:
    """By pass: an automatic full one that threshold 2 alone would have let by earlier."""
    passes = series.passes
    full: Array = pauses.automatic & (passes["generation"] == 2)
    return full & (passes["count2"] > passes["threshold2"] + 1)


def _to_next(
    total: int,
    pending: int,
    each: int,
    count2: int,
    thresholds: tuple[int, int, int],
    period: int,
    even: bool,
) -> tuple[int, str]:
    """(net allocations to the next full pass, the rule that it waits for), from ``docs/report.md``.

    ``even``: what a gen-1 pass leaves varies so much that the number of them is not to be rounded up.
    """
    period = period or (thresholds[1] + 2) * (thresholds[0] + 1)
    by_count = max(0, thresholds[2] + 1 - count2)
    lacking = max(0, total // 4 - pending)
    by_quarter = -(-lacking // max(1, each))
    if by_quarter <= by_count:
        return by_count * period + thresholds[0] + 1, THRESHOLD
    passes = lacking / max(1, each) + 0.5 if even else by_quarter
    return int(passes * period) + thresholds[0] + 1, QUARTER


def _thresholds(row: Array) -> tuple[int, int, int]:
    return int(row["threshold0"]), int(row["threshold1"]), int(row["threshold2"])


def _forecast(series: Series, pauses: Pauses, state: State, full: Int64) -> Forecast | None:
    passes = series.passes
    right, called, came = _called(series, pauses, state)
    errors, even, usual = _errors(series, pauses, state, full)
    if not len(full) or state.total[-1] < 0 or state.pending[-1] < 0:
        return None
    last = passes[-1]
    thresholds = _thresholds(last)
    if min(thresholds[0], thresholds[2]) < 0 or thresholds[0] == 0:
        return None  # unknown, or the collector never starts by itself
    each = state.since if state.since > 0 else usual
    if each <= 0:
        return None
    count2 = 0 if last["generation"] == 2 else int(last["count2"]) + int(last["generation"] == 1)
    frozen_since = any(
        mark.kind in (fmt.MARK_FREEZE, fmt.MARK_THAW) and mark.time > int(last["stop"])
        for mark in series.marks
    )
    allocations, rule = _to_next(
        int(state.total[-1]),
        int(state.pending[-1]),
        each,
        0 if frozen_since else count2,
        thresholds,
        _period(passes, int(full[-1]), len(passes)) or _period(passes, 0, int(full[-1])),
        even,
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
        read=state.read,
    )


def _period(passes: Array, low: int, high: int) -> int:
    """Net container allocations from one gen-1 pass to the next, mean of those between two passes; 0 if none.

    By the thresholds it is (threshold 1 + 2)(threshold 0 + 1). But from 3.12 on a pass waits for the end
    of the C call that allocates, and a large ``json.loads`` makes many thresholds' worth in one.
    """
    middle = np.flatnonzero(passes["generation"][low + 1 : high] == 1)
    if not len(middle):
        return 0
    made = passes["count0"][low + 1 : low + 2 + int(middle[-1])]
    return int(np.maximum(made, 0).sum(dtype=np.int64)) // len(middle)


def _seconds(passes: Array, allocations: int) -> float | None:
    """``allocations`` by the rate since the pass that came before the last minute of them.

    From a pass on, not from the minute's first: what that one counts was allocated before it, which of a
    process that idles is most of it.
    """
    stop = int(passes["stop"][-1])
    first = max(1, int(np.argmax(passes["start"] >= stop - _RECENT)))
    since = int(passes["stop"][first - 1])
    made = int(np.maximum(passes["count0"][first:], 0).sum())
    return allocations * (stop - since) / made / 1e9 if made > 0 and stop > since else None


def _called(series: Series, pauses: Pauses, state: State) -> tuple[int, int, int]:
    """(rightly called, called, came): whether the counts before each automatic pass called it a full one."""
    passes = series.passes
    known = pauses.automatic & (state.total[:-1] >= 0) & (state.pending[:-1] >= 0)
    says = known & (passes["count2"] > passes["threshold2"]) & (state.pending[:-1] >= state.total[:-1] // 4)
    came = known & (passes["generation"] == 2)
    return int(np.count_nonzero(says & came)), int(np.count_nonzero(says)), int(np.count_nonzero(came))


def _errors(series: Series, pauses: Pauses, state: State, full: Int64) -> tuple[list[float], bool, int]:
    """The forecast made at each full pass, where the next came by itself undisturbed.

    Returns:
        Their relative errors; whether the number of gen-1 passes had better not been rounded up; what a
        gen-1 pass leaves by the last intervals, 0 if that is not known.
    """
    passes = series.passes
    disturbed = np.array(
        [m.time for m in series.marks if m.kind in (fmt.MARK_FREEZE, fmt.MARK_THAW, fmt.MARK_THRESHOLD)],
        np.int64,
    )
    older = np.flatnonzero(passes["generation"] >= 1)
    errors: list[float] = []
    # Of the two ways to count gen-1 passes: what each has been off by.
    off = {False: 0.0, True: 0.0}
    usual = 0.0
    starts = [0, *full.tolist()]
    for before, at, following in zip(starts, full.tolist(), [*full[1:].tolist(), -1], strict=False):
        each = int(state.survivors[at])
        if each > 0:
            same = usual / _CHANGED < each < usual * _CHANGED
            # From the record alone total is off by more and more, and so is what is left of it: no mean.
            usual = _NEW * each + (1 - _NEW) * usual if same and state.read else float(each)
        if following < 0 or not pauses.automatic[following] or each <= 0 or state.total[at + 1] < 0:
            continue
        low, high = int(passes["start"][at]), int(passes["start"][following])
        if bool(np.any((disturbed >= low) & (disturbed <= high))):
            continue
        # As soon as its total could be read: before the next older pass.
        total = int(state.total[older[np.searchsorted(older, at) + 1]])
        period = _period(passes, before, at)
        made = int(passes["count0"][at + 1 : following + 1].sum(dtype=np.int64))
        wrong = {}
        for even in (False, True):
            said, _ = _to_next(total, 0, int(usual), 0, _thresholds(passes[at]), period, even)
            wrong[even] = abs(said - made) / max(1, made)
        errors.append(wrong[off[True] < off[False]])
        for even in (False, True):
            off[even] += min(1.0, wrong[even])
    return errors, off[True] < off[False], int(usual)
