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
NO_WAY = ("held from C", "no way of", "not looked for")
#: Shares of items from which on advice is given: of one list, and of a sample; and how many there must be.
MOSTLY, HALF = 0.9, 0.5
MANY, MANY_SLOTS = 50_000, 100_000
#: Types whose items an array holds as well.
NUMBERS = ("int", "float", "bool", "complex")
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
            if kind.get("weak"):
                yield Line(f"{kind['weak']:,} weak references to them were cleared", indent=6)
            if kind["pattern"]:
                yield Line(f"{kind['pattern']}: {kind['remedy']}", indent=6)
            if kind.get("left", 0) > 0:
                yield Line(tangled(kind["one"], kind["left"]), indent=6)
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


def tangled(objects: int, left: int) -> str:
    """That ending the cycle shown does not end the others through the same objects."""
    stay = f"{left:,} of {objects:,} objects stay on others when it is cut"
    return f"one cycle of several: in the one looked at, {stay}"


def census(found: Iterable[tuple[str, Found, Found | None]]) -> Iterator[Block]:
    """Tracked objects by type in each process, and what has grown where there is an earlier census."""
    for name, one, before in found:
        total = sum(one["objects"])
        sign = "~" if one["every"] > 1 else ""
        both = "~" if sign or (before and before["every"] > 1) else ""
        then = {row[0]: row for row in before["rows"]} if before else {}
        rows = []
        for kind, count, slots, held, by_generation in one["rows"][:SHOWN_TYPES]:
            grown = _since(kind, count, then, before, both) if before else ""
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
        if one["every"] > 1:
            more = "" if one.get("stored") else "; --budget 0 counts all"
            yield Line(f"~ : one object in {one['every']:,} was looked at{more}", "quiet", indent=2)
        yield from _frozen(one)
        if one["largest"]:
            yield _largest(one, before)
        for line in (*advice(one), *growing(one, before)):
            yield Line(line, indent=2)
        yield _stopped(one, one["took"], "")


def _since(kind: str, count: int, then: dict[str, Any], before: Found, sign: str) -> str:
    """How many more there are of a type. What the census before does not list, it may have had some of."""
    if kind in then:
        return f"{sign}{count - then[kind][1]:+,}"
    return f"<={count:+,}" if before["others"] or before["every"] > 1 else "new"


def _frozen(one: Found) -> Iterator[Block]:
    """What is known of the frozen objects, whom the interpreter does not list."""
    reached = one.get("reached", -1)
    if reached < 0:
        if one["frozen"]:
            yield Line(
                "frozen objects are in no row: the interpreter does not list them; --frozen walks to them",
                "quiet",
                indent=2,
            )
        return
    sign = "~" if one["frozen_every"] > 1 else ""
    rows = tuple(
        (kind, f"{sign}{count:,}", f"{sign}{slots:,}", size(held))
        for kind, count, slots, held in one["frozen_rows"][:SHOWN_TYPES]
    )
    yield Table(
        f"Frozen: {reached:,} of {one['frozen']:,} were reached",
        ("type", "count", "slots", "size"),
        rows,
        frozenset(range(1, 4)),
        ("size",),
    )
    if one["cut"]:
        yield Line("the time was up before all were reached (--budget): these are a part", "bad", indent=2)
    elif reached < one["frozen"]:
        yield Line(
            "to the others no module, running function or live object leads: C code holds them, or nothing",
            "quiet",
            indent=2,
        )


def _largest(one: Found, before: Found | None) -> Table:
    grown = _grown(one, before)
    items = one.get("items") or [None] * len(one["largest"])
    looked = max((held["looked"] for held in items if held), default=0)
    rows = tuple(
        (f"{length:,}", kind, _holds(held), way or "not looked for (--budget, --no-paths)", since)
        for (length, kind, way), held, since in zip(one["largest"], items, grown, strict=True)
    )
    columns = ("length", "type", "holds", "where it hangs", "since then")
    return Table(
        f"The largest containers (what they hold: of {looked:,} items at most)",
        columns if before else columns[:-1],
        rows if before else tuple(row[:-1] for row in rows),
        frozenset((0, 4)),
        ("holds",),
    )


def _holds(items: Found | None) -> str:
    return ", ".join(f"{share:.0%} {name}" for name, share in items["kinds"][:2]) if items else ""


def _grown(one: Found, before: Found | None) -> list[str]:
    """How much longer each of the largest containers is than when it was among them before."""
    then = {(kind, way): length for length, kind, way in before["largest"] if way} if before else {}
    rows = one["largest"]
    return [f"{row[0] - then[row[1], row[2]]:+,}" if (row[1], row[2]) in then else "" for row in rows]


def _stopped(one: Found, seconds: float, words: str) -> Line:
    # What an older recorder left does not say whether requests were counted.
    unknown = "" if one.get("requests_counted", True) else NOT_COUNTED
    return Line(f"it stopped the process for {seconds * 1e3:,.0f} ms{words}{unknown}", "quiet", indent=2)


