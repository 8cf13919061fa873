"""Spans: timed callables and timed stretches of code.

Loaded only when a watched module arrives or the API is used. Nothing here raises into the
host: what cannot be wrapped stays as it is, and the recording says why (MARK_REFUSED).
Without a recorder everything is inert.
"""

import _thread
from time import monotonic_ns

import frostline.probe as probe
from frostline.format import (
    MARK_REFUSED,
    SPAN_ASYNC,
    SPAN_FLAG_ERROR,
    SPAN_FLAG_PRESET,
    SPAN_SPLIT,
    SPAN_SYNC,
)
from frostline.probe import imports, presets, telling
from frostline.probe.attributes import replacement
from frostline.probe.callback import OURS
from frostline.probe.kinds import ModuleType
from frostline.probe.live import Live
from frostline.probe.wrappers import task_id, timed
from frostline.probe.wrapping import (
    INERT,
    Handle,
    handle_of,
    label_id,
    mark,
    place,
    try_to_wrap,
    wrap_callable,
)

__all__ = ["begin", "end", "span", "unwrap", "wrap", "wrap_callable"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

    from frostline.probe.recorder import Recorder

_serial = iter(range(1, 1 << 62)).__next__
#: The last tokens ended, by their number modulo the length. Not a list: a pass would visit each of its slots.
_REMEMBERED = 4096
_ended = memoryview(bytearray(8 * _REMEMBERED)).cast("q")
#: Compared by identity: what a host gives may make anything of ``==``.
_NO_TEXT = ""


def wrap(obj: "Any", name: str, label: "str | None" = None) -> "Handle | Live":
    """Record a span for each call of ``obj.name``; ``unwrap`` undoes it.

    ``obj`` is a module, a class or any other object; of an object only its own calls are
    recorded, and it dies when it would have died without this. The name may have dots.
    Wrapping twice returns the first handle. Nothing is raised: where it cannot be done the
    handle's ``reason`` and the recording say why.
    """
    recorder = probe.recorder_of_this_process()
    if recorder is None:
        return INERT
    here = obj if isinstance(obj, type | ModuleType) else type(obj)
    place = here.__name__ if isinstance(here, ModuleType) else f"{here.__module__}:{here.__qualname__}"
    target = f"{place}{':' if isinstance(here, ModuleType) else '.'}{name}"
    return try_to_wrap(recorder, obj, name, label or target.partition(":")[2], 0, target)


def unwrap(obj: "Any", name: "str | None" = None) -> bool:
    """Undo a ``wrap``, by its handle or by the same object and name. True if something was undone."""
    try:
        if name is None:
            return bool(obj.undo()) if isinstance(obj, Handle | Live) else False
        *path, last = name.split(".")
        for part in path:
            obj = getattr(obj, part)
        handle = handle_of(obj, last)
        if isinstance(handle, Handle):
            return handle._undo(obj)
        return False if handle is None else handle.undo()
    except Exception:
        return False


# --- modules that arrive ----------------------------------------------------------------
def preset_arrived(name: str, module: object) -> None:
    recorder = probe.recorder_of_this_process()
    if recorder is not None:
        for target, label in presets.targets_in(name):
            whole = f"{name}:{target}"
            teller = telling.teller(recorder, whole)
            place(recorder, module, target, label, SPAN_FLAG_PRESET, whole, teller)


def spans_arrived(name: str, module: object) -> None:
    recorder = probe.recorder_of_this_process()
    if recorder is None:
        return
    for item in imports.state.spans.split(";"):
        if item.partition(":")[0].strip() == name:
            try:
                _, target, label = presets.parse_span(item)
            except ValueError as error:
                mark(recorder, MARK_REFUSED, item.strip(), str(error))
            else:
                teller = telling.asked(recorder, presets.told_in(item))
                place(recorder, module, target, label, 0, f"{name}:{target}", teller)


def refuse(item: str, reason: str) -> None:
    """Say in the recording why an item of FROSTLINE_SPANS will have no effect here."""
    recorder = probe.recorder_of_this_process()
    if recorder is None:
        return
    if not reason:
        try:
            presets.parse_span(item)
        except ValueError as error:
            reason = str(error)
    mark(recorder, MARK_REFUSED, item.partition("=")[0].strip(), reason)


# --- stretches of code ------------------------------------------------------------------
def _value(value: object) -> int:
    try:
        number = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        return -1
    return int(max(-(1 << 63), min(number, (1 << 63) - 1)))


def _told(
    recorder: "Recorder", batch: object, stage: object, group: object, value0: object, value1: object
) -> "tuple[int, int, int]":
    """(flags, value0, value1): a batch size stands in the place of the one number, a name in the other's."""
    first, second = _value(value0), _value(value1)
    if batch is None and stage is _NO_TEXT and group is _NO_TEXT:
        return 0, first, second
    flags, size, name = telling.values_of(telling.said(recorder, batch, stage, group))
    return flags, first if size < 0 else size, second if name < 0 else name


class Span:
    """A context manager and decorator. One object may be used over and over, nested, by many threads and tasks."""

    __slots__ = (
        "_key", "_label", "_more", "_recorder", "_start", "batch", "group", "stage", "value0", "value1",
    )  # fmt: skip

    def __init__(
        self,
        recorder: "Recorder",
        label: str,
        value0: object,
        value1: object,
        batch: object,
        stage: str,
        group: str,
    ) -> None:
        self._recorder = recorder
        self._label = label_id(recorder, label)
        self._start = self._key = 0
        #: Only while uses overlap: starts by task or thread.
        self._more: "dict[int, list[int]] | None" = None
        self.value0 = value0
        self.value1 = value1
        self.batch = batch
        self.stage = stage
        self.group = group

    def __enter__(self) -> "Span":
        key = task_id() or _thread.get_ident()
        start = monotonic_ns()
        if self._start == 0:
            self._start, self._key = start, key
        else:
            if self._more is None:
                self._more = {}
            self._more.setdefault(key, []).append(start)
        return self

    def __exit__(
        self, kind: "type[BaseException] | None", _: "BaseException | None", __: "TracebackType | None"
    ) -> None:
        stop = monotonic_ns()
        task = task_id()
        key = task or _thread.get_ident()
        more = self._more
        starts = more.get(key) if more else None
        own = self._start if self._key == key or not more else 0
        if more and starts and starts[-1] > own:  # the latest of this task or thread ends first
            start = starts.pop()
            if not starts:
                more.pop(key, None)
        else:
            start = own
            if own:
                self._start = 0
        if start:
            flags, value0, value1 = _told(
                self._recorder, self.batch, self.stage, self.group, self.value0, self.value1
            )
            self._recorder.record_span(
                start,
                stop,
                self._label,
                SPAN_ASYNC if task else SPAN_SYNC,
                flags if kind is None else flags | SPAN_FLAG_ERROR,
                value0,
                value1,
                task,
            )

    def __call__(self, function: "Any") -> "Any":
        recorder, label = self._recorder, self._label
        try:
            return replacement(function, False, lambda call: timed(call, recorder.record_span, label, 0))[0]
        except Exception:
            return function


class _Off:
    """What ``span`` returns when nothing is recorded."""

    __slots__ = ()

    def __enter__(self) -> "_Off":
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __call__(self, function: "Any") -> "Any":
        return function

    def __setattr__(self, _: str, __: object) -> None:
        return None


_OFF = _Off()


def span(
    label: str,
    value0: object = -1,
    value1: object = -1,
    *,
    batch: object = None,
    stage: str = _NO_TEXT,
    group: str = _NO_TEXT,
) -> "Span | _Off":
    """``with span("step", batch=len(requests)) as s:``, or ``@span("step")`` on a function of any kind.

    The report compares steps with others of the same ``batch`` (a size, a whole number), ``stage``
    (``prefill``, ``decode``, ``mixed`` or ``empty``; another text is left out) and ``group`` (a name of
    the program's own, as of a route or a task: each one costs a record that is never dropped, so not
    one a request, and nothing that a client has sent). ``value0`` and ``value1`` are whole numbers
    of your own; a batch size takes the first one's place, a group the second's. All of them may be set
    on ``s`` before the end; on a decorated function they are not recorded.
    """
    recorder = probe.recorder_of_this_process()
    return _OFF if recorder is None else Span(recorder, label, value0, value1, batch, stage, group)


def begin(label: str) -> int:
    """Begin a span that ``end`` ends, perhaps in another thread. The token is a plain number."""
    recorder = probe.recorder_of_this_process()
    if recorder is None:
        return 0
    return _serial() << 96 | label_id(recorder, label) << 64 | monotonic_ns()


def end(
    token: int,
    value0: object = -1,
    value1: object = -1,
    error: bool = False,
    *,
    batch: object = None,
    stage: str = _NO_TEXT,
    group: str = _NO_TEXT,
) -> None:
    """End a span begun by ``begin``. A second end of the same token, or one never made, does nothing.

    The others as in ``span``.
    """
    recorder = probe.recorder_of_this_process()
    if recorder is None or type(token) is not int:
        return
    stop = monotonic_ns()
    serial, label, start = token >> 96, token >> 64 & (1 << 32) - 1, token & (1 << 64) - 1
    if not 0 < serial < 1 << 62 or not label or start > stop or _ended[serial % _REMEMBERED] == serial:
        return
    _ended[serial % _REMEMBERED] = serial
    flags, first, second = _told(recorder, batch, stage, group, value0, value1)
    flags |= SPAN_FLAG_ERROR if error else 0
    recorder.record_span(start, stop, label, SPAN_SPLIT, flags, first, second, serial)


OURS.add(span.__code__.co_filename)
