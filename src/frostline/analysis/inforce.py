"""Whether a policy that goes beyond ``freeze`` was worth it here, or a simpler one serves as well."""

from __future__ import annotations

from dataclasses import dataclass

from frostline import format as fmt
from frostline.analysis.choice import (
    DIED,
    FOLLOW,
    FREEZE,
    GREW,
    HELD,
    QUARTER,
    THRESHOLDS,
    duration,
    held_by_thresholds,
    middle,
    price_of_thresholds,
    rounded,
)
from frostline.analysis.commands import policy_text, run
from frostline.analysis.freezing import kind_of, negligible, useless
from frostline.analysis.model import Advice, FullPass, Options, ProcessReport
from frostline.analysis.passes import FROSTLINE
from frostline.analysis.verdict import milliseconds, some

#: Kinds that keep acting after the boundary.
KINDS = ("follow", "periodic", "idle", "sync")


#: What a process may turn out to need, the most demanding last.
UNKNOWN = "unknown"
_ORDER = (FREEZE, THRESHOLDS, UNKNOWN, FOLLOW)
#: The line's moves are judged where walks of the whole heap have seen one in so many of what it froze.
SEEN = 4
#: So many passes of its own make it fairly sure that a policy's own passes find nothing.
SURE = 3
#: A full pass may come after so many passes of generation 1: CPython's own threshold 2.
OCCASION = 10
#: Threshold 2 under which no full pass starts by itself, as ``policy.keeping`` sets it.
_NEVER = 2**31 - 1


def _held_back(process: ProcessReport) -> bool:
    """Whether full passes were ever held back: the first step does it."""
    return any(m.kind == fmt.MARK_THRESHOLD and m.values[2] == _NEVER for m in process.series.marks)


def _nobody_tells(process: ProcessReport) -> bool:
    """Whether ``idle`` said that it waits for what nobody tells, and nobody told it afterwards."""
    acts = [m.values[0] for m in process.series.marks if m.kind == fmt.MARK_LINE]
    return fmt.LINE_AWAITS in acts and fmt.LINE_TOLD not in acts


@dataclass(frozen=True)
class _Need:
    process: ProcessReport
    needs: str
    why: str


def in_force(processes: tuple[ProcessReport, ...], options: Options, came: str = "") -> list[Advice]:
    """One piece of advice for each such policy: keep it, or take the simpler one, and why.

    ``came``: the option by which READY was told.
    """
    found: list[Advice] = []
    for policy in KINDS:
        mine = [
            p for p in processes if kind_of(p) == policy and (p.frozen.since or policy in ("idle", "sync"))
        ]
        never = [p.name for p in mine if policy == "sync" and not _held_back(p)]
        if mine and len(never) == len(mine):
            text = f"policy {mine[0].policy} did nothing: no frostline.step() was called in {some(never)}"
            found.append(Advice(f"{text}. Call it once a step on every rank, or take freeze"))
            continue
        silent = [p.name for p in mine if policy == "idle" and _nobody_tells(p)]
        if mine and len(silent) == len(mine):
            text = (
                f"policy {mine[0].policy} knows of no idle moment: nobody told of a request in {some(silent)}"
            )
            do = (
                "Each full pass that was due waited for the deadline. Put `with frostline.request():` around "
                "each request, or call frostline.idle() where there is nothing to do; or take freeze"
            )
            found.append(Advice(f"{text}. {do}"))
            continue
        needs = [need for p in mine if (need := _need(p, policy)) is not None]
        # Of processes that do the same, one that has shown it speaks for those that have not.
        needs = [need for need in needs if not _spoken_for(need, needs)]
        if needs:
            most = max(needs, key=lambda need: _ORDER.index(need.needs))
            found.append(_advice(policy, most, options, came))
    return found


def _spoken_for(need: _Need, needs: list[_Need]) -> bool:
    return need.needs == UNKNOWN and any(
        one.needs != UNKNOWN and one.process.series.parent == need.process.series.parent for one in needs
    )


