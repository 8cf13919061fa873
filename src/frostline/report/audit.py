"""An audit of the freeze as text: one table, then what is wrong in each process, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from frostline.analysis import Walked
from frostline.analysis.audited import Audited, Finding
from frostline.analysis.verdict import milliseconds as ms
from frostline.report.blocks import Block, Line, Table
from frostline.report.heap import cycles, held_by, size
from frostline.report.words import sentence, short_paths, walked

#: Types of garbage shown; ``--json`` has more.
SHOWN_TYPES = 6
#: Names of findings that a look for garbage adds.
GARBAGE, NO_GARBAGE = "garbage-frozen", "no-garbage"


def table(rows: Iterable[Audited]) -> Iterator[Block]:
    """One row a process. A column that nothing is in is left out."""
    cells = [
        (
            one.name,
            "-" if one.frozen is None else f"{one.frozen:,}",
            "" if one.at is None else f"{one.at / 1e9:.3f}",
            short_paths(one.by),
            _collected(one),
            "" if one.in_flight is None else f"{one.in_flight:,}",
            "-" if one.grown is None else f"{'<=' if one.at_most else ''}{one.grown:,}",
            walked(Walked(one.walked, one.walked_exact, at_most=one.walked_at_most)),
            "" if one.died is None else f"{one.died:,}",
        )
        for one in rows
    ]
    columns = (
        "process", "frozen", "at s", "by", "collect before", "in flight then", "not frozen",
        "last pass walked", "died since",
    )  # fmt: skip
    spare = ("died since", "in flight then", "at s", "collect before", "last pass walked", "by")
    if cells:
        yield Table("The freeze", columns, tuple(cells), frozenset((1, 2, 5, 6, 7, 8)), spare)


def _collected(one: Audited) -> str:
    if one.at is None:
        return ""
    return "no" if one.garbage_why else "yes"


def findings(one: Audited) -> Iterator[Line]:
    """The verdict of one process in words, with what to do next."""
    for finding in one.findings:
        yield from _finding(one.name, finding)
    how = [f"frozen: {one.how}"] if one.frozen is not None else []
    if one.grown is not None:
        how.append(f"not frozen: {one.grown_how}")
    if how:
        yield Line("; ".join(how), "quiet", indent=4)


def _finding(name: str, finding: Finding) -> Iterator[Line]:
    style = "good" if finding.good else "bad"
    yield Line(f"{name}: {short_paths(finding.text)} [{finding.name}]", style, indent=2)
    if finding.do:
        yield Line(sentence(short_paths(finding.do)), indent=4)


def predicted(one: Audited) -> str:
    """What a look for frozen garbage will cost, before it is begun."""
    walk = one.walk
    if walk is None:
        return f"{one.name}: nothing to walk is known of"
    return (
        f"{one.name}: one walk of {walk.objects:,} objects will stop it for {walk.words(walk.objects)}, "
        f"{walk.how}; before it finalizers are looked for, for {ms(walk.look)} at most; as long again where "
        "there is garbage, and --budget for the look at it"
    )


def garbage(name: str, found: dict[str, Any], sought: str = "") -> Iterator[Block]:
    """What was found among the frozen objects of one process."""
    frozen = found["found"] - max(0, found["later"])
    finalized = sum(k["count"] for k in (found["cycles"] or {"kinds": []})["kinds"] if k["finalized"])
    if found["found"]:
        text = (
            f"{'' if found['later'] >= 0 else 'up to '}{frozen:,} of the {found['before']:,} frozen objects"
        )
        held = f" and <={size(found['buffers'])} in what they hold" if found["buffers"] else ""
        part = "at least " if found["cut"] else ""
        left = "they are frozen still: ask again" if found["left"] else "they are freed now"
        yield Line(
            f"{name}: {text} were garbage, {part}{size(found['bytes'])}{held}; {left} [{GARBAGE}]",
            "bad",
            indent=2,
        )
        if found["later"] > 0:
            yield Line(f"{found['later']:,} objects more hung on them, made after the freeze", indent=4)
        for kind, count, bytes_ in found["types"][:SHOWN_TYPES]:
            yield Line(f"{count:,} x  {kind}, {size(bytes_)}", indent=6)
    elif found["before"]:
        text = "none of the frozen objects" if not finalized else "what is left of the frozen objects: none"
        yield Line(
            f"{name}: {text} was garbage ({found['before']:,} walked) [{NO_GARBAGE}]", "good", indent=2
        )
    else:
        yield Line(f"{name}: nothing is frozen, so nothing was walked", "good", indent=2)
    if finalized:
        text = f"{finalized:,} cycles of them were cut by their own finalizers in the walk: see below"
        yield Line(f"{name}: {text} [{GARBAGE}]", "bad", indent=2)
    if sought:
        yield from _class(name, found, sought)
    yield from _after(name, found)
    told = found["cycles"]
    if told and told["cut"] and not told["kinds"]:
        yield Line(f"{name}: no time was left to say of which cycles (--budget)", "quiet", indent=2)
    elif told and told["kinds"]:
        yield from cycles([(f"{name}, frozen", {**found["cycles"], "freed_in": sum(found["walks"][1:])})])


def _class(name: str, found: dict[str, Any], sought: str) -> Iterator[Block]:
    dead, live = found["dead"], found["live"]
    if dead:
        text = (
            f"{_objects(dead, sought)} frozen and unreachable, resident though nothing uses them; freed now"
        )
        yield Line(f"{name}: {text} [{GARBAGE}]", "bad", indent=2)
        yield Line("Call frostline.shutdown() when one is closed: thaw, then collect.", indent=4)
    if live:
        text = f"{_objects(live, sought)} reachable: no thaw frees them"
        yield Line(f"{name}: {text}", "" if dead else "quiet", indent=2)
        for way in found["ways"]:
            yield Line(held_by(way), indent=4)
    if not dead and not live:
        yield Line(f"{name}: no object of {sought} is there", "good", indent=2)


def _objects(count: int, sought: str) -> str:
    return f"1 object of {sought} is" if count == 1 else f"{count:,} objects of {sought} are"


def _after(name: str, found: dict[str, Any]) -> Iterator[Block]:
    """What the look itself did, and what it took."""
    if not found["walks"]:
        return
    frozen = found["found"] - max(0, found["later"])
    more = found["after"] - (found["before"] - frozen)
    walks = " and ".join(ms(one * 1e9) for one in found["walks"])
    stopped = f"stopped for {found['stopped'] * 1e3:,.0f} ms in all: walks of {walks}, and the look at it"
    young = (
        f"; {found['young']:,} objects of garbage that was not frozen went first" if found["young"] else ""
    )
    yield Line(f"{name}: {stopped}{young}", "quiet", indent=2)
    if more > 0:
        text = f"{more:,} objects more are frozen now than before: what has grown since the freeze"
        yield Line(f"{name}: {text}", "quiet", indent=2)
