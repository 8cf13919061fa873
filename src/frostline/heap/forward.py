"""A walk forward, from every root to all that it leads to: so frozen objects are seen, and nothing is thawed.

``gc.get_objects`` does not list what is frozen and ``gc.get_referrers`` does not ask it; but
``gc.get_referents`` asks any object, as a pass would (but see ``heap.referents``). What is reached and is
in no generation is frozen. Only what nothing leads to stays unseen: what C code alone holds, and frozen
garbage.

It costs one to three seconds of CPU a million objects, is bounded by a deadline, and holds what it has
reached for as long as it lasts. It needs some 30 MiB a million objects: 8 bytes for each list that one is in,
and a sixteenth of the memory that the objects fill.
"""

import gc
import sys
import time

from frostline import probe
from frostline.heap.referents import Referents

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from frostline.heap.roots import Roots

#: Objects whose referents are asked for at one go, and objects between two looks at the clock.
_CHUNK = 256
_STRIDE = 65_536
#: An object is known by the 16 bytes at which it begins, one byte for each, in pages of 64 KiB of memory.
_LIVE, _SEEN = 1, 2
#: Frozen objects that 3.12 has from its start (375) are fewer, whatever the build.
_FEW = 1_000


def frozen_count() -> int:
    """Objects frozen here, without those that 3.12 starts with: it counts its own immortal objects so.

    Walks the permanent generation, 10 to 30 ms a million.
    """
    return less_own(int(gc.get_freeze_count()))


def less_own(count: int) -> int:
    """The same of a count that is there already."""
    if sys.version_info[:2] == (3, 12):
        recorder = probe.recorder_of_this_process()
        start = recorder.frozen_at_attach if recorder is not None else count
        if start < _FEW:
            count -= start
    return max(0, count)


class Walk:
    """One walk.

    Attributes:
        roots: what it began from.
        frozen: the objects reached that are in no generation.
        cut: the time was up before everything had been reached.
    """

    __slots__ = ("_layers", "_pages", "_referents", "_until", "cut", "frozen", "roots")

    def __init__(self, roots: "Roots", until: float = float("inf")) -> None:
        self.roots = roots
        self._until = until
        self._referents = Referents()
        self._pages: dict[int, bytearray] = {}
        #: Layer by layer, each object at the fewest steps from a root.
        self._layers: list[list[object]] = []
        self.frozen: list[object] = []
        self.cut = False
        passes = _passes()
        # The youngest first, or the lists of the others would be in it.
        lists = [gc.get_objects(generation=generation) for generation in range(3)]
        for objects in lists:
            if not self._late():
                self._mark(objects)
        # Ours are among them: asked in their turn, they would lead to each other, and be a cycle by that.
        for ours in (self, self._layers, self.frozen, lists, *lists):
            self._mark([ours], _SEEN)
        self._from(roots)
        # What no root leads to may hold frozen objects all the same: it is asked too.
        for objects in lists:
            self._beyond(objects)
        lists.clear()
        # What other threads have made meanwhile was in no generation either. It is in the youngest, unless
        # one of them has collected.
        made: set[int] = set()
        for generation in range(1 if _passes() == passes else 3):
            made.update(self._unmarked(gc.get_objects(generation=generation)))
        if made:
            self.frozen = [one for one in self.frozen if id(one) not in made]

    def _late(self) -> bool:
        self.cut = self.cut or time.monotonic() >= self._until
        return self.cut

    def _mark(self, objects: "list[object]", flag: int = _LIVE) -> None:
        """These are in a generation, or are not to be asked."""
        pages = self._pages
        for number in map(id, objects):
            place = number >> 4
            page = pages.get(place >> 12)
            if page is None:
                page = pages[place >> 12] = bytearray(1 << 12)
            page[place & 4095] |= flag

    def _unmarked(self, objects: "list[object]") -> "Iterator[int]":
        """The ids of those that were seen and not marked as live."""
        for number in map(id, objects):
            page = self._pages.get(number >> 16)
            if page is not None and page[number >> 4 & 4095] == _SEEN:
                yield number

    def _from(self, roots: "Roots") -> None:
        layer: list[object] = []
        self._see(roots.objects(), layer)
        while layer and not self.cut:
            self._layers.append(layer)
            after: list[object] = []
            for start in range(0, len(layer), _CHUNK):
                self._see(self._referents.of(layer[start : start + _CHUNK]), after)
            layer = after

    def _beyond(self, objects: "list[object]") -> None:
        todo: list[object] = []
        for start in range(0, len(objects), _CHUNK):
            self._see(objects[start : start + _CHUNK], todo)
            while todo and not self.cut:
                some = todo[-_CHUNK:]
                del todo[-_CHUNK:]
                self._see(self._referents.of(some), todo)
            if self.cut:
                return

    def _see(self, found: "list[object]", fresh: "list[object]") -> None:
        """Adds to ``fresh`` what was not seen before, and to ``frozen`` what of it is in no generation."""
        pages, frozen = self._pages, self.frozen
        for start in range(0, len(found), _STRIDE):
            if self._late():
                return
            for one in filter(gc.is_tracked, found[start : start + _STRIDE]):
                place = id(one) >> 4
                page = pages.get(place >> 12)
                if page is None:
                    page = pages[place >> 12] = bytearray(1 << 12)
                flags = page[place & 4095]
                if flags & _SEEN:
                    continue
                page[place & 4095] = flags | _SEEN
                fresh.append(one)
                if not flags:
                    frozen.append(one)

    def chains(self, objects: "list[object]", until: float = float("inf")) -> "dict[int, list[object]]":
        """For each position in ``objects`` that a root leads to, the objects from that root to it, each of
        which refers to the next. What other threads have changed meanwhile may be missing, and what was not
        followed by ``until``."""
        found: dict[int, list[object]] = {}
        depths: dict[int, int] = {}
        for depth, layer in enumerate(self._layers):
            wanted = {id(one): number for number, one in enumerate(objects) if number not in depths}
            if not wanted.keys().isdisjoint(map(id, layer)):
                for one in layer:
                    if id(one) in wanted:
                        depths[wanted[id(one)]] = depth
                        found[wanted[id(one)]] = [one]
        for depth in range(max(depths.values(), default=0), 0, -1):
            heads: dict[int, list[int]] = {}
            for number, chain in found.items():
                if depths[number] >= depth:
                    heads.setdefault(id(chain[-1]), []).append(number)
            self._step(self._layers[depth - 1], heads, found, until)
            for numbers in heads.values():  # another thread has cut it off, or the time is up
                for number in numbers:
                    del found[number]
        for chain in found.values():
            chain.reverse()
        return found

    def _step(
        self,
        layer: "list[object]",
        heads: "dict[int, list[int]]",
        found: "dict[int, list[object]]",
        until: float,
    ) -> None:
        """One step back: to each chain whose head is wanted, what of ``layer`` holds it."""
        of = self._referents.of
        for start in range(0, len(layer), _CHUNK):
            if not heads or time.monotonic() >= until:
                return
            some = layer[start : start + _CHUNK]
            if heads.keys().isdisjoint(map(id, of(some))):
                continue
            for one in some:
                for held in heads.keys() & map(id, of([one])):
                    for number in heads.pop(held):
                        found[number].append(one)

    def drop(self) -> None:
        """Lets go of everything that was reached."""
        self._layers.clear()
        self._pages.clear()
        self.frozen.clear()


def _passes() -> int:
    return sum(stats["collections"] for stats in gc.get_stats())
