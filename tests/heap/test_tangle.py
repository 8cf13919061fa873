"""What stays in cycles when the one that is shown is cut (B10)."""

from __future__ import annotations

import gc
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from frostline.heap.cycles import Cycles, as_plain, cycles_of
from frostline.heap.graph import Index, components, never, shortest_cycle
from frostline.heap.saved import let_go, saved_pass
from frostline.heap.tangle import Links, left
from frostline.report.heap import cycles as told_as_text


@given(st.integers(1, 30), st.data())
def test_what_is_left_is_what_the_definition_says(count: int, data: st.DataObject) -> None:
    """On a cycle still: reached from itself, with one reference less for each link of the cycle."""
    objects: list[list[object]] = [[] for _ in range(count)]
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    edges = data.draw(st.lists(pairs, max_size=3 * count))
    for one, other in edges:
        objects[one].append(objects[other])
    garbage: list[object] = [*objects]
    index = Index(garbage)
    for members in components(garbage, index):
        cycle = shortest_cycle(garbage, index, set(members), members[0])
        rest = [pair for pair in edges if pair[0] in set(members) and pair[1] in set(members)]
        for link in zip(cycle, (*cycle[1:], cycle[0]), strict=True):
            rest.remove(link)
        links = Links(garbage, index, members)
        assert left(garbage, links, cycle, never) == sum(_returns(one, rest) for one in members)
        assert left(garbage, links, cycle, lambda: True) == -1
    for one in objects:
        one.clear()


def _returns(start: int, edges: list[tuple[int, int]]) -> bool:
    seen: set[int] = set()
    todo = [start]
    while todo:
        here = todo.pop()
        for one, other in edges:
            if one == here and other not in seen:
                seen.add(other)
                todo.append(other)
    return start in seen


class Mapper:
    """Stands in itself, as an ORM's does at the root of an inheritance, and in what it keeps."""

    def __init__(self, columns: int) -> None:
        self.base = self
        self.columns = [Column(self) for _ in range(columns)]


class Column:
    def __init__(self, mapper: Mapper) -> None:
        self.mapper = mapper


def _made(columns: int) -> Cycles:
    gc.collect()
    gc.disable()
    try:
        for _ in range(10):
            Mapper(columns)
        saved = saved_pass()
        told = cycles_of(saved)
        let_go(saved)
    finally:
        gc.enable()
    return told


def _shown(told: Cycles) -> str:
    plain: dict[str, Any] = {**as_plain(told), "freed_in": 0.0, "look": ""}
    return "\n".join(str(block) for block in told_as_text([("process", plain)]))


def test_a_remedy_that_is_not_enough_says_so() -> None:
    told = _made(3)
    (kind,) = [kind for kind in told.kinds if "Mapper -> __dict__['base']" in kind.path]
    assert kind.count == 10 and kind.one == kind.largest
    # The mapper, its list and the columns, with their __dict__s where the version makes such.
    assert 5 <= kind.left <= kind.one
    assert f"in the one looked at, {kind.left:,} of {kind.one:,} objects stay on others" in _shown(told)


def test_a_remedy_that_is_enough_says_nothing_of_others() -> None:
    told = _made(0)
    (kind,) = [kind for kind in told.kinds if "Mapper -> __dict__['base']" in kind.path]
    assert kind.count == 10 and kind.left == 0
    assert "stay on others" not in _shown(told)


def test_what_hangs_on_the_one_that_is_named_is_counted() -> None:
    """Naming it makes it a ``__dict__`` on 3.11 and 3.12, behind which nothing was seen."""
    gc.collect()
    gc.disable()
    try:
        mapper = Mapper(0)
        mapper.columns = [[], [], []]  # type: ignore[list-item]
        del mapper
        saved = saved_pass()
        told = cycles_of(saved)
        let_go(saved)
    finally:
        gc.enable()
    (kind,) = [kind for kind in told.kinds if "Mapper -> __dict__['base']" in kind.path]
    assert kind.count == 1 and kind.hanging == 4
