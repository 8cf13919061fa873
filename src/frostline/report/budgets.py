"""Sections of the report: pause budgets, by process and on the request's path."""

from __future__ import annotations

from collections.abc import Iterator

from frostline.analysis import Analysis
from frostline.analysis.budgets import LIMITS, WINDOWS, Budget
from frostline.report.blocks import Block, Line, Table
from frostline.report.words import seconds

#: Processes shown, those with most long pauses first; ``--json`` has them all.
SHOWN = 12
#: ns: an hour is not told from less than this.
LEAST = 1_000_000_000
#: ns: where no pause after start-up is longer there is no budget to speak of.
WORTH = LIMITS[0]


def budgets(analysis: Analysis) -> Iterator[Block]:
    """How many pauses an hour are over how long, and MMU; nothing where none is over 1 ms."""
    every = analysis.budgets
    if not any(one.over[0] for one in every):
        return
    long = [one for one in every if one.process and one.wall >= LEAST]
    alone = sorted(long, key=lambda one: one.over[::-1], reverse=True)
    shown = [one for one in alone[:SHOWN] if one.over[0]] + [one for one in every if not one.process]
    yield _counts(shown)
    yield Line(
        "after start-up; ~ from less than an hour, extrapolated. All of them: times at which any of the "
        "processes with recorded work, or that ranks wait for, stood still",
        "quiet",
        indent=2,
    )
    hidden = sum(1 for one in alone[SHOWN:] if one.over[0])
    if hidden:
        yield Line(f"and {hidden:,} more processes, see --json", "quiet", indent=2)
    yield _shares(shown)


def _name(one: Budget) -> str:
    return one.process or f"all of them ({len(one.of):,})"


def _counts(shown: list[Budget]) -> Table:
    rows = tuple(
        (
            _name(one),
            seconds(one.wall),
            *(_an_hour(count, rate, one) for count, rate in zip(one.over, one.per_hour, strict=True)),
        )
        for one in shown
    )
    columns = ("process", "in", *(f"{limit // 1_000_000} ms" for limit in LIMITS))
    spare = ("in", "5 ms", "200 ms", "50 ms", "1 ms", "20 ms")
    return Table("Pauses an hour over so long", columns, rows, frozenset(range(1, len(columns))), spare)


def _an_hour(count: int, rate: float, one: Budget) -> str:
    if not count:
        return "0"
    text = f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}"
    return f"~{text}" if one.extrapolated else text


def _shares(shown: list[Budget]) -> Table:
    rows = tuple(
        (_name(one), *("-" if share is None else f"{100 * share:.1f} %" for share in one.mmu))
        for one in shown
    )
    columns = ("process", *(_length(window) for window in WINDOWS))
    title = "MMU: the least that pauses leave of any time so long"
    return Table(title, columns, rows, frozenset(range(1, len(columns))))


def _length(ns: int) -> str:
    return f"{ns // 1_000_000} ms" if ns < 1_000_000_000 else f"{ns // 1_000_000_000} s"
