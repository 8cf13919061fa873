"""tracemalloc, on for as long as cycles are looked for, and what it costs (``frostline cycles --tracemalloc N``)."""

import _tracemalloc
import os
import time

#: Frames that are kept of an allocation at most.
MOST = 100
#: Allocations by which the cost is measured, at the exit.
_TIMED = 20_000
#: Frames kept, 0 where it was not started by us.
_frames = 0


def start() -> None:
    """Starts it, as FROSTLINE_TRACEMALLOC asks; where the program has it on that stays as it is."""
    global _frames
    text = os.environ.get("FROSTLINE_TRACEMALLOC", "")
    if text.isascii() and text.isdecimal() and int(text) > 0 and not _tracemalloc.is_tracing():
        _frames = min(int(text), MOST)
        _tracemalloc.start(_frames)


def end() -> "dict[str, object] | None":
    """Stops it and says what it has cost here: bytes of its tables, and CPU ns of an allocation with it and
    without. None where it was not ours.
    """
    if not _frames or not _tracemalloc.is_tracing():
        return None
    memory = _tracemalloc.get_tracemalloc_memory()
    _, peak = _tracemalloc.get_traced_memory()
    with_it = _allocation()
    _tracemalloc.stop()
    without = _allocation()
    return {"frames": _frames, "memory": memory, "peak": peak, "with_ns": with_it, "without_ns": without}


def _allocation() -> float:
    """CPU time of one small allocation and of freeing it, ns, the loop included."""
    make = object
    begun = time.thread_time_ns()
    for _ in range(_TIMED):
        make()
    return (time.thread_time_ns() - begun) / _TIMED
