"""What containers hold, by a sample of their items: types alone, so nothing of the program's runs.

What would make a heap cheaper to walk hangs on it: a list of numbers can be an array, a list of objects
cannot; dicts of one shape can be a class.
"""

from frostline.heap import edges

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: Items looked at in one of the largest containers; of others, which are many, in each.
ITEMS, FEW = 300, 16
#: Others of a kind that are looked at, spread over the heap; the longest of them (dicts alone).
OTHERS, KEYS = 1_000, 64
#: Types of items told.
TOLD = 3
_CONTAINERS = {id(kind) for kind in (dict, list, tuple, set, frozenset)}


class Items:
    """Items looked at, by type: of dicts the values."""

    __slots__ = ("_kinds", "looked")

    def __init__(self) -> None:
        self.looked = 0.0
        #: Name of the type -> items, weighted where one stands for many.
        self._kinds: dict[str, float] = {}

    def add(self, one: object, most: int, weighted: bool = False) -> None:
        """Looks at ``most`` items of a container at most: spread over a list or a tuple, else the first.
        ``weighted``: they count for as many as it has."""
        items = _some(one, most)
        each = len(one) / len(items) if weighted and items else 1.0  # type: ignore[arg-type]
        kinds = self._kinds
        for item in items:
            name = edges.named(type(item))
            kinds[name] = kinds.get(name, 0.0) + each
        self.looked += each * len(items)

    def as_plain(self) -> "dict[str, object]":
        """Shares of the types that are the most."""
        top = sorted(self._kinds.items(), key=lambda pair: (-pair[1], pair[0]))[:TOLD]
        return {"looked": round(self.looked), "kinds": [[name, n / self.looked] for name, n in top]}


class Others:
    """Lists, tuples and dicts of any length that a sample came upon.

    Attributes:
        lists, tuples: what they hold; a list's items count for as many as it has.
        many: how many lists, tuples and dicts were looked at.
    """

    __slots__ = ("_shapes", "lists", "many", "tuples")

    def __init__(self) -> None:
        self.lists = Items()
        self.tuples = Items()
        self.many = {"list": 0, "tuple": 0, "dict": 0}
        #: The keys of a dict, texts all -> dicts of that shape.
        self._shapes: dict[tuple[str, ...], int] = {}

    def add(self, objects: "list[object]", large: int) -> None:
        """Looks at some of a generation's objects; lists of ``large`` items are looked at elsewhere."""
        many = self.many
        left = {name: count + OTHERS for name, count in many.items()}
        for one in objects[:: max(1, len(objects) // (20 * OTHERS))]:
            kind = type(one)
            if kind is list and many["list"] < left["list"] and 0 < len(one) < large:  # type: ignore[arg-type]
                many["list"] += 1
                self.lists.add(one, FEW, weighted=True)
            elif kind is tuple and many["tuple"] < left["tuple"]:
                many["tuple"] += 1
                self._tuple(one)
            elif kind is dict and many["dict"] < left["dict"]:
                many["dict"] += 1
                shape = _shape(one)
                if shape:
                    self._shapes[shape] = self._shapes.get(shape, 0) + 1

    def _tuple(self, one: object) -> None:
        """The first container in it, which is why the collector keeps it in sight."""
        for item in _some(one, FEW):
            if id(type(item)) in _CONTAINERS:
                self.tuples.add((item,), 1)
                return

    def as_plain(self) -> "dict[str, object]":
        """For the file that the caller reads."""
        shape, same = max(self._shapes.items(), key=lambda pair: pair[1], default=((), 0))
        return {
            "many": self.many,
            "lists": self.lists.as_plain(),
            "tuples": self.tuples.as_plain(),
            "shape": [edges.word(key) for key in shape],
            "same_shape": same,
        }


def of(one: object) -> "dict[str, object]":
    """The items of one container by type."""
    items = Items()
    items.add(one, ITEMS)
    return items.as_plain()


def _some(one: object, most: int) -> "list[object]":
    kind = type(one)
    if kind is list or kind is tuple:
        return one[:: max(1, -(-len(one) // most))]  # type: ignore[index, arg-type, no-any-return]
    found: list[object] = []
    items: Iterable[object] = one.values() if kind is dict else one  # type: ignore[attr-defined, assignment]
    try:
        for item in items:
            found.append(item)
            if len(found) >= most:
                break
    except RuntimeError:  # another thread has put something into it: what there is stands for it
        pass
    return found


def _shape(one: object) -> "tuple[str, ...]":
    """A dict's keys, where they are texts all and not many."""
    keys: tuple[object, ...] = tuple(one) if len(one) <= KEYS else ()  # type: ignore[arg-type]
    return keys if all(type(key) is str for key in keys) else ()  # type: ignore[return-value]
