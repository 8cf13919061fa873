"""By what one object refers to another, and how an object is named in a line of text.

Runs over garbage that the collector has saved, in the program's own process, so nothing of the program's
may run: no ``__repr__``, no ``__eq__``, no ``__getattr__``, no property, and no ``isinstance``, which asks
an object for its ``__class__``; types have a metaclass, which may compare and hash as it likes. What a slot
or a getter of the interpreter hands out is compared by identity.
"""

import gc
import sys

from frostline.heap import frames
from frostline.probe.kinds import (
    CodeType,
    CoroutineType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    attributes_of,
    mro,
    own_dict,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType, TracebackType
    from typing import Any


def _kinds() -> "tuple[type, ...]":
    """The types of cells, frames, tracebacks and generators.

    Leaves no cycle: in a process that is asked for its cycles it would be among them.
    """

    def outer(value: object) -> "Iterator[object]":
        yield lambda: value

    made = outer(None)
    inner = next(made)
    assert isinstance(inner, FunctionType) and inner.__closure__
    cell, frame, generator = type(inner.__closure__[0]), type(sys._getframe()), type(made)
    try:
        raise ZeroDivisionError
    except ZeroDivisionError as error:
        traceback = type(error.__traceback__)

    async def asynchronous() -> "object":
        yield None

    return cell, frame, traceback, generator, type(asynchronous())


Cell, Frame, Traceback, Generator, AsyncGenerator = _kinds()
_MODULE_DICT: object = vars(ModuleType)["__dict__"]
#: id of the type -> its attributes for frame, what it waits for, and code.
_RUNS = {
    id(Generator): ("gi_frame", "gi_yieldfrom", "gi_code"),
    id(CoroutineType): ("cr_frame", "cr_await", "cr_code"),
    id(AsyncGenerator): ("ag_frame", "ag_await", "ag_code"),
}
#: Names that getters of the interpreter's and the standard library's C types answer to. Read only on types
#: that are not written in Python.
_GETTERS = (
    "__self__", "__func__", "__wrapped__", "__dict__", "func", "args", "keywords", "__callback__", "fget",
    "fset", "fdel", "__name__", "__qualname__", "__module__", "__doc__", "__traceback__", "__context__",
    "__cause__", "tb_frame", "tb_next", "f_back", "f_code", "f_trace", "cell_contents", "__closure__",
    "__defaults__", "__kwdefaults__", "__annotations__", "__globals__", "__code__", "__builtins__",
    "__mro__", "__bases__", "__base__", "_coro", "_exception", "_loop", "_fut_waiter", "_source_traceback",
    "_context", "_result", "default_factory", "_objects", "__origin__", "__args__", "obj", "__objclass__",
    "__thisclass__", "__self_class__", "old_value",
)  # fmt: skip


def edge(holder: object, held: object) -> str:
    """How ``holder`` refers to ``held``: ``.name``, ``[key]``, ``cell name``; empty where that is not
    known."""
    kind = type(holder)
    if kind is dict:
        return _key(holder, held)  # type: ignore[arg-type]
    if kind is list or kind is tuple:
        return _place(holder, held)  # type: ignore[arg-type]
    if kind is set or kind is frozenset:
        return "{...}"
    if kind is FunctionType:
        return _of_function(holder, held)  # type: ignore[arg-type]
    if kind is Frame:
        return _local(holder, held) or _getter(holder, held)  # type: ignore[arg-type]
    if id(kind) in _RUNS:
        frame_name, waits, _ = _RUNS[id(kind)]
        frame = getattr(holder, frame_name)
        if frame is held:
            return ""
        if frame is not None and (name := _local(frame, held)):
            return name
        return f".{waits}" if getattr(holder, waits, None) is held else ""
    if issubclass(kind, type):
        return _of_class(holder, held)  # type: ignore[arg-type]
    name = _slot(holder, held)
    if name:
        return name
    if held is not None and attributes_of(holder) is held:
        return ".__dict__"
    owned = own_dict(holder)
    if owned is not None and (name := _key(owned, held)):
        return f".__dict__{name}"
    name = _getter(holder, held) or _of_context(holder, held)
    if name:
        return name
    # A subclass of a container.
    if issubclass(kind, dict):
        return _key(holder, held)  # type: ignore[arg-type]
    if issubclass(kind, (list, tuple)):
        return _place(holder, held)  # type: ignore[arg-type]
    return ".__class__" if kind is held else ""


def names_of(module: "ModuleType") -> "dict[str, object]":
    """A module's globals, past what a subclass may have made of ``__dict__``."""
    return _MODULE_DICT.__get__(module)  # type: ignore[no-any-return, attr-defined]


def _key(holder: "dict[Any, Any]", held: object) -> str:
    try:
        return _among(dict.items(holder), held)
    except RuntimeError:  # another thread has put something into it: a list of a dict is made at one go
        return _among(list(dict.items(holder)), held)


def _among(pairs: "Iterable[tuple[object, object]]", held: object) -> str:
    for key, value in pairs:
        if value is held:
            return f"[{word(key)}]"
        if key is held:
            return "{key}"
    return ""


def _place(holder: "list[object] | tuple[object, ...]", held: object) -> str:
    base = list if issubclass(type(holder), list) else tuple
    try:
        for i in range(base.__len__(holder)):  # type: ignore[arg-type]
            if base.__getitem__(holder, i) is held:  # type: ignore[index]
                return f"[{i}]"
    except IndexError:  # another thread has shortened it
        pass
    return ""


def _of_function(holder: "FunctionType", held: object) -> str:
    if holder.__closure__ is held:
        return ".__closure__"
    for name, cell in zip(holder.__code__.co_freevars, holder.__closure__ or (), strict=False):
        if cell is held:
            return f"cell {name}"
    if holder.__dict__ is held:
        return ".__dict__"
    return _getter(holder, held)


def _local(frame: "FrameType", held: object) -> str:
    """The local variable of a frame that holds ``held``, itself or in a cell."""
    for name, value in frames.variables(frame).items():
        if value is held or (type(held) is Cell and frames.contents(held) is value):  # type: ignore[arg-type]
            return f"variable {name}"
    return ""


def _of_class(holder: type, held: object) -> str:
    if mro(holder) is held:
        return ".__mro__"
    names = type.__dict__["__dict__"].__get__(holder)
    if any(one is held for one in gc.get_referents(names)):
        return ".__dict__"
    for name, value in list(names.items()):
        if value is held:
            return f".{name}"
    return _getter(holder, held)


def _slot(holder: object, held: object) -> str:
    for cls in mro(type(holder)):
        for name, member in list(type.__dict__["__dict__"].__get__(cls).items()):
            if type(member) is MemberDescriptorType:
                try:
                    if member.__get__(holder) is held:
                        return f".{name}"
                except (AttributeError, TypeError):  # it is empty; it is another class's
                    continue
    return ""


def _getter(holder: object, held: object) -> str:
    """By the interpreter's own getters: only what types written in C define."""
    for cls in mro(type(holder)):
        if heap_type(cls) and module_of(cls) not in _C_MODULES:
            continue
        names = type.__dict__["__dict__"].__get__(cls)
        for name in _GETTERS:
            kind = type(names[name]) if name in names else None
            if kind is GetSetDescriptorType or kind is MemberDescriptorType:
                try:
                    if names[name].__get__(holder) is held:
                        return f".{name}"
                except Exception:
                    continue
    return ""


def _of_context(holder: object, held: object) -> str:
    """The context variable whose value ``held`` is, of a node of the tree that a Context is made of; or that
    it is the default of one.

    A node's referents come from its end: each value, then its variable.
    """
    kind = type(holder)
    if of_hamt(kind):
        entries = gc.get_referents(holder)
        for i, variable in enumerate(entries[1:]):
            if entries[i] is held and of_contextvars(type(variable)) == "ContextVar":
                return f"[{variable.name}]"
    elif of_contextvars(kind) == "ContextVar":
        return ".default" if any(one is held for one in gc.get_referents(holder)) else ""
    return ""


def of_hamt(kind: type) -> bool:
    """Whether objects of a type are of the tree in which a Context keeps its values."""
    return not heap_type(kind) and kind.__name__.startswith("hamt")


def of_contextvars(kind: type) -> str:
    """``Context``, ``ContextVar`` or ``Token``, where it is the interpreter's own type of that name."""
    name = named(kind).removeprefix("_contextvars.")
    return name if name in ("Context", "ContextVar", "Token") and not heap_type(kind) else ""


#: Types of these stand between a program's own objects; a cycle is not named by them.
PLUMBING = ("functools", "_asyncio", "weakref", "types")
#: Heap types that are written in C all the same.
_C_MODULES = (
    "functools", "_asyncio", "_ctypes", "_functools", "_weakref", "weakref", "_thread", "itertools",
    "collections",
)  # fmt: skip


def word(key: object) -> str:
    """A key in words: only those that cannot run code of the program's or be long."""
    if type(key) is str:
        return repr(key if len(key) <= 40 else key[:37] + "...")
    if key is None or type(key) is bool or (type(key) is int and key.bit_length() <= 128):
        return repr(key)  # of a long number there is none (3.11 and newer)
    if issubclass(type(key), type):
        return f"<class {named(key)}>"  # type: ignore[arg-type]
    return f"<{named(type(key))}>"


def place(code: "CodeType", line: int = 0) -> str:
    name = code.co_filename.replace("\\", "/").rsplit("/", 1)[-1]
    return f"{name}:{line or code.co_firstlineno}"


def code_of(one: object) -> "CodeType | None":
    """The code that an object runs, where it has one: it tells one closure from another."""
    kind = type(one)
    if kind is FunctionType:
        return one.__code__  # type: ignore[attr-defined, no-any-return]
    if kind is MethodType:
        return code_of(one.__func__)  # type: ignore[attr-defined]
    if is_partial(kind):
        return code_of(_called(one))
    if kind is Frame:
        return one.f_code  # type: ignore[attr-defined, no-any-return]
    if kind is Traceback:
        return one.tb_frame.f_code  # type: ignore[attr-defined, no-any-return]
    if id(kind) in _RUNS:
        return getattr(one, _RUNS[id(kind)][2])  # type: ignore[no-any-return]
    return None


def has_code(kind: type) -> bool:
    """Whether objects of a type differ by the code that they run."""
    plain = kind is FunctionType or kind is MethodType or kind is Frame or kind is Traceback
    return plain or is_partial(kind) or runs(kind)


def is_partial(kind: type) -> bool:
    return module_of(kind) == "functools" and named(kind) == "functools.partial"


def _called(partial: object) -> object:
    """What a partial calls, past what a class of that name may have made of the word."""
    member = type.__dict__["__dict__"].__get__(type(partial)).get("func")
    return member.__get__(partial) if type(member) is MemberDescriptorType else None


def runs(kind: type) -> bool:
    """Whether it is the type of generators, coroutines or asynchronous generators."""
    return id(kind) in _RUNS


def waits_at(one: object) -> int:
    """The line at which a generator, a coroutine or an asynchronous generator stands; 0 if it has ended."""
    frame: FrameType | None = getattr(one, _RUNS[id(type(one))][0])
    return (frame.f_lineno or 0) if frame is not None else 0


def node(one: object, *, placed: bool = False) -> str:
    """An object in a few words, with file and line where it has code; a method's where ``placed`` is set."""
    kind = type(one)
    if kind is FunctionType:
        code: CodeType = one.__code__  # type: ignore[attr-defined]
        return f"function {code.co_name} ({place(code)})"
    if kind is MethodType:
        words = f"method {_name_of(one.__func__)}"  # type: ignore[attr-defined]
        ran = code_of(one) if placed else None
        return f"{words} ({place(ran)})" if ran is not None else words
    if kind is Frame:
        frame: FrameType = one  # type: ignore[assignment]
        stands = f", at line {frame.f_lineno}" if frame.f_lineno else ""
        return f"frame of {frame.f_code.co_name} ({place(frame.f_code)}{stands})"
    if kind is Traceback:
        trace: TracebackType = one  # type: ignore[assignment]
        return f"traceback ({place(trace.tb_frame.f_code, trace.tb_lineno)})"
    if id(kind) in _RUNS:
        what = (
            "generator" if kind is Generator else "coroutine" if kind is CoroutineType else "async generator"
        )
        ran = code_of(one)
        assert ran is not None
        return f"{what} {ran.co_name} ({place(ran)})"
    if kind is Cell:
        return "cell"
    if is_partial(kind) and code_of(one) is not None:
        return f"{named(kind)} of {node(_called(one), placed=True)}"
    if issubclass(kind, type):
        return f"class {named(one)}"  # type: ignore[arg-type]
    if kind is ModuleType:
        return "module"
    return named(kind)


def _name_of(called: object) -> str:
    """What a bound method calls, past what that may have made of the word."""
    kind = type(called)
    if kind is FunctionType:
        name: object = called.__name__  # type: ignore[attr-defined]
        return name if type(name) is str else called.__code__.co_name  # type: ignore[attr-defined]
    for key, name in list((own_dict(called) or {}).items()):
        if type(key) is str and key == "__name__" and type(name) is str:
            return name  # a wrapper of functools
    return f"of {named(kind)}" if heap_type(kind) or kind is MethodType else named(kind)


def heap_type(kind: type) -> bool:
    """Whether a type was made at run time: by a class statement, or by a C module of the newer kind."""
    return bool(type.__dict__["__flags__"].__get__(kind) & (1 << 9))


def module_of(kind: type) -> str:
    """The module that a type says it is of; empty where that is no text."""
    try:
        module = type.__dict__["__module__"].__get__(kind)
    except AttributeError:  # made where no module had a name, by exec or in C (SWIG's)
        return ""
    return module if type(module) is str else ""


def of_library(kind: type) -> bool:
    """Whether a type is of a module of the standard library."""
    return _in_library(module_of(kind))


def function_of_library(function: "FunctionType") -> bool:
    """Whether a function is of a module of the standard library, by the globals that it runs with."""
    module = dict.get(function.__globals__, "__name__")
    return type(module) is str and _in_library(module)


def _in_library(module: str) -> bool:
    return module.partition(".")[0] in sys.stdlib_module_names


def traceback_of(error: object) -> object:
    """An exception's traceback, past what its class may have made of the word."""
    return BaseException.__dict__["__traceback__"].__get__(error)


def named(kind: type) -> str:
    """A type's name, with its module unless that is the interpreter's or the program's own file."""
    module = module_of(kind)
    name = str.replace(type.__dict__["__qualname__"].__get__(kind), "<locals>.", "")
    return name if module in ("builtins", "__main__", "__mp_main__", "") else f"{module}.{name}"
