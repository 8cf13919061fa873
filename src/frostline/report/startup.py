"""The text of ``frostline startup``: each process's start-up by phase, package and module."""

from __future__ import annotations

from collections.abc import Iterator

from frostline.analysis import ProcessReport
from frostline.analysis.passes import kind_of
from frostline.analysis.startup import Import, Passes, StartUp
from frostline.analysis.startupadvice import advise
from frostline.analysis.verdict import milliseconds as ms
from frostline.report.blocks import Block, Line, Table
from frostline.report.words import number, seconds, sentence, short_paths
from frostline.report.words import walked as objects_walked

#: Rows of a table, and processes that get tables of their own.
ROWS, PROCESSES = 15, 8
HOW = (
    "Objects are net container allocations, from gc.get_count() at each import's beginning and end and at "
    "each pass, less what the passes reclaimed: at most, as CPython does not count all deaths. Below 0: more "
    "died there than came. An import's own are those of its children left out."
)


def startup(found: list[StartUp], rows: int = ROWS, came: str = "") -> Iterator[Block]:
    """The processes in one table, then each in its own. ``came``: the option by which READY was told."""
    if len(found) > 1:
        yield _overview(found)
    said: set[str] = set()
    for one in found[:PROCESSES]:
        yield from _process(one, rows, came, said)
    if len(found) > PROCESSES:
        yield Line(f"{len(found) - PROCESSES:,} more processes, with less growth, have no tables.", "quiet")
    yield Line("")
    yield Line(HOW, "quiet")


def headline(one: StartUp) -> str:
    """The start-up of one process in a sentence."""
    text = f"{one.process.name}: start-up took {seconds(one.stop - one.start)} (to {one.ended_by})"
    if one.counted:
        text += f" and added <={one.objects:,} tracked objects"
        if one.before is not None:
            text += f" to {one.before:,}"
    if one.tracked is not None:
        text += f"; counted at {(one.tracked[0] - one.start) / 1e9:,.2f} s, {one.tracked[1]:,} were tracked"
    return f"{text}; {pass_words(one.passes)}."


def pass_words(passes: Passes) -> str:
    """``14 passes (10, 3 and 1 of generations 0, 1 and 2) paused it for 40 ms, the longest 31 ms``."""
    count = sum(passes.counts)
    if not count:
        return "no pass ran"
    young, middle, full = passes.counts
    word = "pass" if count == 1 else "passes"
    return (
        f"{count:,} {word} ({young:,}, {middle:,} and {full:,} of generations 0, 1 and 2) "
        f"paused it for {ms(passes.pause)}, the longest {ms(passes.longest)}"
    )


def objects(one: StartUp, value: int) -> str:
    """Net objects; a dash where the interpreter's counts do not say them."""
    return f"{value:,}" if one.counted else "-"


def _overview(found: list[StartUp]) -> Table:
    return Table(
        "Start-up of each process",
        ("process", "pid", "took", "to", "objects <=", "imports", "full passes", "paused ms"),
        tuple(
            (
                one.process.name,
                str(one.process.pid),
                seconds(one.stop - one.start),
                one.ended_by,
                objects(one, one.objects),
                f"{sum(1 for _ in one.walk()):,}",
                f"{one.passes.counts[2]:,}",
                number(one.passes.pause),
            )
            for one in found
        ),
        frozenset((1, 2, 4, 5, 6, 7)),
        spare=("to", "pid"),
    )


_COUNTS = ("gen 0", "gen 1", "gen 2", "paused ms", "longest ms")


def _counts(passes: Passes) -> tuple[str, ...]:
    if not sum(passes.counts):
        return ("", "", "", "", "")
    return (
        *(f"{count:,}" if count else "" for count in passes.counts),
        number(passes.pause),
        number(passes.longest),
    )


def _process(one: StartUp, rows: int, came: str, said: set[str]) -> Iterator[Block]:
    yield Line("")
    yield Line(headline(one), "headline")
    yield from _notes(one)
    yield _phases(one)
    for advice in advise(one, came):
        yield Line(sentence(short_paths(advice.text)))
        if advice.command and advice.command not in said:  # one command reaches all that it starts
            said.add(advice.command)
            yield Line(advice.command, "command", indent=4)
    if one.full:
        yield _full(one, rows)
    every = list(one.walk())
    if every:
        yield _packages(one, every, rows)
        yield _modules(one, every, rows)


