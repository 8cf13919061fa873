"""What to do next: never what was done already, and with how each gain was obtained."""

from __future__ import annotations

import shlex

import numpy as np

from frostline import format as fmt
from frostline.analysis.commands import command, one_at_a_time, run
from frostline.analysis.freezing import (
    LITTLE,
    NEGLIGIBLE_PAUSE,
    NEGLIGIBLE_SHARE,
    NEGLIGIBLE_TOTAL,
    NS_PER_USEFUL_OBJECT,
    freeze,
    longest_since_freeze,
    serving_since,
    thresholds,
    useless,
    walked_each,
)
from frostline.analysis.frozen import ASKED
from frostline.analysis.inforce import in_force
from frostline.analysis.lasting import thawed
from frostline.analysis.model import (
    Advice,
    CallSite,
    FullPass,
    MissedProcess,
    Options,
    ProcessReport,
    Verdict,
)
from frostline.analysis.passes import AUTOMATIC, EXPLICIT, FROSTLINE
from frostline.analysis.steps import ids_of
from frostline.analysis.verdict import CANNOT_TELL, DAMAGED, NOT_COLLECTOR, milliseconds, some

#: ns. A process that lived for less has no share of the time to speak of.
LASTING = 1_000_000_000
#: A full pass that reclaims at most this part of what it walked walks mostly what stays: CPython's own
#: quarter, by which garbage may grow before it looks.
PART = 0.25
#: Said of a call of ``gc.collect()`` that does work.
WORTH = "What it frees is held by dead cycles"


def advise(
    processes: tuple[ProcessReport, ...],
    missed: tuple[MissedProcess, ...],
    verdict: Verdict,
    path: str,
    options: Options,
    refused: tuple[str, ...] = (),
    never: str = "",
    came: str = "",
    running: bool = False,
) -> tuple[Advice, ...]:
    """At most a few, the one that matters most first.

    ``refused`` are spans that were asked for and not put on, ``never`` why a boundary that was asked
    for did not come, ``came`` the option by which READY was told.
    """
    found = _dead(processes)
    live = shlex.quote(path) if running else ""
    cheap = freeze(processes, never, came, live)
    explicit = _explicit(processes)
    # A needless call is better left out than made cheap.
    asked = sum(site.total for p in processes for site in p.call_sites if not site.ours)
    first_explicit = explicit and 2 * asked >= ((cheap[0].saving or 0) if cheap else 0)
    found += [explicit] if explicit and first_explicit else []
    found += cheap
    found += [explicit] if explicit and not first_explicit else []
    if explicit is None or WORTH not in explicit.text:
        found += _on_failure(processes)
    found += in_force(processes, options, came)
    found += thresholds(processes, options, came, verdict.kind == NOT_COLLECTOR, live)
    found = one_at_a_time(found)
    if not found and DAMAGED in verdict.sentence:
        found.append(Advice("copy the session whole, or record again: what is left of it says little"))
    elif not found and processes:
        found.append(_nothing(processes, came, running))
    if verdict.kind == CANNOT_TELL and processes and not verdict.steps + verdict.requests:
        most = max(processes, key=lambda process: process.pause_total)
        if refused:
            found.insert(0, Advice(f"correct --span {refused[0]}"))
        else:
            found.append(
                Advice(
                    "name the function that is one step, and the verdict can be given",
                    f"frostline run --span 'module:Class.method=step' -- {command(most)}",
                )
            )
    if missed and any(m.python for m in missed):
        found.append(Advice("see why processes were missed", f"frostline status {shlex.quote(path)}"))
    return tuple(found)


def _dead(processes: tuple[ProcessReport, ...]) -> list[Advice]:
    """Forked while another thread was inside a pass: nothing can revive that collector."""
    dead = [p.name for p in processes if any(event.kind == "dead collector" for event in p.events)]
    if not dead:
        return []
    return [
        Advice(
            f"the collector of {some(dead)} is dead, although gc.isenabled() says True: "
            f"{'they were' if len(dead) > 1 else 'it was'} forked while another thread was inside a pass. "
            "No cycle is freed there any more. Restart it, and fork before other threads start, or spawn"
        )
    ]


