"""The gap rule, its buckets, and its null (D2, A10)."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from frostline.analysis.gaps import Candidate, buckets, explain, gaps_between
from frostline.analysis.intervals import union

MS = 1_000_000


def candidate(*passes: tuple[int, int], name: str = "EngineCore") -> Candidate:
    start = np.array([at * MS for at, _ in passes], np.int64)
    stop = np.array([(at + length) * MS for at, length in passes], np.int64)
    return Candidate(name, start, stop, union(start, stop))


def gaps(*pairs: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    return np.array([a * MS for a, _ in pairs]), np.array([b * MS for _, b in pairs])


def test_a_pass_that_covers_half_of_a_gap_explains_it_and_one_that_comes_late_does_not() -> None:
    start, stop = gaps((100, 500), (1_000, 1_400), (2_000, 2_400), (3_000, 3_400))
    passes = candidate(
        (90, 400),  # opens before it, closes 10 ms before its end
        (1_100, 290),  # begins 100 ms after the gap has opened: something else opened it
        (1_990, 150),  # less than half
        (2_990, 300),  # 110 ms before the gap's end: something else kept it open
    )
    found = explain(start, stop, passes, (0, 4_000 * MS))
    assert found.by.tolist() == [0, -1, -1, -1]
    (row,) = buckets(start, stop, [found])
    assert (row.low, row.high) == (400 * MS, 700 * MS)
    assert (
        row.count,
        row.explained,
        row.total,
        row.explained_total,
    ) == (4, 1, 1_600 * MS, 400 * MS)


def test_the_null_tells_an_accident_from_a_pattern() -> None:
    opened = [(1_000 * k + 37 * k % 400, 300) for k in range(20)]
    start, stop = gaps(*((at, at + length) for at, length in opened))
    window = (0, 20_500 * MS)
    assert explain(start, stop, candidate(*opened), window).by_chance < 0.01
    nothing = explain(start, stop, candidate((350, 1)), window)
    assert nothing.covered == 0 and nothing.by_chance == 1.0


def test_the_null_keeps_false_claims_rare() -> None:
    """Gaps and passes that know nothing of each other: at most one draw in five looks like a pattern."""
    claims = 0
    for seed in range(40):
        dice = np.random.default_rng(seed)
        at = np.sort(dice.integers(0, 200, 24)) * 100
        start, stop = gaps(*((int(a), int(a) + 60) for a in at[::2]))
        passes = candidate(*((int(a), 70) for a in np.sort(dice.choice(200, 30, replace=False)) * 100 + 20))
        claims += explain(start, stop, passes, (0, 20_200 * MS), seed=seed).by_chance <= 0.05
    assert claims <= 8


@given(
    st.lists(st.tuples(st.integers(0, 900), st.integers(1, 80)), min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(0, 900), st.integers(1, 80)), min_size=2, max_size=12),
)
def test_whatever_lies_where_the_rule_holds(
    passes: list[tuple[int, int]], work: list[tuple[int, int]]
) -> None:
    begun = np.array([at * MS for at, _ in work], np.int64)
    done = np.array([(at + length) * MS for at, length in work], np.int64)
    start, stop = gaps_between(union(begun, done), 5 * MS)
    assert np.all(stop - start >= 5 * MS)
    one = candidate(*passes)
    one = Candidate(one.name, one.union.start, one.union.stop, one.union)
    found = explain(start, stop, one, (0, 1_000 * MS))
    for i, by in enumerate(found.by.tolist()):
        if by >= 0:
            inside = min(one.stop[by], stop[i]) - max(one.start[by], start[i])
            assert 2 * inside >= stop[i] - start[i]
    assert 0 < found.by_chance <= 1
    rows = buckets(start, stop, [found])
    assert sum(row.count for row in rows) == len(start)
    assert sum(row.total for row in rows) == int((stop - start).sum())
    assert sum(row.explained for row in rows) == int((found.by >= 0).sum())
