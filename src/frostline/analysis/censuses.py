"""Censuses of the tracked heap that a process took itself, and what lies between two of them (B9)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple

from frostline import format as fmt
from frostline.format.census import MOMENTS, REASONS
from frostline.recording import Mark, Series

#: ns. A freeze so soon after a census froze what it listed.
AT_ONCE = 1_000_000_000
#: Objects that a freeze may find more of than the census just before it listed.
FEW = 200


@dataclass(frozen=True)
class TypeCount:
    """Objects of one type. ``slots``: references in its containers; ``size`` in bytes, of them alone."""

    name: str
    objects: int
    slots: int
    size: int
    #: Of ``objects``, those in generation 2.
    old: int


@dataclass(frozen=True)
class Census:
    """One census.

    Attributes:
        moment: ``attach``, ``boundary`` or ``close``.
        time, took: when it began, and the ns for which it stopped the process.
        objects: tracked and not frozen.
        frozen: as the interpreter counts them, its own left out where the recording began with it.
        every: one object in so many was looked at; with more than 1 the figures of types are estimates.
        types: the most frequent first; ``others`` objects of types beyond them.
        why_not: why none was taken; empty where one was.
    """

    moment: str
    time: int
    took: int
    objects: int
    frozen: int
    every: int
    types: tuple[TypeCount, ...]
    others: int
    why_not: str = ""


@dataclass(frozen=True)
class Change:
    """One type at two moments. None is not known: it is not among the most frequent ones.

    ``at_most``: some of what the first one listed is frozen by now and may have died since, or one of the two
    has no room for it.
    """

    name: str
    before: int | None
    after: int | None
    change: int
    at_most: bool = False
    #: Bytes, of the later one that has it.
    size: int = 0


@dataclass(frozen=True)
class Difference:
    """What lies between two censuses of one process.

    Attributes:
        first, last: the censuses.
        objects: tracked objects more, frozen ones in it.
        died: of what the first listed and was frozen right after it, gone since; -1 where that is not known.
        how: why the types cannot be compared; empty where they can.
        about: one of the two looked at a part: figures of types are estimates.
        changes: by type, the largest change first.
    """

    first: Census
    last: Census
    objects: int
    died: int
    how: str
    about: bool
    changes: tuple[Change, ...]


def censuses(series: Series) -> tuple[Census, ...]:
    """Those of one series, in order, with those that were not taken."""
    groups: dict[int, list[Mark]] = defaultdict(list)
    for mark in series.marks:
        if mark.kind == fmt.MARK_CENSUS:
            groups[mark.time].append(mark)
    own = _own(series)
    found = [_census(series, marks, own) for _, marks in sorted(groups.items())]
    return tuple(one for one in found if one is not None)


def _own(series: Series) -> int:
    """What the interpreter itself had frozen, where the recording began with it; else 0, as in a fork."""
    if any(mark.kind == fmt.MARK_ATTACH and mark.values[0] for mark in series.marks):
        return 0
    states = (m for m in series.marks if m.kind == fmt.MARK_STATE and m.values[0] == 4)
    first = next(states, None)
    return max(0, first.values[1]) if first is not None else 0


def _census(series: Series, marks: list[Mark], own: int) -> Census | None:
    head = next((m for m in marks if not m.values[0]), None)
    if head is None:
        return None  # its record was lost
    _, objects, frozen, every, at = head.values
    moment = MOMENTS[at] if 0 <= at < len(MOMENTS) else "some time"
    if every <= 0:
        why = dict(REASONS).get(objects, "unknown reason")
        return Census(moment, head.time, 0, 0, 0, 0, (), 0, why)
    types = [
        TypeCount(series.name(name), *(max(0, value) for value in rest))
        for name, *rest in (m.values for m in marks)
        if name
    ]
    types.sort(key=lambda one: (-one.objects, one.name))
    others = max(0, objects - sum(one.objects for one in types))
    took = head.stop - head.time
    return Census(moment, head.time, took, objects, frozen - own, every, tuple(types), others)


def difference(series: Series) -> Difference | None:
    """Between the first census that was taken and the last; None where there are no two."""
    taken = [one for one in censuses(series) if not one.why_not]
    if len(taken) < 2:
        return None
    first, last = taken[0], taken[-1]
    acts = [
        m
        for m in series.marks
        if m.kind in (fmt.MARK_FREEZE, fmt.MARK_THAW) and first.time <= m.time <= last.time
    ]
    more = last.frozen - first.frozen
    basis = _comparable(first, last, more, acts)
    return Difference(
        first=first,
        last=last,
        objects=last.objects - first.objects + more,
        died=basis.died,
        how=basis.how,
        about=first.every > 1 or last.every > 1,
        changes=() if basis.how else _changes(first, last, basis),
    )


class _Basis(NamedTuple):
    """On what two censuses can be compared by type."""

    #: As ``Difference.died`` and ``Difference.how``.
    died: int = -1
    how: str = ""
    #: The last one lists nothing of what the first one listed, which is frozen.
    all_new: bool = False


def _comparable(first: Census, last: Census, more: int, acts: list[Mark]) -> _Basis:
    """Frozen objects are listed by nobody. Those that a freeze right after the first census took are of the
    types that it listed; of what was frozen at any other time the types are not known.
    """
    if acts and acts[-1].kind == fmt.MARK_THAW:
        # It all stands in the list again.
        return _Basis(how="" if first.frozen <= 0 else "what was frozen before is listed again, since a thaw")
    freezes = [m for m in acts if m.kind == fmt.MARK_FREEZE]
    if not freezes:
        return _Basis(died=max(0, -more))
    if len(freezes) > 1 or freezes[0].time - (first.time + first.took) > AT_ONCE:
        return _Basis(how=f"{more:,} objects more are frozen, of types that nobody has listed")
    died = first.objects - more
    if died < -FEW:
        return _Basis(how=f"{-died:,} objects more were frozen than the census had listed")
    return _Basis(max(0, died), all_new=True)


def _changes(first: Census, last: Census, basis: _Basis) -> tuple[Change, ...]:
    then = {one.name: one for one in first.types}
    now = {one.name: one for one in last.types}
    found = []
    for name in {**then, **now}:
        before = then[name].objects if name in then else _unlisted(first)
        after = now[name].objects if name in now else _unlisted(last)
        # Of a type that one has no room for there are no more than of the last that it lists.
        most = _least(last) if after is None else after
        change = most if basis.all_new else most - (before or 0)
        at_most = after is None or (before is None and not basis.all_new) or (basis.died > 0 and before != 0)
        sizes = now.get(name) or then[name]
        found.append(Change(name, before, after, change, at_most, sizes.size))
    found.sort(key=lambda one: (-abs(one.change), -max(one.before or 0, one.after or 0), one.name))
    return tuple(found)


def _unlisted(one: Census) -> int | None:
    """How many there are of a type that it does not list."""
    return None if one.others or one.every > 1 else 0


def _least(one: Census) -> int:
    return min((t.objects for t in one.types), default=0)
