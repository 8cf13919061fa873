"""Long-lived objects, so that each process has the heap that a real one has.

The numbers are those of a public report (requirement A2) on a server at the end
of its start-up. The objects have the shape of what fills such heaps, a compiled
graph, a vocabulary, a table of requests' schemas, and refer to each other out of
order, as such things do. Nothing reads them later, which is the point: the
collector walks them again and again, and finds nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from random import Random

#: Tracked objects of each role at scale 1.
TRACKED = {"APIServer": 632_424, "EngineCore": 819_923, "Worker": 959_694}
_CHUNK = 20_000


class GraphNode:
    """An operation of a compiled graph: what it reads, who reads it, what is known of it."""

    __slots__ = ("inputs", "kind", "meta", "users")

    def __init__(self, kind: str, inputs: list[GraphNode], meta: dict[str, object]) -> None:
        self.kind = kind
        self.inputs = inputs
        self.users: list[GraphNode] = []
        self.meta = meta


class VocabularyEntry:
    """A tokenizer's entry and the merges that lead to it."""

    __slots__ = ("merges", "rank", "text")

    def __init__(self, text: str, rank: int, merges: list[VocabularyEntry]) -> None:
        self.text = text
        self.rank = rank
        self.merges = merges


class PlanNode:
    """One entry of the plans that an engine prepares for each batch size."""

    __slots__ = ("after", "rows", "slots")

    def __init__(self, rows: int, after: list[PlanNode]) -> None:
        self.rows = rows
        self.after = after
        self.slots: list[int] = [rows]


def _graph(heap: list[object], random: Random) -> int:
    far = heap[random.randrange(len(heap))] if heap else None
    inputs = [far] if isinstance(far, GraphNode) else []
    node = GraphNode("op", inputs, {"shape": [1, 64], "node": len(heap)})
    for other in inputs:
        other.users.append(node)
    heap.append(node)
    return 5  # the node, two lists, the dictionary, its list


def _vocabulary(heap: list[object], random: Random) -> int:
    far = heap[random.randrange(len(heap))] if heap else None
    heap.append(VocabularyEntry("piece", len(heap), [far] if isinstance(far, VocabularyEntry) else []))
    return 2


def _plans(heap: list[object], random: Random) -> int:
    far = heap[random.randrange(len(heap))] if heap else None
    heap.append(PlanNode(len(heap), [far] if isinstance(far, PlanNode) else []))
    return 3


_MAKERS: dict[str, Callable[[list[object], Random], int]] = {
    "APIServer": _vocabulary,
    "EngineCore": _plans,
    "Worker": _graph,
}


def fill(role: str, scale: float, alive: Callable[[], None] = lambda: None) -> list[object]:
    """Objects that bring this process to the heap of ``role``; keep the list.

    Args:
        alive: called every now and then; may raise to give up.
    """
    # get_objects() is slow and builds a list: once, at start-up, and never while serving.
    missing = int(TRACKED[role] * scale) - len(gc.get_objects())
    make = _MAKERS[role]
    random = Random(role)  # the same heap in every run
    heap: list[object] = []
    made = checked = 0
    while made < missing:
        made += make(heap, random)
        if made - checked > _CHUNK:
            checked = made
            alive()
    return heap


def tracked() -> int:
    """Objects the collector tracks now, those in the permanent generation included."""
    return len(gc.get_objects()) + gc.get_freeze_count()
