"""A walk over all that is frozen, whoever froze it: thawed, walked, frozen again. For an audit that is asked for.

``engine.whole_heap`` does the same for a policy that froze; here the program may have, too. The collector is
off while the heap is thawed, so that no other thread's pass walks it as well, and whatever the walk does the
heap is frozen again behind it. What was made since the last freeze, and lives, is frozen with the rest: there is
one permanent generation, and a freeze takes everything.
"""

import gc
import time

from frostline import format as layout
from frostline import probe
from frostline.policy import acts, engine, keeping
from frostline.policy.engine import _engine as state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


#: 3.12 has some hundred objects of its own frozen; where nobody counted them, fewer than this are those.
OWN_MOST = 1_000
#: What ``collects`` of ``walk`` returns where a pass was running, and where it has kept what it found: a second
#: walk frees that, and only then is the policy told.
BUSY, KEPT = -1, -2


def own() -> "int | None":
    """What the interpreter itself had frozen before any program ran; None where nobody counted it then."""
    if not probe.FREEZES_AT_START:
        return 0
    if state.policy is not None:
        return state.frozen_at_start
    recorder = probe.recorder_of_this_process()
    return recorder.frozen_at_attach if recorder is not None and not recorder.age else None


def frozen() -> int:
    """Objects frozen by the program or by us. By count, 10 to 30 ms a million: never in a callback."""
    count, theirs = gc.get_freeze_count(), own()
    if theirs is None:
        return count if count >= OWN_MOST else 0
    return max(0, count - theirs)


def possible() -> bool:
    """Whether what is thawed can be frozen again: nothing of the program's stands in the functions' place."""
    return all(getattr(acts.real(name), "__self__", None) is gc for name in ("freeze", "unfreeze", "disable"))


def walk(collects: "Callable[[], int]") -> "int | None":
    """Thaws, lets ``collects`` walk, freezes again.

    Args:
        collects: makes the one collection of everything; returns what it has freed, BUSY or KEPT.

    Returns the objects frozen afterwards, as ``frozen``; None where a pass was running: then all is as it was,
    but for what was made since the last freeze, which may be frozen too.
    """
    if state.walking:
        return None  # another thread is at it, or a finalizer asks in the middle of it
    keeper = engine.keeper() if state.frozen else None
    enabled = gc.isenabled()
    state.walking = True
    try:
        begun = time.monotonic_ns()
        if acts.collect(0) < 0:
            return None  # a pass is running, in another thread or around us
        if keeper is not None:
            keeper.before_whole_heap()
        if enabled:
            acts.real("disable")()
        freed, spent = BUSY, time.thread_time_ns()
        acts.real("unfreeze")()
        acts.mark(layout.MARK_THAW, layout.MARK_FLAG_OURS, -1, begun)
        try:
            freed = collects()
        finally:
            spent = time.thread_time_ns() - spent
            count = _freeze(freed == BUSY)
        if freed == BUSY:
            return None
        acts.collect(2)  # walks nothing, and sets the interpreter's long-lived total to about 0
        if keeper is not None and freed != KEPT:
            keeper.after_whole_heap(count, freed, spent, begun)
        else:
            keeping.note_whole_heap(count, max(0, freed), begun)
        return count
    finally:
        if enabled:
            acts.real("enable")()
        state.walking = False
        if keeper is not None:
            keeper.ended_whole_heap()


def _freeze(spliced: bool) -> int:
    """The freeze behind it: whose it was it stays, whether it was the policy's or the program's."""
    begun = time.monotonic_ns()
    acts.real("freeze")()
    count = frozen()
    if state.frozen:
        state.spliced = spliced
    flags = layout.MARK_FLAG_OURS | (layout.MARK_FLAG_SPLICE if spliced else 0)
    acts.mark(layout.MARK_FREEZE, flags, count, begun)
    return count
