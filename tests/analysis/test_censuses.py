"""What two censuses say of what lies between them: never more than is known, whatever has died (B9)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frostline import format as fmt
from frostline.analysis.censuses import censuses, difference
from frostline.format import census as when
from frostline.recording import Mark, Series

NAMES = ("a.A", "b.B", "c.C", "d.D")
MS = 1_000_000


def mark(kind: int, at: int, *values: int, took: int = 0, flags: int = fmt.MARK_FLAG_OURS) -> Mark:
    five = (*values, 0, 0, 0, 0, 0)[:5]
    return Mark(at, at + took, kind, flags, 1, 1, "", 0, "", five)  # type: ignore[arg-type]


def census(
    at: int, moment: int, counts: dict[str, int], frozen: int, every: int = 1, rest: int = 0
) -> list[Mark]:
    """As the target writes it: the sum, then a mark a type."""
    total = sum(counts.values()) + rest
    marks = [mark(fmt.MARK_CENSUS, at, 0, total, frozen, every, moment, took=MS)]
    for name, count in counts.items():
        number = NAMES.index(name) + 1
        marks.append(mark(fmt.MARK_CENSUS, at, number, count, count, 64 * count, count, took=2 * MS))
    return marks


def series(*marks: Mark, own: int = 0) -> Series:
    names = {i + 1: name for i, name in enumerate(NAMES)}
    start = mark(fmt.MARK_STATE, 1, 4, own)
    ordered = sorted((start, *marks), key=lambda one: one.time)
    return Series(pid=7, series=1, interpreter=0, names=names, marks=tuple(ordered))


counts = st.fixed_dictionaries({name: st.integers(0, 500) for name in NAMES})


@given(counts, counts, counts, st.booleans(), st.sampled_from((0, 375)))
def test_a_difference_is_true_or_an_upper_bound(
    at_boundary: dict[str, int], died: dict[str, int], new: dict[str, int], freezes: bool, own: int
) -> None:
    """Objects at the boundary, of which some die; others come. Frozen right after the boundary's, or not."""
    died = {name: min(count, at_boundary[name]) for name, count in died.items()}
    left = {name: at_boundary[name] - died[name] for name in NAMES}
    marks = census(10 * MS, when.BOUNDARY, {n: c for n, c in at_boundary.items() if c}, own)
    if freezes:
        marks.append(mark(fmt.MARK_FREEZE, 12 * MS, sum(at_boundary.values())))
        listed, frozen = new, own + sum(left.values())
    else:
        listed, frozen = {name: left[name] + new[name] for name in NAMES}, own
    marks += census(900 * MS, when.CLOSE, {n: c for n, c in listed.items() if c}, frozen)
    found = difference(series(*marks, own=own))
    assert found is not None and not found.how
    assert found.objects == sum(new.values()) - sum(died.values())
    assert found.died == (sum(died.values()) if freezes and sum(at_boundary.values()) else 0)
    for one in found.changes:
        true = new[one.name] - died[one.name]
        assert one.change >= true if one.at_most else one.change == true
    # No type that has changed is left out.
    told = {one.name for one in found.changes}
    assert all(name in told for name in NAMES if new[name] or died[name])


@given(counts, st.integers(1, 1_000))
def test_what_a_census_has_no_room_for_is_an_upper_bound(at_close: dict[str, int], rest: int) -> None:
    at_close["a.A"] += 1
    marks = census(10 * MS, when.BOUNDARY, {"b.B": 5}, 0, rest=rest)
    marks += census(900 * MS, when.CLOSE, at_close, 0)
    found = difference(series(*marks))
    assert found is not None
    (one,) = [one for one in found.changes if one.name == "a.A"]
    assert (one.before, one.change, one.at_most) == (None, at_close["a.A"], True)
    # And the other way round: no more of it than of the last that is listed.
    marks = census(10 * MS, when.BOUNDARY, {"a.A": 900}, 0)
    marks += census(900 * MS, when.CLOSE, {"b.B": 20, "c.C": 7}, 0, rest=rest)
    found = difference(series(*marks))
    assert found is not None
    (one,) = [one for one in found.changes if one.name == "a.A"]
    assert (one.after, one.change, one.at_most) == (None, 7 - 900, True)


@pytest.mark.parametrize(
    ("acts", "why"),
    (
        ([(fmt.MARK_FREEZE, 500 * MS + 2_000 * MS)], "of types that nobody has listed"),
        ([(fmt.MARK_FREEZE, 12 * MS), (fmt.MARK_FREEZE, 600 * MS)], "of types that nobody has listed"),
    ),
)
def test_a_freeze_at_another_time_is_of_unknown_types(acts: list[tuple[int, int]], why: str) -> None:
    marks = census(10 * MS, when.BOUNDARY, {"a.A": 1_000}, 0)
    marks += [mark(kind, at, -1) for kind, at in acts]
    marks += census(9_000 * MS, when.CLOSE, {"a.A": 10}, 1_500)
    found = difference(series(*marks))
    assert found is not None and why in found.how and found.changes == ()
    assert found.objects == 510


def test_what_is_lost_or_strange_is_left_out() -> None:
    """The first mark of a census was lost; a moment and a reason of a later version."""
    headless = census(10 * MS, when.BOUNDARY, {"a.A": 3}, 0)[1:]
    newer = [mark(fmt.MARK_CENSUS, 20 * MS, 0, 99, -1, 0, 17)]
    found = censuses(series(*headless, *newer))
    assert [(one.moment, one.why_not) for one in found] == [("some time", "unknown reason")]
    assert difference(series(*headless, *newer)) is None


def test_shifted_by_another_host_s_clock_it_stays_one(tmp_path: Any) -> None:
    from frostline.recording.series import shift

    one = series(*census(10 * MS, when.ATTACH, {"a.A": 3, "b.B": 2}, 0))
    one.spans = {"start": one.passes["start"], "stop": one.passes["stop"]}
    shift(one, 5 * MS)
    (found,) = censuses(one)
    assert found.time == 15 * MS and [t.objects for t in found.types] == [3, 2]