def _explicit(processes: tuple[ProcessReport, ...]) -> Advice | None:
    """The call site of ``gc.collect()`` that costs most, where it costs something."""
    worst = max(
        ((site, process) for process in processes for site in process.call_sites if not site.ours),
        key=lambda pair: pair[0].total,
        default=None,
    )
    if worst is None:
        return None
    site, process = worst
    if site.total < max(NEGLIGIBLE_TOTAL, NEGLIGIBLE_SHARE * process.wall) or site.count < 2:
        return None
    full = site.generation == 2
    each = walked_each([p for p in process.full_passes if p.kind == EXPLICIT]) if full else ""
    freed = f"reclaimed {site.reclaimed:,} objects" if site.reclaimed else "reclaimed nothing"
    rest = [s for p in processes for s in p.call_sites if not s.ours and s is not site]
    took = milliseconds(sum(s.total for s in rest))
    lines = "another line calls" if len(rest) == 1 else f"{len(rest):,} other lines call"
    others = f"; {lines} it too ({took})" if rest else ""
    todo = "Call it less often there, or not at all"
    if full and not _for_nothing(process, site):
        todo = f"{WORTH}: call it where an allocation has failed, and try again, or break the cycles"
    return Advice(
        f"{site.file}:{site.line} calls gc.collect() {site.count:,} times in {process.name}: "
        f"{milliseconds(site.total)} in all{each}, {freed}. {todo}{others}",
        saving=site.total,
        how="the time inside those calls",
    )


def _for_nothing(process: ProcessReport, site: CallSite) -> bool:
    """Whether the calls freed next to nothing, by the full passes that the process was asked for."""
    asked = [p for p in process.full_passes if p.kind == EXPLICIT]
    known = [p.walked.value for p in asked if p.walked.value]
    if known:
        return site.reclaimed <= LITTLE * site.count * sum(known) / len(known)
    return site.reclaimed * NS_PER_USEFUL_OBJECT < site.total


def _on_failure(processes: tuple[ProcessReport, ...]) -> list[Advice]:
    """Collect on failure: only where a pass did free something, and what had failed then went well (case 19).

    That is: spans of a label ended in an error, the next full pass after them reclaimed a good part of
    what it walked, and the next span of that label ended well.
    """
    for process in processes:
        spans = process.series.spans
        useful = [p for p in process.full_passes if not useless(p) and p.reclaimed]
        if not useful or not any(label.errors for label in process.labels):
            continue
        for label in process.labels:
            if not label.errors or label.count == label.errors:
                continue
            mine = np.flatnonzero(np.isin(spans["label"], ids_of(process.series, {label.label})))
            mine = mine[np.argsort(spans["start"][mine], kind="stable")]
            start, failed = spans["start"][mine], (spans["flags"][mine] & fmt.SPAN_FLAG_ERROR) != 0
            for one in useful:
                at = int(np.searchsorted(start, one.start, "right"))
                if not 0 < at < len(mine) or not failed[at - 1] or failed[at]:
                    continue
                before = at - 1
                while before > 0 and failed[before - 1]:
                    before -= 1
                count = at - before
                ended = "failed" if count == 1 else f"failed {count:,} times in a row"
                text = (
                    f"{label.label!r} of {process.name} {ended}; then a full pass reclaimed "
                    f"{one.reclaimed:,} objects, and it went well again: dead cycles held what it needed. "
                    "If that was an allocation, call gc.collect() where it fails and try once more, or "
                    "break the cycles"
                )
                return [Advice(text)]
    return []