def _notes(one: StartUp) -> Iterator[Line]:
    if not one.counted:
        yield Line(
            "How many objects came, and from where, cannot be told: the counts of CPython "
            f"{one.process.python} do not say it. Times and passes are exact.",
            "bad",
        )
    if one.threads:
        yield Line(
            "Several threads were importing at a time: whose an object is, is then a guess (~).", "bad"
        )
    if one.truncated:
        yield Line("It imported more than is told of one process: the later imports are missing.", "bad")
    if one.damaged:
        yield Line(f"{one.damaged:,} lines of its file of imports are damaged and were left out.", "bad")


def _phases(one: StartUp) -> Table:
    time, grown, inside = one.importing()
    found = [("inside imports", time, grown, inside)] if one.imports else []
    found += [(phase.name, phase.time, phase.objects, phase.passes) for phase in one.phases]
    return Table(
        "By phase",
        ("phase", "ms", "objects <=", *_COUNTS),
        tuple((name, number(ns), objects(one, count), *_counts(passes)) for name, ns, count, passes in found),
        frozenset(range(1, 8)),
    )


def _full(one: StartUp, rows: int) -> Table:
    process: ProcessReport = one.process
    length = process.pauses.length
    by_start = {full.start: full for full in process.full_passes}
    longest = sorted(one.full, key=lambda entry: -int(length[entry[0]]))[:rows]
    cells = []
    for i, where in sorted(longest):
        row = process.series.passes[i]
        full = by_start.get(int(row["start"]))
        at = f"{(int(row['start']) - one.start) / 1e9:,.3f}"
        cells.append(
            (
                at,
                number(length[i]),
                objects_walked(full.walked) if full is not None else "-",
                f"{int(row['collected']):,}",
                kind_of(process.series, process.pauses, i),
                full.why if full is not None else "",
                where,
                _line(process, i),
            )
        )
    more = f", the longest {rows} of {len(one.full):,}" if len(one.full) > rows else ""
    return Table(
        f"Full passes{more}",
        ("at s", "ms", "walked", "reclaimed", "kind", "why", "during", "interrupted"),
        tuple(cells),
        frozenset((0, 1, 2, 3)),
        spare=("interrupted", "why"),
    )


def _line(process: ProcessReport, i: int) -> str:
    """Where the thread was, or the line that asked for the pass."""
    row = process.series.passes[i]
    file = process.series.name(int(row["trigger_file"]))
    return short_paths(f"{file}:{int(row['trigger_line'])}") if file else ""


def _packages(one: StartUp, every: list[Import], rows: int) -> Table:
    """What a package's own modules added themselves, whoever imported them."""
    sums: dict[str, tuple[int, int, int, Passes]] = {}
    for module in every:
        name = module.module.partition(".")[0]
        count, time, grown, passes = sums.get(name, (0, 0, 0, Passes()))
        passes.add(module.passes)
        sums[name] = (count + 1, time + module.own_time, grown + module.objects, passes)
    ordered = sorted(sums.items(), key=lambda item: (-item[1][2], -item[1][1]))
    return _ranked(
        "By package: what its modules added themselves",
        ("package", "modules", "own ms", "own objects <=", *_COUNTS),
        [
            (name, f"{count:,}", number(time), objects(one, grown), *_counts(passes))
            for name, (count, time, grown, passes) in ordered
        ],
        rows,
    )


def _modules(one: StartUp, every: list[Import], rows: int) -> Table:
    """Modules with what they caused to be imported."""
    ordered = sorted(every, key=lambda module: (-module.all_objects, -module.time))
    return _ranked(
        "By module: with all that its import caused",
        ("module", "ms", "own ms", "objects <=", "own objects", *_COUNTS),
        [
            (
                module.module + (" (unfinished)" if module.unfinished else ""),
                number(module.time),
                number(module.own_time),
                objects(one, module.all_objects),
                objects(one, module.objects),
                *_counts(module.all_passes),
            )
            for module in ordered
        ],
        rows,
    )


def _ranked(title: str, columns: tuple[str, ...], cells: list[tuple[str, ...]], rows: int) -> Table:
    more = f" (the first {rows} of {len(cells):,})" if len(cells) > rows else ""
    spare = ("gen 0", "gen 1", "longest ms", "own ms")
    return Table(title + more, columns, tuple(cells[:rows]), frozenset(range(1, len(columns))), spare)
