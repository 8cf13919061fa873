"""Kinds of cycles that people make again and again, each with what ends it."""

from _weakref import ref

from frostline.heap import edges
from frostline.probe.kinds import FunctionType, MethodType, mro

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_LRU = "functools._lru_cache_wrapper"
_TASKS = ("_asyncio.Task", "asyncio.tasks.Task")
_FUTURES = ("_asyncio.Future", "asyncio.futures.Future", "concurrent.futures._base.Future")


def of(cycle: "Sequence[object]", nodes: "Sequence[str]") -> "tuple[str, str]":
    """The pattern's name and its remedy; two empty texts for a cycle that is none of them.

    Args:
        cycle: the objects, each referring to the next and the last to the first.
        nodes: the same in words (``cycles``), for names of variables.
    """
    kinds = [type(one) for one in cycle]
    names = [edges.named(kind) for kind in kinds]
    instances = [one for one, kind in zip(cycle, kinds, strict=True) if _of_program(kind)]
    if any(kind is edges.Traceback for kind in kinds):
        variable = next((_after(text, " variable ") for text in nodes if " variable " in text), "")
        held = f"the variable {variable}" if variable else "a variable"
        if variable == "self" and instances:
            return (
                "an exception kept by an object that a frame in its own traceback holds as self",
                "keep its text, or error.with_traceback(None), and not the exception as it was raised",
            )
        return (
            f"an exception kept by {held} of a frame in its own traceback",
            f"set {variable or 'it'} to None in a finally, or keep the text and not the exception",
        )
    if any(name.startswith("unittest.mock.") for name in names) or any(
        "class unittest.mock." in text for text in nodes
    ):
        return (
            "a mock: it holds the mocks made of it and they hold it, and each has a class of its own",
            "nothing in the program that is tested; where a suite makes many, a small class in their place",
        )
    methods = [one for one in cycle if type(one) is MethodType]
    if methods and any(name.endswith(".CFunctionType") for name in names):
        return (
            "a ctypes callback stored on the object whose method it calls",
            "make the callback of a module-level function, or of a closure that holds self by weakref.ref",
        )
    if any(map(_of_ctypes, kinds)):
        return (
            "a ctypes object that keeps, in _objects, what it points to, and so itself",
            "set the pointer to None when done, or hold the target outside and point to it by address",
        )
    if any(name.startswith(("_ctypes.", "ctypes.")) for name in names):
        return (
            "a ctypes type or object that keeps itself",
            "make the type once, and drop _objects by copying out",
        )
    if any(_of_kind(kind, _TASKS) for kind in kinds):
        return (
            "an asyncio task whose coroutine holds it",
            "do not keep the task in its own coroutine's variables; await it, or discard it when done",
        )
    if any(_of_kind(kind, _FUTURES) for kind in kinds):
        return (
            "a future that is held by what it holds",
            "drop the reference to the future when its result has been taken",
        )
    if "sqlite3.Connection" in names and _LRU in names:
        return (
            "a sqlite3 connection that nobody closed: its cache of statements holds it (3.11 and newer)",
            "close() it, or use contextlib.closing: leaving its own `with` block does not",
        )
    if any(name.startswith("xml.dom.minidom.") for name in names):
        return (
            "a minidom tree: each node knows its parent and its document",
            "document.unlink() when done, or `with parseString(...) as document`",
        )
    if any(edges.of_contextvars(kind) == "Context" for kind in kinds):
        return (
            "an object that keeps a context in which it is the value of a variable itself",
            "reset the variable by its token, or keep the values that are needed and not the context",
        )
    if _LRU in names:
        return (
            "an lru_cache that holds the object that it belongs to",
            "cache a module-level function of the values, or use functools.cached_property",
        )
    if any(edges.runs(kind) for kind in kinds):
        return (
            "a generator or coroutine whose own variables hold it",
            "close() it when done, and do not store it on an object that its frame holds",
        )
    if any(kind is edges.Frame for kind in kinds):
        return (
            "a frame that a variable of its own holds",
            "del the variable, or do not keep frames (sys._getframe)",
        )
    functions = [one for one in cycle if type(one) is FunctionType]
    if any(issubclass(kind, type) for kind in kinds):
        return (
            "a class that is made again and again: each class is part of cycles with its own __mro__",
            "make it once, at module level, not inside the function that uses it",
        )
    if instances and functions:
        return (
            "a closure stored on the object that it holds",
            "wrap the object (a proxy that holds it), or hold it in the closure by weakref.ref",
        )
    if any(name == "functools.partial" for name in names) and instances:
        return (
            "a functools.partial stored on the object that it holds",
            "store the function and pass self when it is called, or hold the object by weakref.ref",
        )
    if instances and methods:
        return (
            "an object that holds a bound method of itself",
            "look the method up when it is called, or hold it by weakref.WeakMethod",
        )
    if functions:
        return (
            "an inner function that refers to itself",
            "make it a function of the module, or hand it to itself as an argument",
        )
    if any(issubclass(kind, ref) or edges.module_of(kind) == "weakref" for kind in kinds):
        return (
            "a weak reference whose callback holds its own object",
            "let the callback hold ids or names only",
        )
    if any(_module_of_torch(kind) for kind in kinds):
        return (
            "a torch module that holds its parent",
            "hold the parent by weakref.ref, or in a list that is no submodule",
        )
    if len(instances) > 1 and any(map(_of_dataclass, kinds)):
        return (
            "dataclass objects that refer to each other, as parent and child",
            "hold the way back by weakref.ref (with slots=True a dataclass needs weakref_slot=True as well,"
            " from 3.11 on), or cut it when the work is done",
        )
    if len(instances) == 1 and len(cycle) <= 3:
        return (
            "an object that refers to itself",
            "do not store self on itself; use a weakref.ref, or None for 'me'",
        )
    if len(instances) > 1:
        return (
            "objects that refer to each other, as parent and child",
            "hold the way back (child to parent) by weakref.ref, or cut it when the work is done",
        )
    if not instances:
        return "a container that holds itself", "do not put it into itself; clear() it when done"
    return "", ""


def _of_program(kind: type) -> bool:
    return (
        edges.heap_type(kind) and not issubclass(kind, type) and edges.module_of(kind) not in edges.PLUMBING
    )


def _of_kind(kind: type, names: "tuple[str, ...]") -> bool:
    """Whether it is, or is made of, one of these types. By their whole names: a program has its own Task."""
    return any(edges.named(cls) in names for cls in mro(kind))


def _of_ctypes(kind: type) -> bool:
    """Whether it is an instance of a ctypes structure, union, array, pointer or simple type."""
    return _of_kind(kind, ("_ctypes._CData",))


def _module_of_torch(kind: type) -> bool:
    return _of_kind(kind, ("torch.nn.modules.module.Module",))


def _of_dataclass(kind: type) -> bool:
    return any("__dataclass_fields__" in type.__dict__["__dict__"].__get__(cls) for cls in mro(kind))


def _after(text: str, mark: str) -> str:
    return text.split(mark, 1)[1].split(" ", 1)[0]
