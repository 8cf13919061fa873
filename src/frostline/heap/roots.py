"""Where a way begins: modules, variables of functions that run, exceptions in handling, the current context.

None of the last three is held by an object that the collector walks, so ``gc.get_referrers`` does not tell.
"""

import _weakref
import gc
import sys

from frostline.heap import edges, frames
from frostline.probe.kinds import BuiltinFunctionType, ModuleType, mro

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

HANDLED = "the exception that a thread is handling"
_OURS = __file__.rsplit("/", 2)[0]
#: The reference server is a program as any other.
_DEMO = f"{_OURS}/demo/"


class Roots:
    """The roots as they are now. Holds none of their objects; threads go on, so a variable is looked up again
    before it is told."""

    __slots__ = ("_context", "_handled", "_modules", "_types", "_variables")

    def __init__(self) -> None:
        self._modules: dict[int, str] = {}
        for name, module in list(sys.modules.items()):
            if issubclass(type(module), ModuleType):
                self._modules[id(edges.names_of(module))] = str(name)
        self._variables = {id(value) for at in running() for value in frames.variables(at).values()}
        self._handled = {id(error) for error in _handled()}
        #: Namespaces of types that are written in C: the collector does not walk such a type, so that nothing
        #: leads to what it holds. Asked for by a walk forward alone.
        self._types: dict[int, str] = {}
        #: -1: not asked for yet.
        self._context = -1

    def is_module(self, one: object) -> bool:
        """Whether it is the namespace of a module."""
        return id(one) in self._modules

    def words(self, one: object) -> str:
        """What root it is, in words; empty where it is none."""
        number = id(one)
        module = self._modules.get(number)
        if module is not None:
            return module
        # The set first: a server of 50 threads has a thousand frames, a layer thousands of objects.
        held = _frames_holding(one) if number in self._variables else ""
        if held:
            return held
        if number in self._handled:
            return HANDLED
        if number in self._types:
            return self._types[number]
        if edges.of_hamt(type(one)):
            if self._context < 0:
                self._context = id(_context())
            if number == self._context:
                return "the current context"
        return ""

    def objects(self) -> "list[object]":
        """The objects themselves, for a walk that starts from them."""
        found: list[object] = [
            edges.names_of(module)
            for module in list(sys.modules.values())
            if issubclass(type(module), ModuleType)
        ]
        for at in running():
            found.extend(frames.variables(at).values())
        found.extend(_handled())
        found.append(_context())
        for kind in _types():
            # Each type's is in a dict of its base's, which for a base that is written in C nobody can ask.
            found.extend(_weakref.getweakrefs(kind))
            if edges.heap_type(kind):
                continue
            for one in gc.get_referents(type.__dict__["__dict__"].__get__(kind)):
                self._types[id(one)] = f"the type {edges.named(kind)}"
                found.append(one)
            found.append(mro(kind))
        return found


def running() -> "Iterator[FrameType]":
    """The frames of all threads, without those of modules, whose variables are found as the module's, and
    without ours.
    """
    # Our own frame is among them, and in a variable of its own it would be a cycle that keeps all it holds:
    # the next look at this process would find it. What called us holds no way back to us.
    found = {id(top): top for top in sys._current_frames().values()}
    own = found.pop(id(sys._getframe()), None)
    tops = list(found.values())
    if own is not None and own.f_back is not None:
        tops.append(own.f_back)
    del own, found
    at: FrameType | None
    while tops:
        at = tops.pop()
        while at is not None:
            if at.f_code.co_name != "<module>" and not _ours(at.f_code.co_filename):
                yield at
            at = at.f_back


def running_ids() -> "set[int]":
    """Ids of every frame that runs in any thread, ours and those of modules too."""
    found = set()
    at: FrameType | None
    for at in sys._current_frames().values():
        while at is not None:
            found.add(id(at))
            at = at.f_back
    return found


def _ours(filename: str) -> bool:
    return filename.startswith(_OURS) and not filename.startswith(_DEMO)


def _frames_holding(one: object) -> str:
    """The running function of any thread that has it in a variable, as ``name (file:line) variable``."""
    for at in running():
        for name, value in frames.variables(at).items():
            if value is one:
                where = edges.place(at.f_code, at.f_lineno or 0)
                return f"{at.f_code.co_name} ({where}) variable {name}"
    return ""


def _handled() -> "list[object]":
    """The exception that each thread is handling now, of those that do."""
    # Up to 3.11 a tuple of type, value and traceback stands for it.
    every: list[object] = list(sys._current_exceptions().values())
    now = [told[1] if type(told) is tuple else told for told in every]
    return [error for error in now if error is not None]


def _types() -> "list[type]":
    """All types that there are, by what each one's bases know of it."""
    found: dict[int, type] = {}
    todo: list[type] = [object]
    while todo:
        kind = todo.pop()
        if id(kind) not in found:
            found[id(kind)] = kind
            todo.extend(type.__subclasses__(kind))  # past what a metaclass may have made of the word
    return list(found.values())


def _context() -> object:
    """What holds the values of the context that this thread runs in; None where that is not known.

    A Context itself is the thread's alone. A copy of it has the same tree of values, for as long as neither
    is changed.
    """
    module = sys.modules.get("_contextvars")  # whoever has a variable has loaded it
    if type(module) is not ModuleType:
        return None
    copy = edges.names_of(module).get("copy_context")
    if type(copy) is not BuiltinFunctionType:
        return None
    for one in gc.get_referents(copy()):
        if edges.of_hamt(type(one)):
            return one
    return None
