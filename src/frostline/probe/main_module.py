"""Spans in the program's own file, which is run and not imported: no import hook sees it.

What its body defines is noticed by a profile function of the main thread, which looks, whenever the
file's code calls something, whether the wanted names are there by now, wraps them, and goes. So the
calls that happen before the first look (at most the very first one) are not timed, and until the
last name has appeared the start is slower: that is the price of ``--span __main__:NAME``, and it is
paid only where that was asked for. Loaded for nothing else.
"""

import sys

from frostline import probe
from frostline.format import MARK_REFUSED
from frostline.probe import presets, telling, wrapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

#: A name that has not appeared after so many events (about two seconds' worth) is not waited for.
_LIMIT = 20_000_000
#: (first part of the name, whole name, label, item), of those that have not appeared.
_waiting: "list[tuple[str, str, str, str]]" = []
_events = 0


def watch(item: str) -> str:
    """Waits for one ``module:qualname[=label]`` of ``__main__``. Returns why not, empty if it does."""
    try:
        _, target, label = presets.parse_span(item)
    except ValueError as error:
        return str(error)
    entry = (target.partition(".")[0], target, label, item)
    if entry in _waiting:
        return ""
    current = sys.getprofile()
    if current is not None and current is not _look:
        return "another profiler is at work, and this needs its place until the name has appeared"
    _waiting.append(entry)
    sys.setprofile(_look)
    return ""


def finish() -> None:
    """Gives the profiler's place back, and says which names never appeared."""
    if sys.getprofile() is _look:
        sys.setprofile(None)
    recorder = probe.recorder_of_this_process()
    while _waiting:
        _, target, _, item = _waiting.pop()
        if recorder is not None:
            reason = f"the program's own file has defined no {target.partition('.')[0]} up to its end"
            wrapping.mark(recorder, MARK_REFUSED, item.partition("=")[0].strip(), reason)


def _look(frame: "FrameType", event: str, argument: "Any") -> None:
    global _events
    _events += 1
    try:
        main = sys.modules["__main__"]
        if frame.f_globals is main.__dict__:
            for entry in tuple(_waiting):
                if entry[0] in main.__dict__:
                    _waiting.remove(entry)
                    _wrap(main, entry)
        if not _waiting or _events > _LIMIT:
            finish()
    except Exception:
        _waiting.clear()
        sys.setprofile(None)


def _wrap(main: object, entry: "tuple[str, str, str, str]") -> None:
    recorder = probe.recorder_of_this_process()
    if recorder is not None:
        _, target, label, item = entry
        teller = telling.asked(recorder, presets.told_in(item))
        wrapping.place(recorder, main, target, label, 0, item.partition("=")[0].strip(), teller)
