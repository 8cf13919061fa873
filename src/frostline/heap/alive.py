"""Objects of a class that are alive though they should be gone: how many, and who holds them."""

import gc
import sys

from frostline.heap import edges, hang
from frostline.probe.kinds import ModuleType, mro, own_dict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: Objects whose holder is looked for.
LOOKED_AT = 5


class Alive:
    """Objects of one class. ``frozen``: whether anything is frozen here, in which case some may be out of
    sight."""

    __slots__ = ("count", "frozen", "name", "subclasses", "ways")

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0
        #: Of ``count``, objects of subclasses.
        self.subclasses = 0
        self.frozen = 0
        self.ways: list[str] = []


def holders(name: str) -> Alive:
    """Looks for objects of a class and for the way to each of the first few from a module or a frame.

    Args:
        name: ``module:Qualname``, of a module that is loaded. Nothing is imported.

    Raises:
        ValueError: there is no such class.
    """
    module, _, qualname = name.partition(":")
    found: object = sys.modules.get(module)
    if found is None:
        raise ValueError(f"no module {module!r} is loaded")
    for part in qualname.split("."):
        namespace = _names(found)
        found = namespace.get(part)
        if found is None:
            raise ValueError(f"{module} has no {qualname}")
    if not issubclass(type(found), type):
        raise ValueError(f"{name} is no class")
    alive = Alive(name)
    alive.frozen = int(gc.get_freeze_count())
    kept: list[object] = []
    known: dict[int, bool] = {}
    types: list[type] = []
    for generation in range(3):
        objects = gc.get_objects(generation=generation)
        for one in objects:
            kind = type(one)
            is_one = known.get(id(kind))
            if is_one is None:
                is_one = known[id(kind)] = any(cls is found for cls in mro(kind))
                types.append(kind)
            if is_one:
                alive.count += 1
                alive.subclasses += kind is not found
                if len(kept) < LOOKED_AT:
                    kept.append(one)
        del objects
    alive.ways = hang.ways(kept)
    return alive


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
        "frozen": alive.frozen,
        "ways": alive.ways,
    }