def _gain(process: ProcessReport, options: Options) -> str:
    """What the policy's own passes have cost, which a simpler one would not make; empty if that is little."""
    took = [walk.took for walk in process.frozen.planned] or [p.pause for p in _own_passes(process)]
    if max(took, default=0) <= options.long_floor:
        return ""
    since = max(process.start, process.frozen.since)
    seen = duration((process.frozen.until or process.stop) - since)
    times = "1 pass" if len(took) == 1 else f"{len(took):,} passes"
    sure = "fairly sure" if len(took) >= SURE else "see it again under your load before you change it"
    spared = f"It would spare {times} of the policy's own, {milliseconds(sum(took))}"
    return f"{spared}. That is by {times} in {seen} of one recording: {sure}"


def _advice(policy: str, most: _Need, options: Options, came: str) -> Advice:
    process = most.process
    if most.needs == UNKNOWN:
        return Advice(f"policy {policy}: {most.why}")
    if most.needs == FOLLOW:
        keep = policy if policy != "periodic" else ""
        if keep:
            return Advice(f"policy {policy} is right here: {most.why}. Keep it")
        text = f"periodic is for benchmarks: {most.why}. follow does that in idle moments only"
        return Advice(text, run(process, FOLLOW, came))
    gain = _gain(process, options)
    if not gain:
        simpler = "freeze" if most.needs == FREEZE else "freeze with rare full passes"
        return Advice(
            f"policy {policy} does here what {simpler} would do: {most.why}. It costs next to nothing: "
            "nothing is gained by a change. Keep it"
        )
    thresholds = process.full_passes[-1].thresholds if process.full_passes else (700, 10, 10)
    at_start = process.at_attach.thresholds if process.at_attach and process.at_attach.thresholds else None
    text = f"policy {policy} gains nothing here over a simpler one: {most.why}. {gain}. "
    if most.needs == THRESHOLDS:
        after = [p for p in process.full_passes if p.start >= process.frozen.since]
        reclaimed = sum(p.reclaimed for p in after if p.start <= process.frozen.until)
        price = price_of_thresholds(process, reclaimed, process.frozen.since, after)
        text += f"Freezing once and making full passes rare does the same. The price: {price}"
    else:
        text += "Freezing once does the same. The price: cycles among the frozen that die later are kept"
    return Advice(text, run(process, policy_text(most.needs, at_start or thresholds), came))


def _need(process: ProcessReport, policy: str) -> _Need | None:
    if policy == "follow":
        return _follow(process)
    ours = _own_passes(process)
    if not ours:
        return None
    total = f"{len(ours):,} full {'pass' if len(ours) == 1 else 'passes'} of its own took "
    total += f"{milliseconds(sum(p.pause for p in ours))}, up to {milliseconds(max(p.pause for p in ours))}"
    reclaimed = sum(p.reclaimed for p in ours)
    text = f"in {process.name} {total}, and reclaimed {reclaimed:,} objects"
    if not _mostly_useless(ours):
        return _Need(process, FOLLOW, text)
    counted = [f.objects for f in process.frozen.freezes if f.objects]
    if counted and counted[-1] > GREW * counted[0]:
        text += f", while what is frozen grew from {counted[0]:,} to {counted[-1]:,}"
        return _Need(process, THRESHOLDS, text)
    return _Need(process, FREEZE, text)


def _own_passes(process: ProcessReport) -> list[FullPass]:
    """Full passes of ours between boundary and thaw.

    A boundary's own is no evidence, since it collects the garbage of start-up; nor is that of a thaw.
    """
    until = process.frozen.until or process.stop
    found = [p for p in process.full_passes if p.kind == FROSTLINE and p.start < until]
    for mark in process.series.marks:
        if mark.kind == fmt.MARK_BOUNDARY:
            first = next((p for p in found if p.start >= mark.time), None)
            found = [p for p in found if p.start >= mark.time and p is not first]
    return found


def _mostly_useless(passes: list[FullPass]) -> bool:
    return 2 * sum(p.pause for p in passes if useless(p)) >= sum(p.pause for p in passes)


