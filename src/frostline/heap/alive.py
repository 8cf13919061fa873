"""Objects of a class that are alive though they should be gone: how many, and who holds them."""

import gc
import sys
import time

from frostline.heap import edges, forward, hang, roots
from frostline.probe.kinds import ModuleType, mro, own_dict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: Objects whose holder is looked for: of the oldest generation first, where a leak is.
LOOKED_AT = 5
#: Of the time, what a walk forward takes at most; the rest is for the ways.
_WALK = 0.7
#: Of a type: the collector tracks its objects (Py_TPFLAGS_HAVE_GC).
_HAVE_GC = 1 << 14


class Alive:
    """Objects of one class.

    Attributes:
        count: objects found, ``subclasses`` of them of subclasses.
        tracked: whether the collector tracks objects of this class; else only those of subclasses are found.
        frozen: how many objects of any kind are frozen here, in which case some may be out of sight.
        reached: of those, how many a walk forward came to; -1: there was no walk.
        among_frozen: of ``count``, those that are frozen.
        cut: the time was up before the walk was over.
        ways: to the first few, in words; ``remedies``: the kind of holder and what ends it, two empty texts
            where it is none that we know.
    """

    __slots__ = (
        "among_frozen", "count", "cut", "frozen", "name", "reached", "remedies", "subclasses", "tracked",
        "ways",
    )  # fmt: skip

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0
        self.subclasses = 0
        self.tracked = True
        self.frozen = 0
        self.reached = -1
        self.among_frozen = 0
        self.cut = False
        self.ways: list[str] = []
        self.remedies: list[tuple[str, str]] = []


def holders(name: str, budget: float = 0.0, frozen: bool = False) -> Alive:
    """Looks for objects of a class and for the way to each of the first few from a root.

    Args:
        name: ``module:Qualname``, of a module that is loaded. Nothing is imported.
        budget: seconds, about, for the walk and the ways; 0: no bound. Counting what is not frozen comes
            on top, some 100 ms a million objects.
        frozen: also among frozen objects and through them, by a walk forward.

    Raises:
        ValueError: there is no such class.
    """
    until = time.monotonic() + budget if budget else float("inf")
    wanted = class_named(name)
    alive = Alive(name)
    alive.tracked = bool(type.__dict__["__flags__"].__get__(wanted) & _HAVE_GC)
    alive.frozen = forward.frozen_count()
    kept: list[object] = []
    known: dict[int, bool] = {}
    types: list[type] = []  # ids of types stay theirs while these live

    def add(objects: "list[object]") -> int:
        before = alive.count
        for one in objects:
            kind = type(one)
            is_one = known.get(id(kind))
            if is_one is None:
                is_one = known[id(kind)] = any(cls is wanted for cls in mro(kind))
                types.append(kind)
            if is_one:
                alive.count += 1
                alive.subclasses += kind is not wanted
                if len(kept) < LOOKED_AT:
                    kept.append(one)
        return alive.count - before

    for generation in (2, 1, 0):
        add(gc.get_objects(generation=generation))
    walk = None
    if frozen and alive.frozen:
        walk = forward.Walk(roots.Roots(), time.monotonic() + _WALK * budget if budget else until)
        alive.cut = walk.cut
        alive.reached = len(walk.frozen)
        alive.among_frozen = add(walk.frozen)
    found = hang.found(kept, until, walk)
    alive.ways = [way.text for way in found]
    alive.remedies = [(way.pattern, way.remedy) for way in found]
    return alive


def class_named(name: str) -> type:
    """The class ``module:Qualname``.

    Raises:
        ValueError: there is none, or its module is not loaded.
    """
    module, colon, qualname = name.partition(":")
    if not colon:
        raise ValueError(f"{name} is not MODULE:CLASS, as server:Session is")
    found: object = sys.modules.get(module)
    if found is None:
        raise ValueError(f"no module {module!r} is loaded (the program's own file is __main__)")
    for part in qualname.split("."):
        found = _names(found).get(part)
        if found is None:
            raise ValueError(f"{module} has no {qualname}")
    if not issubclass(type(found), type):
        raise ValueError(f"{name} is no class")
    return found  # type: ignore[return-value]


def _names(one: object) -> "Mapping[str, object]":
    if issubclass(type(one), type):
        return type.__dict__["__dict__"].__get__(one)  # type: ignore[no-any-return]
    if issubclass(type(one), ModuleType):
        return edges.names_of(one)  # type: ignore[arg-type]
    return own_dict(one) or {}


def as_plain(alive: Alive) -> "dict[str, object]":
    """For the file that the caller reads."""
    return {
        "name": alive.name,
        "count": alive.count,
        "subclasses": alive.subclasses,
        "tracked": alive.tracked,
        "frozen": alive.frozen,
        "reached": alive.reached,
        "among_frozen": alive.among_frozen,
        "cut": alive.cut,
        "ways": alive.ways,
        "remedies": alive.remedies,
    }
