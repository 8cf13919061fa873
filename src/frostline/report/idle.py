"""Sections of the report: gaps between the steps of each rank, and what they are consistent with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any

from frostline.analysis import Analysis
from frostline.analysis.gaps import BUCKETS, COVERS, SHIFTS
from frostline.analysis.ranks import CONSISTENT, SUPPLY, Consistent, LongGap, Rank
from frostline.analysis.verdict import milliseconds as ms
from frostline.analysis.waits import BY_REQUESTS
from frostline.report.blocks import Block, Line, Table
from frostline.report.marks import CAUSES, GAPS, LONGEST_GAPS
from frostline.report.safe import cell
from frostline.report.words import number, short_paths, walked

#: Rows shown of what can be long; ``--csv`` and ``--json`` have more.
SHOWN_RANKS = 16
SHOWN_PROCESSES = 6
SHOWN_GAPS = 10
#: Of one rank: a stall of the engine is a gap in every one of them.
SHOWN_ALIKE = 4
_KINDS = {CONSISTENT: "consistent with a pass", SUPPLY: "supply"}
_SUPPLY = {BY_REQUESTS: "for half of it or more no request was in flight, and one that came ended it"}
#: Arrays with one entry a gap, which JSON leaves out.
_ARRAYS = {"start", "stop", "kind", "by"}


def gaps(analysis: Analysis) -> Iterator[Block]:
    """Buckets by rank (A10's form), whose passes they are consistent with, and the longest gaps."""
    if not analysis.ranks:
        return
    yield from _buckets(analysis.ranks)
    yield from _notes(analysis.ranks)
    yield from _processes(analysis.ranks)
    yield from _longest(analysis)


def _buckets(ranks: tuple[Rank, ...]) -> Iterator[Block]:
    rows: list[tuple[str, ...]] = []
    for rank in ranks[:SHOWN_RANKS]:
        known = rank.supply is not None
        for i, one in enumerate(rank.buckets):
            rows.append(
                (
                    rank.process if i == 0 else "",
                    _range(rank, one.low, one.high),
                    f"{one.count:,}",
                    number(one.total),
                    f"{one.explained:,}",
                    number(one.explained_total) if one.explained else "",
                    f"{one.supply:,}" if known else "-",
                    number(one.supply_total) if one.supply else "",
                )
            )
        if len(rank.buckets) > 1:
            rows.append(
                (
                    "",
                    "all",
                    f"{rank.count:,}",
                    number(rank.total),
                    f"{rank.explained:,}",
                    number(rank.explained_total) if rank.explained else "",
                    f"{rank.supply:,}" if known else "-",
                    number(rank.supply_total) if rank.supply else "",
                )
            )
    columns = ("rank", "length ms", "gaps", "total ms", "consistent", "their ms", "supply", "ms of these")
    spare = ("ms of these", "supply")
    title = "Gaps between the steps of each rank"
    yield Table(title, columns, tuple(rows), frozenset(range(2, 8)), spare, section=GAPS)


def _range(rank: Rank, low: int, high: int) -> str:
    """``100-400``; the first one begins at the floor."""
    low = max(low, rank.floor)
    return f"{low / 1e6:,.0f}-{high / 1e6:,.0f}" if high else f"over {max(low, BUCKETS[-1]) / 1e6:,.0f}"


def _notes(ranks: tuple[Rank, ...]) -> Iterator[Block]:
    floors = sorted({rank.floor for rank in ranks})
    least = ms(floors[0]) if len(floors) == 1 else f"{ms(floors[0])} to {ms(floors[-1])}"
    yield Line(
        f"a gap: no step for over {least} (the floor of slow steps, and 3 x the rank's median gap); "
        f"consistent with a pass that covers {100 * COVERS:.0f} % of it, begins and ends with it",
        "quiet",
        indent=2,
    )
    for how in dict.fromkeys(rank.supply_how for rank in ranks if rank.supply_how):
        yield Line(f"supply: {_SUPPLY.get(how, how)}", "quiet", indent=2)
    for text in dict.fromkeys(rank.supply_unknown for rank in ranks if rank.supply_unknown):
        yield Line(f"whether gaps are for want of requests is not known: {text}", "quiet", indent=2)
    for rank in ranks:
        if rank.doubt:
            yield Line(f"{rank.process}: {rank.doubt}", "bad", indent=2)
    if len(ranks) > SHOWN_RANKS:
        yield Line(f"and {len(ranks) - SHOWN_RANKS:,} more ranks, see --json", "quiet", indent=2)
    without = dict.fromkeys(one for rank in ranks for one in rank.no_recorder)
    if without:
        pids = ", ".join(str(pid) for _, pid in without)
        yield Line(
            f"unexplained gaps may be those of a process without a recorder: pid {pids}", "bad", indent=2
        )


def _processes(ranks: tuple[Rank, ...]) -> Iterator[Block]:
    rows: list[tuple[str, ...]] = []
    for rank in ranks[:SHOWN_RANKS]:
        for i, one in enumerate(rank.consistent[:SHOWN_PROCESSES]):
            rows.append(
                (
                    rank.process if i == 0 else "",
                    _whose(one),
                    f"{one.gaps:,}",
                    number(one.total),
                    number(one.covered),
                    f"{one.share:.0%}",
                    f"{one.by_chance:.1%}",
                    _said(one),
                    _generations(one),
                    number(one.longest),
                    walked(one.walked),
                    f"{one.reclaimed:,}",
                )
            )
    columns = (
        "rank", "passes of", "gaps", "ms", "in passes", "share", "chance", "so", "gen: passes", "longest ms",
        "walked", "reclaimed",
    )  # fmt: skip
    if rows:
        spare = ("longest ms", "reclaimed", "gen: passes", "walked", "in passes", "ms", "gaps")
        right = frozenset((2, 3, 4, 5, 6, 9, 10, 11))
        title = "Whose passes the gaps are consistent with"
        yield Table(title, columns, tuple(rows), right, spare, section=CAUSES)
        yield Line(
            f"share: of the rank's gap time without supply gaps. chance: share of {SHIFTS:,} circular shifts "
            "of its passes that cover as much of the gaps; claimed up to 5 % over all processes tried. That "
            "passes lie there is no proof of a cause",
            "quiet",
            indent=2,
        )


def _whose(one: Consistent) -> str:
    text = "itself" if one.own else one.process
    if one.via:
        text += f", some through gaps of {', '.join(one.via)}"
    if one.clock_error:
        text += f" (clocks to {ms(one.clock_error)})"
    return text


def _said(one: Consistent) -> str:
    if not one.claimed:
        return "not claimed"
    return "its own" if one.own else "consistent"


def _generations(one: Consistent) -> str:
    return ", ".join(f"{i}: {count:,}" for i, count in enumerate(one.generations) if count)


def _longest(analysis: Analysis) -> Iterator[Block]:
    every = [(rank, gap) for rank in analysis.ranks for gap in rank.longest]
    every.sort(key=lambda pair: -pair[1].length)
    shown: list[tuple[Rank, LongGap]] = []
    alike: dict[str, int] = {}
    for rank, gap in every:
        alike[rank.process] = alike.get(rank.process, 0) + 1
        if alike[rank.process] <= SHOWN_ALIKE and len(shown) < SHOWN_GAPS:
            shown.append((rank, gap))
    rows = tuple(
        (
            rank.process,
            f"{(gap.start - analysis.start) / 1e9:.3f}",
            number(gap.length),
            gap.verdict,
            short_paths(gap.pass_text),
        )
        for rank, gap in shown
    )
    total = sum(rank.count for rank in analysis.ranks)
    title = f"Longest gaps: {len(shown)} of {total:,}, at most {SHOWN_ALIKE} of a rank"
    columns = ("rank", "at s", "ms", "verdict", "the longest pass in it")
    spare = ("at s", "the longest pass in it")
    yield Table(title, columns, rows, frozenset((1, 2)), spare, section=LONGEST_GAPS)


# --- for machines -----------------------------------------------------------------------
def ranks_json(ranks: tuple[Rank, ...]) -> list[dict[str, Any]]:
    """The ranks as plain dicts and lists, without the arrays of every gap."""
    return [_plain(rank) for rank in ranks]


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if hasattr(value, "__dataclass_fields__"):
        return {
            f.name: _plain(getattr(value, f.name)) for f in fields(value) if f.name not in _left_out(value)
        }
    return value


def _left_out(value: object) -> set[str]:
    return _ARRAYS if isinstance(value, Rank | Consistent) else set()


Rows = Iterable[tuple[object, ...]]


def ranks_of(analysis: Analysis, runs: list[str]) -> list[tuple[str, Rank]]:
    """(name of the run in the tables, rank) of each rank."""
    by_process = {(p.session, p.pid, p.name): i for i, p in enumerate(analysis.processes)}
    return [(runs[by_process[rank.session, rank.pid, rank.process]], rank) for rank in analysis.ranks]


def gap_rows(analysis: Analysis, ranks: list[tuple[str, Rank]]) -> Rows:
    named = {(p.session, p.name): p for p in analysis.processes}
    for run, rank in ranks:
        claimed = [one for one in rank.consistent if one.claimed]
        generations = [named[one.session, one.process].series.passes["generation"] for one in claimed]
        columns = (rank.start.tolist(), rank.stop.tolist(), rank.kind.tolist())
        for i, (start, stop, kind) in enumerate(zip(*columns, strict=True)):
            held = [(one, of) for one, of in zip(claimed, generations, strict=True) if one.by[i] >= 0]
            yield (
                run,
                cell(rank.process),
                start - analysis.start,
                stop - analysis.start,
                stop - start,
                _KINDS.get(kind, "unexplained"),
                cell("; ".join(one.process for one, _ in held)),
                "; ".join(str(int(of[one.by[i]])) for one, of in held),
            )


def bucket_rows(ranks: list[tuple[str, Rank]]) -> Rows:
    for run, rank in ranks:
        known = rank.supply is not None
        for one in rank.buckets:
            yield (
                run,
                cell(rank.process),
                max(one.low, rank.floor),
                one.high or None,
                one.count,
                one.total,
                one.explained,
                one.explained_total,
                one.supply if known else None,
                one.supply_total if known else None,
            )


def cause_rows(ranks: list[tuple[str, Rank]]) -> Rows:
    for run, rank in ranks:
        for one in rank.consistent:
            yield (
                run,
                cell(rank.process),
                cell(one.process),
                one.own,
                one.gaps,
                one.total,
                one.covered,
                one.share,
                one.by_chance,
                one.claimed,
                one.passes,
                *one.generations,
                one.longest,
                one.walked.value,
                one.reclaimed,
                cell("; ".join(one.via)),
                one.clock_error,
            )
