"""Which policy a process needs, from what was recorded of it: the simplest one that serves.

``docs/policies.md`` has the loads and the counts behind this. A heap that does not grow after start-up
needs ``freeze``. One that grows needs something that keeps full passes away from what grew: rare full
passes (threshold 2) where next to nothing in it dies in cycles, ``follow`` where cycles die late and
there are idle moments to walk the whole heap in. Where there are none, ``follow`` gains nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from frostline.analysis.intervals import union
from frostline.analysis.model import FullPass, ProcessReport
from frostline.analysis.verdict import milliseconds

FREEZE = "freeze"
THRESHOLDS = "thresholds"
FOLLOW = "follow"
#: Threshold 2 that makes full passes rare.
RARE = 1000
#: So many passes are needed to tell whether a heap grows, and it grows if the last third of them
#: took so many times as long as the first, and walked so many times as much where that is known.
ENOUGH = 3
GREW = 1.25
#: Where sizes are upper bounds, the passes must have taken so many times as long as well.
LONGER = 1.1
#: Garbage held may be so much of the heap: CPython's own proportion between growth and full passes.
QUARTER = 4
#: What may be held where the size of the heap is not known, in objects.
HELD = 100_000
#: ns with nothing in flight that are an idle moment, as ``policy.moments`` has it.
QUIET = 50_000_000
#: Share of the time that must be idle.
IDLE = 0.01
#: Share of what was frozen that has died: below it the freeze was well chosen.
DIED = 0.05


@dataclass(frozen=True)
class Choice:
    """A policy, why it is enough, and what it costs. Sentences without a full stop."""

    kind: str
    why: str
    price: str


def rounded(number: float) -> str:
    """Three digits of what is an estimate anyway."""
    return f"{int(float(f'{number:.3g}')):,}"


def base(thresholds: tuple[int, int, int]) -> tuple[int, int, int]:
    """The thresholds in force, or CPython's own where the collector was off."""
    return thresholds if thresholds[0] > 0 else (700, 10, 10)


def choose(process: ProcessReport, passes: list[FullPass], since: int, is_frozen: bool) -> Choice:
    """For a process whose full passes after ``since`` cost too much. ``is_frozen``: they ran after a freeze.

    ``passes`` are the host's own full passes, in order.
    """
    growth = "" if is_frozen else grew(passes)
    if not is_frozen and not growth:
        why = ""
        if len(passes) >= ENOUGH:
            why = "it did not grow over them, so freezing it once is enough"
            if not _flat(passes):
                why = (
                    "whether it grew over them is not certain (by what can be counted it did, and the passes "
                    "took hardly longer); if it did, full passes over what grew come back after the freeze"
                )
        return Choice(FREEZE, why, "cycles among the frozen objects that die later are kept until a thaw")
    reclaimed = sum(p.reclaimed for p in passes)
    held = held_by_thresholds(process, reclaimed, since)
    heap = max((p.walked.value for p in passes if p.walked.value), default=0)
    counted = [f.objects for f in process.frozen.freezes if f.objects]
    heap += counted[-1] if is_frozen and counted else 0
    known = heap // QUARTER or HELD
    if held <= known:
        freed = (
            f"full passes reclaimed {reclaimed:,} objects of it" if reclaimed else "nothing in it dies late"
        )
        start = f"{growth}, and " if growth else ""
        why = f"{start}{freed}: with threshold 2 at {RARE:,} full passes over it become rare"
        return Choice(THRESHOLDS, why, price_of_thresholds(process, reclaimed, since, passes))
    dies = f"{growth}, and " if growth else ""
    dies += f"cycles in it die late (full passes reclaimed {reclaimed:,} objects)"
    if _yields(passes, is_frozen):
        why = (
            f"{dies}: they do work that is needed, and follow would leave them alone, since each reclaims a "
            "good part of what it walks. Find what makes those cycles"
        )
        return Choice(FREEZE, why, "each full pass walks what grew since the freeze")
    idle = idle_share(process, since)
    if idle < IDLE:
        why = (
            f"{dies}: they do work that is needed. No moment was idle, so follow would gain nothing over "
            "freeze: find what makes those cycles, or tell of idle moments"
        )
        return Choice(FREEZE, why, "each full pass walks what grew since the freeze")
    longest = max(p.pause for p in passes)
    why = f"{dies}; {100 * idle:.0f} % of the time nothing was in flight: follow freezes what grows"
    half = f" ({rounded(heap / 2)} objects)" if heap else ""
    price = (
        f"what dies among the frozen is held, up to half of the heap{half}, "
        "until an idle moment walks it all, which takes as long as a full pass now "
        f"({milliseconds(longest)}). It needs frostline.request() or frostline.idle() to know of idle moments"
    )
    return Choice(FOLLOW, why, price)


