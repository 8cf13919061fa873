"""What passes reclaim, as cycles: each kind with its count, its bytes, its path in words, and a remedy.

A cycle's kind is the types on it and the code of the functions, frames and generators among them; of each
kind one is followed link by link. Only a few objects of each kind are looked at closely, so hundreds of
thousands of cycles of one kind cost little more than finding them.
"""

import _tracemalloc
import sys
import time

from frostline.heap import edges, patterns, tangle
from frostline.heap.graph import STRIDE, Components, Index, components, hanging, shortest_cycle, successors
from frostline.heap.saved import Saved
from frostline.probe.kinds import FunctionType, MethodType, mro

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Kinds described; the rest is counted.
KINDS = 50
#: Starting points of which the shortest cycle through one component is looked for.
STARTS = 24
#: Seconds that a look takes at most, the two passes beside it: where other threads run it gets but a share of
#: the interpreter, and what they make meanwhile is not collected.
BUDGET = 5.0
#: Objects in one component up to which its shortest cycle is looked for from each of the starts.
LARGE = 50_000


class Kind:
    """Cycles of one kind.

    Attributes:
        path: the cycle in words, from an object back to itself.
        nodes: the same, a text each.
        count: how many components of this kind the pass found.
        objects: tracked objects in them; ``hanging`` those that only they kept.
        size: bytes of both, without what is not tracked (strings, numbers).
        largest: objects in the largest component.
        one: objects in the component that the path is of; ``left`` of them are on other cycles still, with
            this one cut (``heap.tangle``), -1 where that was not looked at.
        pattern, remedy: what it is known as, and what ends it; empty where it is none that we know.
        weak: weak references to them that there were before the pass, which has cleared them.
        finalized: their own finalizers cut them, so that sizes are not known (``heap.finalized``).
        site: where the first object was allocated, if tracemalloc was on, behind it who called; else empty.
    """

    __slots__ = (
        "count",
        "finalized",
        "hanging",
        "largest",
        "left",
        "nodes",
        "objects",
        "one",
        "path",
        "pattern",
        "remedy",
        "site",
        "size",
        "weak",
    )

    def __init__(self) -> None:
        self.path = ""
        self.nodes: tuple[str, ...] = ()
        self.count = 0
        self.objects = 0
        self.hanging = 0
        self.size = 0
        self.weak = 0
        self.largest = 0
        self.one = 0
        self.left = -1
        self.pattern = ""
        self.remedy = ""
        self.site = ""
        self.finalized = False


class Cycles:
    """What a saved pass found. ``took`` in seconds: the look at it, without the pass."""

    __slots__ = ("busy", "cut", "found", "kinds", "looked_at", "others", "pause", "took", "unseen")

    def __init__(self, saved: Saved) -> None:
        self.found = saved.found
        self.looked_at = len(saved.objects)
        self.pause = saved.pause
        self.busy = saved.busy
        self.kinds: list[Kind] = []
        #: Cycles of kinds beyond the first ``KINDS``.
        self.others = 0
        self.took = 0.0
        #: The time was up before everything was looked at: counts are of a part.
        self.cut = False
        #: Objects with finalizers that were not looked at before the pass.
        self.unseen = 0


def cycles_of(saved: Saved, budget: float = BUDGET) -> Cycles:
    """Describes the cycles in saved garbage, the largest kinds first. Keeps nothing of it.

    Args:
        budget: seconds for it; what has been seen by then is told, as a part.
    """
    begun = time.monotonic()
    told = Cycles(saved)
    objects = saved.objects

    def late() -> bool:
        told.cut = told.cut or time.monotonic() - begun > budget
        return told.cut

    index = Index(objects, late)
    found = components(objects, index, late)
    #: Key of a kind -> numbers of its components.
    groups: dict[tuple[object, ...], list[int]] = {}
    keys = _Keys()
    taken = bytearray(len(objects))
    for number, members in enumerate(found):
        if not number & STRIDE and late() and number:
            told.others += len(found) - number
            break
        groups.setdefault(keys.of(objects, members), []).append(number)
        for member in members:
            taken[member] = 1
    merged: dict[tuple[str, ...], Kind] = {}
    order = sorted(groups.values(), key=lambda numbers: -sum(map(found.size, numbers)))
    for place, numbers in enumerate(order):
        if place >= KINDS or (place and late()):
            told.others += len(numbers)
            continue
        _add(merged, saved, index, found, numbers, taken, late)
    for nodes, pattern in saved.suspects.gone(index):
        kind = merged.setdefault(nodes, Kind())
        if not kind.nodes:
            _name(kind, nodes, pattern)
            kind.finalized = True
        kind.count += 1
    told.unseen = saved.suspects.unseen
    told.kinds = sorted(merged.values(), key=lambda kind: (-(kind.objects + kind.hanging), kind.path))
    told.took = time.monotonic() - begun
    return told


