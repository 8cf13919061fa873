"""Ranks whose steps are fine and that idle between them, in the words of the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from frostline.analysis.held import LONG, SHARE
from frostline.analysis.model import Options
from frostline.analysis.ranks import Rank

#: Under this share of the gaps' time the collector is not why a rank idles.
MINOR = 0.1
#: Where passes fill less of the gaps that they explain, it is said how much.
FILL = 0.8
#: Processes that one sentence names.
NAMED = 3


@dataclass(frozen=True)
class Starved:
    """What the ranks of one role wait for."""

    #: Empty where no pass is claimed, or next to nothing is explained; else it makes the collector the
    #: answer.
    sentence: str
    #: What stays open with requests in flight, where it is much; else empty.
    rest: str
    #: Who may be behind that and was not recorded.
    no_recorder: tuple[tuple[str, int], ...]


def starved(ranks: Sequence[Rank], options: Options) -> tuple[Starved, ...]:
    """One entry a role, the one that most gap time is explained of first."""
    groups: dict[str, list[Rank]] = {}
    for rank in ranks:
        groups.setdefault(rank.group, []).append(rank)
    ordered = sorted(groups.items(), key=lambda pair: -sum(rank.explained_total for rank in pair[1]))
    return tuple(_group(name, mine, options) for name, mine in ordered)


def _group(name: str, ranks: list[Rank], options: Options) -> Starved:
    asked = sum(rank.asked for rank in ranks)
    explained = sum(rank.explained_total for rank in ranks)
    long = LONG * options.long_floor
    much = any(r.longest_explained > long or r.explained_total > SHARE * r.wall for r in ranks)
    open_ = sum(rank.in_flight or 0 for rank in ranks)
    much_open = any((r.in_flight or 0) > SHARE * r.wall for r in ranks)
    who = ranks[0].process if len(ranks) == 1 else f"the {len(ranks)} ranks of {name}"
    verb = "idles" if len(ranks) == 1 else "idle"
    rest = ""
    if much_open:
        rest = f"{who} {verb} {seconds(open_)} between steps with requests in flight, which no pass explains"
    finding = much and explained >= MINOR * asked
    return Starved(
        sentence=f"{who} {verb} {_words(ranks, asked, explained)}" if finding else "",
        rest=rest,
        no_recorder=tuple(dict.fromkeys(one for rank in ranks for one in rank.no_recorder)),
    )


def _words(ranks: list[Rank], asked: int, explained: int) -> str:
    floor = min(rank.floor for rank in ranks)
    each = "its steps" if len(ranks) == 1 else "their steps, added up"
    share = _percent(explained, asked)
    text = f"{seconds(asked)} in gaps of over {floor / 1e6:,.0f} ms between {each}; {share} of it"
    totals: dict[str, int] = {}
    for rank in ranks:
        for one in rank.consistent:
            if one.claimed:
                totals[one.process] = totals.get(one.process, 0) + one.total
    if all(one.own for rank in ranks for one in rank.consistent if one.claimed) and len(ranks) == 1:
        return f"{text} are its own passes"
    filled = sum(one.covered for rank in ranks for one in rank.consistent if one.claimed)
    fill = f", which fill {seconds(filled)} of it" if filled < FILL * sum(totals.values()) else ""
    names = sorted(totals, key=lambda name: -totals[name])
    if len(names) == 1:
        return f"{text} is consistent with passes of {names[0]}{fill}"
    parts = [f"{name} ({_percent(totals[name], asked)})" for name in names[:NAMED]]
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return f"{text} is consistent with passes of {', '.join(parts)}{more}{fill}"


def seconds(ns: float) -> str:
    """``3.2 s``, ``410 ms``."""
    return f"{ns / 1e9:,.1f} s" if ns >= 1e9 else f"{ns / 1e6:,.0f} ms"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / max(1, whole):.0f} %"
