"""Slow steps that the process's own passes do not explain: whose passes are they consistent with?

A process that waits for another stands still with it, and its own recording shows no pass. But a
process with many passes overlaps slow steps by chance, too. So a pass elsewhere is named only where

1. it fits: the passes that had ended when the step ended cover at least half of the step's excess.
   What waited for a process cannot go on before that process does, so a pass that ran on after the
   step's end held nothing up;
2. more steps fit than by chance: at most 5 % of the circular shifts of the passes do as well, over all
   processes that are tried (Holm 1979);
3. of those that fit, at most 5 % are expected to do so by chance. That is what the shifts fit on
   average, times the share of the passes that were not on this process's path. That is the smaller of
   two: of the passes in which a step of the same label began *and* ended, which could not be if it had
   waited (``off_path``); and, where many are in flight and only some wait for that process, of the
   passes that made no step slow although some were in flight (``unfelt``).

A narrower fit, less than SLACKS of the excess uncovered, is met by chance less often, but not by every
step that waited. So 2 takes of each shift, as of what was seen, the fit by which it does best (the smallest
p-value is the statistic), and 3 the widest fit for which it holds. None of this says *caused*; only an
ablation could.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from frostline.analysis.intervals import Union, union
from frostline.analysis.model import Options
from frostline.analysis.pauses import Pauses
from frostline.analysis.steps import Steps, ids_of
from frostline.recording import Series
from frostline.recording.layout import Array, Int64

#: ns. A step that waited ends after the pass; the two clocks are read at slightly different moments.
EARLY = 1_000_000
#: ns. Of the excess so much may be uncovered, besides the half: the wide fit, and narrower ones.
SLACKS = (1 << 62, 20_000_000, 5_000_000)
#: The level of both rules.
LEVEL = 0.05
#: So many that one by chance is rare enough for eight processes; a label's slow steps that they are tried
#: on are evenly taken from all.
SHIFTS, TRIED = 500, 200
#: Long passes that are asked whether the process went on in them.
ASKED = 1_000
#: Steps of a label run in parallel where more than this share begins before an earlier one has ended.
PARALLEL = 0.1
#: Of ``unfelt``: slow steps that are looked at, and how often the passes are put elsewhere.
FEW, ROUNDS = 2_000, 40
#: Where a pass put anywhere is gone through less often than this, nobody can tell whether it is off the path.
POWER = 0.05
#: Where at least this share of the passes is off the path, one that fits is taken to be chance.
INNOCENT = 0.5


@dataclass(frozen=True)
class Chance:
    """How many slow steps of one label fit one process's passes, and how many would by chance.

    ``by_chance`` is the share of circular shifts of the passes that do as well or better. The others have
    an entry for each of SLACKS: which steps fit, how many, and how many on average over the shifts.
    """

    by_chance: float
    fits: tuple[Array, ...]
    found: tuple[int, ...]
    expected: tuple[float, ...]


def covered_by(start: Int64, stop: Int64, passes: Union) -> Int64:
    """How much of each step is covered by the passes that had ended with it; of any shape, ns."""
    if not len(passes.start):
        return np.zeros(start.shape, np.int64)
    last = np.searchsorted(passes.start, stop, "right") - 1
    safe = np.maximum(last, 0)
    running = (last >= 0) & (passes.stop[safe] > stop + EARLY)
    until = np.where(running, np.maximum(start, passes.start[safe]), stop)
    covered: Int64 = passes.covered_until(until) - passes.covered_until(start)
    return covered


def fitting(excess: Int64, covered: Int64, slack: int) -> Array:
    """Which steps fit. ``excess`` is what a step takes over its label's usual time, ns."""
    fits: Array = (covered > 0) & (2 * covered >= excess) & (excess - covered <= slack)
    return fits


def by_chance(
    start: Int64, stop: Int64, baseline: Int64, passes: Union, window: tuple[int, int], seed: int = 0
) -> Chance:
    """The rule's null: the passes are shifted round within the window, SHIFTS times.

    Args:
        start: where the slow steps begin, ns; ``stop``: where they end.
        baseline: what such a step takes when nothing is slow; the rest of it is its excess.
    """
    excess = stop - start - baseline
    covered = covered_by(start, stop, passes)
    fits = tuple(fitting(excess, covered, slack) for slack in SLACKS)
    found = tuple(int(np.count_nonzero(one)) for one in fits)
    length = window[1] - window[0]
    begins, ends = np.maximum(passes.start, window[0]), np.minimum(passes.stop, window[1])
    inside = begins < ends
    begins, ends = begins[inside], ends[inside]
    if not len(begins):
        return Chance(1.0, fits, found, (0.0,) * len(SLACKS))
    # Shifting the steps is the same; what leaves at the end meets a second copy of the passes.
    twice = union(np.concatenate((begins, begins + length)), np.concatenate((ends, ends + length)))
    tried = np.unique(np.linspace(0, len(start) - 1, min(len(start), TRIED)).astype(np.int64))
    shifts = np.random.default_rng(seed).integers(0, length, (SHIFTS, 1))
    moved = covered_by(start[tried] + shifts, stop[tried] + shifts, twice)
    counts = np.stack([np.count_nonzero(fitting(excess[tried], moved, s), axis=1) for s in SLACKS])
    expected = counts.mean(axis=1) * len(start) / len(tried)
    seen = np.array([[np.count_nonzero(one[tried])] for one in fits])
    least = _tails(np.concatenate((seen, counts), axis=1)).min(axis=0)
    share = float(np.count_nonzero(least <= least[0])) / len(least)
    return Chance(share, fits, found, tuple(expected.tolist()))


