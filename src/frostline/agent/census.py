"""Censuses of the tracked heap for the recording: at attach, at the boundary and at the end (B9).

Loaded only where they were asked for (``--census``). Each stops the process for as long as it counts, within
a budget: of a larger heap a part is looked at. Never in a callback (case 08), nor inside a
pass, nor with requests in flight.

At a boundary that collects and freezes it is taken between the two: garbage has gone by then, and what is
listed is what is frozen a moment later. From then on the interpreter lists no frozen object, and none is
thawed for a count: a later census has the frozen part as a number alone.
"""

import gc
import os
import time

from frostline import format as layout
from frostline.format import census as when
from frostline.heap import census
from frostline.policy import engine, moments
from frostline.probe import hooks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from frostline.probe.recorder import Recorder

#: Seconds that each takes, about: at attach, at the boundary, at the end. The lists themselves come on top,
#: 10 ms a million objects.
BUDGETS = (1.0, 1.0, 0.5)
#: The same at a boundary that is told late, where requests may be in flight of which nobody tells.
LATE = 0.1
#: ns after a boundary for which its freeze is awaited.
_SOON = 10_000_000_000


class Taker:
    """What is to be counted in this process, and what has been."""

    __slots__ = ("_due", "_full_passes", "_recorder", "_taken", "_wanted")

    def __init__(self, recorder: "Recorder", wanted: "set[int]") -> None:
        self._recorder = recorder
        self._wanted = wanted
        #: The boundary's has been taken.
        self._taken = False
        #: Until when the next counted freeze is the boundary's, monotonic ns; 0: none is awaited.
        self._due = 0
        #: Full passes up to the fork that made this process; -1 where none did.
        self._full_passes = -1

    def in_child(self) -> None:
        """After a fork: nothing has been counted here, and every page is still the parent's too."""
        self._taken = False
        self._due = 0
        self._full_passes = _full_passes()

    def told(self, late: bool, freezes: bool) -> None:
        """The boundary has come. ``freezes``: the policy collects and freezes now, and ``before_freeze``
        is called in between.
        """
        if when.BOUNDARY not in self._wanted or self._taken:
            return
        if freezes:
            self._due = time.monotonic_ns() + _SOON
        else:
            self._quietly(when.BOUNDARY, LATE if late else BUDGETS[when.BOUNDARY])

    def before_freeze(self) -> None:
        """A freeze comes, right after a collection."""
        due, self._due = self._due, 0
        if due > time.monotonic_ns():
            self._quietly(when.BOUNDARY, BUDGETS[when.BOUNDARY])

    def before_own_freeze(self) -> None:
        """The program freezes by itself: where no boundary has been told by then, its first is one."""
        if when.BOUNDARY in self._wanted and not self._taken:
            self._quietly(when.BOUNDARY, BUDGETS[when.BOUNDARY])

    def at_attach(self) -> None:
        """The recording has begun."""
        if when.ATTACH in self._wanted:
            self._quietly(when.ATTACH, BUDGETS[when.ATTACH])

    def at_close(self) -> None:
        """The interpreter ends: what the program registered for its exit has run."""
        if when.CLOSE in self._wanted:
            self._quietly(when.CLOSE, BUDGETS[when.CLOSE])

    def _quietly(self, moment: int, budget: float) -> None:
        hooks._quietly(self._take, moment, budget)

    def _take(self, moment: int, budget: float) -> None:
        recorder = self._recorder
        if not recorder.recording:
            return
        begun = time.monotonic_ns()
        kind, ours = layout.MARK_CENSUS, layout.MARK_FLAG_OURS
        why = self._why_not(moment)
        if why:
            recorder.mark(kind, ours, 0, why, -1, 0, moment, begun=begun)
            return
        self._taken = self._taken or moment == when.BOUNDARY
        enabled = gc.isenabled()
        if enabled:
            # A list of all objects is a young one: a pass would walk it, and keep alive what it is to free.
            hooks._real_disable()
        try:
            taken = census.take(budget, paths=False)
        finally:
            if enabled:
                hooks._real_enable()
        objects = sum(taken.objects)
        recorder.mark(kind, ours, 0, objects, taken.frozen, taken.every, moment, begun=begun)
        for row in taken.rows:
            number = recorder.name_id(row.name)
            old = row.by_generation[2]
            recorder.mark(kind, ours, number, row.count, row.slots, row.size, old, begun=begun)

    def _why_not(self, moment: int) -> int:
        if self._recorder.in_flight():
            return when.RUNNING
        if moment == when.BOUNDARY and moments.in_flight():
            return when.SERVING
        # A count touches each object, as a full pass does. Behind a freeze only what is the child's own is
        # listed; right before one a collection has touched all of it already.
        if self._full_passes >= _full_passes() and not engine.inherited():
            return when.SHARED
        return 0


_taker: "Taker | None" = None


def _full_passes() -> int:
    return int(gc.get_stats()[2]["collections"])


def _in_child() -> None:
    if _taker is not None:
        _taker.in_child()


def start(recorder: "Recorder", text: str) -> None:
    """Counts at the moments that ``text`` names, by commas; other words are left out."""
    global _taker
    parts = text.replace(" ", "").split(",")
    wanted = {when.MOMENTS.index(part) for part in parts if part in when.MOMENTS}
    if not wanted:
        return
    if _taker is None:
        os.register_at_fork(after_in_child=_in_child)
    _taker = recorder.census = Taker(recorder, wanted)
    _taker.at_attach()
