"""What the tracked heap is made of: objects by type, the slots that a pass walks, the largest containers.

Takes lists from ``gc.get_objects``, a generation at a time, so it stops the process for as long as it
counts (about 0.3 s a million objects on the machine where it was written; the figure of this run is in the
result). Never in a callback, where the lists would keep alive what the pass is about to free.
"""

import gc
import sys
import time

from frostline.heap import edges, forward, inside
from frostline.heap.undisturbed import undisturbed
from frostline.probe.kinds import CoroutineType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: Types listed; the rest is summed.
TYPES = 60
#: Containers listed, and how long one must be.
LARGEST = 10
LARGE = 1_000
_CONTAINERS = {id(kind) for kind in (dict, list, tuple, set, frozenset)}
#: These say they have items (generators up to 3.11, frames since), and ``object.__sizeof__`` takes what
#: stands there for their number.
_FIXED = {id(kind) for kind in (edges.Generator, edges.AsyncGenerator, CoroutineType, edges.Frame)}
#: A heap that takes too long is looked at in pieces of so many objects from all over it. (Not at each
#: so-manyth object: where types take turns, a list and its owner, that would see one of them alone.)
_PIECE = 32
_OURS = "frostline.heap."
#: Pieces that are looked at in any case, and those between two looks at the clock.
_LEAST, _LOOK = 64, 16


class Row:
    """Objects of one type. ``slots``: references in its containers; ``size`` in bytes, of them alone."""

    __slots__ = ("by_generation", "count", "name", "size", "slots")

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0
        self.slots = 0
        self.size = 0
        self.by_generation = [0, 0, 0]

    def add(self, other: "Row") -> None:
        self.count += other.count
        self.slots += other.slots
        self.size += other.size
        for generation, count in enumerate(other.by_generation):
            self.by_generation[generation] += count


class Census:
    """A count of the tracked heap.

    Attributes:
        rows: by count, the largest first, at most ``TYPES``.
        objects: tracked objects by generation; ``frozen`` those that no generation has, as the
            interpreter counts them.
        every: one object in so many was looked at; 1: all of them. With more, counts are estimates.
        largest: (length, type, where it hangs) of the largest containers; ``items``: what each of them holds.
        among: what a sample of the other containers that are not frozen holds.
        reached: frozen objects that a walk forward came to; -1: there was none. ``frozen_rows`` are those by
            type, ``frozen_every`` as ``every``, and ``cut``: the time was up before the walk was over.
        took: seconds, the stall that it caused.
    """

    __slots__ = (
        "among", "cut", "every", "frozen", "frozen_every", "frozen_rows", "items", "largest", "objects",
        "others", "reached", "rows", "took",
    )  # fmt: skip

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.others = 0
        self.objects = [0, 0, 0]
        self.frozen = 0
        self.every = 1
        self.largest: list[tuple[int, str, str]] = []
        self.items: list[dict[str, object]] = []
        self.among = inside.Others()
        self.reached = -1
        self.frozen_rows: list[Row] = []
        self.frozen_every = 1
        self.cut = False
        self.took = 0.0


def take(budget: float = 0.0, paths: bool = True, frozen: bool = False) -> Census:
    """Counts.

    Args:
        budget: seconds; of a heap that takes longer only a part is looked at, from all over it, and the
            ways to the largest are looked for as long as there is time. 0: no bound. The lists themselves
            (about 10 ms a million) and the last step of a way come on top.
        paths: also look for where the largest containers hang: some 20 ms a million and step of the way.
        frozen: also count what is frozen, by a walk forward (``heap.forward``): 1 to 3 s a million.
    """
    begun = time.monotonic()
    until = begun + budget if budget else float("inf")
    # What is frozen is walked, which takes twice as long as counting it.
    share = budget / (1 + paths + 3 * frozen)
    census = Census()
    rows: dict[int, Row] = {}
    kept: list[type] = []  # ids of types stay theirs while these live
    largest: list[tuple[int, object]] = []
    ends = begun + share if budget else until
    listed = undisturbed(_listed)  # no longer: a gc.disable() of another thread's would be undone meanwhile
    for generation in range(3):
        objects, listed[generation] = listed[generation], []
        census.objects[generation] = len(objects)
        every = _count(objects, generation, ends, rows, kept, largest)
        census.every = max(census.every, every)
        census.among.add(objects, LARGE)
        del objects
    for number in [number for number, row in rows.items() if row.name.startswith(_OURS)]:
        census.objects[0] -= rows.pop(number).count  # what is being made to count with
    census.frozen = int(gc.get_freeze_count())
    census.rows = _ordered(rows)
    census.others = sum(row.count for row in census.rows[TYPES:])
    del census.rows[TYPES:]
    walk = None
    if frozen and forward.frozen_count():
        from frostline.heap.roots import Roots

        walk = forward.Walk(Roots(), min(until, time.monotonic() + 2 * share) if budget else until)
        _count_frozen(census, walk, share, kept, largest)
    largest.sort(key=lambda pair: -pair[0])
    # Apart: the pairs would be found as what holds the containers.
    lengths = [length for length, _ in largest[:LARGEST]]
    containers = [one for _, one in largest[:LARGEST]]
    largest.clear()
    census.items = [inside.of(one) for one in containers]
    ways = [""] * len(containers)
    if paths and containers:
        from frostline.heap import hang

        ways = [way.text for way in hang.found(containers, until, walk)]
    names = [edges.named(type(one)) for one in containers]
    census.largest = list(zip(lengths, names, ways, strict=True))
    census.took = time.monotonic() - begun
    return census


