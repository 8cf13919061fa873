"""Cycles named (B10, D5): each program of the corpus on every version, and its twin that makes none."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frostline.heap.cycles import cycles_of
from frostline.heap.finalized import suspects
from frostline.heap.graph import Index, components, shortest_cycle
from frostline.heap.saved import let_go, saved_pass
from tests.heap import corpus
from tests.interpreters import Interpreter, found

HERE = Path(__file__).parent
SOURCE = HERE.parent.parent / "src"


@pytest.mark.parametrize("interpreter", found(), ids=str)
def test_each_cycle_is_named_and_no_twin_is(interpreter: Interpreter) -> None:
    ran = subprocess.run(
        [interpreter.executable, "-X", "utf8", str(HERE / "one.py"), str(SOURCE), str(HERE)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    seen = {row["name"]: row for row in map(json.loads, ran.stdout.splitlines())}
    assert set(seen) == set(corpus.MADE)
    wrong = []
    for name, (_, _, words) in corpus.MADE.items():
        made, clean = seen[name]["made"], seen[name]["clean"]
        kinds = [kind for kind in made["kinds"] if kind["count"] == 10]
        text = "\n".join(f"{kind['path']} | {kind['pattern']}" for kind in kinds)
        if not kinds or not all(word in text for word in words):
            wrong.append(f"{name}: {words} not in {text or made}")
        if clean["kinds"]:
            wrong.append(f"{name}: the twin makes {clean['kinds']}")
    assert not wrong, "\n".join(wrong)


def test_a_long_chain_is_no_recursion() -> None:
    first: list[object] = []
    last = first
    every: list[object] = [first]
    for _ in range(50_000):
        last.append([])
        last = last[-1]  # type: ignore[assignment]
        every.append(last)
    last.append(first)
    index = Index(every)
    (whole,) = components(every, index)
    assert sorted(whole) == list(range(50_001))
    assert len(shortest_cycle(every, index, set(whole), 0)) == 50_001
    last.pop()
    assert len(components(every, index)) == 0
    while every:  # freed one by one: the interpreter itself recurses else
        every.pop(0).clear()  # type: ignore[attr-defined]


@given(st.integers(1, 60), st.data())
def test_components_are_those_of_the_definition(count: int, data: st.DataObject) -> None:
    """Two objects are in one component if, and only if, each is reached from the other."""
    objects: list[list[object]] = [[] for _ in range(count)]
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    edges = data.draw(st.lists(pairs, max_size=3 * count))
    for one, other in edges:
        objects[one].append(objects[other])
    reach = [{i} for i in range(count)]
    grown = True
    while grown:
        grown = False
        for one, other in edges:
            more = reach[other] - reach[one]
            grown |= bool(more)
            reach[one] |= more
    loops = {one for one, other in edges if one == other}
    together = {frozenset(j for j in range(count) if j in reach[i] and i in reach[j]) for i in range(count)}
    wanted = {found for found in together if len(found) > 1 or found & loops}
    index = Index(objects)
    found = components(objects, index)
    assert {frozenset(members) for members in found} == wanted
    for members in found:
        cycle = shortest_cycle(objects, index, set(members), members[0])
        assert cycle[0] == members[0] and len(set(cycle)) == len(cycle)
        for here, to in zip(cycle, (*cycle[1:], cycle[0]), strict=True):
            assert (here, to) in edges
    for one in objects:
        one.clear()


class Node:
    other: object


def test_a_generator_that_holds_much_is_not_looked_through() -> None:
    """By count, not by the clock: a thousand of them would stop a server for minutes."""

    def walk(held: list[object]) -> Iterator[int]:
        yield len(held)

    held: list[object] = [[] for _ in range(200_000)]
    alive = [walk(held) for _ in range(20)]
    for one in alive:
        next(one)
    asked = 0

    def count(frame: object, event: str, what: object) -> None:
        nonlocal asked
        asked += event == "c_call" and what is gc.is_tracked

    sys.setprofile(count)
    try:
        found = suspects(2)
    finally:
        sys.setprofile(None)
    assert asked < 200_000, asked
    assert not found.gone(Index([]))


def test_weak_references_to_garbage_are_counted() -> None:
    gc.collect()
    gc.disable()
    cleared: list[object] = []
    try:
        watched: list[weakref.ref[Node]] = []
        kept = Node()
        watched.append(weakref.ref(kept))
        for number in range(200):
            one, two = Node(), Node()
            one.other, two.other = two, one
            if number % 2:
                # Two with a callback; the plain one is the same for all who ask.
                watched += [
                    weakref.ref(one),
                    weakref.ref(two, cleared.append),
                    weakref.ref(two, cleared.append),
                ]
        del one, two
        saved = saved_pass()
        told = cycles_of(saved)
        assert kept is watched[0]() and not any(one() for one in watched[1:])
        let_go(saved)
    finally:
        gc.enable()
    (kind,) = [kind for kind in told.kinds if kind.count == 200]
    assert kind.weak == 300 and len(cleared) == 200


def test_when_the_time_is_up_a_part_is_told() -> None:
    gc.collect()
    gc.disable()
    try:
        for _ in range(5_000):
            one, two = Node(), Node()
            one.other, two.other = two, one
        del one, two
        saved = saved_pass()
        assert saved.found >= 10_000
        part = cycles_of(saved, budget=0.0)
        whole = cycles_of(saved)
        let_go(saved)
    finally:
        gc.enable()
    assert part.cut and sum(kind.count for kind in part.kinds) < 5_000
    (kind,) = [kind for kind in whole.kinds if kind.count == 5_000]
    assert not whole.cut and "Node -> __dict__['other']" in kind.path
