"""The text and the JSON of ``frostline cycles -- COMMAND``: the cycles of all of its processes together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from frostline.analysis.cycles import Cycle, CycleReport, Looked
from frostline.format import cycles as layout
from frostline.recording.cycles import ASKED
from frostline.report.blocks import Block, Line
from frostline.report.heap import SHOWN_KINDS, size, tangled
from frostline.report.words import short_paths

SCHEMA = 1
#: Processes and allocation sites that are named of one kind, finalizers' types of one thread.
_NAMED = 3
#: What is looked at, in words: one, and several.
_LOOKS = {
    layout.BY_PASS: ("pass of its own", "passes of its own"),
    layout.BY_EXIT: ("look at the exit", "looks at exits"),
    ASKED: ("look while it ran", "looks while it ran"),
    layout.BY_SPAN: ("call", "calls"),
}


def cycles(found: CycleReport) -> Iterator[Block]:
    """All of it, the cycles of each span apart."""
    for looked in found.looked:
        yield Line("")
        yield Line(_headline(looked, found), "headline" if looked.cycles else "good")
        for one in looked.cycles[:SHOWN_KINDS]:
            yield from _cycle(one, looked, len(found.watched) > 1)
        rest = max(0, len(looked.cycles) - SHOWN_KINDS)
        if rest or looked.others:
            yield Line(f"and {rest + looked.others:,} more kinds or cycles: --save FILE", "quiet", indent=2)
        for text in _of_looks(looked):
            yield Line(text, "quiet", indent=2)
    yield Line("")
    for thread in found.elsewhere:
        times = "a pass" if thread.passes == 1 else f"{thread.passes:,} passes"
        yield Line(
            f"Finalizers that ran outside the main thread of {thread.process}, in {times} in thread "
            f"{thread.tid}: {_first(thread.types)}. What they touch must bear that.",
            "bad",
        )
    for name, cost in found.tracemalloc:
        yield Line(_traced(name, cost), "quiet")
    for text, style in _limits(found):
        yield Line(text, style)


def _headline(looked: Looked, found: CycleReport) -> str:
    at = _looks(looked)
    where = "1 process" if len(found.watched) == 1 else f"{len(found.watched):,} processes"
    if looked.span and not looked.count:
        return (
            f"{looked.span}: no call of it was looked at. It was never called, or not by a name that could "
            "be wrapped, or it is a generator, whose cycles cannot be told from others: `frostline report` "
            "says which."
        )
    if not looked.count:
        return f"No pass was looked at in {where}."
    if not looked.cycles:
        within = f"in {looked.span}" if looked.span else f"in {where}"
        return f"No cycle was found {within}: {at}."
    objects = sum(one.objects + one.hanging for one in looked.cycles)
    held = sum(one.size for one in looked.cycles)
    count = sum(one.count for one in looked.cycles) + looked.others
    what = f"at least {_many(count, 'cycle')}, of {_many(objects, 'object')} ({size(held)}, containers alone)"
    were = "was" if count == 1 else "were"
    if looked.span:
        return f"{looked.span}: {what}, {were} made inside it: {at}."
    return f"{what[0].upper()}{what[1:]}, {were} reclaimed in {where}: {at}."


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _looks(looked: Looked) -> str:
    parts = []
    for why, words in _LOOKS.items():
        count = looked.looks.get(why, 0)
        if count:
            parts.append(f"{count:,} {words[count > 1]}")
    return f"{', '.join(parts)} looked at"


def _cycle(one: Cycle, looked: Looked, several: bool) -> Iterator[Line]:
    yield Line(f"at least {one.count:,} x  {short_paths(one.path)}", "bad", indent=2)
    times = f"in {one.looks:,} of {_many(looked.count, 'call' if looked.span else 'look')}"
    if one.exits == one.looks:
        times += ", at the exit alone: it may have been in use up to then"
    if one.finalized:
        yield Line(f"freed by their own finalizers in the pass, which does not count them; {times}", indent=6)
    else:
        more = f" and {one.hanging:,} that hang on them" if one.hanging else ""
        yield Line(
            f"{_many(one.objects, 'object')}{more}, {size(one.size)} (containers alone); {times}", indent=6
        )
    if one.weak:
        yield Line(f"{one.weak:,} weak references to them were cleared", indent=6)
    if several:
        yield Line(f"made by {_first(one.processes)}", indent=6)
    if one.pattern:
        yield Line(f"{one.pattern}: {one.remedy}", indent=6)
    if one.left > 0:
        yield Line(tangled(one.one, one.left), indent=6)
    for site in sorted(one.sites, key=lambda site: -one.sites[site])[:_NAMED]:
        yield Line(f"allocated at {short_paths(site)}", indent=6)


def _first(counts: dict[str, int]) -> str:
    """``Writer (3), Reader (1)``: the largest first, and how many more there are."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    rest = len(ordered) - _NAMED
    more = f" and {rest:,} more" if rest > 0 else ""
    return ", ".join(f"{name} ({count:,})" for name, count in ordered[:_NAMED]) + more