class _Keys:
    """The kind of a component, cheaply: its types and codes, as a set."""

    __slots__ = ("_known", "_types")

    def __init__(self) -> None:
        self._known: dict[int, object] = {}
        self._types: list[type] = []

    def of(self, objects: "list[object]", members: "Sequence[int]") -> "tuple[object, ...]":
        seen: set[object] = set()
        known = self._known
        for member in members:
            one = objects[member]
            kind = type(one)
            key = known.get(id(kind))
            if key is None:
                key = known[id(kind)] = _type_key(one)
                self._types.append(kind)  # so that its id stays its own
            if key == "":
                # Ids, not the objects: a key must keep nothing alive. A class that is in the garbage itself,
                # made anew for each cycle, is one of its kind by its name.
                key = edges.named(one) if issubclass(kind, type) else id(edges.code_of(one))  # type: ignore[arg-type]
            seen.add(key)
        return (frozenset(seen), len(members) if len(members) < 8 else 0)


def _type_key(one: object) -> object:
    """The key of all objects of a type; an empty text where they differ by their code or their name."""
    kind = type(one)
    if issubclass(kind, type) or edges.has_code(kind):
        return ""
    return edges.named(kind) if edges.heap_type(kind) else id(kind)


def _add(
    merged: "dict[tuple[str, ...], Kind]",
    saved: Saved,
    index: Index,
    found: Components,
    numbers: "list[int]",
    taken: bytearray,
    late: "Callable[[], bool]",
) -> None:
    objects, weak = saved.objects, saved.suspects.weak
    # Naming makes objects a __dict__ (3.11, 3.12), behind which nothing is seen: what is counted comes first.
    first = found[numbers[0]]
    links, more = tangle.Links(objects, index, first), hanging(objects, index, first, taken)
    nodes, cycle = _described(objects, index, first, late)
    kind = merged.get(nodes)
    if kind is None:
        kind = merged[nodes] = Kind()
        _name(kind, nodes, patterns.of([objects[i] for i in cycle], nodes))
        kind.site = _site(objects, cycle)
        kind.one, kind.left = len(first), tangle.left(objects, links, cycle, late)
    for place, members in enumerate(map(found.__getitem__, numbers)):
        if not place & STRIDE and place and late():
            kind.count += len(numbers) - place
            kind.objects += sum(map(found.size, numbers[place:]))
            break
        if place:
            more = hanging(objects, index, members, taken)
        kind.count += 1
        kind.objects += len(members)
        kind.hanging += len(more)
        kind.largest = max(kind.largest, len(members))
        for i in (*members, *more):
            kind.size += _size(objects[i])
            if weak:
                kind.weak += weak.get(id(objects[i]), 0)


def _name(kind: Kind, nodes: "tuple[str, ...]", pattern: "tuple[str, str]") -> None:
    kind.nodes = nodes
    kind.path = " -> ".join(nodes) if nodes else "a cycle that could not be followed"
    kind.pattern, kind.remedy = pattern


def _described(
    objects: "list[object]", index: Index, members: "Sequence[int]", late: "Callable[[], bool]"
) -> "tuple[tuple[str, ...], list[int]]":
    inside = set(members)
    ranked = sorted(members, key=lambda i: _rank(objects[i]))
    starts = ranked[: STARTS if len(members) <= LARGE else 1]
    best: list[int] = []
    for start in starts:
        if best and late():
            break
        cycle = shortest_cycle(objects, index, inside, start)
        if cycle and (not best or _worth(objects, cycle) < _worth(objects, best)):
            best = cycle
    if not best:
        return (), []
    best = _with_exception(objects, index, best)
    first = min(range(len(best)), key=lambda i: (_rank(objects[best[i]]), edges.node(objects[best[i]])))
    best = best[first:] + best[:first]
    return in_words([objects[i] for i in best]), best


def _with_exception(objects: "list[object]", index: Index, cycle: "list[int]") -> "list[int]":
    """Puts an exception back that the shortest way passed by: a failed task refers to the traceback too."""
    for at, here in enumerate(cycle):
        one, after = objects[here], objects[cycle[(at + 1) % len(cycle)]]
        if type(after) is not edges.Traceback or issubclass(type(one), (BaseException, edges.Traceback)):
            continue
        for between in successors(one, index):
            error = objects[between]
            if issubclass(type(error), BaseException) and edges.traceback_of(error) is after:
                return cycle if between in cycle else [*cycle[: at + 1], between, *cycle[at + 1 :]]
    return cycle


