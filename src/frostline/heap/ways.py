"""The way to an object in words, and what ends it where its holder is of a kind that people ask about."""

from frostline.heap import edges
from frostline.heap.roots import HANDLED
from frostline.probe.kinds import CoroutineType, FunctionType, MethodType, ModuleType, mro, own_dict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_PLAIN = {id(kind) for kind in (dict, list, tuple, set, frozenset, edges.Cell, edges.Traceback, ModuleType)}
_SUSPENDED = {
    id(edges.Generator): ("a generator that has not ended", "run it to its end, or close() it"),
    id(CoroutineType): ("a coroutine that has not ended", "await it to its end, or cancel its task"),
    id(edges.AsyncGenerator): ("an asynchronous generator that has not ended", "aclose() it"),
}
_LRU = "functools._lru_cache_wrapper"
_LOCAL = "_thread._local"


_CACHED_METHOD = (
    "an lru_cache on a method: it keeps each self that it was called with, and what it returned",
    "functools.cached_property, or a cache of a module-level function of the values; cache_clear() for now",
)
_CACHED = (
    "an lru_cache: it keeps the arguments that it was called with, and what it returned",
    "a maxsize, keys that hold nothing, or cache_clear() when the work is done",
)


class Way:
    """How an object is held. Texts alone: nothing of what was looked at is kept.

    Attributes:
        text: ``module.name['key'][3]``, or why there is none; empty where there was no time.
        pattern, remedy: the kind of holder and what ends it; empty where it is none that we know.
    """

    __slots__ = ("pattern", "remedy", "text")

    def __init__(self, text: str, pattern: str = "", remedy: str = "") -> None:
        self.text = text
        self.pattern = pattern
        self.remedy = remedy


def told(root: str, chain: "Sequence[object]", *, module: bool = False) -> Way:
    """A way from a root to the last object of ``chain``, each of which refers to the next.

    Args:
        root: what the first is, in words; empty where it is no root, and is told as what it is.
        module: whether it is the namespace of a module.
    """
    words = [root] if root else [_node(chain[0])]
    i = 0
    while i < len(chain) - 1:
        at = chain[i]
        if (i or root) and not _transparent(at):
            words.append(f" ({_node(at)})")
        link, steps = _link(chain, i)
        if type(at) is edges.Traceback:
            link = ""  # of a deep one each frame would be told
        if (module and not i) or type(at) is not dict:
            link = _attribute(link)
        if link and link[0] not in ".[{":
            link = f" {link}"
        words.append(link or ("" if _passes_on(at) else "->"))
        i += steps
    return Way("".join(words), *_ends(root, chain))


def _link(chain: "Sequence[object]", i: int) -> "tuple[str, int]":
    """By what an object refers to the next one that a reader cares for, and how many steps that is."""
    at, to = chain[i], chain[i + 1]
    kind = type(at)
    link = edges.edge(at, to)
    ahead = len(chain) - 1 - i
    if link == ".__closure__" and ahead >= 3:
        return edges.edge(at, chain[i + 2]) or "cell", 3  # past the tuple and the cell
    if link == ".__dict__" and ahead >= 2:
        return f".__dict__{edges.edge(to, chain[i + 2])}", 2
    if type(to) is dict and not link and ahead >= 2:
        if issubclass(kind, type):
            return edges.edge(at, chain[i + 2]), 2
        if ahead >= 3 and type(chain[i + 2]) is dict and _is_local(kind):
            # From each thread's token to the thread's names, and from there to the object.
            return _name(edges.edge(chain[i + 2], chain[i + 3])), 3
    if type(to) is edges.Frame and edges.runs(kind) and ahead >= 2:
        return edges.edge(at, chain[i + 2]), 2  # up to 3.10 the frame is an object of its own
    return link, 1


def _attribute(link: str) -> str:
    """A name in an object's own dict as an attribute."""
    return _name(link.removeprefix(".__dict__")) if link != ".__dict__" else link


def _name(link: str) -> str:
    plain = link[:2] == "['" and link[-2:] == "']" and link[2:-2].isidentifier()
    return f".{link[2:-2]}" if plain else link


