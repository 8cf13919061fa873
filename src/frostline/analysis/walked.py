"""How many objects a pass walked: said by the interpreter, soundly estimated, or unknown.

Before 3.15 the interpreter does not say. What it does count is *net* container allocations:
``gc.get_count()[0]`` at "start". So:

* A gen-0 pass walks what was allocated and not freed since the pass before: count0.
* A gen-1 pass walks count0 and what the gen-0 passes since the last older pass left over.
* A full pass walks all that is tracked and not frozen. Where recording began with the
  interpreter, the sum of all net allocations less all reclaimed is that; a fork inherits its
  parent's sum; freeze sets it to nothing, thaw gives it back; a freeze that was counted
  corrects it. Deaths while count0 is zero are not counted by CPython, so a program that churns
  is overestimated; an estimate which would mean that the collector walked faster than any
  does (under so many ns an object) is discarded as unsound, and "unknown" is said; what it was too
  high by is taken off all that follow. That CPython starts a full pass only when what gen-1 passes
  have left is a quarter of the last one bounds nothing: of those survivors only net growth is known,
  and where a new object replaces an old one there are many more (a quarter of what was walked was
  printed as "at most" by that rule).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from frostline import format as fmt
from frostline.recording import Series
from frostline.recording.layout import Array, Int64

#: ns an object, by generation: 45-90 was measured for full passes, 20 for young ones in the cache.
FASTEST = np.array((5, 5, 12), np.int64)
#: A recording that missed at most this many young passes saw the interpreter from its start.
FEW_PASSES_BEFORE = 40

HOW_EXACT = "as the interpreter says"
HOW_YOUNG = "net container allocations, from gc.get_count() at the pass's start"
HOW_FULL = (
    "net container allocations since the interpreter started, less what was reclaimed and frozen "
    "(at most: deaths are not all counted)"
)


@dataclass(frozen=True)
class HeapModel:
    """Walked objects of each pass (-1 unknown), whether exact, and the heap size at any time."""

    walked: Int64
    exact: Array
    #: When passes ended, and net growth up to then: None where the heap's size is unknown.
    stops: Int64 | None = None
    grown: Int64 | None = None
    #: (time, what to add to the growth from then on, objects frozen from then on), in order.
    shifts: tuple[tuple[int, int, int], ...] = ()

    def at(self, time: int) -> tuple[int, int] | None:
        """(tracked and not frozen, frozen by the host or us) at an instant; None if unknown."""
        if self.stops is None or self.grown is None:
            return None
        i = int(np.searchsorted(self.stops, time, "right")) - 1
        _, offset, frozen = next(shift for shift in reversed(self.shifts) if shift[0] <= time)
        return max(0, (int(self.grown[i]) if i >= 0 else 0) + offset), frozen


def heap_model(series: Series, parent: HeapModel | None, alone: Int64) -> HeapModel:
    """Estimates for one series; ``alone`` is each pass's own time in ns, for the check."""
    passes = series.passes
    n = len(passes)
    walked = np.full(n, -1, np.int64)
    candidates = passes["candidates"]
    exact = candidates >= 0
    walked[exact] = candidates[exact]
    empty = np.zeros(0, np.int64)
    incremental = (3, 14, 0) <= series.version < (3, 14, 5)
    if series.free_threaded or incremental or not series.hexversion:
        return HeapModel(walked, exact)

    count0 = np.maximum(passes["count0"], 0).astype(np.int64)
    collected = passes["collected"]
    generation = passes["generation"]
    grown = np.cumsum(count0 - collected)
    before = np.concatenate((np.zeros(1, np.int64), grown[:-1])) if n else empty

    young = (generation == 0) & ~exact
    walked[young] = count0[young]
    # For a gen-1 pass: what the passes since the last pass of gen 1 or 2 left.
    older = np.flatnonzero(generation >= 1)
    middle = np.flatnonzero((generation == 1) & ~exact)
    place = np.searchsorted(older, middle) - 1
    since = np.where(place >= 0, grown[older[np.maximum(place, 0)]] if len(older) else 0, 0)
    reached = place >= 0 if not from_start(series) else np.ones(len(middle), bool)
    estimate = count0[middle] + np.maximum(before[middle] - since, 0)
    walked[middle[reached]] = estimate[reached]

    base = _base(series, parent)
    lost = series.words.get("lost_passes", 0) + series.damaged.get("passes", 0)
    lost += series.dropped_passes
    if lost:
        walked = _corrected_by_freeze(series, walked, exact)
        walked = _plausible(walked, exact, alone, generation)
        return HeapModel(walked, exact)
    full = np.flatnonzero((generation == 2) & ~exact)
    shifts = _freezes(series, base or (0, 0), grown)
    start = passes["start"][full]
    size = np.maximum(0, before[full] + count0[full] + _offsets(shifts, start))
    if base is None:
        # Nothing is known of what was there before; at a freeze the sum begins anew, at 0.
        size[~_since_freeze(series, start)] = -1
    walked[full] = _tightened(size, start, alone[full], [at for at, _, _ in shifts[1:]])
    walked = _corrected_by_freeze(series, walked, exact)
    walked = _plausible(walked, exact, alone, generation)
    if base is None:
        return HeapModel(walked, exact)
    return HeapModel(walked, exact, passes["stop"], grown, shifts)


