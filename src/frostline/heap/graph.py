"""Strongly connected components of a set of objects, by what they refer to. Iterative, and lean.

The garbage is looked at in the program's own process, so what is needed beside it must stay below what it
holds itself: numbers stand in flat arrays, since a dict of 300,000 ids would take more than they do.
"""

import gc

from frostline.heap import edges
from frostline.probe.kinds import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

#: Objects between two looks at the clock, less one: a power of two.
STRIDE = 1023


def never() -> bool:
    """No deadline."""
    return False


class Index:
    """From the id of an object to its position: an open hash table in two flat arrays, at most half full.

    Objects stand at multiples of 16, many side by side in one pool: such ids fall side by side into the
    table.
    """

    __slots__ = ("_ids", "_mask", "_places")

    def __init__(self, objects: "Sequence[object]", late: "Callable[[], bool]" = never) -> None:
        """``late``: once it says so, the rest of the objects is left out."""
        bits = max(4, (2 * len(objects) - 1).bit_length())
        self._mask = (1 << bits) - 1
        ids = self._ids = numbers(1 << bits, "Q")
        places = self._places = numbers(1 << bits, "I")
        for position, one in enumerate(objects):
            if not position & STRIDE and late():
                break
            number = id(one)
            at = (number >> 4 ^ number >> 24) & self._mask
            while ids[at]:
                at = (at + 1) & self._mask
            ids[at] = number
            places[at] = position

    def get(self, number: int) -> "int | None":
        """The position of the object of that id; None where it is none of them."""
        at = (number >> 4 ^ number >> 24) & self._mask
        ids = self._ids
        while True:
            there = ids[at]
            if there == number:
                return self._places[at]
            if not there:
                return None
            at = (at + 1) & self._mask

    def __contains__(self, number: int) -> bool:
        return self.get(number) is not None


def numbers(count: int, kind: str) -> "memoryview[int]":
    """A flat array of zeroes; ``kind`` Q: 64 bits, I: 32."""
    return memoryview(bytearray(count * (8 if kind == "Q" else 4))).cast(kind)  # type: ignore[call-overload, no-any-return]


class Components:
    """Each a cycle, or cycles that share objects: positions of its objects. ``len`` of it, and by number."""

    __slots__ = ("_ends", "_members", "count")

    def __init__(self, objects: int) -> None:
        self._members = numbers(objects, "I")
        self._ends = numbers(objects + 1, "I")
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> "memoryview[int]":
        if not 0 <= number < self.count:
            raise IndexError(number)
        return self._members[self._ends[number] : self._ends[number + 1]]

    def size(self, number: int) -> int:
        return self._ends[number + 1] - self._ends[number]

    def __iter__(self) -> "Iterator[memoryview[int]]":
        return (self[number] for number in range(self.count))

    def _add(self, stack: "memoryview[int]", begin: int, end: int) -> None:
        at = self._ends[self.count]
        self._members[at : at + end - begin] = stack[begin:end]
        self.count += 1
        self._ends[self.count] = at + end - begin


def components(
    objects: "Sequence[object]",
    index: Index,
    late: "Callable[[], bool]" = never,
    follow: "Callable[[object, Index], list[int]] | None" = None,
) -> Components:
    """The components of two and more objects, or of one that refers to itself.

    Args:
        objects: what to look at; each refers to whatever it does, but only edges among them count.
        index: of the same objects.
        late: asked now and then; once it says so, what has been found by then is all.
        follow: what an object refers to, if not ``successors`` is to say so.

    Tarjan (1972), without recursion: a chain of garbage may be as long as memory.
    """
    follow = follow or successors
    count = len(objects)
    order = numbers(count, "I")  # 0: not seen; else 1 + when it was entered
    low = numbers(count, "I")
    done = bytearray(count)
    found = Components(count)
    stack = numbers(count, "I")
    height = clock = 0
    # The search's frames: a position, and the positions it refers to that are still to be looked at.
    path: list[int] = []
    ahead: list[list[int]] = []
    for root in range(count):
        if order[root]:
            continue
        entering = root
        while True:
            if entering >= 0:
                clock += 1
                if not clock & STRIDE and late():
                    return found
                order[entering] = low[entering] = clock
                stack[height] = entering
                height += 1
                path.append(entering)
                ahead.append(follow(objects[entering], index))
                entering = -1
            here, rest = path[-1], ahead[-1]
            while rest:
                to = rest.pop()
                if not order[to]:
                    entering = to
                    break
                if not done[to] and order[to] < low[here]:
                    low[here] = order[to]
            if entering >= 0:
                continue
            path.pop()
            ahead.pop()
            if path and low[here] < low[path[-1]]:
                low[path[-1]] = low[here]
            if low[here] == order[here]:
                top = height
                while True:
                    height -= 1
                    done[stack[height]] = 1
                    if stack[height] == here:
                        break
                if top - height > 1 or here in follow(objects[here], index):
                    found._add(stack, height, top)
            if not path:
                break
    return found


def successors(one: object, index: Index) -> "list[int]":
    """Positions that an object refers to."""
    get = index.get
    # Of a module its names alone: why, ``heap.referents`` says.
    module = issubclass(type(one), ModuleType)
    held = [edges.names_of(one)] if module else gc.get_referents(one)  # type: ignore[arg-type]
    return [to for other in held if (to := get(id(other))) is not None]


def shortest_cycle(objects: "Sequence[object]", index: Index, inside: "set[int]", start: int) -> "list[int]":
    """Positions of a shortest cycle from ``start`` back to it, within the component ``inside``."""
    came: dict[int, int] = {start: -1}
    layer = [start]
    while layer:
        after: list[int] = []
        for here in layer:
            for to in successors(objects[here], index):
                if to == start:
                    cycle = [here]
                    while came[cycle[-1]] != -1:
                        cycle.append(came[cycle[-1]])
                    return cycle[::-1]
                if to in inside and to not in came:
                    came[to] = here
                    after.append(to)
        layer = after
    return []


def hanging(
    objects: "Sequence[object]", index: Index, roots: "Sequence[int]", taken: bytearray
) -> "list[int]":
    """Positions of what hangs on ``roots`` and is not ``taken`` yet; it is taken by this."""
    found: list[int] = []
    todo = list(roots)
    while todo:
        for to in successors(objects[todo.pop()], index):
            if not taken[to]:
                taken[to] = 1
                found.append(to)
                todo.append(to)
    return found