def advice(one: Found) -> Iterator[str]:
    """What makes a pass cheaper, where a sample of what the containers hold shows that it would."""
    among = one.get("among")
    if among is None:
        return  # an older recorder has not looked into them
    rows = {row[0]: row for row in one["rows"]}
    total = max(1, sum(one["objects"]))
    slots = sum(row[2] for row in one["rows"])
    many = among["many"]
    lists, dicts, tuples = (rows.get(kind) for kind in ("list", "dict", "tuple"))
    large = [
        (length, way, held)
        for (length, kind, way), held in zip(one["largest"], one["items"], strict=True)
        if kind == "list" and _numbers(held) >= MOSTLY
    ]
    if sum(length for length, _, _ in large) > MANY_SLOTS:
        length, way, held = large[0]
        others = f" and {len(large) - 1} more of the largest" if len(large) > 1 else ""
        yield (
            f"A list of {length:,} ({way or 'where it hangs is not known'}){others} hold numbers "
            f"({_holds(held)} of {held['looked']:,} items looked at), and a pass visits each: in array.array "
            "or numpy arrays they are not walked at all."
        )
    share = _numbers(among["lists"])
    if lists and lists[2] > 0.3 * slots and lists[2] > MANY_SLOTS and share >= HALF:
        yield (
            f"Lists hold {lists[2]:,} of {slots:,} slots, and in {many['list']:,} shorter ones that were "
            f"looked at {share:.0%} of the items are numbers, each of which a pass visits. In array.array or "
            "numpy arrays they are not walked at all."
        )
    same = among["same_shape"]
    if dicts and dicts[1] > 0.25 * total and dicts[1] > MANY and same >= HALF * many["dict"]:
        yield (
            f"{dicts[1]:,} dicts, and of {many['dict']:,} looked at {same:,} have the same keys "
            f"({_keys(among['shape'])}): as objects of a class with __slots__ they have fewer slots, and no "
            "dict."
        )
    held = among["tuples"]
    if tuples and tuples[1] > 0.25 * total and tuples[1] > MANY and held["looked"] >= HALF * many["tuple"]:
        yield (
            f"{tuples[1]:,} tuples, and of {many['tuple']:,} looked at {held['looked']:,} hold a container "
            f"({_holds(held)}): tuples of numbers and texts alone leave the collector's sight in their first "
            "pass."
        )


def growing(one: Found, before: Found | None) -> Iterator[str]:
    """The largest containers that have grown by a tenth or more since the census before."""
    for (length, kind, way), since in zip(one["largest"], _grown(one, before), strict=True):
        grown = int(since.replace(",", "") or 0)
        if grown >= 0.1 * (length - grown) and grown > 0:
            yield (
                f"{way}, a {kind}, has grown from {length - grown:,} to {length:,} since then: if it is a "
                "cache it needs a bound, and every full pass walks what it holds."
            )


def _numbers(items: Found) -> float:
    return float(sum(share for name, share in items["kinds"] if name in NUMBERS))


def _keys(words: list[str]) -> str:
    return ", ".join(words[:4]) + (f" and {len(words) - 4} more" if len(words) > 4 else "")


def alive(found: Iterable[tuple[str, Found]]) -> Iterator[Block]:
    """Live objects of one class in each process, and who holds the first few."""
    for name, one in found:
        yield from _alive(name, one)
        unseen = one["frozen"] - max(0, one.get("reached", -1))
        if one["frozen"] and one.get("reached", -1) < 0:
            yield Line(
                f"{unseen:,} objects are frozen there and were not looked at: --frozen walks to them",
                "quiet",
                indent=4,
            )
        elif one.get("cut"):
            yield Line(
                f"the time was up before all that is frozen had been reached (--budget): {unseen:,} of "
                f"{one['frozen']:,} objects were not looked at",
                "bad",
                indent=4,
            )
        elif unseen > 0:
            yield Line(
                f"to {unseen:,} of {one['frozen']:,} frozen objects no module, running function or live "
                "object leads: they were not looked at",
                "quiet",
                indent=4,
            )
        if "stopped" in one:  # an older recorder does not say it
            yield _stopped(one, one["stopped"], "")


def held_by(way: str) -> str:
    """A way to an object, or why none is told, in words."""
    if not way:
        return "not looked for: the time was up"
    return way if way.startswith(NO_WAY) else f"held by {way}"


def _alive(name: str, one: Found) -> Iterator[Block]:
    sub = f", {one['subclasses']:,} of them of subclasses" if one["subclasses"] else ""
    if one.get("among_frozen"):
        sub += f", {one['among_frozen']:,} of them frozen"
    tracked = one.get("tracked", True)
    if one["count"]:
        yield Line(f"{name}: {one['count']:,} live objects of {one['name']}{sub}", "bad")
    elif not tracked:
        yield Line(f"{name}: no objects of {one['name']} found")
    elif one["frozen"] > max(0, one.get("reached", -1)):
        yield Line(f"{name}: 0 objects of {one['name']} found, {one['frozen']:,} frozen ones not all seen")
    else:
        yield Line(f"{name}: 0 live objects of {one['name']}", "good")
    if not tracked:
        yield Line(
            "the collector does not track objects of this class itself, as of texts: nobody can list them",
            "bad",
            indent=4,
        )
    remedies = one.get("remedies") or [["", ""]] * len(one["ways"])
    told: dict[tuple[str, str, str], int] = {}
    for way, (pattern, remedy) in zip(one["ways"], remedies, strict=True):
        told[way, pattern, remedy] = told.get((way, pattern, remedy), 0) + 1
    for (way, pattern, remedy), count in told.items():
        way = way or "not looked for: the time was up (--budget)"
        many = f"{count} of {len(one['ways'])} looked at: " if count > 1 else ""
        yield Line(f"{many}{held_by(way)}", indent=4)
        if pattern:
            yield Line(f"{pattern}: {remedy}", indent=6)
