"""Wrapping a method of one object. Loaded with ``spans`` only.

Assigning a wrapper onto the object would make a cycle (object, its dictionary, wrapper,
bound method, object) that keeps every finished object alive until the collector runs: the
very thing that such a wrapper is meant to measure (row B5, case 03). So a descriptor goes
into the class, and asks of each object whether it is one of the wrapped ones. It knows
them by identity and through a weak reference, which forgets an object as it dies.
"""

from _weakref import ref

from frostline.probe.attributes import (
    Refused,
    assign,
    compiled,
    find,
    is_plain,
    namespace,
    refuse_if_hopeless,
)
from frostline.probe.callback import OURS
from frostline.probe.kinds import MethodType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE
_HEAP = 1 << 9  # Py_TPFLAGS_HEAPTYPE


class Live(ref):  # type: ignore[type-arg]
    """One wrapped object: a weak reference to it, and the handle that ``wrap`` returns."""

    __slots__ = ("dispatcher", "function", "key", "reason")
    dispatcher: "Any"
    function: "Any"
    key: int
    reason: str

    def undo(self) -> bool:
        """True if it was wrapped until now."""
        return bool(self.dispatcher.forget(self))


class Dispatcher:
    """In the class, in the place of a method: timed for some objects, as before for all others."""

    __slots__ = ("__wrapped__", "_base", "_get", "_gone", "_name", "functions", "plain", "targets")

    def __init__(self, raw: "Any", base: type, name: str) -> None:
        self.__wrapped__ = raw
        self._base = base
        self._name = name
        self._get: "Callable[..., object]" = raw.__get__
        #: Of a descriptor that we do not know, what it hands out is timed, as in Rebinding.
        self.plain = is_plain(raw)
        #: One timed function a label, so that wrapping an object costs one weak reference;
        #: where it is not plain, what makes one.
        self.functions: "dict[int, Any]" = {}
        targets: "dict[int, Live]" = {}
        self.targets = targets

        def gone(live: "Live") -> None:
            if targets.get(live.key) is live:
                del targets[live.key]

        self._gone = gone

    def __get__(self, obj: object, owner: "type | None" = None) -> object:
        live = self.targets.get(id(obj))
        if live is None:
            return self._get(obj, owner)
        if self.plain:
            return MethodType(live.function, obj)
        return live.function(self._get(obj, owner))

    # For those who take it out of the class's dictionary.
    def __call__(self, *args: object, **kwargs: object) -> object:
        return self.__wrapped__(*args, **kwargs)

    def __getattr__(self, name: str) -> object:
        return getattr(self.__wrapped__, name)

    def add(self, obj: object, function: "Any") -> Live:
        live = Live(obj, self._gone)
        live.dispatcher = self
        live.function = function
        live.key = id(obj)
        live.reason = ""
        self.targets[live.key] = live
        return live

    def forget(self, live: Live) -> bool:
        if self.targets.get(live.key) is not live:
            return False
        del self.targets[live.key]
        if not self.targets and namespace(self._base).get(self._name) is self:
            assign(self._base, self._name, self.__wrapped__)
        return True


def dispatcher_for(obj: object, name: str) -> Dispatcher:
    """The dispatcher for a method of ``obj``, put into the class that defines it if need be.

    That class, not the object's own, so that a method which somebody later puts into a
    base is still inherited.

    Raises:
        Refused: with the reason.
    """
    cls = type(obj)
    raw, base = find(cls, name)
    if type(raw) is Dispatcher:
        return raw
    refuse_if_hopeless(raw)
    if isinstance(raw, staticmethod | classmethod):
        raise Refused(f"a {type(raw).__name__} does not receive the object; wrap it on the class")
    if not callable(raw) or not hasattr(type(raw), "__get__") or type(raw) is MethodType:
        raise Refused("it belongs to the class and does not receive the object; wrap it on the class")
    if base.__flags__ & _IMMUTABLE or not base.__flags__ & _HEAP:
        raise Refused(compiled(base))
    if not cls.__weakrefoffset__:
        raise Refused(
            f"{cls.__qualname__} has no room for a weak reference (__slots__); wrap the method on the class"
        )
    dispatcher = Dispatcher(raw, base, name)
    assign(base, name, dispatcher)
    return dispatcher


OURS.add(dispatcher_for.__code__.co_filename)
