"""Spans in spans: whose parent is whose, and the times that each took by itself (B11)."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from frostline.analysis.nested import Forest, forest

#: A tree of spans: how long before its first child, between them and after the last one; the children.
Tree = tuple[list[int], list["Tree"]]
TREES: st.SearchStrategy[Tree] = st.recursive(
    st.tuples(st.lists(st.integers(1, 9), min_size=1, max_size=1), st.just([])),
    lambda inner: st.lists(inner, max_size=4).flatmap(
        lambda children: st.tuples(
            st.lists(st.integers(0, 9), min_size=len(children) + 1, max_size=len(children) + 1).map(
                lambda gaps: [gaps[0] + 1, *gaps[1:]]
            ),
            st.just(children),
        )
    ),
    max_leaves=12,
)
Row = tuple[int, int, int]


def spans_of(tree: Tree, at: int, thread: int, rows: list[Row]) -> int:
    """Appends the tree's spans in the order in which they end, as a recorder would. Returns its end."""
    gaps, children = tree
    begin = at
    for gap, child in zip(gaps, children, strict=False):
        at = spans_of(child, at + gap, thread, rows)
    at += gaps[-1]
    rows.append((begin, at, thread))
    return at


def taken_apart(rows: list[Row]) -> Forest:
    start, stop, thread = (np.array([row[i] for row in rows], np.int64) for i in range(3))
    return forest(start, stop, thread.astype(np.uint16), np.arange(len(rows)))


@given(st.lists(st.lists(TREES, min_size=1, max_size=4), min_size=1, max_size=3))
def test_own_times_add_up_to_the_step(threads: list[list[Tree]]) -> None:
    rows: list[Row] = []
    for thread, trees in enumerate(threads):
        at = 7 * thread
        for tree in trees:
            at = spans_of(tree, at, thread, rows) + 1
    found = taken_apart(rows)
    assert not found.crossing
    length = np.array([rows[i][1] - rows[i][0] for i in found.which])
    sums = np.bincount(found.root, weights=found.own, minlength=len(rows))
    outer = found.outermost
    assert np.array_equal(sums[outer], length[outer])
    assert not sums[~outer].any()
    assert (found.own >= 0).all()
    assert np.count_nonzero(outer) == sum(map(len, threads))


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 12), st.integers(0, 1)), min_size=1, max_size=14)
)
def test_a_parent_is_the_nearest_span_that_holds_it_and_crossing_ones_are_seen(
    some: list[tuple[int, int, int]],
) -> None:
    rows = sorted({(at, at + took, thread) for at, took, thread in some}, key=lambda row: row[1])
    found = taken_apart(rows)
    crossing = any(a[2] == b[2] and a[0] < b[0] < a[1] < b[1] for a in rows for b in rows if a is not b)
    assert found.crossing == crossing
    if crossing:
        assert found.flat and found.outermost.all()
        return
    for place, which in enumerate(found.which):
        begin, end, thread = rows[which]
        holding = [
            row
            for row in rows
            if row[2] == thread and row[0] <= begin and end <= row[1] and row != rows[which]
        ]
        parent = -1 if found.parent is None else int(found.parent[place])
        if not holding:
            assert parent == -1
        else:
            assert rows[found.which[parent]] == min(holding, key=lambda row: row[1] - row[0])


def test_many_spans_one_behind_the_other_are_flat_and_quick() -> None:
    start = np.arange(200_000, dtype=np.int64) * 10
    for threads in (1, 2):
        found = forest(start, start + 9, (np.arange(200_000) % threads).astype(np.uint16), np.arange(200_000))
        assert found.flat and not found.crossing and int(found.own.sum()) == 9 * 200_000


def test_a_step_of_many_parts_takes_rounds_by_the_logarithm() -> None:
    """One span that holds all others: each asks its neighbour, and none of them holds it."""
    many = 50_000
    start = np.concatenate((1 + np.arange(many, dtype=np.int64) * 10, [0]))
    stop = np.concatenate((start[:-1] + 9, [10 * many + 1]))
    found = forest(start, stop, np.zeros(many + 1, np.uint16), np.arange(many + 1))
    assert found.parent is not None
    assert found.parent[0] == -1 and (found.parent[1:] == 0).all()
    assert int(found.own[0]) == 10 * many + 1 - 9 * many


def test_nothing_is_nothing() -> None:
    found = taken_apart([])
    assert found.flat and len(found.which) == len(found.own) == len(found.root) == 0