def _since_freeze(series: Series, times: Int64) -> Array:
    """Which instants lie after a freeze that was not thawed again."""
    marks = [m for m in series.marks if m.kind in (fmt.MARK_FREEZE, fmt.MARK_THAW)]
    if not marks:
        return np.zeros(len(times), bool)
    last = np.searchsorted(np.array([m.stop for m in marks], np.int64), times, "right") - 1
    froze = np.array([m.kind == fmt.MARK_FREEZE for m in marks], bool)
    found: Array = (last >= 0) & froze[np.maximum(last, 0)]
    return found


def _tightened(size: Int64, start: Int64, alone: Int64, shifts: list[int]) -> Int64:
    """What a pass was too quick to have walked was not there: nor is it in what came later.

    CPython does not count the deaths of what outlived its first pass, so the sum only ever grows;
    each quick pass takes the excess off again, up to the next freeze or thaw.
    """
    bound = alone // FASTEST[2]
    epoch = np.searchsorted(np.array(shifts, np.int64), start, "right")
    found: Int64 = size.copy()
    excess, at = 0, -1
    for i in range(len(size)):
        if epoch[i] != at:
            excess, at = 0, int(epoch[i])
        if size[i] < 0:
            continue
        value = max(0, int(size[i]) - excess)
        if value > 1000 and value > bound[i]:
            excess += value - int(bound[i])
            value = -1
        found[i] = value
    return found


def _plausible(walked: Int64, exact: Array, alone: Int64, generation: Array) -> Int64:
    """Drops estimates that no collector could have walked in the time the pass took."""
    too_fast = ~exact & (walked > 1000) & (walked * FASTEST[generation] > alone)
    return np.where(too_fast, -1, walked)


def from_start(series: Series) -> bool:
    """Whether almost nothing happened in the interpreter before the recording."""
    for mark in series.marks:
        if mark.kind == fmt.MARK_FORKED:
            return False
        if mark.kind == fmt.MARK_STATE and not mark.flags & fmt.MARK_FLAG_CLOSING and mark.values[0] == 0:
            return mark.values[1] <= FEW_PASSES_BEFORE
    return False


def _base(series: Series, parent: HeapModel | None) -> tuple[int, int] | None:
    """(objects tracked, objects frozen) when the series began, or None if unknown."""
    if any(mark.kind == fmt.MARK_FORKED for mark in series.marks):
        return parent.at(series.series) if parent is not None else None
    return _counted(series) or ((0, 0) if from_start(series) else None)


def _counted(series: Series) -> tuple[int, int] | None:
    """The same from what was counted at attach, less what the first pass's count 0 will add again."""
    attached = next((mark for mark in series.marks if mark.kind == fmt.MARK_ATTACH), None)
    if attached is None or attached.values[1] <= 0:
        return None
    state: dict[int, tuple[int, ...]] = {}
    for mark in series.marks:  # the first of each: the same is written at close
        if mark.kind == fmt.MARK_STATE and mark.time >= attached.time:
            state.setdefault(mark.values[0], mark.values)
    if 0 not in state or 4 not in state or state[0][4] < 0:
        return None
    return max(0, attached.values[1] - 1 - state[0][4]), max(0, state[4][1])


def _freezes(series: Series, base: tuple[int, int], grown: Int64) -> tuple[tuple[int, int, int], ...]:
    """What to add to net growth, and what is frozen, from the start and from each freeze and thaw on."""
    offset, frozen = base
    shifts = [(0, offset, frozen)]
    for mark in series.marks:
        if mark.kind not in (fmt.MARK_FREEZE, fmt.MARK_THAW):
            continue
        i = int(np.searchsorted(series.passes["start"], mark.time, "right")) - 1
        live = max(0, (int(grown[i]) if i >= 0 else 0) + offset)
        if mark.kind == fmt.MARK_FREEZE:
            counted = mark.values[0]
            frozen = counted if counted >= 0 else frozen + live
            offset -= live
        else:
            offset += frozen
            frozen = 0
        shifts.append((mark.stop, offset, frozen))
    return tuple(shifts)


def _offsets(shifts: tuple[tuple[int, int, int], ...], times: Int64) -> Int64:
    values = np.array([value for _, value, _ in shifts], np.int64)
    at = np.array([time for time, _, _ in shifts[1:]], np.int64)
    return values[np.searchsorted(at, times, "right")]


def _corrected_by_freeze(series: Series, walked: Int64, exact: Array) -> Int64:
    """A counted freeze right after a full pass says exactly what that pass left."""
    passes = series.passes
    frozen = 0
    for mark in series.marks:
        if mark.kind == fmt.MARK_THAW:
            frozen = 0
        if mark.kind != fmt.MARK_FREEZE or mark.values[0] < 0:
            continue
        i = int(np.searchsorted(passes["start"], mark.time, "right")) - 1
        if i >= 0 and passes["generation"][i] == 2 and not exact[i]:
            walked[i] = mark.values[0] - frozen + int(passes["collected"][i])
        frozen = mark.values[0]
    return walked
