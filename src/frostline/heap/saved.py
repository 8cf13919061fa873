"""One pass whose garbage is kept for a look at it, and then let go."""

import gc
import time

from frostline.heap.finalized import Suspects
from frostline.heap.finalized import suspects as look_before
from frostline.policy import acts

#: Objects looked at, at most: of more garbage the first so many stand for the rest.
LIMIT = 2_000_000

#: A pass of ours runs that only frees what a look has let go: what it reclaims is nothing new.
freeing = False


class Saved:
    """What one saved pass found.

    Attributes:
        objects: the garbage, at most ``LIMIT`` of it. The caller empties the list when it is done.
        found: objects that the pass found, these and those beyond the limit.
        pause: seconds that the pass took.
        busy: a pass was running: nothing was done.
        suspects: what may have been freed by its own finalizer instead.
    """

    __slots__ = ("busy", "found", "objects", "pause", "suspects")

    def __init__(self, suspects: Suspects) -> None:
        self.suspects = suspects
        self.objects: list[object] = []
        self.found = 0
        self.pause = 0.0
        self.busy = False


def saved_pass(generation: int = 2, limit: int = LIMIT) -> Saved:
    """Collects ``generation`` with the interpreter's own DEBUG_SAVEALL, for this one pass.

    Weak references to the garbage are cleared and finalizers run, as in any pass; what is put off is only
    the freeing, until the list is emptied and a pass has come by once more (``let_go``).
    The interpreter's flags and what stood in ``gc.garbage`` before are left as they were.
    """
    saved = Saved(look_before(generation))
    flags = gc.get_debug()
    before = len(gc.garbage)
    begun = time.monotonic()
    try:
        gc.set_debug(flags | gc.DEBUG_SAVEALL)
        saved.found = acts.collect(generation)
    finally:
        gc.set_debug(flags)
        # One slice each: no other thread can put anything between.
        saved.objects = gc.garbage[before:]
        del gc.garbage[before:]
    saved.pause = time.monotonic() - begun
    saved.busy = saved.found < 0
    saved.suspects.settle()
    saved.found = max(saved.found, len(saved.objects), 0)
    del saved.objects[limit:]
    return saved


def let_go(saved: Saved, generation: int = 2) -> float:
    """Frees what was saved, by a pass as ever. Returns seconds."""
    saved.objects.clear()
    begun = time.monotonic()
    free(generation)
    return time.monotonic() - begun


def free(generation: int) -> int:
    """A pass that frees what has been let go. Returns what it reclaimed, -1 if another one was running."""
    global freeing
    freeing = True
    try:
        return acts.collect(generation)
    finally:
        freeing = False
