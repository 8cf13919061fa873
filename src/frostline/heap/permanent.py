"""What is frozen: how much, and how much of it is garbage (D6).

No pass walks what is frozen, and the interpreter lists none of it. So garbage among it is counted by a walk
of everything, as it would be freed: thawed, collected with what is found kept for a look, frozen again; then
it is let go by a second such walk. In the process itself, never in a forked child, where finalizers would run
a second time.
"""

import gc
import time

from frostline.heap import alive, cycles, edges, hang, saved
from frostline.heap.undisturbed import undisturbed
from frostline.policy import acts, engine, moments, thawed
from frostline.probe.kinds import CodeType, ModuleType, mro

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: Objects that are not frozen, up to which it is told which of them only frozen garbage kept.
KNOWN = 500_000
#: Seconds for the look at what was found, unless told.
BUDGET = 2.0
#: Seconds that are spent on who holds objects of a class that are not garbage.
HOLDERS = 1.0
#: Types listed.
TYPES = 12
#: Bytes from which something that the collector does not track is told of.
LARGE = 256
#: Why it is not counted in a forked child.
SHARED = "what is frozen is shared with the process that forked it: finalizers would run twice. Ask that one"
#: Ids of types that hold nothing to speak of, or what others have too, as a rule: a class, code.
_PLAIN = {id(kind) for kind in (int, float, bool, complex, type(None), type, CodeType)}
_STRIDE = 1023


def facts(count: bool = True) -> "dict[str, object]":
    """What is frozen now and what is not, by count, and what the policy says of it.

    Args:
        count: 10 to 30 ms a million objects; without it only what costs nothing is told.
    """
    told: dict[str, object] = {
        "policy": engine.in_force(),
        "ours": engine.frozen(),
        "spliced": engine.frozen() and not engine.holds(),
        "inherited": engine.inherited(),
        "in_flight": moments.counted(),
        "entered": moments.entered(),
    }
    if count:
        told["frozen"] = thawed.frozen()
        told["tracked"] = [_length(generation) for generation in range(3)]
    return told


def _length(generation: int) -> int:
    return len(gc.get_objects(generation=generation))


class Garbage:
    """What was found among the frozen objects.

    Attributes:
        young: garbage that was not frozen, freed before.
        before, after: objects frozen, before and when all is done.
        found: objects that only frozen garbage kept; ``later`` of them were made after the freeze (-1: too
            many are not frozen to tell).
        left: it could not be let go, and is frozen still.
        walks: seconds of each walk; in a walk nothing else runs.
        size: bytes of what was found, ``buffers`` of what it holds that the collector does not track.
        types: (name, objects, bytes), the largest first.
        cut: the time was up: sizes and types are of a part.
        dead, live, ways: objects of the class asked for, among the garbage and not; who holds the first.
    """

    __slots__ = (
        "after",
        "before",
        "buffers",
        "cut",
        "dead",
        "found",
        "later",
        "left",
        "live",
        "size",
        "told",
        "types",
        "walks",
        "ways",
        "young",
    )

    def __init__(self) -> None:
        self.young = self.before = self.after = self.found = self.later = 0
        self.size = self.buffers = self.dead = self.live = 0
        self.left = self.cut = False
        self.walks: list[float] = []
        self.types: list[tuple[str, int, int]] = []
        self.ways: list[str] = []
        self.told: cycles.Cycles | None = None


def garbage(budget: float, name: str = "") -> Garbage:
    """Counts it, says what it is, and lets it go.

    Args:
        budget: seconds for the look at what was found, between the two walks.
        name: ``module:Qualname`` of a class whose objects are told apart.

    Raises:
        ValueError: it cannot be done here or now; the text says why.
    """
    if engine.inherited():
        raise ValueError(SHARED)
    if not thawed.possible():
        raise ValueError("something in the program has replaced gc.freeze: what is thawed might stay so")
    sought = alive.class_named(name) if name else None
    told = Garbage()
    told.young = acts.collect(2)
    if told.young < 0:
        raise ValueError("a pass was running: ask again")
    told.before = told.after = thawed.frozen()
    first = _First(sought)
    if not told.before:  # a freeze at the end would be the first
        first.look([])
        told.live, told.ways = first.live, first.ways
        return told
    unfrozen = undisturbed(_ids)
    if _walk(told, first.collects) is None:
        raise ValueError("a pass was running: ask again")
    kept = first.saved
    assert kept is not None
    told.found = kept.found
    told.dead, told.live, told.ways = first.dead, first.live, first.ways
    begun = time.monotonic()
    try:
        if kept.objects:
            told.later = -1 if unfrozen is None else sum(map(unfrozen.__contains__, map(id, kept.objects)))
            _weigh(told, kept.objects, begun + budget / 2)
        told.told = cycles.cycles_of(kept, max(0.0, budget - (time.monotonic() - begun)))
    finally:
        kept.objects.clear()
        if kept.found:
            told.left = _walk(told, lambda: acts.collect(2)) is None
    told.after = thawed.frozen()
    return told


