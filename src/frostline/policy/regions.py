"""``frostline.defer()``: a region in which no automatic pass runs, in no thread.

For graph capture, and for sections in which a finalizer would do harm (row C, case 15). Threshold 0
is put to 0, so that a library that calls ``gc.enable()`` inside does not defeat it, and the collector
is switched off besides: from 3.12 on a pass may be scheduled already. An explicit ``gc.collect()``
still collects.
"""

import _thread
import gc
import os

from frostline import format as layout
from frostline import probe
from frostline.policy.engine import real

#: Guards the three below. Re-entrant, since a finalizer may enter a region while we hold it; replaced
#: in a forked child, where its holder may not exist.
_lock = _thread.RLock()
#: How deep each thread is in.
_depths: "dict[int, int]" = {}
_threshold = 0
_enabled = True


class Region:
    """What ``defer()`` returns. One object may be used over and over, nested, by many threads."""

    __slots__ = ("_inside",)

    def __init__(self) -> None:
        #: The thread of each use, so that a coroutine that ends in another one is counted right.
        self._inside: list[int] = []

    def __enter__(self) -> "Region":
        me = _thread.get_ident()
        with _lock:
            # Counted before the state is touched, here and at the exit: a finalizer that enters a region
            # of its own while we are half-way must find that one is open.
            outermost = not _depths
            _depths[me] = _depths.get(me, 0) + 1
            self._inside.append(me)
            if outermost:
                _begin()
        return self

    def __exit__(self, *_: object) -> None:
        me = _thread.get_ident()
        with _lock:
            if not self._inside:
                return
            if me in self._inside:
                self._inside.remove(me)
            else:
                me = self._inside.pop()
            _leave(me)


def defer() -> Region:
    """``with frostline.defer():`` no automatic pass inside, in no thread of this interpreter.

    The state at the outermost entry comes back at the outermost exit: a collector that the caller had
    switched off stays off. Where more was allocated inside than threshold 0 allows, a young pass runs
    right after the exit.
    """
    return Region()


def host_threshold() -> int:
    """Threshold 0 as the host has set it, while a region has put it to 0; else -1."""
    return _threshold if _depths else -1


def _begin() -> None:
    global _threshold, _enabled
    first, second, third = gc.get_threshold()
    _threshold = first
    _enabled = gc.isenabled()
    real("set_threshold")(0, second, third)
    real("disable")()
    if _enabled:
        _mark(layout.MARK_DISABLE)


def _leave(thread: int) -> None:
    if len(_depths) == 1 and _depths.get(thread) == 1:
        _end()
    depth = _depths.get(thread, 0) - 1
    if depth > 0:
        _depths[thread] = depth
    else:
        _depths.pop(thread, None)


def _end() -> None:
    first, second, third = gc.get_threshold()
    if first == 0:  # else the host has set thresholds inside: they are the ones it wants
        real("set_threshold")(_threshold, second, third)
    before = gc.isenabled()
    real("enable" if _enabled else "disable")()
    if _enabled != before:
        _mark(layout.MARK_ENABLE if _enabled else layout.MARK_DISABLE)


def _in_child() -> None:
    """Threads that were inside do not exist here."""
    global _lock
    _lock = _thread.RLock()
    me = _thread.get_ident()
    if not _depths:
        return
    mine = _depths.get(me, 0)
    _depths.clear()
    if mine:
        _depths[me] = mine
    else:
        _end()


def _mark(kind: int) -> None:
    recorder = probe.recorder_of_this_process()
    if recorder is not None:
        recorder.mark(kind, layout.MARK_FLAG_OURS)


os.register_at_fork(after_in_child=_in_child)