def _node(one: object) -> str:
    kind = type(one)
    if edges.runs(kind):
        line = edges.waits_at(one)
        return edges.node(one) + (f", at line {line}" if line else "")
    if edges.named(kind) == _LRU:
        # Its own getter, if it has one, is the program's to make: update_wrapper has left the function here.
        for key, wrapped in list((own_dict(one) or {}).items()):
            if key == "__wrapped__" and type(key) is str and type(wrapped) is FunctionType:
                return f"lru_cache of {edges.node(wrapped)}"
    return edges.node(one, placed=True) + (", a thread's own" if _is_local(kind) else "")


def _transparent(one: object) -> bool:
    """Whether what an object is says nothing beside the link that leads on from it."""
    kind = type(one)
    return id(kind) in _PLAIN or issubclass(kind, type) or edges.of_hamt(kind)


def _passes_on(one: object) -> bool:
    """Whether an object's link to the next one goes without saying."""
    kind = type(one)
    if kind is edges.Cell or kind is edges.Traceback or edges.of_hamt(kind):
        return True
    return edges.of_contextvars(kind) == "Context" or edges.named(kind) == _LRU


def _is_local(kind: type) -> bool:
    return any(edges.named(cls) == _LOCAL for cls in mro(kind))


def _ends(root: str, chain: "Sequence[object]") -> "tuple[str, str]":
    """The kind of holder nearest to the object that is known, and what ends it."""
    for i in range(len(chain) - 2, -1, -1):
        at, to = chain[i], chain[i + 1]
        kind = type(at)
        before = chain[i - 1] if i else None
        if kind is edges.Frame and i and (type(before) is edges.Traceback or edges.runs(type(before))):
            continue
        if kind is edges.Traceback or issubclass(kind, BaseException):
            return _of_error(root, chain, i)
        if kind is edges.Frame:
            return "a frame that is kept (sys._getframe, inspect)", "del the variable that holds it"
        if edges.runs(kind):
            return _SUSPENDED[id(kind)]
        if edges.named(kind) == _LRU:
            of_class = i > 1 and type(before) is dict and issubclass(type(chain[i - 2]), type)
            return _CACHED_METHOD if of_class else _CACHED
        own = edges.of_contextvars(kind)
        if edges.of_hamt(kind) or own == "Context":
            return (
                "the value of a context variable",
                "reset the variable by its token; a task, a callback and copy_context() keep the context they"
                " were made in",
            )
        if own == "ContextVar":
            return "the default of a context variable", "make the default None"
        if own == "Token":
            return "the token of a context variable, which keeps the value before", "drop it after the reset"
        if _is_local(kind):
            return "a thread-local: it lives as long as its thread", "del the name when the work is done"
        link = edges.edge(at, to) if kind is FunctionType else ""
        if link == ".__closure__":
            return (
                "a closure",
                "hold the object in it by weakref.ref, or take the function out of where it was registered",
            )
        if link in (".__defaults__", ".__kwdefaults__"):
            return "the default value of a function's argument", "make the default None"
        if kind is MethodType:
            return (
                "a bound method, which holds its object",
                "hold it by weakref.WeakMethod, or take it out of where it was registered",
            )
        if edges.is_partial(kind):
            return "a functools.partial", "hold the object in it by weakref.ref, or drop the partial"
    return "", ""


def _of_error(root: str, chain: "Sequence[object]", i: int) -> "tuple[str, str]":
    if root == HANDLED:
        return (
            "an exception that is being handled, and with it the variables of every frame in it",
            "they go when the handler ends; leave it before waiting for anything",
        )
    if root == "sys" and edges.edge(chain[0], chain[1]).startswith("['last_"):
        return (
            "the last error that nobody caught, which the interpreter keeps for a debugger",
            "del sys.last_traceback, sys.last_value and (3.12 and newer) sys.last_exc",
        )
    raised = any(issubclass(type(one), BaseException) for one in chain[: i + 1])
    what = "an exception" if raised else "a traceback"
    return (
        f"{what} that is kept, and with it the variables of every frame in it",
        "keep its text, or error.with_traceback(None), and not the exception as it was raised",
    )
