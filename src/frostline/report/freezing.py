"""The story of the freeze: since when, by whom, what it holds, and what a policy did to keep it."""

from __future__ import annotations

from collections.abc import Iterator

from frostline.analysis import Analysis, ProcessReport
from frostline.analysis.audit import never_thawed
from frostline.analysis.frozen import (
    AGAIN,
    ASKED,
    BEFORE_FORK,
    BOUNDARY,
    INHERITED,
    MOVED,
    NO_CREDIT,
    PERIODIC,
    PROGRAM,
    WHOLE_HEAP,
    Freeze,
    LineStory,
)
from frostline.analysis.verdict import milliseconds as ms
from frostline.analysis.verdict import plural
from frostline.report.blocks import Block, Line, Table
from frostline.report.marks import FREEZING
from frostline.report.words import short_paths

#: ns. What the policy's own work took in all, under which it is left to ``--json``.
_WORTH_A_LINE = 1_000_000
_WHY = {
    BOUNDARY: "at the boundary",
    AGAIN: "at a boundary again",
    MOVED: "by the policy",
    WHOLE_HEAP: "in a walk of the whole heap",
    PERIODIC: "by the clock",
    ASKED: "as asked while it ran",
    INHERITED: "as inherited, by the policy",
    BEFORE_FORK: "before a fork",
}


def freezing(analysis: Analysis) -> Iterator[Block]:
    """One row for each process that was ever frozen, then what the policy did, in a few lines."""
    rows: list[tuple[str, ...]] = []
    for process in analysis.processes:
        story = process.frozen
        if not story.freezes and not story.since:
            continue
        first = story.first or (story.freezes[0] if story.freezes else None)
        boundary = next((f for f in story.freezes if f.why == BOUNDARY), None)
        told = how(first) if first else "in the process that forked it"
        if first and boundary and first.why == INHERITED:
            told = f"as inherited, then {how(boundary)}"
        rows.append(
            (
                process.name,
                f"{((first.time if first else story.since) - analysis.start) / 1e9:.3f}",
                told,
                _objects(process),
                _until(process, analysis.start),
                str(len(story.freezes)) if len(story.freezes) > 1 else "",
                _grown(process),
            )
        )
    if rows:
        columns = ("process", "at s", "frozen", "objects", "thawed at s", "freezes", "grown since")
        right, spare = frozenset((1, 3, 4, 5, 6)), ("freezes", "thawed at s")
        yield Table("Freezing", columns, tuple(rows), right, spare, section=FREEZING)
    for process in analysis.processes:
        for line in lines(process):
            yield Line(f"{process.name}: {line}", indent=2)


def how(one: Freeze) -> str:
    """``at the boundary, 3 requests in flight``: one freeze in few words."""
    text = f"by {short_paths(one.where)}" if one.why == PROGRAM else _WHY[one.why]
    if one.late:
        text += ", late"
    if one.in_flight:
        text += f", {one.in_flight:,} {'request' if one.in_flight == 1 else 'requests'} in flight"
    return text


def _objects(process: ProcessReport) -> str:
    counted = [f.objects for f in process.frozen.freezes if f.objects is not None]
    if counted and counted[-1] != counted[0]:
        return f"{counted[0]:,} to {counted[-1]:,}"
    if counted:
        return f"{counted[0]:,}"
    close = process.frozen_since_attach
    # At a close after a thaw there is nothing left to count.
    return f"{close:,}" if close and process.frozen.at(process.stop - 1) else "not counted"


def _until(process: ProcessReport, start: int) -> str:
    thaws = process.frozen.thaws
    if not thaws:
        return "never"
    text = f"{(thaws[-1] - start) / 1e9:.3f}"
    return f"{text} ({len(thaws)} times)" if len(thaws) > 1 else text


def _grown(process: ProcessReport) -> str:
    """What the last full pass left that is not frozen."""
    known = [p for p in process.while_frozen if p.walked.value is not None]
    if not known:
        return "-"
    last = known[-1]
    left = max(0, (last.walked.value or 0) - last.reclaimed)
    return f"{'<=' if last.walked.at_most else ''}{left:,}"