def _tails(counts: Int64) -> Array:
    """For each entry the share of its row that is as large or larger: its p-value within the row."""
    ordered = np.sort(counts, axis=1)
    below = [np.searchsorted(row, values, "left") for row, values in zip(ordered, counts, strict=True)]
    tails: Array = 1 - np.stack(below) / counts.shape[1]
    return tails


def off_path(
    start: Int64, stop: Int64, passes: Union, long: int, window: tuple[int, int], seed: int = 0
) -> float | None:
    """The share of the long passes that were not on the path of steps, from 0 to 1; None if nobody can tell.

    A step that began and ended inside a pass did not wait for it. How often that is seen of a pass that
    has nothing to do with the steps is tried on passes of the same lengths, anywhere in the window.

    Args:
        start: where the steps of one label begin, rising; ``stop``: where they end.
        long: ns; shorter passes need not make a step slow, and say nothing.
    """
    which = (passes.stop - passes.start >= long) & (passes.start >= window[0]) & (passes.stop <= window[1])
    begins, ends = passes.start[which][:ASKED], passes.stop[which][:ASKED]
    if not len(begins):
        return None
    random = np.random.default_rng(seed)
    lengths = random.choice(ends - begins, SHIFTS)
    room = np.maximum(1, window[1] - window[0] - lengths)
    anywhere = window[0] + (random.random(SHIFTS) * room).astype(np.int64)
    usual = _gone_through(start, stop, anywhere, anywhere + lengths)
    if usual < POWER:
        return None
    return min(1.0, _gone_through(start, stop, begins, ends) / usual)


def _gone_through(start: Int64, stop: Int64, begins: Int64, ends: Int64) -> float:
    """The share of the passes inside which at least one step began and ended."""
    first = np.searchsorted(start, begins, "left").tolist()
    last = np.searchsorted(start, ends, "left").tolist()
    through = sum(
        low < high and int(stop[low:high].min()) < end - EARLY
        for low, high, end in zip(first, last, ends.tolist(), strict=True)
    )
    return float(through / len(begins))


def unfelt(
    start: Int64,
    stop: Int64,
    baseline: Int64,
    passes: Union,
    long: int,
    running: tuple[Int64, Int64],
    window: tuple[int, int],
    seed: int = 0,
) -> float | None:
    """The same share by the passes that no slow step fits, from 0 to 1; None if nobody can tell.

    Of passes that the steps wait for there are none, of others as many as where they are put elsewhere.

    Args:
        start: where slow steps of one label begin; ``stop`` and ``baseline``: as in ``by_chance``.
        running: when all steps of the label begin, and when they end, each in rising order; passes that
            begin while none runs say nothing.
    """
    which = (passes.stop - passes.start >= long) & (passes.start >= window[0]) & (passes.stop <= window[1])
    begins, ends = passes.start[which][:ASKED], passes.stop[which][:ASKED]
    tried = np.unique(np.linspace(0, len(start) - 1, min(len(start), FEW)).astype(np.int64))
    slow = start[tried], stop[tried], baseline[tried]
    felt = _felt(*slow, begins, ends, running)
    if felt is None:
        return None
    length = window[1] - window[0]
    usual = []
    for by in np.random.default_rng(seed).integers(0, length, ROUNDS).tolist():
        moved = (begins - window[0] + by) % length + window[0]
        order = np.argsort(moved)
        one = _felt(*slow, moved[order], (moved + ends - begins)[order], running)
        usual += [] if one is None else [one]
    chance = float(np.mean(usual)) if usual else 1.0
    return min(1.0, (1 - felt) / (1 - chance)) if chance < 1 - POWER else None


def _felt(
    start: Int64, stop: Int64, baseline: Int64, begins: Int64, ends: Int64, running: tuple[Int64, Int64]
) -> float | None:
    """The share of the passes, of those that begin while a step runs, that a slow step fits."""
    busy = np.searchsorted(running[0], begins, "right") > np.searchsorted(running[1], begins, "right")
    begins, ends = begins[busy], ends[busy]
    if not len(begins):
        return None
    # To which pass a step belongs: the last that had ended with it.
    last = np.searchsorted(ends, stop + EARLY, "right") - 1
    at = np.maximum(last, 0)
    covered = np.where(last >= 0, ends[at] - np.maximum(begins[at], start), 0)
    fits = fitting(stop - start - baseline, covered, SLACKS[0])
    return float(len(np.unique(last[fits])) / len(begins))


