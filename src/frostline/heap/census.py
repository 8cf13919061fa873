"""What the tracked heap is made of: objects by type, the slots that a pass walks, the largest containers.

Takes lists from ``gc.get_objects``, a generation at a time, so it stops the process for as long as it
counts (about 0.3 s a million objects on the machine where it was written; the figure of this run is in the
result). Never in a callback, where the lists would keep alive what the pass is about to free.
"""

import gc
import sys
import time

from frostline.heap import edges, forward, inside
from frostline.probe.kinds import CoroutineType

#: Types listed; the rest is summed.
TYPES = 60
#: Containers listed, and how long one must be.
LARGEST = 10
LARGE = 1_000
_CONTAINERS = {id(kind) for kind in (dict, list, tuple, set, frozenset)}
#: These say they have items (generators up to 3.11, frames since), and ``object.__sizeof__`` takes what
#: stands there for their number.
_FIXED = {id(kind) for kind in (edges.Generator, edges.AsyncGenerator, CoroutineType, edges.Frame)}
#: Objects between two looks at the clock.
_STRIDE = 100_000


class Row:
    """Objects of one type. ``slots``: references in its containers; ``size`` in bytes, of them alone."""

    __slots__ = ("by_generation", "count", "name", "size", "slots")

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0
        self.slots = 0
        self.size = 0
        self.by_generation = [0, 0, 0]


class Census:
    """A count of the tracked heap.

    Attributes:
        rows: by count, the largest first, at most ``TYPES``.
        objects: tracked objects by generation; ``frozen`` those that no generation has, as the
            interpreter counts them.
        every: each so-manyth object was looked at; 1: all of them. With more, counts are estimates.
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
        budget: seconds, about; a heap that would take longer is sampled, every so-manyth object, and the
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
    for generation in range(3):
        objects = gc.get_objects(generation=generation)
        census.objects[generation] = len(objects)
        if budget and generation == 2 and census.every == 1:
            census.every = _stride(objects, share)
        step = census.every if generation == 2 else 1
        _count(objects if step == 1 else objects[::step], generation, step, rows, kept, largest)
        census.among.add(objects, LARGE)
        del objects
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


def _ordered(rows: "dict[int, Row]") -> "list[Row]":
    return sorted(rows.values(), key=lambda row: (-row.count, row.name))


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
    step = census.frozen_every = _stride(walk.frozen, share) if share else 1
    rows: dict[int, Row] = {}
    _count(walk.frozen if step == 1 else walk.frozen[::step], 2, step, rows, kept, largest)
    census.frozen_rows = _ordered(rows)[:TYPES]


def _stride(objects: "list[object]", budget: float) -> int:
    """By how fast the first of them were counted."""
    sample = objects[:_STRIDE]
    begun = time.monotonic()
    _count(sample, 2, 1, {}, [], [])
    each = (time.monotonic() - begun) / max(1, len(sample))
    return max(1, int(each * len(objects) / budget) + 1) if each * len(objects) > budget else 1


def _count(
    objects: "list[object]",
    generation: int,
    step: int,
    rows: "dict[int, Row]",
    kept: "list[type]",
    largest: "list[tuple[int, object]]",
) -> None:
    get = rows.get
    size_of, own = sys.getsizeof, object.__sizeof__
    containers = _CONTAINERS
    floor = LARGE
    for one in objects:
        kind = type(one)
        row = get(id(kind))
        if row is None:
            row = rows[id(kind)] = Row(edges.named(kind))
            kept.append(kind)
        row.count += step
        row.by_generation[generation] += step
        if id(kind) in containers:
            length = len(one)  # type: ignore[arg-type]
            row.slots += step * (2 * length if kind is dict else length)
            if length >= floor:
                largest.append((length, one))
                if len(largest) > 4 * LARGEST:
                    largest.sort(key=lambda pair: -pair[0])
                    del largest[LARGEST:]
                    floor = max(floor, largest[-1][0])
            row.size += step * size_of(one)
        elif id(kind) in _FIXED:
            row.size += step * kind.__basicsize__
        else:
            row.size += step * own(one)


def as_plain(census: Census) -> "dict[str, object]":
    """For the file that the caller reads."""
    return {
        "rows": [[r.name, r.count, r.slots, r.size, r.by_generation] for r in census.rows],
        "others": census.others,
        "objects": census.objects,
        "frozen": census.frozen,
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