def lines(process: ProcessReport) -> Iterator[str]:
    """What the policy did after the first freeze, in a few sentences."""
    story, line = process.frozen, process.frozen.line
    if line.moves:
        text = f"the line moved {_times(line.moves)} and froze {line.moved:,} more objects"
        yield text + (f"; its budget was raised to {line.raised:,}" if line.raised else "")
    if line.exhausted:
        text = f"the credit was exhausted {_times(line.exhausted)}"
        if line.restored:
            text += f", and restored {_times(line.restored)} since so many frozen objects had died"
        else:
            text += "; until the whole heap is walked it then behaves as freeze does"
        yield text
    if line.guards:
        yield (
            f"the guard fired {_times(line.guards)}: over a fifth of what was frozen had died when the "
            "whole heap was walked, and alpha was halved"
        )
    if line.over:
        count = sum(one.count for one in line.over)
        # Without credit nobody counts: by the time that the pass took.
        why = ", ".join(
            f"{one.count:,} {one.reason} (up to {'~' if one.reason == NO_CREDIT else ''}{one.most:,} objects)"
            for one in line.over
        )
        yield f"{count:,} full {'pass' if count == 1 else 'passes'} walked over the budget: {why}"
    yield from _own_cost(line)
    planned = story.planned
    if planned:
        total, longest = sum(w.took for w in planned), max(w.took for w in planned)
        took = f"for {ms(longest)}" if len(planned) == 1 else f"{ms(total)} in all, up to {ms(longest)}"
        yield (
            f"Frostline walked the whole heap {_times(len(planned))} after the boundary, {took}, and "
            f"reclaimed {sum(w.reclaimed for w in planned):,} objects: planned pauses, not the host's"
        )
    ours = process.held_ours
    if ours is not None:
        each = f"once, for {ms(ours.longest)}" if ours.count == 1 else f"{ours.count:,} times"
        many = "" if ours.count == 1 else f", up to {ms(ours.longest)}: {ms(ours.total)} in all"
        yield (
            f"work was in flight in Frostline's own passes {each}{many}; "
            f"{ours.waited:,} of {ours.spans:,} {plural(ours.label)} waited"
        )
    if line.deadlines:
        yield f"no idle moment came before the deadline {_times(line.deadlines)}: CPython made its own pass"
    if line.switched_off:
        yield "the policy could not go on and switched itself off: see Events"
    yield from _never_thawed(process)


def _own_cost(line: LineStory) -> Iterator[str]:
    """What ``follow`` took beside passes: no pass of the record holds it."""
    if line.own_total >= _WORTH_A_LINE:
        yield (
            f"the policy's own work in stops, behind the passes' own end: {ms(line.own_total)} of CPU in "
            f"all, up to {ms(line.own_longest)} (it counts the oldest generation there)"
        )
    if line.counts:
        took = f"{ms(line.counts_total)} in all, up to {ms(line.counts_longest)}"
        if line.counts == 1:
            took = ms(line.counts_longest)
        times = _times(line.counts)
        yield f"it counted what lives of the frozen objects {times}, between requests or steps: {took}"


def planned(analysis: Analysis) -> str:
    """One sentence on Frostline's own walks of the whole heap after start-up: they are pauses too."""
    walks = [(walk.took, process.name) for process in analysis.processes for walk in process.frozen.planned]
    if not walks:
        return ""
    longest, where = max(walks)
    total = sum(took for took, _ in walks)
    return (
        f"Frostline's own walks of the whole heap after start-up: {len(walks):,}, {ms(total)} in all, "
        f"up to {ms(longest)} in {where}. They wait for idle moments; what comes in meanwhile waits."
    )


def _never_thawed(process: ProcessReport) -> Iterator[str]:
    """Engines frozen again and again, and never given back (case 10)."""
    text = never_thawed(process)
    if text:
        do = "Call frostline.shutdown(), or gc.unfreeze(), when an engine is closed"
        yield f"{short_paths(text)}. {do}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"
