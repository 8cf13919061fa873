"""When a long walk hurts least: nothing in flight and the event loop quiet, or a safe point of the main thread.

Requests are told by ``frostline.request()`` or by an integration that calls ``enter`` and ``leave``;
where nobody tells, nothing is known to be idle. No thread of ours, no polling.
"""

import _signal  # type: ignore[import-not-found]
import _thread
import os
import sys
from time import monotonic

from frostline.probe.callback import is_ours

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: Seconds without a request, and without the event loop being late, that count as quiet at least.
QUIET = 0.05
#: Seconds of quiet that are enough for any walk.
_QUIET_ENOUGH = 2.0
_LATE = 0.01
#: Seconds after which a loop that has not called back is taken for closed.
_GONE = 1.0

#: Requests open now, and how many there have been. Plain additions: from 3.10 on, the interpreter
#: changes threads at calls and backward jumps only, so none is lost, and no lock is needed.
_open = 0
_entered = 0
#: What the engine wants done in an idle moment, and whether there is anything to do.
_due: "Callable[[], bool] | None" = None
_act: "Callable[[], object] | None" = None
#: Called where the program's own code has just ended a piece of work: a short act may be done there.
_safe: "Callable[[], object] | None" = None
#: Seconds that the last full collection of ours took.
_walk = 0.0
#: No idle moment before this: the workers of one server are not to walk their heaps at the same time.
_not_before = 0.0
#: Until when an event loop has been asked to call back; a loop that was closed meanwhile never will.
_waiting = 0.0


def enter() -> None:
    """A request has come in."""
    global _open, _entered
    _open += 1
    _entered += 1


def leave() -> None:
    """A request is answered."""
    global _open
    if _open > 0:
        _open -= 1
    if _safe is not None:
        guarded(_safe)
    if _open == 0 and _due is not None:
        _settle()


def in_flight() -> int:
    """Requests open now."""
    return _open


def counted() -> int:
    """The same, -1 where nobody has told of a request yet."""
    return _open if _entered else -1


def entered() -> int:
    """Requests that have come in since the start."""
    return _entered


def known_quiet() -> bool:
    """Nothing is in flight, and we would know."""
    return _entered > 0 and _open == 0


class Request:
    """``with frostline.request():`` around each request. One object serves them all."""

    __slots__ = ()

    def __enter__(self) -> "Request":
        enter()
        return self

    def __exit__(self, *_: object) -> None:
        leave()


REQUEST = Request()


def guarded(act: "Callable[[], object]") -> bool:
    """Runs an act of the policy's inside the host: what goes wrong in it is ours alone. Whether it went well."""
    try:
        act()
    except Exception as error:
        if not is_ours(error):
            raise
        return False
    return True


def walked(seconds: float) -> None:
    """A full collection of ours has taken so long: what comes in during the next one will wait as long."""
    global _walk
    _walk = seconds


def quiet() -> float:
    """Seconds without work that count as an idle moment: as long as the walk that it is for is expected
    to take. A lull that has lasted so long is more likely to last as long again, and a gap between two
    requests of a busy server is no lull.
    """
    return min(max(QUIET, _walk), _QUIET_ENOUGH)


def put_off(seconds: float) -> None:
    """For so long nothing is done in idle moments."""
    global _not_before
    _not_before = monotonic() + seconds


def watch(due: "Callable[[], bool]", act: "Callable[[], object]") -> None:
    """``act`` is called in an idle moment when ``due`` says that there is something to do."""
    global _due, _act
    _due, _act = due, act


def watched() -> bool:
    """Whether anybody is called in an idle moment."""
    return _due is not None


def wanted() -> bool:
    """Nothing is in flight, and something waits for an idle moment."""
    return _open == 0 and _due is not None and _due() and monotonic() >= _not_before


def forget() -> None:
    """No policy any more: nothing is due in idle moments, and the signal is the host's again."""
    global _due, _act, _safe, _handler
    _due = _act = _safe = _handler = None
    if _signal.getsignal(SIGNUM) is _on_signal:
        _signal.signal(SIGNUM, _previous if _previous is not None else _signal.SIG_DFL)


def at_safe_points(act: "Callable[[], object] | None") -> None:
    """``act`` is called at the end of each request, in its thread, outside of any pass. It must be cheap."""
    global _safe
    _safe = act


def now() -> bool:
    """The program says that this is an idle moment. Whether anything was done."""
    if not wanted() or _act is None:
        if _safe is not None:
            guarded(_safe)
        return False
    return guarded(_act)


def _settle() -> None:
    """The last request has left: look when it has been quiet for a while. Whether there is anything to do
    is asked then, not after each request.

    Only on an event loop: a server of threads cannot wait here, and the next request may come at
    once, so it says itself when it is idle.
    """
    if monotonic() < _waiting:
        return
    loop = _running_loop()
    if loop is not None:
        _look_later(loop)


def _look_later(loop: "Any") -> None:
    global _waiting
    seconds = max(quiet(), _not_before - monotonic())
    _waiting = monotonic() + seconds + _GONE
    loop.call_later(seconds, _look, loop, _entered, loop.time() + seconds)


def _look(loop: "Any", entered: int, planned: float) -> None:
    global _waiting
    _waiting = 0.0
    if _open or _due is None or _act is None or not _due():
        return
    if entered == _entered and loop.time() - planned < _LATE and wanted():
        guarded(_act)
    else:
        _look_later(loop)


def _running_loop() -> "Any":
    events = sys.modules.get("asyncio.events")
    return events._get_running_loop() if events is not None else None


def _in_child() -> None:
    global _open, _waiting
    _open = 0
    _waiting = 0.0


os.register_at_fork(after_in_child=_in_child)


# --- the safe point -------------------------------------------------------------------
class _Trip:
    """``TRIP[SIGNUM]`` makes the main thread run the signal's handler at its next safe point.

    A subscript and not a call: the interpreter looks for signals after each call, so the handler
    would run inside the collector's callback, where nothing can be collected. After a subscript that
    ends in C it does not look (run on 3.10 to 3.15).
    """

    __getitem__: "Any" = _thread.interrupt_main


TRIP = _Trip()
#: What a handler returns that landed inside a pass.
AGAIN = object()
SIGNUM = _signal.SIGRTMAX - 2
_handler: "Callable[[], object] | None" = None
_previous: "Any" = None


def _on_signal(signum: int, frame: "Any") -> None:
    if _handler is not None and _landed_badly(_handler):
        # Nothing may follow after which signals are looked for: this would run in itself.
        TRIP[SIGNUM]
    elif callable(_previous):
        _previous(signum, frame)


def _landed_badly(handler: "Callable[[], object]") -> bool:
    """Runs it; True if it wants to be run again at the next look for signals."""
    try:
        return handler() is AGAIN
    except Exception as error:
        if not is_ours(error):
            raise
        return False


def install(handler: "Callable[[], object]") -> bool:
    """``handler`` runs in the main thread at a safe point after each ``TRIP[SIGNUM]``. False where it cannot.

    Takes the handler of a real-time signal, SIGRTMAX-2; one that the host has there is called too.
    """
    global _handler, _previous
    try:
        previous = _signal.signal(SIGNUM, _on_signal)
    except (ValueError, OSError):
        return False  # not in the main thread, or a sub-interpreter
    if previous is not _on_signal:
        _previous = previous
    _handler = handler
    return True
