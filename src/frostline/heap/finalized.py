"""Cycles that their own finalizers break: a pass frees them before they could be saved.

A suspended generator or coroutine is closed by the pass that finds it dead, an object with ``__del__`` may
cut its own cycle; such garbage never reaches ``gc.garbage``, and the pass does not even count it. So they
are looked for *before* the pass: what is suspended or has a finalizer, and is on a cycle of its own. Those
that are gone after it were freed so.
"""

import _weakref
import gc
import sys
import time

from frostline.heap import edges
from frostline.heap.graph import STRIDE, Index
from frostline.heap.undisturbed import undisturbed
from frostline.probe.kinds import FunctionType, ModuleType, mro

#: Seconds spent on looking; objects passed on the way from one of them back to itself, and references of
#: one of those: a coroutine may hold a list of a million.
BUDGET = 0.5
NEAR = 400
WIDE = 2_000
#: Objects whose weak references are counted, at most.
WEAK = 100_000


class Suspects:
    """What may be freed by its own finalizer in the next pass. ``unseen``: not looked at, the time was up.

    ``weak``: id of an object -> weak references to it, which the pass clears if it finds the object dead. Ids
    alone: a weak reference that is held keeps its callback, and so perhaps the object.
    """

    __slots__ = ("_found", "unseen", "weak")

    def __init__(self) -> None:
        #: (id, id of the type, weak reference, the cycle's objects in words, its pattern)
        self._found: list[tuple[int, int, object, tuple[str, ...], tuple[str, str]]] = []
        self.unseen = 0
        self.weak: dict[int, int] = {}

    def gone(self, saved: Index) -> "list[tuple[tuple[str, ...], tuple[str, str]]]":
        """The cycles of those that the pass has freed; ``saved``: ids of what it has kept."""
        return [
            (words, pattern)
            for number, _, reference, words, pattern in self._found
            if reference() is None and number not in saved  # type: ignore[operator]
        ]

    def settle(self) -> None:
        """Right after the pass: forgets those that live. Their finalizers have brought them back, and weak
        references to them are cleared all the same.
        """
        dead = {number: kind for number, kind, to, *_ in self._found if to() is None}  # type: ignore[operator]
        living = undisturbed(lambda: _among_tracked(dead)) if dead else set()
        self._found = [one for one in self._found if one[0] not in living]


def suspects(generation: int) -> Suspects:
    """Looks at every tracked object of the generations up to ``generation``; some 50 ms a million."""
    return undisturbed(lambda: _suspects(generation))


def _among_tracked(wanted: "dict[int, int]") -> "set[int]":
    """Ids of those that are there, by id and id of the type: another object may stand in the same place."""
    found: set[int] = set()
    for generation in range(3):
        objects = gc.get_objects(generation=generation)
        if not wanted.keys().isdisjoint(map(id, objects)):
            found.update(id(one) for one in objects if wanted.get(id(one)) == id(type(one)))
        del objects
    return found


def _suspects(generation: int) -> Suspects:
    from frostline.heap.cycles import in_words
    from frostline.heap.patterns import of

    found = Suspects()
    until = time.monotonic() + BUDGET
    #: Of each type: 1 it has a finalizer, 2 it is one of weak references.
    finalizes: dict[int, int] = {}
    kept: list[type] = []
    modules = {
        id(edges.names_of(module))
        for module in list(sys.modules.values())
        if issubclass(type(module), ModuleType)
    }
    for number in range(generation + 1):
        objects = gc.get_objects(generation=number)
        for place, one in enumerate(objects):
            # Where other threads run the scan alone may take long, and what they make meanwhile piles up.
            if not place & STRIDE and time.monotonic() > until:
                found.unseen += len(objects) - place
                break
            kind = type(one)
            has = finalizes.get(id(kind))
            if has is None:
                has = edges.runs(kind) or _has_del(kind)
                has = finalizes[id(kind)] = has + 2 * issubclass(kind, _weakref.ref)
                kept.append(kind)
            if has & 2 and len(found.weak) < WEAK:
                to = _weakref.ref.__call__(one)  # past what a subclass may have made of the call
                if to is not None:
                    found.weak[id(to)] = found.weak.get(id(to), 0) + 1
                    del to  # or the last of them would outlive the look
            if not has & 1:
                continue
            if time.monotonic() > until:
                found.unseen += 1
                continue
            cycle = _back_to_itself(one, modules)
            if cycle:
                words = in_words(cycle)
                try:
                    found._found.append((id(one), id(kind), _weakref.ref(one), words, of(cycle, words)))
                except TypeError:  # slots without a place for weak references
                    found.unseen += 1
                cycle.clear()
        del objects
    return found


def finalizers(objects: "list[object]") -> "dict[str, int]":
    """Types of objects that have a finalizer, with how many there are: what runs in the thread of the pass
    that finds them."""
    known: dict[int, str] = {}
    kept: list[type] = []
    tally: dict[str, int] = {}
    for one in objects:
        kind = type(one)
        name = known.get(id(kind))
        if name is None:
            name = known[id(kind)] = edges.named(kind) if edges.runs(kind) or _has_del(kind) else ""
            kept.append(kind)
        if name:
            tally[name] = tally.get(name, 0) + 1
    return tally


def _has_del(kind: type) -> bool:
    return any("__del__" in type.__dict__["__dict__"].__get__(cls) for cls in mro(kind))


def _back_to_itself(one: object, modules: "set[int]") -> "list[object]":
    """A shortest way from an object to itself, past modules and classes; empty where there is none nearby."""
    came: dict[int, int] = {id(one): 0}
    layer: list[object] = [one]
    holder: dict[int, object] = {id(one): one}
    while layer:
        after: list[object] = []
        for here in layer:
            for to in gc.get_referents(here)[:WIDE]:
                if to is one:
                    way = [here]
                    while way[-1] is not one:
                        way.append(holder[came[id(way[-1])]])
                    return way[::-1]
                kind = type(to)
                if id(to) in holder or not gc.is_tracked(to) or id(to) in modules:
                    continue
                if issubclass(kind, (type, ModuleType)) or (kind is FunctionType and not to.__closure__):
                    continue
                if len(holder) >= NEAR:
                    return []
                came[id(to)] = id(here)
                holder[id(to)] = to
                after.append(to)
        layer = after
    return []
