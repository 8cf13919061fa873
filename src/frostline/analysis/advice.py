"""What to type next: a freeze only where it gains something, and with how the gain was obtained."""

from __future__ import annotations

import shlex

from frostline.analysis.model import Advice, FullPass, MissedProcess, ProcessReport, Verdict
from frostline.analysis.passes import AUTOMATIC, FROSTLINE
from frostline.analysis.verdict import CANNOT_TELL, milliseconds
from frostline.recording import Run

#: A longest pause under the first, and a sum under the second or under the third of the time
#: recorded, are nothing that a freeze could gain.
NEGLIGIBLE_PAUSE = 5_000_000
NEGLIGIBLE_TOTAL = 20_000_000
NEGLIGIBLE_SHARE = 0.005
#: A full pass that reclaims more than this share of what it walked does work that is needed.
LITTLE = 0.02
#: Where it is not known what was walked: fewer objects reclaimed than one for so many ns.
NS_PER_USEFUL_OBJECT = 5_000


def advise(
    processes: tuple[ProcessReport, ...],
    missed: tuple[MissedProcess, ...],
    runs: tuple[Run, ...],
    verdict: Verdict,
    path: str,
) -> tuple[Advice, ...]:
    """At most a few, the one that matters most first."""
    found: list[Advice] = []
    freeze = _freeze(processes, runs)
    explicit = _explicit(processes)
    # A needless call is better left out than made cheap.
    first_explicit = explicit and 2 * (explicit.saving or 0) >= ((freeze.saving or 0) if freeze else 0)
    both = (explicit, freeze) if first_explicit else (freeze, explicit)
    found += [advice for advice in both if advice is not None]
    if not found and processes:
        found.append(_nothing(processes))
    if verdict.kind == CANNOT_TELL and processes and not verdict.steps:
        found.append(
            Advice(
                "name the function that is one step, and the verdict can be given",
                f"frostline run --span 'module:Class.method=step' -- {_command(runs)}",
            )
        )
    if missed and any(m.python for m in missed):
        found.append(Advice("see why processes were missed", f"frostline status {shlex.quote(path)}"))
    return tuple(found)


def _command(runs: tuple[Run, ...]) -> str:
    return shlex.join(runs[-1].command) if runs and runs[-1].command else "COMMAND"


def useless(one: FullPass) -> bool:
    """Whether a full pass walked much and reclaimed next to nothing."""
    if one.walked.value:
        return one.reclaimed <= LITTLE * one.walked.value
    return one.reclaimed * NS_PER_USEFUL_OBJECT < one.alone


def _freeze(processes: tuple[ProcessReport, ...], runs: tuple[Run, ...]) -> Advice | None:
    gains: list[tuple[int, ProcessReport, list[FullPass]]] = []
    frozen_anyway: list[ProcessReport] = []
    for process in processes:
        every = [p for p in process.full_passes if p.kind != FROSTLINE]
        if process.frozen_since:
            every = list(process.while_frozen)
        passes = [p for p in every if p.start >= process.serving] or every
        total = sum(p.pause for p in passes)
        longest = max((p.pause for p in passes), default=0)
        if _negligible(longest, total, process.wall):
            continue
        if process.frozen_since:
            frozen_anyway.append(process)
            continue
        # By time: most of what full passes cost was for nothing.
        idle = sum(p.pause for p in passes if useless(p))
        if 2 * idle >= total and total:
            gains.append((total, process, passes))
    if not gains:
        if frozen_anyway:
            worst = max(frozen_anyway, key=_longest_since_freeze)
            still = max(worst.while_frozen, key=lambda p: p.pause)
            grew = f" by about {still.walked.value:,} objects" if still.walked.value else ""
            return Advice(
                f"{worst.name} is frozen and still has full passes of up to {milliseconds(still.pause)}: "
                f"its heap grew{grew} after the freeze. If that was start-up, freeze later, when it is over",
                f"frostline run --policy freeze --ready-url URL -- {_command(runs)}",
            )
        return None
    gains.sort(key=lambda gain: -gain[0])
    saving = sum(total for total, _, _ in gains)
    longest = max(p.pause for _, _, passes in gains for p in passes)
    after = max(_young_longest(process) for _, process, _ in gains)
    names = ", ".join(process.name for _, process, _ in gains[:3])
    more = f" and {len(gains) - 3} more" if len(gains) > 3 else ""
    count = sum(len(passes) for _, _, passes in gains)
    explicit = sum(p.kind != AUTOMATIC for _, _, passes in gains for p in passes)
    asked = f" ({explicit} of them by explicit calls)" if explicit else ""
    text = (
        f"full passes walk a heap that stays: {count}{asked} in {names}{more} took "
        f"{milliseconds(saving)}, the longest {milliseconds(longest)}, and reclaimed next to nothing. "
        f"Freeze it at the end of start-up: expect up to {milliseconds(saving)} less, and the longest "
        f"pause to fall to about {milliseconds(after)}"
    )
    how = (
        "the sum of those passes, and the longest young pass that remains; "
        "passes over what grows after the freeze stay, and the freeze itself costs one full pass"
    )
    return Advice(text, f"frostline run --policy freeze --ready-url URL -- {_command(runs)}", saving, how)


def _negligible(longest: int, total: int, wall: int) -> bool:
    return longest < NEGLIGIBLE_PAUSE and (total < NEGLIGIBLE_TOTAL or total < NEGLIGIBLE_SHARE * wall)


def _longest_since_freeze(process: ProcessReport) -> int:
    return max((p.pause for p in process.while_frozen), default=0)


def _young_longest(process: ProcessReport) -> int:
    return max((g.longest for g in process.generations if g.generation < 2), default=0)


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
    freed = f"reclaimed {site.reclaimed:,} objects" if site.reclaimed else "reclaimed nothing"
    return Advice(
        f"{site.file}:{site.line} calls gc.collect() {site.count:,} times in {process.name}: "
        f"{milliseconds(site.total)} in all, {freed}. Call it less often there, or not at all",
        saving=site.total,
        how="the time inside those calls",
    )


def _nothing(processes: tuple[ProcessReport, ...]) -> Advice:
    longest = max(p.longest for p in processes)
    share = max(p.pause_total / p.wall for p in processes)
    frozen = [p for p in processes if p.frozen_since]
    if frozen:
        before = max((f.pause for p in frozen for f in p.full_passes if f.start < p.frozen_since), default=0)
        after = max(map(_longest_since_freeze, frozen))
        return Advice(
            f"nothing: {len(frozen)} of {len(processes)} recorded processes were frozen; their longest full "
            f"pass took {milliseconds(before)} up to the freeze, and {milliseconds(after)} after it"
        )
    if longest < NEGLIGIBLE_PAUSE or share < NEGLIGIBLE_SHARE:
        return Advice(
            f"a freeze gains nothing here: the longest pause is {milliseconds(longest)}, and pauses are at "
            f"most {share:.2%} of any process's time"
        )
    return Advice("a freeze gains nothing here: no full pass costs much and reclaims next to nothing")