def _walk(told: Garbage, collects: "Callable[[], int]") -> "int | None":
    begun = time.monotonic()
    count = thawed.walk(collects)
    told.walks.append(time.monotonic() - begun)
    return count


def _ids() -> "set[int] | None":
    """Of what is not frozen; no list of it may live during the walk, it would keep all of it."""
    objects = gc.get_objects()
    return set(map(id, objects)) if len(objects) <= KNOWN else None


class _First:
    """The first walk: it keeps what it finds, and looks for objects of a class while all are in sight."""

    def __init__(self, sought: "type | None") -> None:
        self.sought = sought
        self.saved: saved.Saved | None = None
        self.dead = 0
        self.live = 0
        self.ways: list[str] = []

    def collects(self) -> int:
        kept = self.saved = saved.saved_pass()
        if kept.busy:
            return thawed.BUSY
        self.look(kept.objects)
        return thawed.KEPT if kept.found else 0

    def look(self, garbage: "list[object]") -> None:
        """Looks for objects of the class, in the garbage and not."""
        if self.sought is None:
            return
        every = {id(one): one for one in _of_class(gc.get_objects(), self.sought)}
        for number in map(id, garbage):
            if number in every:
                del every[number]
                self.dead += 1
        self.live = len(every)
        live = list(every.values())[: alive.LOOKED_AT]
        every.clear()
        self.ways = [way.text for way in hang.found(live, time.monotonic() + HOLDERS)]


def _of_class(objects: "list[object]", sought: type) -> "list[object]":
    """Those of a class and of its subclasses, all but a few at the speed of C: 50 to 100 ms a million."""
    kinds = list(map(type, objects))
    # By id: a metaclass may make anything of a type's hash. ``kinds`` keeps them alive.
    numbers = list(map(id, kinds))
    wanted = {
        number
        for number, kind in dict(zip(numbers, kinds, strict=True)).items()
        if any(cls is sought for cls in mro(kind))
    }
    if not wanted:
        return []
    return [one for one, number in zip(objects, numbers, strict=True) if number in wanted]


def _weigh(told: Garbage, objects: "list[object]", until: float) -> None:
    """Bytes by type, and of what they hold that the collector does not track: buffers, long texts."""
    rows: dict[int, tuple[int, int]] = {}
    measures: dict[int, Callable[[object], int]] = {}
    kept: list[type] = []
    seen: set[int] = set()

    def measure(kind: type) -> "Callable[[object], int]":
        kept.append(kind)  # so that its id stays its own
        found = measures[id(kind)] = cycles.measure(kind)
        return found

    for place, one in enumerate(objects):
        if not place & _STRIDE and time.monotonic() > until:
            told.cut = True
            break
        kind = type(one)
        size = (measures.get(id(kind)) or measure(kind))(one)
        count, sum_ = rows.get(id(kind), (0, 0))
        rows[id(kind)] = count + 1, sum_ + size
        told.size += size
        if issubclass(kind, ModuleType):
            continue  # it is not to be asked: why, ``heap.referents`` says
        for held in gc.get_referents(one):
            kind = type(held)
            if id(kind) in _PLAIN or gc.is_tracked(held):
                continue
            size = (measures.get(id(kind)) or measure(kind))(held)
            if size >= LARGE and id(held) not in seen:
                seen.add(id(held))
                told.buffers += size
    types = [(edges.named(kind), *rows[id(kind)]) for kind in kept if id(kind) in rows]
    told.types = sorted(types, key=lambda row: (-row[2], row[0]))[:TYPES]


def as_plain(told: Garbage) -> "dict[str, object]":
    """For the file that the caller reads."""
    return {
        "young": told.young,
        "before": told.before,
        "after": told.after,
        "found": told.found,
        "later": told.later,
        "left": told.left,
        "walks": told.walks,
        "bytes": told.size,
        "buffers": told.buffers,
        "types": told.types,
        "cut": told.cut,
        "dead": told.dead,
        "live": told.live,
        "ways": told.ways,
        "cycles": cycles.as_plain(told.told) if told.told is not None else None,
    }
