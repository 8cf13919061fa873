"""``prefork``: what a parent has made by the time it forks is collected and frozen, so that no pass in a
child writes to the pages that they share.

Nothing is thawed after the fork: to freeze and thaw around each one would set the collector's counters
to 0 each time, and it would never run again. What is new since the last freeze is collected and frozen
before the next fork, which costs in proportion to it; what few objects there are stay, counters and all.
"""

import gc
import os

from frostline.policy import engine, keeping, line, moments
from frostline.policy.grammar import DEFAULT_BUDGET, Policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: New objects below which a fork changes nothing: a child's pass writes to a page for each at most.
FEW = 1_000


class Prefork(keeping.Keeper):
    """Freezes before each fork, and walks the whole heap where too much was frozen since the last walk."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self.stopped = False
        #: H, objects that the last walk of the whole heap kept, and F, those frozen since: what of F dies
        #: in cycles is found by such a walk only, so F is bounded as that of ``follow`` is.
        self.kept = 0
        self.frozen = 0
        _stand_in()

    def begin(self, calm: bool) -> None:
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True

    def after_whole_heap(self, count: int, reclaimed: int, spent: int, begun: int) -> None:
        self.stopped = False
        self.kept = count
        self.frozen = 0
        super().after_whole_heap(count, reclaimed, spent, begun)

    def before_fork(self) -> None:
        if self.stopped:
            return
        if moments.in_flight() or keeping.deferred() >= 0:
            # No pass now. The first time a splice is better than a heap that every child copies; later
            # on nothing is, since each splice freezes garbage and puts off the next pass.
            if not engine.frozen():
                engine.splice()
            return
        if not engine.holds():
            engine.whole_heap()
            return
        new = len(gc.get_objects())  # without what is frozen
        if new < FEW:
            return
        credit = int(line.ALPHA * self.kept) + DEFAULT_BUDGET
        if self.frozen + new > credit:
            # By count, deaths included: 10 to 30 ms a million.
            self.frozen = max(0, engine.frozen_since_start() - self.kept)
            if self.frozen + new > credit:
                if not engine.inherited():
                    engine.whole_heap()
                return
        reclaimed = engine.collect(2)
        if reclaimed < 0:
            return  # a pass is running, in another thread or around us: a freeze would keep its garbage
        engine.freeze_uncounted()
        self.frozen += max(0, new - reclaimed)


class _Fork:
    """In front of ``os.fork``, not an at-fork hook: those run in the opposite order of registration, and
    what registered after us holds locks by then that a finalizer may want (``concurrent.futures`` does).
    Nor do the children of ``subprocess`` come by here, which take no heap with them.
    """

    def __init__(self, real: "Callable[[], Any]") -> None:
        self.__wrapped__ = real
        self.__name__ = self.__qualname__ = real.__name__
        self.__module__ = real.__module__
        self.__doc__ = real.__doc__

    def __call__(self) -> "Any":
        keeper = engine.keeper()
        if keeper is not None:
            moments.guarded(keeper.before_fork)
        return self.__wrapped__()

    def __repr__(self) -> str:
        return repr(self.__wrapped__)


def _stand_in() -> None:
    for name in ("fork", "forkpty"):
        current = getattr(os, name, None)
        if current is not None and not isinstance(current, _Fork):
            setattr(os, name, _Fork(current))