def of_collector(pauses: Pauses) -> Union:
    """When a process stood still for its collector: pauses that are another tool's callback are left out."""
    others = 2 * pauses.others > pauses.length
    return union(pauses.start[~others], pauses.stop[~others]) if bool(others.any()) else pauses.union


def look_elsewhere(series: Series, steps: Steps, others: list[tuple[int, Union]], options: Options) -> Steps:
    """Names, for slow steps that their own passes do not explain, the process whose passes they fit.

    ``others`` are the passes of the other processes (``of_collector``), by index. Of several that hold by
    the rules above the one that covers most of a step is named. Where none holds, ``beside`` has the one
    that fits, if the process is not seen to go on during its passes: that may be chance, or not.
    """
    slow = steps.slow
    # What another tool's callback in their own passes explains needs no other process (``by_callback``).
    by_callback = (2 * slow.overlap >= slow.stop - slow.start - slow.baseline) & (
        2 * slow.callbacks > slow.overlap
    )
    open_ = ~slow.explained & ~by_callback
    if others and bool(open_.any()):
        for number, label in enumerate(steps.labels):
            which = np.flatnonzero((slow.label == number) & open_)
            if len(which):
                bar = max(options.long_floor, int(options.long_factor * label.baseline))
                found = _of_label(series, label.label, steps, which, bar, others)
                slow.elsewhere[which], slow.beside[which] = found
    count = len(steps.labels)
    found_in = np.bincount(slow.label[slow.elsewhere >= 0], minlength=count)
    rest = (slow.elsewhere < 0) & (slow.overlap > 0) & ~slow.explained
    part = np.bincount(slow.label[rest], minlength=count)
    labels = (
        replace(s, elsewhere=int(found_in[i]), in_part=int(part[i])) for i, s in enumerate(steps.labels)
    )
    return Steps(tuple(labels), slow)


def _of_label(
    series: Series, label: str, steps: Steps, which: Int64, bar: int, others: list[tuple[int, Union]]
) -> tuple[Int64, Int64]:
    """(index of the process named for each of these slow steps of one label, of one that may be), or -1."""
    slow = steps.slow
    start, stop, baseline = slow.start[which], slow.stop[which], slow.baseline[which]
    who = [np.full(len(which), -1, np.int64) for _ in range(2)]
    best = [np.zeros(len(which), np.int64) for _ in range(2)]
    excess = stop - start - baseline
    tried = []
    for index, passes in others:
        covered = covered_by(start, stop, passes)
        fits = fitting(excess, covered, SLACKS[0])
        if bool(fits.any()):
            tried.append((index, passes, fits, covered))
    if not tried:
        return who[0], who[1]
    all_start, all_stop = _spans(series, label)
    ended = np.sort(all_stop)
    window = (int(all_start[0]), int(ended[-1]))
    earlier = np.maximum.accumulate(all_stop)[:-1]
    parallel = int(np.count_nonzero(all_start[1:] < earlier)) > PARALLEL * len(earlier)
    chances = [by_chance(start, stop, baseline, passes, window) for _, passes, _, _ in tried]
    certain = _holm([one.by_chance for one in chances])
    for (index, passes, fits, covered), chance, sure in zip(tried, chances, certain, strict=True):
        # Of steps in parallel one may go on while another waits.
        off = None if parallel else off_path(all_start, all_stop, passes, bar, window)
        if off is None or off > 0:
            other = unfelt(start, stop, baseline, passes, bar, (all_start, ended), window)
            off = other if off is None else off if other is None else min(off, other)
        nothing = np.zeros(len(which), bool)
        named = _believed(chance, 1.0 if off is None else off) if sure else nothing
        perhaps = fits if off is None or off < INNOCENT else nothing
        for place, mine in enumerate((named, perhaps)):
            better = mine & (covered > best[place])
            best[place][better] = covered[better]
            who[place][better] = index
    return who[0], np.where(who[0] < 0, who[1], -1)


def _holm(chances: list[float]) -> list[bool]:
    """Which chances are at most LEVEL together: the least over their number, the next over one less."""
    certain = [False] * len(chances)
    for left, i in zip(range(len(chances), 0, -1), np.argsort(chances, kind="stable").tolist(), strict=True):
        if chances[i] > LEVEL / left:
            break
        certain[i] = True
    return certain


def _believed(chance: Chance, off: float) -> Array:
    """The steps of the widest fit that rule 3 holds for; none where it holds for none."""
    for fits, found, expected in zip(chance.fits, chance.found, chance.expected, strict=True):
        if found and off * expected <= LEVEL * found:
            return fits
    return np.zeros(len(chance.fits[0]), bool)


def _spans(series: Series, label: str) -> tuple[Int64, Int64]:
    """All spans of one label, in order of their start."""
    mine = np.isin(series.spans["label"], ids_of(series, {label}))
    start, stop = series.spans["start"][mine], series.spans["stop"][mine]
    order = np.argsort(start, kind="stable")
    return start[order], stop[order]