def _yields(passes: list[FullPass], is_frozen: bool) -> bool:
    """Whether most full passes over what is not frozen reclaim too much for ``follow`` to move its line."""
    known = [p for p in passes if p.walked.value]
    # What a freeze at the end of start-up would have taken out of them.
    base_ = 0 if is_frozen else min((p.walked.value or 0 for p in known), default=0)
    much = sum(p.reclaimed > DIED * max(1, (p.walked.value or 0) - base_) for p in known)
    return 2 * much > len(known)


def _ends(passes: list[FullPass]) -> tuple[list[FullPass], list[FullPass]]:
    """The first third of them, and the last."""
    third = max(1, len(passes) // 3)
    return passes[:third], passes[-third:]


def _sizes(passes: list[FullPass]) -> tuple[int, int] | None:
    """Medians of what the first and the last left; None where nothing is known of one of the two."""
    sizes = [[p.walked.value - p.reclaimed for p in part if p.walked.value] for part in _ends(passes)]
    if not all(sizes):
        return None
    small, large = (int(np.median(part)) for part in sizes)
    return small, large


def _flat(passes: list[FullPass]) -> bool:
    """Nothing speaks for growth: what was walked, or at most was, is the same at both ends."""
    sizes = _sizes(passes)
    return sizes is None or sizes[1] < GREW * sizes[0]


def grew(passes: list[FullPass]) -> str:
    """``it grew (full passes took 40 ms at first, 90 ms at last)``; empty where that is not shown.

    Of an upper bound a part may be deaths that CPython did not count: there the passes must have
    taken longer, too. Where nothing is known of sizes the time alone decides.
    """
    if len(passes) < ENOUGH:
        return ""
    before, after = (int(np.median([p.alone for p in part])) for part in _ends(passes))
    sizes = _sizes(passes)
    if sizes is None:
        if after < GREW * before:
            return ""
        return (
            f"it grew after start-up (full passes took {milliseconds(before)} at first, "
            f"{milliseconds(after)} at last)"
        )
    bound = any(p.walked.at_most for p in passes)
    if sizes[1] < GREW * sizes[0] or (bound and after < LONGER * before):
        return ""
    most = "at most " if bound else ""
    return f"it grew after start-up, from {most}{rounded(sizes[0])} to {most}{rounded(sizes[1])} objects"


def middle(process: ProcessReport, since: int) -> tuple[int, int]:
    """(passes of generation 1 since then, ns in which they ran)."""
    passes = process.series.passes
    which = (passes["generation"] == 1) & (process.pauses.start >= since)
    return int(np.count_nonzero(which)), max(1, process.stop - max(since, process.start))


def held_by_thresholds(process: ProcessReport, reclaimed: int, since: int) -> int:
    """Objects that dead cycles hold at worst with threshold 2 at RARE, at the rate of what was reclaimed."""
    count, _ = middle(process, since)
    return int(reclaimed * (RARE + 1) / count) if count else reclaimed


def price_of_thresholds(process: ProcessReport, reclaimed: int, since: int, passes: list[FullPass]) -> str:
    """How long the next full pass takes to come, and what dead cycles hold until then (case 13)."""
    first, second, _ = base(passes[-1].thresholds if passes else (700, 10, 10))
    period = (second + 2) * (first + 1)
    text = (
        "a cycle that outlives two young passes is held until the next full pass, which comes after about "
        f"{rounded((RARE + 1) * period)} net allocations of containers"
    )
    count, ns = middle(process, since)
    if count:
        text += f" ({duration(ns / count * (RARE + 1))} at this rate)"
    peak = held_by_thresholds(process, reclaimed, since)
    if not reclaimed:
        return text + "; full passes reclaimed none of it here"
    return text + f": at what full passes reclaimed here, about {rounded(peak)} objects at worst"


def duration(ns: float) -> str:
    """``40 s``, ``12 min``, ``3.5 h``."""
    seconds = ns / 1e9
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def idle_share(process: ProcessReport, since: int) -> float:
    """Share of the time since then in which nothing was in flight for long enough; 0 without spans."""
    spans = process.series.spans
    if not len(spans["start"]):
        return 0.0
    busy = union(spans["start"], spans["stop"])
    starts = np.append(busy.start, process.stop)
    stops = np.append(max(since, process.start), busy.stop)
    gaps = np.minimum(starts, process.stop) - np.maximum(stops, since)
    long = gaps[gaps >= QUIET]
    return float(long.sum()) / max(1, process.stop - max(since, process.start))