def _listed() -> "list[list[object]]":
    """All generations at one moment: a pass in between would move objects to where they are listed again."""
    return [gc.get_objects(generation=generation) for generation in range(3)]


def _ordered(rows: "dict[int, Row]") -> "list[Row]":
    """By name: where a class is made anew for each object, as of mocks, they are one row all the same."""
    merged: dict[str, Row] = {}
    for row in rows.values():
        first = merged.setdefault(row.name, row)
        if first is not row:
            first.add(row)
    return sorted(merged.values(), key=lambda row: (-row.count, row.name))


def _count_frozen(
    census: Census,
    walk: "forward.Walk",
    share: float,
    kept: "list[type]",
    largest: "list[tuple[int, object]]",
) -> None:
    """Counts what a walk has reached of what is frozen. ``share``: seconds, about; 0: no bound."""
    census.reached = len(walk.frozen)
    census.cut = walk.cut
    rows: dict[int, Row] = {}
    until = time.monotonic() + share if share else float("inf")
    census.frozen_every = _count(walk.frozen, 2, until, rows, kept, largest)
    census.frozen_rows = _ordered(rows)[:TYPES]


def _count(
    objects: "list[object]",
    generation: int,
    until: float,
    rows: "dict[int, Row]",
    kept: "list[type]",
    largest: "list[tuple[int, object]]",
) -> int:
    """Adds the objects of a generation to ``rows``. Returns of how many each one stands for: 1 where there
    was time for all.
    """
    found: dict[int, list[int]] = {}
    seen = 0
    for number, piece in enumerate(_pieces(len(objects))):
        if number >= _LEAST and not number % _LOOK and time.monotonic() >= until:
            break
        begin = piece * _PIECE
        part = objects[begin : begin + _PIECE]
        seen += len(part)
        _add(part, found, kept, largest)
    for kind in kept:
        values = found.pop(id(kind), None)
        if values is None:
            continue
        count, slots, size = (value * len(objects) // seen for value in values)
        row = rows.get(id(kind))
        if row is None:
            row = rows[id(kind)] = Row(edges.named(kind))
        row.count += count
        row.by_generation[generation] += count
        row.slots += slots
        row.size += size
    return max(2, round(len(objects) / seen)) if seen < len(objects) else 1


def _pieces(objects: int) -> "Iterator[int]":
    """The numbers of all pieces, so that those up to any one lie evenly over the whole."""
    count = -(-objects // _PIECE)
    step = max(1, int(count * 0.618))
    while _common(step, count) > 1:
        step += 1
    return (number * step % count for number in range(count))


def _common(one: int, other: int) -> int:
    while other:
        one, other = other, one % other
    return one


def _add(
    objects: "list[object]",
    found: "dict[int, list[int]]",
    kept: "list[type]",
    largest: "list[tuple[int, object]]",
) -> None:
    """Count, slots and size by id of the type."""
    get = found.get
    size_of, own = sys.getsizeof, object.__sizeof__
    containers = _CONTAINERS
    floor = LARGE
    for one in objects:
        kind = type(one)
        values = get(id(kind))
        if values is None:
            values = found[id(kind)] = [0, 0, 0]
            kept.append(kind)
        values[0] += 1
        if id(kind) in containers:
            length = len(one)  # type: ignore[arg-type]
            values[1] += 2 * length if kind is dict else length
            if length >= floor:
                largest.append((length, one))
                if len(largest) > 4 * LARGEST:
                    largest.sort(key=lambda pair: -pair[0])
                    del largest[LARGEST:]
                    floor = max(floor, largest[-1][0])
            values[2] += size_of(one)
        elif id(kind) in _FIXED:
            values[2] += kind.__basicsize__
        else:
            values[2] += own(one)


def as_plain(census: Census) -> "dict[str, object]":
    """For the file that the caller reads."""
    return {
        "rows": [[r.name, r.count, r.slots, r.size, r.by_generation] for r in census.rows],
        "others": census.others,
        "objects": census.objects,
        # As what is reached: without those of the interpreter's own that no program has frozen.
        "frozen": max(census.reached, forward.less_own(census.frozen)),
        "every": census.every,
        "largest": [list(one) for one in census.largest],
        "items": census.items,
        "among": census.among.as_plain(),
        "reached": census.reached,
        "frozen_rows": [[r.name, r.count, r.slots, r.size] for r in census.frozen_rows],
        "frozen_every": census.frozen_every,
        "cut": census.cut,
        "took": census.took,
        "stats": [dict(one) for one in gc.get_stats()],
    }