def _nothing(processes: tuple[ProcessReport, ...], came: str, running: bool) -> Advice:
    longest = max(p.longest for p in processes)
    # Of one that lives for a moment, start-up is most of its time: its share says nothing.
    lasting = [p for p in processes if p.wall >= LASTING]
    share = max((p.pause_total / p.wall for p in lasting), default=0.0)
    frozen = [p for p in processes if p.frozen_since]
    if frozen:
        before = max((f.pause for p in frozen for f in p.full_passes if f.start < p.frozen_since), default=0)
        after = max(map(longest_since_freeze, frozen))
        took = f"took {milliseconds(before)} up to the freeze, and {milliseconds(after)} after it"
        many = f"{len(frozen)} of {len(processes)} recorded processes were frozen"
        asked = [p for p in frozen if p.frozen.first and p.frozen.first.why == ASKED]
        passing = asked + [p for p in frozen if thawed(p) and p not in asked]
        if not passing or before < NEGLIGIBLE_PAUSE:
            return Advice(f"nothing: {many}; their longest full pass {took}")
        # What was asked of live processes is gone with them, or sooner.
        gone = sum(map(thawed, passing))
        ends = f"{gone} of them thawed again while they ran" if gone else "which ends with each process"
        if running and not gone:
            ends += ", and holds until then"
        return Advice(
            f"make it last: {many}{' as asked while they ran' if asked else ''}, {ends}; their longest full "
            f"pass {took}. Freeze it at the end of start-up, at its next start",
            run(max(passing, key=lambda p: p.longest), "freeze", came),
        )
    if longest < NEGLIGIBLE_PAUSE or share < NEGLIGIBLE_SHARE:
        text = f"a freeze gains nothing here: the longest pause is {milliseconds(longest)}"
        if lasting:
            text += f", and pauses are at most {share:.2%} of any process's time"
        return Advice(text)
    partly = _partly(processes, came)
    if partly is not None:
        return partly
    start_up = [
        f
        for p in processes
        for f in p.full_passes
        if f.kind != FROSTLINE and f.start < serving_since(p, processes)
    ]
    if start_up:
        took = milliseconds(sum(f.pause for f in start_up))
        return Advice(
            "a freeze gains nothing here: since start-up no full pass costs much and reclaims next to "
            f"nothing; for the {len(start_up):,} during start-up ({took}) it would come too late"
        )
    return Advice("a freeze gains nothing here: no full pass costs much and reclaims next to nothing")


def _partly(processes: tuple[ProcessReport, ...], came: str) -> Advice | None:
    """Full passes that do some work, and walk much more than they reclaim: a freeze may gain, or not.

    They reclaim more than `LITTLE` of what they walk, so they are needed; but not more than `PART`, so most
    of the walk is over what stays, and that a freeze spares. How much of it grows again is not known.
    """
    worst: tuple[int, ProcessReport, list[FullPass]] | None = None
    for process in processes:
        since = serving_since(process, processes)
        found = [
            f
            for f in process.full_passes
            if f.kind == AUTOMATIC
            and f.start >= since
            and f.pause >= NEGLIGIBLE_TOTAL
            and f.walked.value
            and f.reclaimed <= PART * f.walked.value
        ]
        total = sum(f.pause for f in found)
        if found and (worst is None or total > worst[0]):
            worst = total, process, found
    if worst is None:
        return None
    total, process, found = worst
    longest = max(found, key=lambda f: f.pause)
    share = sum(f.reclaimed for f in found) / sum(f.walked.value or 0 for f in found)
    least = "at least " if any(f.walked.at_most for f in found) else ""
    times = "a full pass" if len(found) == 1 else f"{len(found):,} full passes"
    took = (
        milliseconds(total)
        if len(found) == 1
        else f"{milliseconds(total)}, up to {milliseconds(longest.pause)}"
    )
    text = (
        f"whether a freeze gains is not sure: {times} after start-up in {process.name} took {took}, and "
        f"reclaimed {least}{share:.0%} of what was walked. That work stays; the walk over what start-up "
        "built would go. Try it, and look at the longest pause"
    )
    return Advice(text, run(process, "freeze", came))