def _of_looks(looked: Looked) -> Iterator[str]:
    if looked.span and looked.others_ran:
        yield "other threads or tasks may have run during a call: what they made then is in it"
    if looked.passes:
        times = "1 pass" if looked.passes == 1 else f"{looked.passes:,} passes"
        yield f"{times} ran inside the calls, and what they reclaimed is in it"
    if looked.unfinished:
        yield f"{looked.unfinished:,} of the calls had not ended when the process did"
    if looked.looked_at < looked.found:
        yield f"{looked.looked_at:,} of {looked.found:,} objects were looked at"
    if looked.unseen:
        yield f"{looked.unseen:,} objects were not asked for finalizers before a pass: the time was up"
    if looked.cut:
        yield f"in {looked.cut:,} of {looked.count:,} looks the time was up (--budget): they told of a part"


def _traced(name: str, cost: dict[str, float]) -> str:
    frames = int(cost.get("frames", 0))
    each = cost.get("with_ns", 0.0) - cost.get("without_ns", 0.0)
    unit = "frame" if frames == 1 else "frames"
    return (
        f"tracemalloc ({frames} {unit}) in {name}: {size(cost.get('memory', 0))} of its own at the end, "
        f"beside a peak of {size(cost.get('peak', 0))} that it traced; an allocation took {each:,.0f} ns of "
        "CPU more with it (20,000 of them timed at the exit, with it and without)."
    )


def _limits(found: CycleReport) -> Iterator[tuple[str, str]]:
    if not found.looked[0].span and found.reclaimed:
        yield (
            f"Passes of the program's own reclaimed {found.reclaimed:,} objects; {found.seen:,} of them in "
            "passes that were looked at: full ones, or with --all-passes all. The counts are of what was "
            "looked at, so at least.",
            "quiet",
        )
    if found.skipped:
        yield (
            f"{found.skipped:,} passes were not looked at: looks had taken a fifth of the time, or what was "
            "kept was as much as may be.",
            "quiet",
        )
    if found.stopped:
        yield (
            f"Looks stopped the processes for {found.stopped * 1e3:,.0f} ms in all, the longest "
            f"{found.longest * 1e3:,.0f} ms: the looks, passes of ours, and those that freed what was kept. "
            "Times of this run are no measure of the program.",
            "quiet",
        )
    if found.unended:
        yield (
            f"Killed, or ended by os._exit(), before a last look: {_some(found.unended)}. What they had told "
            "by then is in.",
            "bad",
        )
    if found.running:
        yield f"Still running, and not looked at for the last time: {_some(found.running)}.", "bad"
    for name, why in found.silent.items():
        yield f"{name} was asked while it ran, and did not answer: {why}", "quiet"
    if found.full:
        yield f"{_some(found.full)} told as much as one process may: later passes are missing.", "bad"
    if found.damaged:
        yield f"{found.damaged:,} lines of what the processes told are damaged, and were left out.", "bad"


def _some(names: tuple[str, ...]) -> str:
    rest = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {rest:,} more" if rest > 0 else "")


def to_json(found: CycleReport) -> dict[str, Any]:
    """Plain dicts and lists. Lengths of time are in seconds."""
    value = asdict(found)
    for looked in value["looked"]:
        looked["looks"] = {why: looked["looks"].get(why, 0) for why in _LOOKS}
        for one in looked["cycles"]:
            one["sites"] = _listed(one["sites"], "site", "looks")
            one["processes"] = _listed(one["processes"], "process", "count")
    for thread in value["elsewhere"]:
        thread["types"] = _listed(thread["types"], "type", "count")
    value["tracemalloc"] = [{"process": name, **cost} for name, cost in found.tracemalloc]
    value["silent"] = _listed(value["silent"], "process", "why_not")
    return {"schema": SCHEMA, "session": str(value.pop("path"))} | value


def _listed(counts: dict[str, Any], name: str, figure: str) -> list[dict[str, Any]]:
    return [{name: key, figure: count} for key, count in counts.items()]
