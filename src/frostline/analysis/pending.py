"""What CPython's quarter rule compares, before each pass: read where it was, else estimated (D4).

*total* is what the last full pass left, *pending* what gen-1 passes have left since. Both are exact where
the helper has read them (``counted``). From there on, and where nothing was read, each gen-1 pass adds
what it is thought to have left. Three ways of thinking are tried side by side, each scaled by what is
learnt on the way, and the one that has been nearest so far is used:

* what the pass walked less what it reclaimed: exact in 3.15, net growth elsewhere;
* as much as any other gen-1 pass;
* in proportion to how long it took.

What teaches them: a reading; a full pass that the quarter rule let through (pending had reached a quarter
of total, and not a gen-1 pass before); and a pass that was *not* full although count 2 asked for it (it
had not). Nothing is used before it was known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from frostline.analysis.counted import Counted
from frostline.analysis.pauses import Pauses
from frostline.analysis.walked import from_start
from frostline.recording import Series
from frostline.recording.layout import Array, Int64

_UNKNOWN = -1
#: Weight of what was known before at each new reading, and at each full pass or pass that was not full.
_KEEP_READING, _KEEP_RULE = 0.9, 0.3
#: Quarters that are taken to be there where threshold 2 let a full pass by at once, and the estimate says
#: less than one. With just one, a heap that grows would have the next called too late each time.
_ENOUGH = 1.5
#: Of the errors so far.
_KEEP_ERROR = 0.8
#: A pass that took this many times the mean of those before was preempted.
_PREEMPTED = 4.0


@dataclass(frozen=True)
class State:
    """CPython's two numbers before each pass, and after the last; -1 unknown. One longer than the passes."""

    total: Int64
    pending: Int64
    #: Survivors of gen-1 passes, mean of the interval before each full pass; -1 unknown. By pass.
    survivors: Int64
    #: The same since the last full pass, at the end; -1 if there was none.
    since: int
    #: Readings that were used.
    read: int


class _Expert:
    """One way to say what a gen-1 pass left: so much for each unit of something that is in the record."""

    def __init__(self, units: Array, unknown: Array, rate: float, error: float) -> None:
        """Args:
        units: of each older pass, 0 of full ones.
        unknown: which of them are not known.
        rate: survivors a unit to begin with, 0 if only learning tells.
        error: its relative error to begin with: which one is tried first.
        """
        zero = np.zeros(1)
        self._units = np.concatenate((zero, np.cumsum(np.where(unknown, 0, units))))
        self._unknown = np.concatenate((zero, np.cumsum(unknown)))
        self._sum, self._of = rate, 1.0 if rate else 0.0
        self.error = error

    @property
    def rate(self) -> float:
        return self._sum / self._of if self._of > 0 else 0.0

    def knows(self, since: int, until: int) -> bool:
        return bool(self.rate > 0 and self._unknown[until] == self._unknown[since])

    def left(self, since: int, until: int) -> float:
        return float(self.rate * (self._units[until] - self._units[since]))

    def curve(self, since: int, until: int) -> Array:
        """What was left from ``since`` on, after each of the passes up to ``until``."""
        found: Array = self.rate * (self._units[since : until + 1] - self._units[since])
        return found

    def learn(self, since: int, until: int, survivors: float, keep: float) -> None:
        units = float(self._units[until] - self._units[since])
        if units <= 0 or self._unknown[until] != self._unknown[since]:
            return
        if self.rate > 0:
            wrong = min(1.0, abs(self.rate * units - survivors) / max(1.0, survivors))
            self.error = _KEEP_ERROR * self.error + (1 - _KEEP_ERROR) * wrong
        self._sum = keep * self._sum + survivors
        self._of = keep * self._of + units


def _unhurried(took: Int64, middle: Array) -> Array:
    """How long each gen-1 pass took, ns, less what it stood still; 0 for full ones."""
    own = np.where(middle, took, 0).astype(np.float64)
    before = np.cumsum(own) - own
    passes = np.cumsum(middle) - middle
    most = np.where(passes > 0, _PREEMPTED * before / np.maximum(passes, 1), np.inf)
    found: Array = np.minimum(own, most)
    return found