def _worth(objects: "list[object]", cycle: "list[int]") -> "tuple[int, int]":
    """Cycles that show a program's own object first, then the shorter; a class with its ``__mro__`` last."""
    return min(_rank(objects[i]) for i in cycle), len(cycle)


def _rank(one: object) -> int:
    """What names a cycle best: an object of a class of the program's, one of the standard library's, then
    what has code, the program's before the library's, then a class."""
    kind = type(one)
    if issubclass(kind, type):
        return 5
    if issubclass(kind, BaseException):
        return 0
    if edges.heap_type(kind) and edges.module_of(kind) not in edges.PLUMBING:
        return 1 if edges.of_library(kind) else 0
    if kind is edges.Frame or edges.runs(kind):
        return 2
    if kind is FunctionType:
        return 4 if edges.function_of_library(one) else 3  # type: ignore[arg-type]
    return 6


def in_words(cycle: "list[object]") -> "tuple[str, ...]":
    """A cycle in words, its objects in order, each referring to the next and the last to the first: one
    text for each object on the cycle that a reader cares for, with the link that leads on from it, and
    the first object's name once more at the end.

    A ``__dict__`` and a closure's tuple are told as part of the link.
    """
    words: list[str] = []
    count = len(cycle)
    # A method says where it is if nothing else does: beside a closure, the closure's line is what counts.
    placed = not any(type(one) is not MethodType and edges.has_code(type(one)) for one in cycle)
    i = 0
    while i < count:
        here, to, after = cycle[i], cycle[(i + 1) % count], cycle[(i + 2) % count]
        name, link = edges.node(here, placed=placed), edges.edge(here, to)
        if link == ".__closure__" and i + 2 <= count:
            words.append(f"{name} -> {edges.edge(here, after) or 'cell'}")
            i += 3  # the tuple, and the cell, which is told by its variable
        elif link == ".__dict__" and i + 2 <= count:
            # A mock's class has one proxy for each magic method: which of them it is depends on the hashing.
            proxy = edges.named(type(after)) == "unittest.mock.MagicProxy" and issubclass(type(here), type)
            words.append(f"{name} -> __dict__{'[a magic method]' if proxy else edges.edge(to, after)}")
            i += 2
        else:
            words.append(name + _shown(here, link))
            i += 1
    words.append(edges.node(cycle[0], placed=placed))
    return tuple(words)


def _shown(here: object, link: str) -> str:
    if link.startswith(".__dict__["):
        return f" -> {link[1:]}"
    kind = type(here)
    if kind is MethodType or kind is edges.Cell or not link:
        return ""  # a method's object, a cell's content: nothing else is meant
    return link if link[0] in ".[" else f" {link}"


def _size(one: object) -> int:
    return measure(type(one))(one)


def measure(kind: type) -> "Callable[[object], int]":
    """What gives the bytes of an object of a type, what it refers to left out; 0 where it does not say."""
    return object.__sizeof__ if _own_size(kind) else _asked


def _asked(one: object) -> int:
    try:
        return sys.getsizeof(one)
    except Exception:
        return 0


def _own_size(kind: type) -> bool:
    """Whether asking it for its size would run code of the program's."""
    return any(
        type(type.__dict__["__dict__"].__get__(cls).get("__sizeof__")) is FunctionType for cls in mro(kind)
    )


def _site(objects: "list[object]", cycle: "list[int]") -> str:
    """Where tracemalloc, if it is on, saw the first of them allocated, the innermost frame first."""
    # Not the module in front of it, which a process that was started with it on need not have loaded.
    if not _tracemalloc.is_tracing():
        return ""
    for i in cycle:
        trace = _tracemalloc._get_object_traceback(objects[i])
        if trace:
            return " < ".join([f"{file}:{line}" for file, line in trace])
    return ""


def as_plain(told: Cycles) -> "dict[str, object]":
    """For the file that the caller reads."""
    return {
        "found": told.found,
        "looked_at": told.looked_at,
        "pause": told.pause,
        "took": told.took,
        "others": told.others,
        "unseen": told.unseen,
        "cut": told.cut,
        "kinds": [
            {
                "path": kind.path,
                "count": kind.count,
                "objects": kind.objects,
                "hanging": kind.hanging,
                "bytes": kind.size,
                "largest": kind.largest,
                "one": kind.one,
                "left": kind.left,
                "weak": kind.weak,
                "pattern": kind.pattern,
                "remedy": kind.remedy,
                "site": kind.site,
                "finalized": kind.finalized,
            }
            for kind in told.kinds
        ],
    }
