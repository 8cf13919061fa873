"""How far each run is from the others (B11: one of ten runs 3.1 % slower, in every group).

The offset of a run is the median, over the groups that it shares with others, of its median over
theirs (the median of the other runs' medians). Its interval is the sign test's, turned around: the
median lies between two of the ordered ratios with the probability that the binomial distribution
gives, whatever the ratios' own distribution. Steps of one group depend on each other, so they are
never counted as independent; groups are, and where a program has too few of them, eighths of the
run in order of time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import comb
from statistics import median
from typing import NamedTuple

from frostline.analysis.runs import RunSeen

#: Two-sided.
LEVEL = 0.95
#: So few groups give no interval: the smallest sign test over five has 6 %.
LEAST = 6
#: A run stands out if it is so many times as far from the others as any of them is from the rest ...
TIMES = 3.0
#: ... and by at least this much.
WORTH = 0.01
#: With fewer runs nothing is known of how far runs are apart anyway.
LEAST_RUNS = 3
#: With so many one of them is so far apart by chance in 4 % of cases (0.5 % with ten): a conclusion.
ENOUGH_RUNS = 6
#: With fewer, in this share of cases: 6,000 draws of runs that differ by normal chance alone, by how many.
BY_CHANCE = {3: 0.54, 4: 0.20, 5: 0.09}
#: The distance of the others among each other is looked at up to so many runs.
_MOST_RUNS = 40


class Key(NamedTuple):
    """What a group is across runs: the process by its role, never by its pid."""

    role: str
    label: str
    stage: str
    name: str
    bucket: int
    #: Steps that one thread ran; else requests and the like, which count only where there are no steps.
    sync: bool


#: Group -> run -> (median, medians of its eighths) of each process of that role.
Medians = dict[Key, dict[int, list[tuple[int, tuple[int, ...]]]]]


@dataclass(frozen=True)
class RunOffset:
    """One run against the others. Ratios: 1.031 is 3.1 % slower."""

    run: int
    #: None where it shares no group with another run.
    ratio: float | None
    #: 95 %; None where there are too few groups and parts of the run for one.
    low: float | None
    high: float | None
    #: What the interval rests on: ``groups``, or ``eighths`` of the run.
    basis: str
    #: How many of these there are, and in how many the run is slower.
    count: int
    slower: int
    groups: int
    #: Smallest and largest offset of the others, each among the others alone; None with fewer than two.
    others_low: float | None
    others_high: float | None
    #: Its interval excludes 1, and it is TIMES as far from the others as any of them from the rest.
    apart: bool
    #: That, among enough runs that it is hardly chance.
    stands_out: bool


def offsets(
    medians: Mapping[Key, Mapping[int, list[tuple[int, tuple[int, ...]]]]], runs: list[int]
) -> tuple[RunOffset, ...]:
    """One entry a run, where there are several; empty for one."""
    if len(runs) < 2:
        return ()
    sync = any(key.sync and len(of) > 1 for key, of in medians.items())
    chosen = {key: of for key, of in medians.items() if key.sync == sync and len(of) > 1}
    middle = {
        key: {run: median(m for m, _ in every) for run, every in of.items()} for key, of in chosen.items()
    }
    found = []
    for run in runs:
        ratios = _ratios(middle, run, None)
        basis, values = "groups", ratios
        if 0 < len(ratios) < LEAST:
            basis, values = "eighths", _eighths(chosen, middle, run)
        low, high = interval(values)
        ratio = median(ratios) if ratios else None
        among = [
            median(mine)
            for other in runs
            if other != run and len(runs) <= _MOST_RUNS and (mine := _ratios(middle, other, run))
        ]
        apart = _apart(ratio, low, high, among)
        found.append(
            RunOffset(
                run=run,
                ratio=ratio,
                low=low,
                high=high,
                basis=basis,
                count=len(values),
                slower=sum(value > 1 for value in values),
                groups=len(ratios),
                others_low=min(among, default=None),
                others_high=max(among, default=None),
                apart=apart,
                stands_out=apart and len(among) >= ENOUGH_RUNS - 1,
            )
        )
    return tuple(found)


def _ratios(middle: Mapping[Key, Mapping[int, float]], run: int, without: int | None) -> list[float]:
    """The run's median over the others', by group; one of the others may be left out."""
    found = []
    for of in middle.values():
        others = [m for other, m in of.items() if other not in (run, without)]
        if run in of and others:
            found.append(of[run] / median(others))
    return found


def _eighths(
    chosen: Mapping[Key, Mapping[int, list[tuple[int, tuple[int, ...]]]]],
    middle: Mapping[Key, Mapping[int, float]],
    run: int,
) -> list[float]:
    """The same of each eighth of the run, over the whole of the others."""
    found = []
    for key, of in chosen.items():
        others = [m for other, m in middle[key].items() if other != run]
        if run in of and others:
            found += [part / median(others) for _, parts in of[run] for part in parts]
    return found


def interval(values: list[float]) -> tuple[float | None, float | None]:
    """The narrowest pair of ordered values, as far from both ends, that holds the median with 95 %.

    P(fewer than k of n values lie below the median) is the binomial distribution's with p = 1/2.
    """
    n = len(values)
    if n < LEAST:
        return None, None
    ordered = sorted(values)
    tail, k = 0.0, 0
    while True:
        tail += comb(n, k) / 2**n if n < 1000 else _normal_step(n, k)
        if 2 * tail > 1 - LEVEL:
            break
        k += 1
    return ordered[k - 1], ordered[n - k]


def _normal_step(n: int, k: int) -> float:
    """The same share of a distribution too long for exact numbers, by logarithms."""
    from math import exp, lgamma, log

    return exp(lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) - n * log(2))


def _apart(ratio: float | None, low: float | None, high: float | None, among: list[float]) -> bool:
    if ratio is None or low is None or high is None or len(among) < LEAST_RUNS - 1:
        return False
    if low <= 1 <= high or abs(ratio - 1) < WORTH:
        return False
    return abs(ratio - 1) > TIMES * max(abs(one - 1) for one in among)


# --- in words -------------------------------------------------------------------------
def words(found: tuple[RunOffset, ...], runs: Mapping[int, RunSeen]) -> tuple[str, ...]:
    """What the offsets say, and what they cannot."""
    known = [one for one in found if one.ratio is not None]
    if len(found) < 2:
        return ()
    if len(known) < 2:
        return ("the runs share no group of steps: they cannot be compared",)
    if len(known) == 2:
        return tuple(_two(known))
    said = [_one(one, len(known)) for one in known if one.apart]
    if not said:
        low, high = min(one.ratio or 1 for one in known), max(one.ratio or 1 for one in known)
        said = [f"no run stands out: their offsets from the others are {percent(low)} to {percent(high)}"]
    elif len(known) < ENOUGH_RUNS:
        said.append(
            f"of {len(known)} runs that cannot be concluded: one of them is so far apart by chance alone in "
            f"{BY_CHANCE[len(known)]:.0%} of cases; {ENOUGH_RUNS} or more would tell"
        )
    said += _other_commands(known, runs)
    return tuple(said)


def _two(known: list[RunOffset]) -> list[str]:
    slow = max(known, key=lambda one: one.ratio or 1)
    fast = next(one for one in known if one is not slow)
    return [
        f"run {slow.run} is {percent(slow.ratio or 1)} against run {fast.run}{_how(slow)}; of two runs it "
        "cannot be concluded which one is off, nor whether two runs of the same are as far apart anyway"
    ]


def _one(one: RunOffset, runs: int) -> str:
    ratio = one.ratio or 1.0
    what = f"run {one.run} is {abs(ratio - 1):.1%} {'slower' if ratio > 1 else 'faster'} than the others"
    apart = max(abs((one.others_low or 1) - 1), abs((one.others_high or 1) - 1))
    return f"{what}{_how(one)}; the other {runs - 1} are within {apart:.1%} of each other"


def _how(one: RunOffset) -> str:
    ratio = one.ratio or 1.0
    alike = one.slower if ratio > 1 else one.count - one.slower
    units = "groups" if one.basis == "groups" else "eighths of the run"
    every = f"in all {one.count} {units}" if alike == one.count else f"in {alike} of {one.count} {units}"
    if one.low is None or one.high is None:
        return f", {every}: too few for an interval"
    return f" (95% {percent(one.low)} to {percent(one.high)}, sign test), {every}"


def _other_commands(known: list[RunOffset], runs: Mapping[int, RunSeen]) -> list[str]:
    kinds = {(runs[one.run].command, runs[one.run].policy) for one in known if one.run in runs}
    if len(kinds) < 2:
        return []
    return ["the runs differ in their command or policy: an offset may be the effect of that"]


def percent(ratio: float) -> str:
    """``+3.1%`` of a ratio of 1.031."""
    return f"{ratio - 1:+.1%}"