class _Walk:
    """One walk over the older passes. *Segment* s: the passes that start after s older ones, before s + 1."""

    def __init__(self, series: Series, pauses: Pauses, counted: Counted, quarter: Array) -> None:
        passes = series.passes
        n = len(passes)
        generation = passes["generation"]
        self.older = np.flatnonzero(generation >= 1)
        count = len(self.older)
        self.middle = generation[self.older] == 1
        self.full = np.flatnonzero(~self.middle)
        self.by_quarter = quarter[self.older]
        #: First and last state of each segment, as numbers of passes.
        self.low = np.concatenate((np.zeros(1, np.int64), self.older + 1))
        self.high = np.append(self.older, n)
        asked = pauses.automatic & (passes["count2"] > passes["threshold2"])
        self.refused = np.flatnonzero(asked & (generation < 2))
        segments = np.searchsorted(self.older, counted.at, "left")
        self.segments, first = np.unique(segments, return_index=True)
        self.at = counted.at[first]
        self.total_read, self.pending_read = counted.total[first], counted.pending[first]
        walked, reclaimed = pauses.heap.walked[self.older], passes["collected"][self.older]
        self.left = np.where(walked >= 0, np.maximum(walked - reclaimed, 0), _UNKNOWN)
        took = _unhurried(pauses.alone[self.older], self.middle)
        known = np.zeros(count, bool)
        self.experts = (
            _Expert(np.where(self.middle, self.left, 0), self.middle & (self.left < 0), 1.0, 0.2),
            _Expert(self.middle.astype(np.float64), known, 0.0, 0.25),
            _Expert(took, known, 0.0, 0.3),
        )
        self.count = np.concatenate((np.zeros(1, np.int64), np.cumsum(self.middle)))
        self.state_total = np.full(n + 1, _UNKNOWN, np.int64)
        self.state_pending = np.full(n + 1, _UNKNOWN, np.int64)
        self.survivors = np.full(n, _UNKNOWN, np.int64)
        # Seen from its start, an interpreter has had no full pass: both are 0.
        self.total = 0 if from_start(series) else _UNKNOWN
        self.base = 0.0 if self.total == 0 else float(_UNKNOWN)
        #: The segment from which ``base`` counts; the last exact value, and its segment.
        self.origin = 0
        self.exact = (self.base, 0)
        #: What the last full pass left by the estimate, and how much of that it was where it was read.
        self.estimated, self.ratio = 0, 1.0
        #: Passes in this interval that were not full although we had said so.
        self.wrong = 0

    def run(self) -> None:
        ends = len(self.older)
        segment, low = 0, 0
        next_reading = next_full = 0
        while True:
            full = int(self.full[next_full]) if next_full < len(self.full) else ends
            reading = int(self.segments[next_reading]) if next_reading < len(self.segments) else ends + 1
            until = min(full, reading)
            expert = self._best(self.origin, until)
            stopped = self._fill(segment, low, until, expert, reading == until)
            if stopped is not None:
                segment, low = stopped
                continue
            if reading == until:
                self._read(next_reading)
                next_reading += 1
            if until == ends:
                return
            if until == full:
                self._full(full, exactly=reading == until)
                next_full += 1
            segment, low = until + 1, int(self.low[until + 1])

    def _best(self, since: int, until: int) -> _Expert | None:
        able = [expert for expert in self.experts if expert.knows(since, until)]
        return min(able, key=lambda expert: expert.error, default=None)

    def _fill(
        self, segment: int, low: int, until: int, expert: _Expert | None, reads: bool
    ) -> tuple[int, int] | None:
        """Estimates from state ``low`` of ``segment`` to the end of ``until``.

        Returns where to go on if one of them was refuted on the way: from there the estimate is lower.
        """
        if segment > until:
            return None
        none = self.count[until] == self.count[self.origin]
        if self.base < 0 or (expert is None and not none):
            values = np.full(until - segment + 1, float(_UNKNOWN))
        elif expert is None or none:
            values = np.full(until - segment + 1, self.base)
        else:
            values = self.base + expert.curve(self.origin, until)[segment - self.origin :]
        high = int(self.high[until])
        lengths = self.high[segment : until + 1] + 1 - np.maximum(self.low[segment : until + 1], low)
        self.state_total[low : high + 1] = self.total
        self.state_pending[low : high + 1] = np.repeat(values.astype(np.int64), lengths)
        quarter = self.total // 4
        if quarter < 0 or not bool(np.any(values >= quarter)):
            return None
        # The first pass that was not full though count 2 asked for it and the estimate said enough.
        first = segment + int(np.argmax(values >= quarter))
        start = max(low, int(self.low[first]))
        place = int(np.searchsorted(self.refused, start))
        last = int(self.at[np.searchsorted(self.segments, until)]) - 1 if reads else high
        if place >= len(self.refused) or self.refused[place] > last:
            return None
        wrong = int(self.refused[place])
        where = int(np.searchsorted(self.older, wrong, "left"))
        if quarter:
            self._refute(where, quarter)
        else:
            self.total = _UNKNOWN  # of next to nothing any survivor would be a quarter
        return where, wrong + 1

    def _refute(self, segment: int, quarter: int) -> None:
        """Pending is below a quarter still: by more, the oftener that was so in this interval."""
        value, since = self.exact
        for expert in self.experts:
            if value >= 0 and expert.knows(since, segment) and value + expert.left(since, segment) >= quarter:
                expert.learn(since, segment, max(1.0, quarter - 1 - value), _KEEP_RULE)
        passes = max(1, int(self.count[segment] - self.count[since]))
        each = max(0.0, quarter - max(value, 0.0)) / passes
        self.base = max(0.0, quarter - 1 - each * 2**self.wrong / 2)
        self.wrong = min(self.wrong + 1, 30)
        self.origin = segment

    def _read(self, number: int) -> None:
        segment, low = int(self.segments[number]), int(self.at[number])
        total, pending = int(self.total_read[number]), float(self.pending_read[number])
        if self.estimated > 0 and total > 0:
            self.ratio = total / self.estimated
        value, since = self.exact
        if 0 <= value <= pending:
            self._teach(since, segment, pending - value, _KEEP_READING)
        self.total, self.base, self.origin = total, pending, segment
        self.exact = (pending, segment)
        self.wrong = 0
        high = int(self.high[segment])
        self.state_total[low : high + 1] = total
        self.state_pending[low : high + 1] = int(pending)

    def _teach(self, since: int, until: int, survivors: float, keep: float) -> None:
        for expert in self.experts:
            expert.learn(since, until, survivors, keep)

    def _full(self, at: int, exactly: bool) -> None:
        """The full pass that is the older pass ``at``: it ends the interval."""
        index = int(self.older[at])
        pending = float(self.state_pending[index])
        interval = int(self.full[np.searchsorted(self.full, at) - 1]) if at > self.full[0] else -1
        count = int(self.count[at] - self.count[interval + 1])
        value, since = self.exact
        quarter = self.total // 4
        if self.by_quarter[at] and not exactly and quarter > 0 and value >= 0:
            last = pending / max(1, count)
            if not quarter <= pending <= quarter + last:
                pending = quarter + last / 2 if pending > 0 else float(quarter)
                pending = min(pending, quarter * count / (count - 0.5)) if count else pending
                self._teach(since, at, max(1.0, pending - value), _KEEP_RULE)
        elif not self.by_quarter[at] and not exactly and quarter > 0 and 0 <= pending < quarter:
            pending = _ENOUGH * quarter  # it started, so it was enough, and nobody knows by how much
            if value >= 0:
                self._teach(since, at, max(1.0, pending - value), _KEEP_RULE)
        if count and pending > 0:
            self.survivors[index] = int(pending / count)
        self.estimated = int(self.left[at])
        self.total = int(self.estimated * self.ratio) if self.estimated >= 0 else _UNKNOWN
        self.base, self.origin = 0.0, at + 1
        self.exact = (0.0, at + 1)
        self.wrong = 0


def states(series: Series, pauses: Pauses, counted: Counted, quarter: Array) -> State:
    """The two numbers before every pass.

    Args:
        series: of a build with generations.
        pauses: of it.
        counted: readings of it.
        quarter: by pass: a full one that the quarter rule had held back until then.
    """
    walk = _Walk(series, pauses, counted, quarter)
    walk.run()
    last = int(walk.full[-1]) + 1 if len(walk.full) else 0
    since = int(walk.count[-1] - walk.count[last])
    each = int(walk.state_pending[-1]) // since if since and walk.state_pending[-1] >= 0 else _UNKNOWN
    return State(walk.state_total, walk.state_pending, walk.survivors, each, len(counted))
