"""The tracked heap by type, as processes counted it themselves, and what grew in between (B9)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from frostline.analysis import Analysis, ProcessReport
from frostline.analysis.censuses import Census, Change, Difference, difference
from frostline.analysis.verdict import milliseconds as ms
from frostline.report.blocks import Block, Line, Table
from frostline.report.heap import SHOWN_TYPES, census, size


def heaps(analysis: Analysis) -> Iterator[Block]:
    """One table for each process that took a census: two moments side by side, or the one there is."""
    for process in analysis.processes:
        yield from heap(process)


def heap(process: ProcessReport) -> Iterator[Block]:
    """The same of one process; nothing where none was asked for."""
    taken = [one for one in process.censuses if not one.why_not]
    found = difference(process.series)
    if found is not None:
        yield from _compared(process.name, found)
    elif taken:
        yield from census([(f"{process.name}, at {taken[0].moment}", _plain(taken[0]), None)])
    for one in process.censuses:
        if one.why_not:
            yield Line(f"{process.name}: no census at {one.moment}: {one.why_not}", indent=2)


def _compared(name: str, found: Difference) -> Iterator[Block]:
    first, last = found.first, found.last
    about = "~" if found.about else ""
    if found.how:
        for one in (first, last):
            yield from census([(f"{name}, at {one.moment}", _plain(one), None)])
        yield Line(f"not compared by type: {found.how}", indent=2)
    else:
        partly = "not frozen at" if last.frozen > first.frozen else "at"
        rows = [
            (
                one.name,
                _number(one.before, about),
                _number(one.after, about),
                _changed(one, about),
                size(one.size),
            )
            for one in found.changes[:SHOWN_TYPES]
        ]
        columns = ("type", f"at {first.moment}", f"{partly} {last.moment}", "difference", "size then")
        title = f"Tracked heap by type at {first.moment} and at {last.moment}: {name}"
        yield Table(title, columns, tuple(rows), frozenset((1, 2, 3, 4)), ("size then",))
        if len(found.changes) > SHOWN_TYPES:
            yield Line(f"and {len(found.changes) - SHOWN_TYPES:,} more types: --json", "quiet", indent=2)
    yield Line(_sum(found), indent=2)
    for line in _notes(found):
        yield Line(line, "quiet", indent=2)


def _sum(found: Difference) -> str:
    first, last = found.first, found.last
    text = f"{first.objects:,} tracked objects at {first.moment}"
    if first.frozen > 0:
        text += f" and {first.frozen:,} frozen"
    text += f", {last.objects:,} at {last.moment}"
    if last.frozen > 0:
        text += f" and {last.frozen:,} frozen"
    return f"{text}: {found.objects:+,}"


def _notes(found: Difference) -> Iterator[str]:
    first, last = found.first, found.last
    if found.died > 0:
        yield (
            f"<= : of what was frozen {found.died:,} objects have died by reference count since, and the "
            "interpreter does not say of which types"
        )
    if found.about:
        parts = [f"in {one.every:,} at {one.moment}" for one in (first, last) if one.every > 1]
        yield f"~ : only a part was looked at, one object {', '.join(parts)}"
    stops = " and ".join(f"{ms(one.took)} at {one.moment}" for one in (first, last))
    yield f"counting stopped it for {stops}"


def _number(count: int | None, about: str) -> str:
    return "-" if count is None else f"{about if count else ''}{count:,}"


def _changed(one: Change, about: str) -> str:
    sign = "<=" if one.at_most else about if one.change else ""
    return f"{sign}{one.change:+,}" if one.change else f"{sign}0"


def _plain(one: Census) -> dict[str, Any]:
    """As an answer of the live census has it."""
    return {
        "rows": [[t.name, t.objects, t.slots, t.size, [0, 0, t.old]] for t in one.types],
        "others": one.others,
        "objects": [0, 0, one.objects],
        "frozen": max(0, one.frozen),
        "every": one.every,
        "largest": [],
        "took": one.took / 1e9,
        "stored": True,
    }


def censuses_json(process: ProcessReport) -> dict[str, Any]:
    """For ``report --json`` and ``census --json``."""
    found = difference(process.series)
    if found is None:
        return {"censuses": [asdict(one) for one in process.censuses], "growth": None}
    growth = asdict(found)
    growth["first"], growth["last"] = found.first.moment, found.last.moment
    return {"censuses": [asdict(one) for one in process.censuses], "growth": growth}
