"""What looks into heaps found, as text: cycles, a census, who holds what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from frostline.report.blocks import Block, Line, Table
from frostline.report.words import short_paths

SHOWN_KINDS = 12
SHOWN_TYPES = 20

Found = dict[str, Any]
#: Words of ``heap.hang`` where it found no way.
NO_WAY = ("held from C", "no way of")
#: Behind how long a look stopped a process that tells nobody of its requests.
NOT_COUNTED = " (nobody counts its requests there, as a policy does: whether any waited is not known)"


def size(count: float) -> str:
    """Bytes in the unit that reads best."""
    for unit in ("B", "KiB", "MiB"):
        if abs(count) < 1024:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} GiB"


def cycles(found: Iterable[tuple[str, Found]]) -> Iterator[Block]:
    """The cycles of one saved pass in each process."""
    for name, one in found:
        yield Line("")
        if not one["kinds"] and not one["found"]:
            yield Line(f"{name}: no cyclic garbage. The pass took {one['pause'] * 1e3:,.1f} ms.", "good")
            continue
        yield Line(
            f"{name}: {one['found']:,} objects that only cycles keep; pass {one['pause'] * 1e3:,.1f} ms",
            "headline",
        )
        for kind in one["kinds"][:SHOWN_KINDS]:
            more = f" and {kind['hanging']:,} that hang on them" if kind["hanging"] else ""
            yield Line(f"{kind['count']:,} x  {short_paths(kind['path'])}", "bad", indent=2)
            if kind["finalized"]:
                yield Line("freed by their own finalizers in the pass, which does not count them", indent=6)
            else:
                yield Line(
                    f"{kind['objects']:,} objects{more}, {size(kind['bytes'])} (containers alone)", indent=6
                )
            if kind["pattern"]:
                yield Line(f"{kind['pattern']}: {kind['remedy']}", indent=6)
            if kind["site"]:
                yield Line(f"allocated at {short_paths(kind['site'])}", indent=6)
        rest = len(one["kinds"]) - SHOWN_KINDS
        if rest > 0 or one["others"]:
            yield Line(
                f"and {max(rest, 0) + one['others']:,} more kinds or cycles: --json", "quiet", indent=2
            )
        if one["unseen"]:
            yield Line(
                f"{one['unseen']:,} objects were not asked for finalizers before it: the time was up",
                "quiet",
                indent=2,
            )
        if one["cut"]:
            yield Line("the time was up (--budget): these are those seen by then, a part", "bad", indent=2)
        if one["looked_at"] < one["found"]:
            yield Line(f"looked at {one['looked_at']:,} of them", "quiet", indent=2)
        stopped = one["pause"] + one["took"] + one["freed_in"]
        words = "the pass, the look, and the pass that freed them"
        yield _stopped(one, stopped, f": {words}")


def census(found: Iterable[tuple[str, Found, Found | None]]) -> Iterator[Block]:
    """Tracked objects by type in each process, and what has grown where there is an earlier census."""
    for name, one, before in found:
        total = sum(one["objects"])
        sign = "~" if one["every"] > 1 else ""
        both = "~" if sign or (before and before["every"] > 1) else ""
        then = {row[0]: row for row in before["rows"]} if before else {}
        rows = []
        for kind, count, slots, held, by_generation in one["rows"][:SHOWN_TYPES]:
            grown = f"{both}{count - then[kind][1]:+,}" if kind in then else "new" if before else ""
            share = count / total if total else 0.0
            old = f"{sign}{by_generation[2]:,}"
            rows.append(
                (kind, f"{sign}{count:,}", f"{share:.1%}", f"{sign}{slots:,}", size(held), old, grown)
            )
        columns = ("type", "count", "share", "slots", "size", "in gen 2", "since then")
        yield Table(
            f"{name}: {total:,} tracked objects, {one['frozen']:,} frozen",
            columns,
            tuple(rows),
            frozenset(range(1, 7)),
            ("since then", "in gen 2", "size"),
        )
        others = one["others"] + sum(row[1] for row in one["rows"][SHOWN_TYPES:])
        if others:
            yield Line(f"and {sign}{others:,} of other types: --json", "quiet", indent=2)
        if one["frozen"]:
            yield Line("frozen objects are in no row: the interpreter does not list them", "quiet", indent=2)
        if one["every"] > 1:
            yield Line(
                f"~ gen 2: one object in {one['every']:,} was looked at; --budget 0 counts all",
                "quiet",
                indent=2,
            )
        if one["largest"]:
            large = tuple(
                (f"{length:,}", kind, way or "not looked for (--budget, --no-paths)")
                for length, kind, way in one["largest"]
            )
            yield Table(
                "The largest containers", ("length", "type", "where it hangs"), large, frozenset((0,))
            )
        for line in advice(one):
            yield Line(line, indent=2)
        yield _stopped(one, one["took"], "")


def _stopped(one: Found, seconds: float, words: str) -> Line:
    # What an older recorder left does not say whether requests were counted.
    unknown = "" if one.get("requests_counted", True) else NOT_COUNTED
    return Line(f"it stopped the process for {seconds * 1e3:,.0f} ms{words}{unknown}", "quiet", indent=2)


def advice(one: Found) -> Iterator[str]:
    """What makes a pass cheaper, where the census shows that it would."""
    rows = {row[0]: row for row in one["rows"]}
    total = max(1, sum(one["objects"]))
    slots = sum(row[2] for row in one["rows"])
    lists, dicts, tuples = (rows.get(kind) for kind in ("list", "dict", "tuple"))
    if lists and slots and lists[2] > 0.3 * slots and lists[2] > 100_000:
        yield (
            f"Lists hold {lists[2]:,} of {slots:,} slots, and a pass visits each. Numbers in array.array "
            "or numpy arrays are not walked at all."
        )
    if dicts and dicts[1] > 0.25 * total and dicts[1] > 50_000:
        yield (
            f"{dicts[1]:,} dicts: of one shape they need one object in place of two, and fewer slots, as "
            "classes with __slots__."
        )
    if tuples and tuples[1] > 0.25 * total and tuples[1] > 50_000:
        yield (
            f"{tuples[1]:,} tuples that hold something which is tracked: those of numbers and texts "
            "alone leave its sight in their first pass."
        )


def alive(found: Iterable[tuple[str, Found]]) -> Iterator[Block]:
    """Live objects of one class in each process, and who holds the first few."""
    for name, one in found:
        style = "bad" if one["count"] else "good"
        sub = f", {one['subclasses']:,} of them of subclasses" if one["subclasses"] else ""
        yield Line(f"{name}: {one['count']:,} live objects of {one['name']}{sub}", style)
        for way in one["ways"]:
            yield Line(way if way.startswith(NO_WAY) else f"held by {way}", indent=4)
        if one["frozen"]:
            yield Line(
                f"{one['frozen']:,} objects are frozen there and cannot be listed: those are not counted",
                "quiet",
                indent=4,
            )
        if "stopped" in one:  # an older recorder does not say it
            yield _stopped(one, one["stopped"], "")
