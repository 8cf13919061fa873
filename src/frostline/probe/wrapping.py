"""Putting a timed callable in the place of another, and back. Loaded with ``spans`` only."""

from _weakref import ref

import frostline.probe as probe
from frostline.format import MARK_REFUSED, MARK_WRAPPED, SPAN_FLAG_PRESET
from frostline.probe.attributes import (
    MISSING,
    Rebinding,
    Refused,
    assign,
    delete,
    find,
    namespace,
    no_such_name,
    replacement,
)
from frostline.probe.kinds import FunctionType, MemberDescriptorType, MethodType, ModuleType
from frostline.probe.live import Dispatcher, Live, dispatcher_for
from frostline.probe.wrappers import silence, timed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from frostline.probe.recorder import Recorder
    from frostline.probe.wrappers import Teller

#: A name costs a record that is never dropped, so a program that makes a new label for each
#: request must not fill the recording with them.
LABEL_LIMIT = 4096
_OVERFLOW = "(more labels)"
_TEXT_LIMIT = 200
_labels: "dict[str, int]" = {}
_marked: "set[tuple[int, str, str]]" = set()


class Handle:
    """A wrapped attribute. ``undo()`` puts back what was there; ``reason`` says why nothing was done."""

    __slots__ = ("_name", "_original", "_owner", "_stored", "_timed", "reason")

    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        #: Gives the owner: weakly where it is an object, which may keep its own handle.
        self._owner: "Callable[[], Any] | None" = None
        self._name = ""
        self._original: object = None
        self._stored: object = None
        self._timed: object = None

    def undo(self) -> bool:
        """True if the attribute is as it was. If others have built upon ours, it goes silent instead."""
        owner = None if self._owner is None else self._owner()
        return False if owner is None else self._undo(owner)

    def _undo(self, owner: "Any") -> bool:
        if self._stored is None:
            return False
        stored, original, self._stored = self._stored, self._original, None
        if _stored(owner, self._name) is not stored:
            if isinstance(self._timed, Rebinding):
                self._timed.silence()
            else:
                silence(self._timed)
            return False
        if isinstance(original, Dispatcher) and not original.targets:
            original = original.__wrapped__  # the object it was for has gone since
        if original is MISSING:
            delete(owner, self._name)
        else:
            _store(owner, self._name, original)
        return True


INERT = Handle("not recording")
#: A preset times the requests of this process, so our middleware must not do it once more.
requests_timed = False
#: What presets and ``--span`` have wrapped, for the way out: one a target, however often it is called.
_placed: "list[Handle | Live]" = []


def place(
    recorder: "Recorder",
    module: object,
    name: str,
    label: str,
    flags: int,
    target: str,
    teller: "Teller | None" = None,
) -> None:
    """``try_to_wrap`` for what an operator asked for, and not the program: ``undo_placed`` takes it back."""
    global requests_timed
    handle = try_to_wrap(recorder, module, name, label, flags, target, teller)
    if not handle.reason:
        _placed.append(handle)
        requests_timed = requests_timed or bool(flags & SPAN_FLAG_PRESET and label == "request")


def undo_placed() -> int:
    """Takes out what ``place`` put in. Returns how many stay, built upon by others: silent from now on."""
    global requests_timed
    requests_timed = False
    kept = 0
    while _placed:
        kept += not _placed.pop().undo()
    _labels.clear()  # numbers of the recording that ends
    _marked.clear()
    return kept


def wrap_callable(owner: "Any", name: str, label: str, flags: int) -> "Handle | Live":
    """``wrap`` for what is known to exist, with the SPAN_FLAG_* to record. Returns the way back.

    Raises:
        Refused: with the reason.
    """
    recorder = probe.recorder_of_this_process()
    if recorder is None:
        return INERT
    return _wrap(recorder, owner, name, label_id(recorder, label), flags)


def try_to_wrap(
    recorder: "Recorder",
    obj: "Any",
    name: str,
    label: str,
    flags: int,
    target: str,
    teller: "Teller | None" = None,
) -> "Handle | Live":
    try:
        *path, last = name.split(".")
        for part in path:
            if not hasattr(obj, part):
                raise Refused(no_such_name(obj, part))
            obj = getattr(obj, part)
        if last.startswith("__") and not last.endswith("__") and isinstance(obj, type):
            last = f"_{obj.__name__.lstrip('_')}{last}"
        handle = _wrap(recorder, obj, last, label_id(recorder, label), flags, teller)
        mark(recorder, MARK_WRAPPED, target, label)
        return handle
    except Refused as refused:
        reason = str(refused)
    except Exception as error:
        reason = f"unexpected: {type(error).__name__}: {error}"
    mark(recorder, MARK_REFUSED, target, reason)
    return Handle(reason)


