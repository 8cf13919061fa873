"""Finding an attribute, and making what takes its place: loaded with ``spans`` only."""

from frostline import probe
from frostline.probe import imports
from frostline.probe.kinds import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
    of_functools,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Make = Callable[[Any], FunctionType]

MISSING = object()


class Refused(Exception):
    """Why a callable stays unwrapped. Never leaves this package."""


class Rebinding:
    """In place of a descriptor that we do not know: what it hands out is timed, not it.

    ``wrapt``'s function wrappers are of this kind: their hooks are told the instance, which
    they learn in ``__get__``, so a function of ours must not stand in front of them.
    """

    __slots__ = ("__wrapped__", "_make", "handle")

    def __init__(self, raw: object, make: "Make") -> None:
        self.__wrapped__ = raw
        self._make: Callable[[Any], Any] = make
        self.handle: object = None

    def silence(self) -> None:
        self._make = lambda found: found

    def __get__(self, obj: object, owner: "type | None" = None) -> object:
        found = self.__wrapped__.__get__(obj, owner)  # type: ignore[attr-defined]
        return self._make(found) if callable(found) else found

    def __call__(self, *args: object, **kwargs: object) -> object:
        return self._make(self.__wrapped__)(*args, **kwargs)

    def __getattr__(self, name: str) -> object:
        return getattr(self.__wrapped__, name)


def namespace(owner: "Any") -> "Any":
    """The owner's own ``__dict__``, past what its class may have made of attribute access."""
    if isinstance(owner, type):
        return type.__dict__["__dict__"].__get__(owner)
    try:
        return object.__getattribute__(owner, "__dict__")
    except AttributeError:
        return {}


def assign(owner: "Any", name: str, value: object) -> None:
    if not isinstance(owner, type):
        namespace(owner)[name] = value
        return
    try:
        type.__setattr__(owner, name, value)  # a metaclass may have views on who sets what
    except TypeError:
        raise Refused(compiled(owner)) from None


def compiled(owner: type) -> str:
    return (
        f"{owner.__qualname__} is a built-in or compiled class, which cannot be changed; "
        "wrap a Python function that calls it"
    )


def delete(owner: "Any", name: str) -> None:
    if isinstance(owner, type):
        type.__delattr__(owner, name)
    else:
        namespace(owner).pop(name, None)


def find(owner: "Any", name: str) -> "tuple[Any, Any]":
    """The attribute as it is stored, and where: for a class, the base that defines it."""
    if isinstance(owner, type):
        for base in owner.__mro__:
            raw = namespace(base).get(name, MISSING)
            if raw is not MISSING:
                return raw, base
    else:
        raw = namespace(owner).get(name, MISSING)
        if raw is MISSING and isinstance(owner, ModuleType):
            raw = getattr(owner, name, MISSING)  # made by the module's __getattr__
        if raw is not MISSING:
            return raw, owner
    raise Refused(no_such_name(owner, name))


def no_such_name(owner: "Any", name: str) -> str:
    here = (
        getattr(owner, "__qualname__", None) or getattr(owner, "__name__", None) or type(owner).__qualname__
    )
    spec = getattr(owner, "__spec__", None)
    if spec is not None and getattr(spec, "_initializing", False) and spec.name not in imports.bodies_run:
        return f"{here} has no {name} yet: its import had begun before the recording"
    words = [word for word in dir(owner) if name.startswith("__") or not word.startswith("__")]
    near = [word for word in words if _near(word, name)][:3]
    return f"{here} has no {name}" + (f"; near: {', '.join(near)}" if near else "")


def _near(word: str, name: str) -> bool:
    """At most two letters changed, or one inside the other. (difflib costs four modules.)"""
    word, name = word.lower().strip("_"), name.lower().strip("_")
    if min(len(word), len(name)) > 3 and (word in name or name in word):
        return True
    if abs(len(word) - len(name)) > 2 or len(name) < 4:
        return False
    row = list(range(len(name) + 1))
    for i, letter in enumerate(word, 1):
        last, row[0] = row[0], i
        for j, other in enumerate(name, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (letter != other))
    return row[-1] <= 2


def is_plain(raw: "Any") -> bool:
    """A callable that one of our functions can stand for, whatever its kind of binding."""
    kind = type(raw)
    return (
        kind in (FunctionType, BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType)
        # Compiled by Cython: has a code object and binds as a function does.
        or kind.__name__ == "cython_function_or_method"
    )


def refuse_if_hopeless(raw: "Any") -> None:
    if isinstance(raw, property) or of_functools(raw, "cached_property"):
        raise Refused("it is a property; wrap a function that it calls")
    if of_functools(raw, "_lru_cache_wrapper"):
        raise Refused(
            "it is an lru_cache: a wrapper would hide its cache_clear; wrap a function that it calls"
        )
    if isinstance(raw, type):
        raise Refused("it is a class; name one of its methods, for example __init__")


def replacement(raw: "Any", in_class: bool, make: "Make") -> "tuple[object, object]":
    """What to store in the place of ``raw``, and the timed function inside it (for silencing).

    Raises:
        Refused: with the reason, for what cannot be wrapped without being seen.
    """
    kind = type(raw)
    refuse_if_hopeless(raw)
    if kind is staticmethod or kind is classmethod:
        if not callable(raw.__func__):
            raise Refused(f"it is a {kind.__name__} of something that is not callable")
        inner, function = replacement(raw.__func__, False, make)
        return kind(inner), function
    if of_functools(raw, "partialmethod") and type(raw.func) is FunctionType:
        function = make(raw.func)
        return kind(function, *raw.args, **raw.keywords), function
    if is_plain(raw):
        function = make(raw)
        return (staticmethod(function) if in_class and not hasattr(kind, "__get__") else function), function
    if of_functools(raw, "partial"):
        function = make(raw)
        return (staticmethod(function) if in_class and not probe.PARTIAL_BINDS else function), function
    if kind is MethodType:
        function = make(raw.__func__)
        method = MethodType(function, raw.__self__)
        return method, function
    if not callable(raw) and not hasattr(kind, "__get__"):
        raise Refused(f"it is not callable but a {kind.__qualname__}")
    if in_class and hasattr(kind, "__get__"):
        stands = Rebinding(raw, make)
        return stands, stands
    if isinstance(getattr(raw, "__code__", None), CodeType) and callable(raw):
        function = make(raw)
        return function, function
    raise Refused(
        f"it is an object of the class {kind.__module__}.{kind.__qualname__}, whose attributes a wrapper would hide"
    )
