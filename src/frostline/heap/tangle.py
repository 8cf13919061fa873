"""How much of a tangle stays when the one cycle of it that is shown is cut.

A component is often many cycles through the same objects: a mapper of SQLAlchemy's that stands in its own
``base_mapper`` is held by its columns, properties and loaders as well. A remedy for the shortest of them then
frees nothing, and whoever reads it ought to know.
"""

from frostline.heap import edges
from frostline.heap.graph import Index, components, successors
from frostline.probe.kinds import MethodType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Objects in one component up to which it is looked at: it takes as long again as finding the component.
LARGE = 20_000


class Links:
    """Which of a component's objects refer to which: ``to[ends[i]:ends[i + 1]]``, as places in the component.

    Flat, since a list for each object would take more than the object. To be made before anything of the
    component is named: naming an attribute makes its object a ``__dict__`` (3.11, 3.12), which is none of the
    garbage, and the way on through its attributes is seen no more.
    """

    __slots__ = ("ends", "places", "to")

    def __init__(self, objects: "list[object]", index: Index, members: "Sequence[int]") -> None:
        self.places: dict[int, int] = {}
        self.to: list[int] = []
        self.ends = [0]
        if len(members) > LARGE:
            return
        self.places = {i: place for place, i in enumerate(members)}
        for i in members:
            self.to += [self.places[to] for to in successors(objects[i], index) if to in self.places]
            self.ends.append(len(self.to))


def left(objects: "list[object]", links: Links, cycle: "list[int]", late: "Callable[[], bool]") -> int:
    """Objects of a component that are on cycles still, once one of its cycles is cut.

    Cut is each link of it that a program can cut: an object keeps its ``__dict__``, a function its cells, a
    method its object. Over 0, the answer proves that ending the cycle at one link does not free all of them.
    0 proves nothing: another cycle may share a link with this one, and go on without the one that is cut.

    Args:
        objects: the garbage.
        links: of the component.
        cycle: positions of the cycle, each referring to the next and the last to the first. Of several
            references from one to the next, one is cut: it is one name that a remedy speaks of.
        late: asked now and then; once it says so, the answer is -1.

    Returns:
        -1 where it was not looked at: neither is a cycle through a class, which is always on others too.
    """
    places, ends = links.places, links.ends
    if not cycle or not places or late() or any(issubclass(type(objects[i]), type) for i in cycle):
        return -1
    cut = {}
    for here, to in zip(cycle, cycle[1:] + cycle[:1], strict=True):
        if not _inherent(objects[here], objects[to]):
            cut[places[here]] = places[to]

    def follow(place: object, _: Index) -> "list[int]":
        at: int = place  # type: ignore[assignment]
        ahead = links.to[ends[at] : ends[at + 1]]
        if at in cut and cut[at] in ahead:
            ahead.remove(cut[at])
        return ahead

    found = components(range(len(places)), Index(()), late, follow)
    return -1 if late() else sum(map(found.size, range(len(found))))


def _inherent(holder: object, held: object) -> bool:
    """Whether the one cannot let go of the other, as long as it lives."""
    kind = type(holder)
    if kind is MethodType or type(held) is edges.Cell or (edges.runs(kind) and type(held) is edges.Frame):
        return True
    return edges.edge(holder, held) in (".__dict__", ".__closure__")