def _wrap(
    recorder: "Recorder",
    owner: "Any",
    name: str,
    label: int,
    flags: int,
    teller: "Teller | None" = None,
) -> "Handle | Live":
    record = recorder.record_span

    def make(call: "Any") -> "Any":
        return timed(call, record, label, flags, teller)

    known = handle_of(owner, name)
    if known is not None:
        return known
    in_class = isinstance(owner, type)
    if in_class or isinstance(owner, ModuleType):
        raw, base = find(owner, name)
        if _is_callable_object(raw):
            return _wrap(recorder, raw, "__call__", label, flags, teller)
    else:
        raw = _stored(owner, name)
        if raw is MISSING:
            dispatcher = dispatcher_for(owner, name)
            if label not in dispatcher.functions:
                dispatcher.functions[label] = make(dispatcher.__wrapped__) if dispatcher.plain else make
            return dispatcher.add(owner, dispatcher.functions[label])
        base = owner
    stored, function = replacement(raw, in_class, make)
    if isinstance(function, FunctionType) and not hasattr(raw, "__qualname__"):  # a partial
        function.__name__ = name
        function.__qualname__ = f"{owner.__qualname__}.{name}" if in_class else name
        function.__module__ = getattr(owner, "__module__" if in_class else "__name__", function.__module__)
    handle = Handle()
    handle._name, handle._stored, handle._timed = name, stored, function
    handle._original = raw if base is owner else MISSING
    handle._owner = _way_to(owner)
    _store(owner, name, stored)
    if isinstance(function, FunctionType):
        function.__dict__["__frostline__"] = handle
    elif isinstance(function, Rebinding):
        function.handle = handle
    return handle


def _way_to(owner: "Any") -> "Callable[[], Any] | None":
    if isinstance(owner, type | ModuleType):
        return lambda: owner
    try:
        return ref(owner)
    except TypeError:
        return None


def _is_callable_object(raw: "Any") -> bool:
    """An instance of a Python class with ``__call__``: it stays itself, its ``__call__`` is timed."""
    cls = type(raw)
    if hasattr(cls, "__get__") or not cls.__flags__ & 0x200:  # Py_TPFLAGS_HEAPTYPE
        return False
    return any(type(namespace(base).get("__call__")) is FunctionType for base in cls.__mro__)


def _stored(owner: "Any", name: str) -> "Any":
    """What the owner itself holds under a name, in its dictionary or in a slot."""
    raw = namespace(owner).get(name, MISSING)
    if raw is MISSING and not isinstance(owner, type | ModuleType):
        slot = getattr(type(owner), name, None)
        if type(slot) is MemberDescriptorType:
            try:
                return slot.__get__(owner)
            except AttributeError:
                return MISSING
    return raw


def _store(owner: "Any", name: str, value: object) -> None:
    if not isinstance(owner, type | ModuleType):
        slot = getattr(type(owner), name, None)
        if type(slot) is MemberDescriptorType:
            slot.__set__(owner, value)
            return
    assign(owner, name, value)


def handle_of(owner: "Any", name: str) -> "Handle | Live | None":
    """The handle of an earlier wrap that is still in place."""
    raw = _stored(owner, name)
    if raw is MISSING:
        if isinstance(owner, type | ModuleType):
            return None
        dispatcher = next(
            (d for d in (namespace(c).get(name) for c in type(owner).__mro__) if d is not None), None
        )
        return dispatcher.targets.get(id(owner)) if type(dispatcher) is Dispatcher else None
    function = raw.__func__ if isinstance(raw, staticmethod | classmethod | MethodType) else raw
    function = getattr(function, "func", function) if type(function).__name__ == "partialmethod" else function
    if type(function) is Rebinding:
        handle = function.handle
    else:
        handle = getattr(function, "__dict__", {}).get("__frostline__")
    # functools.wraps copies a function's dictionary: only the function it was made for counts.
    if isinstance(handle, Handle) and handle._timed is function and handle._stored is raw:
        return handle
    return None


# --- names and marks ------------------------------------------------------------------
def plain_text(label: object) -> str:
    """A label as text, whatever the host gave: what passes while nothing is recorded must pass always."""
    try:
        return str.__str__(label) if isinstance(label, str) else str(label)
    except Exception:
        return f"({type(label).__name__})"


def label_id(recorder: "Recorder", label: str) -> int:
    if type(label) is not str:
        label = plain_text(label)
    number = _labels.get(label)
    if number is None:
        if len(_labels) >= LABEL_LIMIT and label != _OVERFLOW:
            return label_id(recorder, _OVERFLOW)
        number = _labels[label] = recorder.name_id(label)
    return number


def mark(recorder: "Recorder", kind: int, target: str, text: str) -> None:
    """Once for each target, however many objects are wrapped."""
    if len(text) > _TEXT_LIMIT:
        text = text[: _TEXT_LIMIT - 3] + "..."  # the recorder keeps the end of what is too long
    key = (kind, target, text)
    if key not in _marked and len(_marked) < LABEL_LIMIT:
        _marked.add(key)
        recorder.mark(kind, a=recorder.name_id(target), b=recorder.name_id(text))
