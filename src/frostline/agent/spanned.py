"""Cycles that are made inside a call: ``frostline cycles --span``.

Before the call there is a full collection, so that what is garbage already is none of the call's; behind it
one whose garbage is kept and looked at. In between automatic passes are put off by a high threshold, and
what those find that come all the same (the program's own, or after so many allocations) is kept as well. One
call at a time, the first few of each span: others pass through, and are timed like those.
"""

import _thread
import gc
import sys
from time import monotonic_ns

from frostline.agent.saving import Saver, Stop
from frostline.format import SPAN_ASYNC, SPAN_FLAG_ERROR, SPAN_SYNC
from frostline.format import cycles as told
from frostline.heap import saved
from frostline.policy import acts
from frostline.probe import hooks, telling
from frostline.probe.callback import OURS, is_ours
from frostline.probe.kinds import CoroutineType
from frostline.probe.wrappers import awaited, task_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from frostline.probe.wrappers import Record

#: Net container allocations in a call at which a pass comes all the same: what a call makes is bounded.
THRESHOLD = 500_000


class Spans:
    """Which calls have been looked at, and the one that is open. ``most``: of one span."""

    __slots__ = (
        "_before", "_calls", "_label", "_open", "_others", "_saver", "_serial", "_thresholds", "most",
    )  # fmt: skip

    def __init__(self, saver: Saver, most: int) -> None:
        self.most = most
        self._saver = saver
        self._serial = iter(range(1, 1 << 62))
        #: Number of the label's text -> calls looked at so far.
        self._calls: dict[int, int] = {}
        #: The call that is open, 0 if none is; its label; seconds that its beginning took; whether others run
        #: meanwhile.
        self._open = 0
        self._label = 0
        self._before = 0.0
        self._others = False
        self._thresholds: tuple[int, int, int] | None = None

    def begin(self, label: int, coroutine: bool) -> int:
        """A call begins. Returns its number, 0 if it is none that is looked at."""
        saver = self._saver
        # Between these two no other thread can come: there is no call.
        if saver.span:
            return 0
        saver.span = True
        opened = 0
        try:
            opened = self._begin(label, coroutine)
        except Exception as error:
            if not is_ours(error):
                raise
        finally:
            if not opened:
                saver.span = False
        return opened

    def _begin(self, label: int, coroutine: bool) -> int:
        saver = self._saver
        number = self._calls.get(label, 0)
        if number >= self.most or saver.looking or not saver.writes or saver.recorder.in_flight():
            return 0
        with Stop(saver) as stop:
            if saved.free(2) < 0:
                return 0
            self._before = stop.lap()
        self._calls[label] = number + 1
        self._label = label
        self._others = coroutine or len(sys._current_frames()) > 1
        first, second, third = gc.get_threshold()
        if 0 < first < THRESHOLD:
            self._thresholds = first, second, third
            acts.real("set_threshold")(THRESHOLD, second, third)
        self._open = next(self._serial)
        return self._open

    def end(self, opened: int, finished: bool = True) -> None:
        """The call of that number has ended, or never will."""
        if opened != self._open or not self._saver.span:
            return  # it began before a fork
        try:
            hooks._quietly(self._end, finished)
        finally:
            self.forget()

    def _end(self, finished: bool) -> None:
        saver = self._saver
        with Stop(saver) as stop:
            inside, saver.kept, saver.size = saver.kept, [], 0
            last = saved.saved_pass()
            for one in inside:
                last.objects += one.objects
                last.found += one.found
                last.pause += one.pause
                one.objects.clear()
            line = saver.described(last, told.BY_SPAN, _thread.get_native_id())
            last.objects.clear()
            saver.owed = 2 if saved.free(2) < 0 else -1
            line |= {
                "generation": 2,
                "span": self._name(),
                "call": self._calls[self._label],
                "finished": finished,
                "passes": len(inside),
                "others_ran": self._others or len(sys._current_frames()) > 1,
            }
            saver.write(line | {"stopped": self._before + stop.lap()})

    def _name(self) -> str:
        names = list(self._saver.recorder.names.items())
        return next((text for text, number in names if number == self._label), "?")

    def forget(self) -> None:
        """No call is open: the thresholds are the program's again."""
        before, self._thresholds = self._thresholds, None
        self._open = 0
        self._saver.span = False
        # Unless it has set others meanwhile.
        if before is not None and gc.get_threshold()[0] == THRESHOLD:
            acts.real("set_threshold")(*before)

    def in_child(self) -> None:
        """After a fork: the calls that were looked at are the parent's."""
        self._calls.clear()
        self.forget()

    def finish(self) -> None:
        """At the interpreter's exit: a call that is open then is looked at all the same."""
        if self._open:
            self.end(self._open, finished=False)


def start(saver: Saver, calls: int) -> Spans:
    """From here on the first ``calls`` calls of what ``--span`` names are looked at."""
    spans = Spans(saver, calls)

    def teller(
        call: "Callable[..., Any]", record: "Record", label: int, flags: int, coroutine: bool
    ) -> "Any":
        return (_coroutine if coroutine else _plain)(call, record, label, flags, spans)

    telling.instead = teller
    return spans


# --- wrappers: as in ``probe.wrappers``, whose rules hold here too ------------------------
def _plain(call: "Callable[..., Any]", record: "Record", label: int, flags: int, spans: Spans) -> "Any":
    now = monotonic_ns
    any_exception, too_deep = BaseException, RecursionError
    type_of, finish, coroutine = type, awaited, CoroutineType
    error, sync = flags | SPAN_FLAG_ERROR, SPAN_SYNC
    begin, end = spans.begin, spans.end

    def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
        opened = begin(label, False)
        start = now()
        try:
            result = call(*args, **kwargs)
        except any_exception:
            stop = now()
            del args, kwargs
            if opened:
                end(opened)
            try:
                record(start, stop, label, sync, error, -1, -1, 0)
            except too_deep:
                pass
            raise
        stop = now()
        del args, kwargs
        if opened:
            # Of a decorated coroutine function the work is still to come.
            end(opened, type_of(result) is not coroutine)
        if type_of(result) is coroutine:
            outer: Any = finish(result, start, record, label, flags)
            outer.__name__ = result.__name__
            outer.__qualname__ = result.__qualname__
            return outer
        try:
            record(start, stop, label, sync, flags, -1, -1, 0)
        except too_deep:
            pass
        return result

    return wrapper


def _coroutine(call: "Callable[..., Any]", record: "Record", label: int, flags: int, spans: Spans) -> "Any":
    now = monotonic_ns
    any_exception, too_deep = BaseException, RecursionError
    error, kind = flags | SPAN_FLAG_ERROR, SPAN_ASYNC
    task_of = task_id
    begin, end = spans.begin, spans.end

    async def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
        opened = begin(label, True)
        start = now()
        task = task_of()
        try:
            inner = call(*args, **kwargs)
            del args, kwargs
            result = await inner
        except any_exception:
            stop = now()
            inner = None
            if opened:
                end(opened)
            try:
                record(start, stop, label, kind, error, -1, -1, task)
            except too_deep:
                pass
            raise
        stop = now()
        inner = None  # what it held goes before the look
        if opened:
            end(opened)
        try:
            record(start, stop, label, kind, flags, -1, -1, task)
        except too_deep:
            pass
        return result

    return wrapper


OURS.add(start.__code__.co_filename)
