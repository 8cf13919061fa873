"""``gc.get_referents`` for objects of any kind, without what is dangerous to ask.

A module is not asked: its C code may keep dead objects on a list for use later, as ``_asyncio`` of 3.12 does.
A pass only looks at those; ``gc.get_referents`` takes references to them, and when it lets go they come onto
that list a second time. From then on the list has no end: the next pass never returns (seen on 3.12.1).
"""

import gc

from frostline.heap import edges
from frostline.probe.kinds import ModuleType


class Referents:
    """What objects refer to. Knows the kinds of modules that there are now."""

    __slots__ = ("_modules",)

    def __init__(self) -> None:
        #: Ids of the types.
        self._modules: set[int] = set()
        todo: list[type] = [ModuleType]
        while todo:
            kind = todo.pop()
            if id(kind) not in self._modules:
                self._modules.add(id(kind))
                todo.extend(type.__subclasses__(kind))  # past what a metaclass may have made of the word

    def of(self, some: "list[object]") -> "list[object]":
        """All that they refer to, once for each reference; of a module its namespace alone."""
        if self._modules.isdisjoint(map(id, map(type, some))):
            return gc.get_referents(*some)
        asked: list[object] = []
        found: list[object] = []
        for one in some:
            if id(type(one)) in self._modules:
                found.append(edges.names_of(one))  # type: ignore[arg-type]
            else:
                asked.append(one)
        return gc.get_referents(*asked) + found