def _follow(process: ProcessReport) -> _Need | None:
    story, line, name = process.frozen, process.frozen.line, process.name
    host = process.while_frozen
    longest = max((p.pause for p in host), default=0)
    matter = not negligible(longest, sum(p.pause for p in host), process.wall)
    planned = [walk for walk in story.planned if walk.moved]
    if not line.moves:
        return _still_line(process, matter)
    froze = f"in {name} the line moved {_times(line.moves)} and froze {line.moved:,} objects"
    judged, reclaimed = sum(walk.moved for walk in planned), sum(walk.reclaimed for walk in planned)
    enough = SEEN * judged >= line.moved
    took = milliseconds(sum(walk.took for walk in planned))
    walks = f"{len(planned):,} {'walk' if len(planned) == 1 else 'walks'} of the whole heap ({took})"
    last = _after_thaw(process)
    if not enough and last is not None:
        enough = True
        judged, reclaimed, walks = line.moved, last.reclaimed, "the full pass after the thaw"
    found = f"{froze}, and {walks} reclaimed {reclaimed:,} objects in all"
    if enough and reclaimed <= DIED * judged:
        late = sum(p.reclaimed for p in host)
        held = held_by_thresholds(process, late, story.since)
        kept = max((f.objects or 0 for f in story.freezes), default=0)
        if held <= (kept // QUARTER or HELD):
            return _Need(process, THRESHOLDS, found)
        found += f", but rare full passes would hold about {rounded(held)} objects that they reclaim now"
    if enough:
        ran = f", while the longest full pass since the boundary took {milliseconds(longest)}"
        return _Need(process, FOLLOW, f"{found}{ran if longest else ''}")
    if line.exhausted and not line.restored:
        return _Need(process, FREEZE, f"in {name} {_never_idle(process)}")
    walked = f"only {judged:,} of them have been walked since" if judged else "nothing has walked them since"
    why = (
        f"{froze}, and whether such objects die is not known: {walked}. "
        "Tell it of idle moments (frostline.request(), frostline.idle()), or let frostline.shutdown() "
        "collect at the end, and the next report says whether a simpler policy does as well"
    )
    return _Need(process, UNKNOWN, why)


def _still_line(process: ProcessReport, matter: bool) -> _Need | None:
    """The line never moved: its heap stays, or it is not for ``follow``."""
    story, name = process.frozen, process.name
    walks = story.planned
    if walks:
        took = milliseconds(sum(walk.took for walk in walks))
        times = f"{len(walks):,} {'walk' if len(walks) == 1 else 'walks'} of the whole heap took {took}"
        return _Need(process, FREEZE, f"in {name} {times}, and the line never moved")
    if story.line.exhausted:
        return _Need(process, FREEZE, f"in {name} {_never_idle(process)}")
    if not process.while_frozen and middle(process, story.since)[0] <= OCCASION:
        lasted = duration((story.until or process.stop) - story.since)
        why = f"in {name} no full pass has come in the {lasted} since the freeze: too little to tell. Keep it"
        return _Need(process, UNKNOWN, why)
    if not matter:
        return _Need(process, FREEZE, f"in {name} the line never moved: its heap stays")
    reclaimed = sum(p.reclaimed for p in process.while_frozen)
    why = (
        f"in {name} the line never moved, since full passes reclaim a good part of what they walk "
        f"({reclaimed:,} objects): that is work that is needed. Find what makes those cycles"
    )
    return _Need(process, FREEZE, why)


def _after_thaw(process: ProcessReport) -> FullPass | None:
    """The full pass of ours at ``shutdown()``: it walks what was frozen."""
    thaws = process.frozen.thaws
    if not thaws:
        return None
    return next((p for p in process.full_passes if p.kind == FROSTLINE and p.start >= thaws[-1]), None)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _never_idle(process: ProcessReport) -> str:
    told = any(m.kind == fmt.MARK_FREEZE and m.values[1] for m in process.series.marks)
    if "major=force" in process.policy:
        because = "no safe point came"
    elif told:
        because = "no idle moment came"
    else:
        because = "nobody tells of idle moments (frostline.request(), frostline.idle())"
    return f"the credit was exhausted and {because}: it behaves as freeze does"
