"""Sections of the report: steps by stage and batch size, where their time goes, and runs compared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from frostline.analysis import Analysis
from frostline.analysis.attributes import FEW
from frostline.analysis.grouping import OVER, Group, Over, Part
from frostline.analysis.offsets import percent
from frostline.analysis.verdict import plural
from frostline.report.blocks import Block, Line, Table
from frostline.report.safe import cell
from frostline.report.words import number, seconds, sentence

#: Rows of one process; ``--csv`` and ``--json`` have them all.
SHOWN_GROUPS = 16
SHOWN_PARTS = 8
SHOWN_RUNS = 40
SHOWN_OVER = 8
#: The share of a group's steps over the bound from which it is a wide distribution, and no outliers.
WIDE = 0.1


def groups(analysis: Analysis) -> Iterator[Block]:
    """Nothing where no span tells more than its label, lies in another, or has a like in another run."""
    yield from _groups(analysis)
    yield from _parts(analysis)
    yield from _runs(analysis)


def sizes(group: Group) -> str:
    if group.batch_low < 0:
        return ""
    if group.batch_low == group.batch_high:
        return str(group.batch_low)
    return f"{group.batch_low}-{group.batch_high}"


def _groups(analysis: Analysis) -> Iterator[Block]:
    grouping = analysis.grouping
    if not grouping.tells:
        return
    several = len(grouping.runs) > 1
    rows: list[tuple[str, ...]] = []
    left = small = 0
    for (process, _, run), every in _by_process(grouping.groups).items():
        all_telling = [g for g in every if g.stage or g.name or g.batch_low >= 0]
        telling = [g for g in all_telling if g.count >= FEW] or all_telling
        small += len(all_telling) - len(telling)
        left += max(0, len(telling) - SHOWN_GROUPS)
        for i, g in enumerate(telling[:SHOWN_GROUPS]):
            rows.append(
                (
                    process if i == 0 else "",
                    str(run) if several and i == 0 else "",
                    g.label,
                    g.stage,
                    sizes(g),
                    g.name,
                    f"{g.count:,}",
                    number(g.p50),
                    number(g.p99),
                    number(g.longest),
                    number(g.total),
                    f"{g.over - g.explained:,}" if g.compared else "",
                    f"{g.explained:,}" if g.explained else "",
                )
            )
    over = f"over {OVER:g}x"
    columns = (
        "process", "run", "span", "stage", "batch", "of", "count", "p50 ms", "p99", "max", "total", over,
        "by passes",
    )  # fmt: skip
    if not rows:
        return
    spare = ("run", "of", "stage", "by passes", over, "total", "max", "p99", "batch")
    right = frozenset((1, 4, *range(6, 13)))
    yield Table("Groups: spans of the same stage, batch size and name", columns, tuple(rows), right, spare)
    more = [f"{left:,} more groups"] if left else []
    more += [f"{small:,} of fewer than {FEW} spans"] if small else []
    if more:
        yield Line(f"and {' and '.join(more)}, see --csv", "quiet", indent=2)


def _parts(analysis: Analysis) -> Iterator[Block]:
    grouping = analysis.grouping
    rows: list[tuple[str, ...]] = []
    for (process, _, step), every in _by_step(grouping.parts).items():
        if len(every) < 2:
            continue  # nothing lies in it
        for i, part in enumerate(every[:SHOWN_PARTS]):
            rows.append(
                (
                    process if i == 0 else "",
                    step if i == 0 else "",
                    part.part or "(by itself)",
                    f"{part.count:,}",
                    number(part.total),
                    f"{part.share:.1%}",
                    number(part.excess) if part.excess_share is not None else "",
                    f"{part.excess_share:.0%}" if part.excess_share is not None else "",
                )
            )
    if rows:
        columns = ("process", "step", "in it", "count", "ms", "of the step", "excess ms", "of the excess")
        spare = ("count", "excess ms", "ms")
        yield Table("Time in a step", columns, tuple(rows), frozenset(range(3, 8)), spare)
    told = [one for one in grouping.over if one.rest]
    told.sort(key=lambda one: -one.excess)
    if told and not rows:
        yield Line("")
    for one in told[:SHOWN_OVER]:
        yield Line(f"{over_words(one)}.", indent=2 if rows else 0)
    if len(told) > SHOWN_OVER:
        yield Line(f"and {len(told) - SHOWN_OVER:,} more labels, see --json", "quiet", indent=2)
    for name in grouping.crossing:
        yield Line(
            f"{name}: spans of one thread overlap without lying in each other, as those of greenlets do: "
            "the time of its steps is not taken apart.",
            "quiet",
            indent=2,
        )


def over_words(one: Over) -> str:
    """``NAME: 425 of 25,000 engine steps (1.7 %) took over 1.2 x ...``"""
    share = one.rest / one.compared
    said = (
        f"{one.process}: {one.rest:,} of {one.compared:,} {plural(one.step)} ({share:.1%}) took over "
        f"{OVER:g} x their group's median, and passes of its own do not explain them"
    )
    if one.overlapped:
        said += f" ({one.overlapped:,} overlap one, which is less than half of their excess)"
    if one.explained:
        said += f"; {one.explained:,} more are explained by passes"
    if one.part_share is not None:
        where = f"inside {one.part}" if one.part else "in the step itself"
        said += f". {min(one.part_share, 1.0):.0%} of their excess of {_length(one.excess)} is {where}"
    if share > WIDE:
        said += "; so many are no outliers: steps of one group differ as much here"
    return said


def _length(ns: int) -> str:
    return seconds(ns) if ns >= 10**9 else f"{number(ns)} ms"


def _runs(analysis: Analysis) -> Iterator[Block]:
    grouping = analysis.grouping
    if len(grouping.runs) < 2:
        return
    offsets = {one.run: one for one in grouping.offsets}
    if all(one.ratio is None for one in grouping.offsets):
        # Two parts of one server in one session are no runs to compare; two sessions were named to be.
        if grouping.runs[-1].session:
            yield Line("")
            yield from (Line(sentence(text), "quiet") for text in grouping.sentences)
        return
    zero = min(run.started for run in grouping.runs)
    # What is the same for all is no column.
    sessions = len({run.path for run in grouping.runs}) > 1
    commands = len({run.command for run in grouping.runs}) > 1
    rows = []
    for run in grouping.runs[:SHOWN_RUNS]:
        one = offsets.get(run.number)
        known = one is not None and one.ratio is not None
        rows.append(
            (
                str(run.number),
                run.path if sessions else "",
                " ".join(run.command) if commands else "",
                seconds(run.started - zero),
                str(run.processes),
                percent(one.ratio or 1.0) if one and known else "-",
                f"{percent(one.low)} to {percent(one.high)}" if one and one.low and one.high else "",
                f"{one.slower} of {one.count} {one.basis}" if one and known else "",
            )
        )
    columns = ("run", "session", "command", "at", "processes", "offset", "95%", "slower in")
    spare = ("at", "command", "processes", "session")
    yield Table(
        "Runs: steps against those of the other runs", columns, tuple(rows), frozenset((0, 3, 4, 5)), spare
    )
    if len(grouping.runs) > SHOWN_RUNS:
        yield Line(f"and {len(grouping.runs) - SHOWN_RUNS:,} more runs, see --json", "quiet", indent=2)
    for text in grouping.sentences:
        yield Line(sentence(text), indent=2)


def _by_process(every: Iterable[Group]) -> dict[tuple[str, int, int], list[Group]]:
    found: dict[tuple[str, int, int], list[Group]] = defaultdict(list)
    for group in every:
        found[(group.process, group.pid, group.run)].append(group)
    return found


def _by_step(every: Iterable[Part]) -> dict[tuple[str, int, str], list[Part]]:
    found: dict[tuple[str, int, str], list[Part]] = defaultdict(list)
    for part in every:
        found[(part.process, part.pid, part.step)].append(part)
    return found


# --- groups.csv -----------------------------------------------------------------------
def group_rows(analysis: Analysis) -> Iterator[tuple[object, ...]]:
    """Rows of the table of groups, lengths in ns; none where no span tells more than its label."""
    for g in analysis.grouping.groups if analysis.grouping.tells else ():
        yield (
            g.run,
            cell(g.process),
            cell(g.label),
            g.stage,
            g.batch_low if g.batch_low >= 0 else None,
            g.batch_high if g.batch_high >= 0 else None,
            cell(g.name),
            g.count,
            g.p50,
            g.p99,
            g.longest,
            g.total,
            g.compared,
            g.over,
            g.explained,
            g.excess,
        )
