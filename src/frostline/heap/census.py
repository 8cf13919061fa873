"""What the tracked heap is made of: objects by type, the slots that a pass walks, the largest containers.

Takes lists from ``gc.get_objects``, a generation at a time, so it stops the process for as long as it
counts (about 0.3 s a million objects on the machine where it was written; the figure of this run is in the
result). Never in a callback, where the lists would keep alive what the pass is about to free.
"""

import gc
import sys
import time

from frostline.heap import edges
from frostline.probe.kinds import CoroutineType

#: Types listed; the rest is summed.
TYPES = 60
#: Containers listed, and how long one must be.
LARGEST = 10
LARGE = 1_000
_CONTAINERS = {id(kind) for kind in (dict, list, tuple, set, frozenset)}
#: Up to 3.11 these say they have items, and ``object.__sizeof__`` takes what stands there for their number.
_FIXED = {id(kind) for kind in (edges.Generator, edges.AsyncGenerator, CoroutineType)}
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
        largest: (length, type, where it hangs) of the largest containers.
        took: seconds, the stall that it caused.
    """

    __slots__ = ("every", "frozen", "largest", "objects", "others", "rows", "took")

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.others = 0
        self.objects = [0, 0, 0]
        self.frozen = 0
        self.every = 1
        self.largest: list[tuple[int, str, str]] = []
        self.took = 0.0


def take(budget: float = 0.0, paths: bool = True) -> Census:
    """Counts.

    Args:
        budget: seconds, about; a heap that would take longer is sampled, every so-manyth object, and the
            ways to the largest are looked for as long as there is time. 0: no bound. The lists themselves
            (about 10 ms a million) and the last step of a way come on top.
        paths: also look for where the largest containers hang: some 20 ms a million and step of the way.
    """
    begun = time.monotonic()
    until = begun + budget if budget else float("inf")
    census = Census()
    rows: dict[int, Row] = {}
    kept: list[type] = []  # ids of types stay theirs while these live
    largest: list[tuple[int, object]] = []
    for generation in range(3):
        objects = gc.get_objects(generation=generation)
        census.objects[generation] = len(objects)
        if budget and generation == 2 and census.every == 1:
            census.every = _stride(objects, budget / 2 if paths else budget)
        step = census.every if generation == 2 else 1
        _count(objects if step == 1 else objects[::step], generation, step, rows, kept, largest)
        del objects
    census.frozen = int(gc.get_freeze_count())
    ordered = sorted(rows.values(), key=lambda row: (-row.count, row.name))
    census.rows = ordered[:TYPES]
    census.others = sum(row.count for row in ordered[TYPES:])
    largest.sort(key=lambda pair: -pair[0])
    del largest[LARGEST:]
    if paths and largest:
        from frostline.heap import hang

        ways = hang.ways([one for _, one in largest], until)
        census.largest = [
            (length, edges.named(type(one)), way) for (length, one), way in zip(largest, ways, strict=True)
        ]
    else:
        census.largest = [(length, edges.named(type(one)), "") for length, one in largest]
    census.took = time.monotonic() - begun
    return census


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
        "took": census.took,
        "stats": [dict(one) for one in gc.get_stats()],
    }
