"""The freeze audit (D6): what is wrong with the freeze of each process, in words, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from frostline import format as fmt
from frostline.analysis.audited import Audited, Finding, Now, facts, in_flight, who
from frostline.analysis.events import attached_after
from frostline.analysis.freezing import negligible
from frostline.analysis.frozen import AGAIN, BOUNDARY, PROGRAM, Freeze
from frostline.analysis.model import ProcessReport
from frostline.analysis.verdict import milliseconds as ms
from frostline.analysis.verdict import some

#: What has grown since the freeze is told of from this share of what is frozen, CPython's own for a full
#: pass, and from so many objects.
QUARTER = 4
MUCH = 20_000
#: Heaps smaller than this are not worth a freeze.
SMALL = 50_000
#: Multiprocessing's own helper, which has no heap to speak of, and whom nobody could tell of a boundary.
TRACKER = "resource tracker"
#: Kinds of policies that freeze at their boundary.
FREEZING = ("freeze", "follow", "periodic", "prefork")
COUNT = "`frostline audit --garbage` counts it"


def audit(
    process: ProcessReport, now: Now | None = None, elsewhere: tuple[str, ...] = (), start: int = 0
) -> Audited:
    """Everything about the freeze of one process.

    Args:
        now: what it counted itself, None where it was not asked.
        elsewhere: names of processes of the same server that are frozen.
        start: the session's first instant.
    """
    audited = facts(process, now, start)
    found = [*_collector(process)]
    if audited.frozen == 0:
        found += _not_frozen(process, audited, now, elsewhere)
    else:
        found += [*_unseen(process, now), *_held(process, now), *_growth(audited), *_engines(process)]
    if not found:
        found.append(_sound(audited))
    return replace(audited, findings=tuple(found))


def never_thawed(process: ProcessReport) -> str:
    """Engines frozen again and again, and never given back (case 10); empty where that is not so."""
    story = process.frozen
    again = [f for f in story.freezes if f.why in (BOUNDARY, AGAIN, PROGRAM)]
    if len(again) < 2 or story.thaws or any(walk.time > again[-1].time for walk in story.walks):
        return ""
    where = list(dict.fromkeys(f.where for f in again if f.where))
    by = f" (by {some(where)})" if where else ""
    counted = [f.objects for f in again if f.objects is not None]
    if counted[1:] and 10 * counted[-1] < 11 * counted[0]:
        return ""  # a boundary told twice in one start-up: no engine came in between
    grew = f", and what is frozen grew from {counted[0]:,} to {counted[-1]:,} objects" if counted[1:] else ""
    close = process.frozen_since_attach
    if not grew and close:
        grew = f", and {close:,} objects were frozen at the end"
    return (
        f"frozen {len(again):,} times{by} and never thawed{grew}: cycles of an engine that was dropped in "
        "between stay for good"
    )


def _collector(process: ProcessReport) -> Iterator[Finding]:
    if any(event.kind == "dead collector" for event in process.events):
        text = "its collector is dead, since it was forked inside a pass: nothing frees a cycle here"
        yield Finding("dead-collector", False, text, "Restart it; fork before other threads start, or spawn")


def _sound(audited: Audited) -> Finding:
    text = "frozen right after a full pass"
    if audited.garbage_why or audited.in_flight:
        text = "a walk of the whole heap has put right what was frozen"
    elif audited.in_flight == 0:
        text += ", nothing in flight"
    if audited.grown is not None:
        text += f"; {_number(audited)} objects are not frozen"
    return Finding("sound", True, text)


def _not_frozen(
    process: ProcessReport, audited: Audited, now: Now | None, elsewhere: tuple[str, ...]
) -> Iterator[Finding]:
    story = process.frozen
    policy = now.policy if now is not None else process.policy
    kind = policy.partition("@")[0].partition(",")[0].partition(":")[0]
    heap = "" if audited.grown is None else f": a full pass walks {_number(audited)} objects"
    if story.freezes and story.freezes[-1].objects == 0:
        text = "gc.freeze() froze nothing, by the interpreter's own count: something has replaced it"
        yield Finding("froze-nothing", False, text, "Find what assigns gc.freeze")
    elif story.thaws and story.freezes and now is None:
        yield Finding("thawed", True, "it was frozen, and thawed before its end")
    elif story.thaws and story.freezes:
        do = "`frostline freeze` freezes it again, `frostline policy freeze` keeps it so"
        yield Finding("thawed", False, f"it was frozen, and is thawed{heap}", do)
    elif kind in FREEZING and not process.boundary and process.role != TRACKER:
        text = f"policy {policy} waits for its boundary, and nothing is frozen{heap}"
        do = "Call frostline.startup_complete(), or use `run --ready-url URL`; now: `frostline policy --now`"
        yield Finding("no-boundary", False, text, do)
    elif elsewhere and not _small(process, audited):
        text = f"nothing is frozen here, as it is in {some(list(elsewhere))}{heap}"
        do = "`frostline freeze` reaches it now; `frostline check` finds why it was left out"
        yield Finding("left-out", False, text, do)
    else:
        full = [p.pause for p in process.full_passes]
        cost = f"full passes took {ms(sum(full))} in all" if full else "no full pass has come"
        text = f"nothing is frozen{heap}; {cost}"
        if negligible(max(full, default=0), sum(full), process.wall):
            yield Finding("not-frozen", True, f"{text}: a freeze gains nothing here")
        else:
            yield Finding("not-frozen", False, text, "`frostline report` says what a freeze would gain")


def _small(process: ProcessReport, audited: Audited) -> bool:
    """Too small a heap to miss a freeze."""
    if audited.grown is not None:
        return audited.grown < SMALL
    full = [p.pause for p in process.full_passes]
    return negligible(max(full, default=0), sum(full), process.wall)


def _unseen(process: ProcessReport, now: Now | None) -> Iterator[Finding]:
    """Frozen, and no freeze is recorded of it."""
    if process.frozen.freezes:
        return
    forked = any(m.kind == fmt.MARK_FORKED for m in process.series.marks)
    if forked or (now is not None and now.inherited):
        yield Finding("inherited", True, "frozen by the process that forked it, whose pages it shares")
        return
    attached = process.at_attach
    if attached_after(process.series) and attached and attached.frozen:
        text = f"frozen before the recording began ({attached.frozen:,} objects then), by whom is not known"
    else:
        text = "nobody was seen to freeze it: C code, or a reference to gc.freeze taken before the recorder"
    yield Finding("frozen-unseen", False, text, f"Whether a collect came before is not known: {COUNT}")


def _held(process: ProcessReport, now: Now | None) -> Iterator[Finding]:
    """Freezes that may hold garbage, or what was in flight, and that nothing has put right since."""
    story = process.frozen
    right = max((*story.thaws, *(walk.time for walk in story.walks)), default=0)
    serving: dict[str, list[int]] = {}
    uncollected: dict[tuple[str, str], list[Freeze]] = {}
    for one in story.freezes:
        if one.time + 1 < right:
            continue  # a walk of the whole heap, or a thaw, has come since
        open_ = in_flight(process, one)
        if open_:
            serving.setdefault(who(one), []).append(open_)
        elif one.garbage:
            uncollected.setdefault((who(one), one.garbage), []).append(one)
    rights = now is not None and now.spliced and now.policy != "off" and now.in_flight >= 0
    later = "The policy puts it right in the next idle moment" if rights else COUNT
    for by, counts in serving.items():
        times, most = "", f"{counts[0]:,} requests in flight"
        if len(counts) > 1:
            times, most = f" {len(counts):,} times", f"up to {max(counts):,} requests in flight"
        text = (
            f"frozen{times} while serving by {by}, {most}: cycles of theirs that lived then are kept for good"
        )
        yield Finding("frozen-serving", False, text, f"{later}. Freeze before READY is announced")
    for (by, garbage), freezes in uncollected.items():
        times = f" {len(freezes):,} times" if len(freezes) > 1 else ""
        text = (
            f"frozen{times} by {by}, without a collect before ({garbage}): what garbage there was is frozen"
        )
        own = ". Call gc.collect() just before gc.freeze()" if freezes[0].why == PROGRAM else ""
        yield Finding("frozen-garbage", False, text, later + own)


def _growth(audited: Audited) -> Iterator[Finding]:
    grown, frozen = audited.grown, audited.frozen
    if grown is None or not frozen or grown < MUCH or QUARTER * grown < frozen:
        return
    walk = audited.walk
    took = f", for {walk.words(grown)}, {walk.how}" if walk is not None else ""
    text = (
        f"{_number(audited)} objects are not frozen beside {frozen:,} that are: a full pass walks them{took}"
    )
    do = "`frostline census` says what they are; `frostline policy follow` moves the line where they stay"
    yield Finding("grown", False, text, do)


def _engines(process: ProcessReport) -> Iterator[Finding]:
    text = never_thawed(process)
    if text:
        do = (
            "Call frostline.shutdown(), or gc.unfreeze() and gc.collect(), when an engine is closed; "
            "`frostline audit --class MODULE:CLASS` counts those that stay"
        )
        yield Finding("never-thawed", False, text, do)


def _number(audited: Audited) -> str:
    return f"{'<=' if audited.at_most else ''}{audited.grown:,}"
