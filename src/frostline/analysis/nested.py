"""Which span lies in which, and what each took by itself (B11: 87 % of the excess inside submit).

Only of spans that one thread ran from begin to end: of those alone "inside" follows from the times.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from frostline.recording.layout import Array, Int64

#: Spans looked at before the rest is sorted: threads whose spans cross each other show it at once.
_SAMPLE = 4096


@dataclass(frozen=True)
class Forest:
    """One entry a span, in order of thread and start (where no span lies in another: of the series)."""

    #: Index of the span among those of its series.
    which: Array
    #: Place of the innermost span that holds it, -1 where none does. None: no span lies in another.
    parent: Array | None
    #: Place of the outermost one that holds it: its own place where none does.
    _root: Array | None
    #: ns of the spans directly in it.
    _within: Int64 | None
    #: The series' own columns.
    _start: Int64
    _stop: Int64
    #: Spans of one thread overlap without lying in each other, as those of greenlets do: nothing was
    #: taken apart, and each one counts as an outermost one.
    crossing: bool = False

    @property
    def flat(self) -> bool:
        """No span lies in another."""
        return self.parent is None

    @property
    def outermost(self) -> Array:
        found: Array = np.ones(len(self.which), bool) if self.parent is None else self.parent < 0
        return found

    @property
    def root(self) -> Array:
        """Made anew where it is trivial: of ten million spans it need not be held."""
        return np.arange(len(self.which), dtype=np.int32) if self._root is None else self._root

    @property
    def own(self) -> Int64:
        """What each span took by itself, ns. It adds up to the time of the tree's root, exactly."""
        length: Int64 = self._stop[self.which] - self._start[self.which]
        return length if self._within is None else length - self._within


def forest(start: Int64, stop: Int64, thread: Array, which: Array) -> Forest:
    """The spans ``which`` of these columns, taken apart.

    A span lies in another if its interval does, ends included; of two with the same interval the one
    recorded later, which ended later, is the outer one.
    """
    which = which.astype(np.int32) if len(start) < 2**31 else which
    few = which[:_SAMPLE]
    if _sorted_parents(*_in_order(start[few], stop[few], thread[few])[1:]) is None:
        return _apart(start, stop, which, crossing=True)
    begun, ended, ran_in = start[which], stop[which], thread[which]
    if not len(which) or (
        bool(np.all(ran_in == ran_in[0])) and bool(np.all(begun[1:] >= ended[:-1]))  # one behind the other
    ):
        return _apart(start, stop, which)
    order, begun, ended, ran_in = _in_order(begun, ended, ran_in)
    which = which[order]
    del order
    parent = _sorted_parents(begun, ended, ran_in)
    if parent is None:
        return _apart(start, stop, which, crossing=True)
    del ran_in
    inner = np.flatnonzero(parent >= 0)
    if not len(inner):
        return _apart(start, stop, which)
    length = ended[inner] - begun[inner]
    del begun, ended
    # float64 holds whole numbers up to 2**53: 104 days of ns in one span.
    within = np.bincount(parent[inner], weights=length, minlength=len(parent)).astype(np.int64)
    root = np.where(parent >= 0, parent, np.arange(len(parent), dtype=parent.dtype))
    while True:
        above = root[root]
        if bool(np.array_equal(above, root)):
            return Forest(which, parent, root, within, start, stop)
        root = above


def _apart(start: Int64, stop: Int64, which: Array, crossing: bool = False) -> Forest:
    return Forest(which, None, None, None, start, stop, crossing)


def _in_order(start: Int64, stop: Int64, thread: Array) -> tuple[Int64, Int64, Int64, Array]:
    """Places in order of thread and start, the outer one first; and the three columns in that order."""
    n = len(start)
    # Backwards, since the sort leaves equal ones as they are and the outer one is recorded later.
    order = n - 1 - np.lexsort((-stop[::-1], start[::-1], thread[::-1]))
    return order, start[order], stop[order], thread[order]


def _sorted_parents(start: Int64, stop: Int64, thread: Array) -> Array | None:
    """For each the nearest one before it in its thread that ends no earlier; None if some cross.

    Each one asks its neighbour, and while that ends too early, whom that one has asked last: what lies
    between the two ends earlier still. So n spans beside each other take log n rounds, not n.
    """
    n = len(start)
    asked = np.arange(-1, n - 1, dtype=np.int32)
    first = np.flatnonzero(thread[1:] != thread[:-1]) + 1
    asked[first] = -1
    bounds = [0, *first.tolist(), n]
    if len(bounds) < 1000:
        for a, b in itertools.pairwise(bounds):
            # All before it have ended: nothing holds it, and it asks nobody.
            clear = start[a + 1 : b] >= np.maximum.accumulate(stop[a:b])[: max(0, b - a - 1)]
            asked[a + 1 : b][clear & (stop[a + 1 : b] > start[a + 1 : b])] = -1
    todo = np.flatnonzero(asked >= 0)
    while len(todo):
        near = asked[todo]
        short = stop[near] < stop[todo]
        todo, near = todo[short], near[short]
        if bool(np.any(stop[near] > start[todo])):
            return None
        further = asked[near]
        asked[todo] = further
        todo = todo[further >= 0]
    return asked
