"""A look at the heap that somebody asked for: runs it, and leaves the answer in a file beside the segment.

The file is made anew (O_EXCL, mode 0600) in the folder of the live segments, which is the user's alone; what
a caller that died has left there is taken away by the next look.
"""

import gc
import os
import sys
import time

from frostline import format as layout
from frostline import probe
from frostline.format import request
from frostline.heap import plain
from frostline.policy import moments
from frostline.probe import hooks

_OPEN = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def look(segment: str, text: str) -> int:
    """Does what ``text`` says and returns the bytes of the answer.

    Args:
        segment: path of the process's first segment.
        text: ``census [budget=SECONDS] [paths=0] [frozen=1]``, ``cycles [generation=N] [budget=SECONDS]``,
            ``why MODULE:QUALNAME [budget=SECONDS] [frozen=1]``, ``audit [count=0]``, or ``audit garbage=1
            [class=MODULE:QUALNAME] [budget=SECONDS] [entered=N]``; ``serving=1`` behind it: also while
            requests are in flight.

    Raises:
        ValueError: it is none of these, or refused; the text says why.
    """
    what, *rest = text.split(" ")
    settings = dict(part.partition("=")[::2] for part in rest if "=" in part)
    if settings.get("serving") != "1":
        _refuse_serving(settings)
    # Whether it is known that nothing is in flight: else the caller has to say that some may have waited.
    counted = moments.counted() >= 0
    begun = time.monotonic_ns()
    # Not for a look at garbage where other threads run: it lasts for seconds, they may make garbage all the
    # time, and that would pile up.
    long = what == request.LOOK_CYCLES or settings.get("garbage") == "1"
    alone = not long or len(sys._current_frames()) == 1
    enabled = alone and gc.isenabled()
    if enabled:
        # A list of all objects is a young one: a pass would walk it, keep alive what it is about to free,
        # and stand in the recording as the program's own.
        hooks._real_disable()
    try:
        found = _found(what, rest, settings)
    finally:
        if enabled:
            hooks._real_enable()
        recorder = probe.recorder_of_this_process()
        free = settings.get("count") == "0"
        if recorder is not None and recorder.recording and what in request.LOOKS and not free:
            kind = request.LOOKS.index(what)
            recorder.mark(layout.MARK_LOOK, layout.MARK_FLAG_OURS, kind, begun=begun)
    stopped = (time.monotonic_ns() - begun) / 1e9
    value = {"look": what, "pid": os.getpid(), "requests_counted": counted, "stopped": stopped, **found}
    data = plain.dumps(value).encode("utf-8", "replace")
    path = segment + request.LOOK_SUFFIX
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    descriptor = os.open(path, _OPEN, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
    except OSError:
        os.unlink(path)  # no space: half an answer is none, and it would take some of the rest
        raise
    finally:
        os.close(descriptor)
    return len(data)


def _refuse_serving(settings: "dict[str, str]") -> None:
    """A look stops what is in flight. What an audit freezes again may be kept for good besides: it needs to
    know that nothing is, and ``entered`` tells whether a request has come since the caller looked last.
    """
    if settings.get("count") == "0":
        return  # a few numbers that are there already
    now = moments.in_flight()
    if now:
        raise ValueError(f"{request.LOOK_SERVING}: {now} requests are in flight")
    if settings.get("garbage") != "1":
        return
    if moments.counted() < 0:
        raise ValueError(
            f"{request.LOOK_SERVING}: nobody tells of requests there, so whether any is in flight is not known"
        )
    if settings.get("entered", "") not in ("", str(moments.entered())):
        raise ValueError(f"{request.LOOK_SERVING}: requests came in while an idle moment was awaited")


def _found(what: str, rest: "list[str]", settings: "dict[str, str]") -> "dict[str, object]":
    if what == request.LOOK_CENSUS:
        return _census(settings)
    if what == request.LOOK_CYCLES:
        return _cycles(settings)
    if what == request.LOOK_WHY and rest:
        return _why(rest[0], settings)
    if what == request.LOOK_AUDIT:
        return _audit(settings)
    raise ValueError(f"no look {what!r}")


def _number(settings: "dict[str, str]", name: str, otherwise: float, most: float) -> float:
    text = settings.get(name, "")
    if not text:
        return otherwise
    value = float(text)
    if not 0 <= value <= most:  # also what is no number
        raise ValueError(f"{name}={text} is out of range")
    return value


def _census(settings: "dict[str, str]") -> "dict[str, object]":
    from frostline.heap import census

    budget = _number(settings, "budget", 0.0, 3600.0)
    paths, frozen = settings.get("paths") != "0", settings.get("frozen") == "1"
    return census.as_plain(census.take(budget, paths, frozen))


def _cycles(settings: "dict[str, str]") -> "dict[str, object]":
    from frostline.heap import cycles, saved

    generation = int(_number(settings, "generation", 2, 2))
    garbage = saved.saved_pass(generation)
    if garbage.busy:
        raise ValueError("a pass was running: ask again")
    told = cycles.cycles_of(garbage, _number(settings, "budget", cycles.BUDGET, 3600.0))
    freed = saved.let_go(garbage, generation)
    return cycles.as_plain(told) | {"generation": generation, "freed_in": freed}


def _audit(settings: "dict[str, str]") -> "dict[str, object]":
    from frostline.heap import permanent

    if settings.get("garbage") != "1":
        return permanent.facts(settings.get("count") != "0")
    budget = _number(settings, "budget", permanent.BUDGET, 3600.0)
    return permanent.as_plain(permanent.garbage(budget, settings.get("class", "")))


def _why(name: str, settings: "dict[str, str]") -> "dict[str, object]":
    from frostline.heap import alive

    budget = _number(settings, "budget", 0.0, 3600.0)
    return alive.as_plain(alive.holders(name, budget, settings.get("frozen") == "1"))
