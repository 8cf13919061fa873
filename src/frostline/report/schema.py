"""What the tables for people hold (B7): every column, its kind and its meaning, for CSV and Parquet alike.

The README beside the tables is made of this, so a column without a meaning cannot be added.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from frostline.format.host import PROCESS_FIELDS

#: ``instant`` is ns since the session's first record, ``length`` ns: both are given in two units.
#: A ``share`` is a part of one; ``ints`` are several numbers in one cell.
Kind = Literal["text", "int", "ints", "flag", "share", "instant", "length"]


@dataclass(frozen=True)
class Column:
    """One column. An instant's name ends in ``_s``, a length's in ``_ms``: so they stand in CSV."""

    name: str
    kind: Kind
    about: str

    def __post_init__(self) -> None:
        ending = {"instant": "_s", "length": "_ms"}.get(self.kind)
        assert ending is None or self.name.endswith(ending), self.name

    @property
    def in_ns(self) -> str:
        """Its name where it is given in whole ns."""
        return f"{self.name.rpartition('_')[0]}_ns"


@dataclass(frozen=True)
class Schema:
    """One table. ``file`` is its name without ending, with ``<run>`` where each run has its own."""

    file: str
    about: str
    columns: tuple[Column, ...]


_RUN = Column("run", "text", "name of the run, the same in all tables")

RUNS = Schema(
    "runs",
    "one row a run",
    (
        _RUN,
        Column("pid", "int", "process id"),
        Column("interpreter", "int", "number of the interpreter in its process, 0 for the main one"),
        Column("process", "text", "name of the process"),
        Column("python", "text", "version"),
        Column("policy", "text", "the last one in force"),
        Column("start_s", "instant", "first record"),
        Column("stop_s", "instant", "end of the recording"),
        Column("closed", "flag", "1 after an orderly end"),
        Column("passes", "int", "passes of the collector recorded"),
        Column("spans", "int", "steps and requests recorded"),
        Column("lost_passes", "int", "known to be missing"),
        Column("lost_spans", "int", "known to be missing"),
        Column("longest_ms", "length", "longest pause"),
        Column("paused_ms", "length", "all pauses, their union"),
        Column(
            "freeze_count_attach", "int", "`gc.get_freeze_count()` at the start; 375 in a bare CPython 3.12"
        ),
        Column("freeze_count_close", "int", "the same at an orderly end"),
        Column("thresholds", "text", "`gc.get_threshold()` at the start"),
        Column("command", "text", "command line, secrets left out"),
        Column("launch", "int", "number of the start of the server that it belongs to, as the report has it"),
        Column(
            "launch_offset", "share", "that start's median step time over the others': 1.031 is 3.1 % slower"
        ),
        Column("doubts", "text", "names of the doubts about its numbers; those about all runs are not here"),
    ),
)

GC_EVENTS = Schema(
    "gc_events",
    "one row a pass of the collector",
    (
        _RUN,
        Column("start_s", "instant", "where the pause began, as the process felt it"),
        Column("stop_s", "instant", "where it ended"),
        Column("pause_ms", "length", "from one to the other"),
        Column("pass_ms", "length", "the pass alone, without other tools' callbacks"),
        Column("callbacks_ms", "length", "those callbacks"),
        Column("generation", "int", "0, 1 or 2"),
        Column("kind", "text", "automatic, explicit, Frostline, or explicit with an unseen caller"),
        Column("collected", "int", "objects reclaimed"),
        Column("uncollectable", "int", "objects that it could not reclaim"),
        Column("walked", "int", "objects walked"),
        Column("walked_exact", "flag", "1 if the interpreter said so (3.15), 0 if it is an estimate"),
        Column("thread", "int", "native id of the thread that it ran in"),
        Column("count0", "int", "`gc.get_count()[0]` at its start"),
        Column("count1", "int", "`gc.get_count()[1]` at its start"),
        Column("count2", "int", "`gc.get_count()[2]` at its start"),
        Column("threshold0", "int", "`gc.get_threshold()[0]` at its start; -1 where nothing says it"),
        Column("threshold1", "int", "`gc.get_threshold()[1]` at its start"),
        Column("threshold2", "int", "`gc.get_threshold()[2]` at its start"),
        Column("trigger", "text", "file and line that a full pass interrupted: the trigger, not the cause"),
    ),
)

FREEZES = Schema(
    "freezes",
    "one row each time that a heap was frozen, thawed, or walked whole by Frostline",
    (
        _RUN,
        Column("at_s", "instant", "when"),
        Column("what", "text", "freeze, thaw or walk"),
        Column(
            "why",
            "text",
            "of a freeze: boundary, boundary again, moved (the line of `follow`), whole heap, periodic, "
            "asked (on the live process) or program; of a walk: boundary or planned",
        ),
        Column("where", "text", "the program's line"),
        Column("objects", "int", "frozen since the start, where they were counted; of a walk, those it kept"),
        Column("garbage", "text", "why garbage may be among them"),
        Column("in_flight", "int", "requests open then, where that was told"),
        Column("took_ms", "length", "of a walk"),
        Column("reclaimed", "int", "of a walk: objects"),
    ),
)

STEPS = Schema(
    "steps_<run>",
    "one row a span of that run: a step, a request, a call that was named",
    (
        Column("label", "text", "its name"),
        Column("kind", "text", "sync, async, generator, or split (begin and end were two calls)"),
        Column("start_s", "instant", "when it began"),
        Column("stop_s", "instant", "when it ended"),
        Column("duration_ms", "length", "from one to the other"),
        Column("error", "flag", "1 if it ended by an exception"),
        Column("in_passes_ms", "length", "how much of it the process's own pauses cover"),
        Column("stage", "text", "prefill, decode, mixed or empty: its own, or of the spans with it"),
        Column("batch", "int", "batch size, its own or of the spans with it"),
        Column("group", "text", "name of a task, template of a route: its own, or of the spans with it"),
        Column("self_ms", "length", "without the spans directly in it; unknown where others ran between"),
    ),
)

GROUPS = Schema(
    "groups",
    "one row a group: spans of one label, stage, batch size and name, in one process of one launch",
    (
        Column("launch", "int", "as in runs"),
        Column("process", "text", "name of the process"),
        Column("label", "text", "of the spans"),
        Column("stage", "text", "of the spans"),
        Column("batch_low", "int", "batch sizes from"),
        Column("batch_high", "int", "up to these"),
        Column("group", "text", "name of a task, template of a route"),
        Column("count", "int", "spans"),
        Column("p50_ms", "length", "median"),
        Column("p99_ms", "length", "99th percentile, nearest-rank"),
        Column("longest_ms", "length", "the longest"),
        Column("total_ms", "length", "all of them"),
        Column(
            "compared", "int", "outermost steps compared with their like, in finer steps of the batch size"
        ),
        Column("over", "int", "of these, over 1.2 times the median of their like"),
        Column("explained", "int", "of these, those whose excess passes of the process cover by half"),
        Column(
            "excess_ms",
            "length",
            "of the rest over the mean of the steps that are not over; not the collector",
        ),
    ),
)

LONG_CALLS = Schema(
    "long_calls",
    "the slow steps, with and without an overlap",
    (
        _RUN,
        Column("process", "text", "name of the process"),
        Column("label", "text", "its name"),
        Column("kind", "text", "sync, async, generator or split"),
        Column("start_s", "instant", "when it began"),
        Column("duration_ms", "length", "how long it took"),
        Column("compared_with_ms", "length", "its label's median"),
        Column("in_passes_ms", "length", "how much of it the process's own pauses cover"),
        Column("passes", "int", "how many of them overlap it"),
        Column("explained", "flag", "1 if they cover half of what it took over the median"),
        Column("nested", "flag", "1 inside another slow step of its thread"),
        Column("verdict", "text", "in words"),
        Column("longest_pass", "text", "in words: the longest pass that overlaps it"),
    ),
)

REQUESTS = Schema(
    "requests",
    "where `--requests` gave files: one row a request of a load client in the recorded time. That passes "
    "lie in it is no proof that they made it longer",
    (
        Column("file", "text", "the client's file, and which run of it"),
        Column("intended_s", "instant", "when it was meant to be sent"),
        Column("sent_s", "instant", "when it was sent"),
        Column("first_s", "instant", "first chunk of text"),
        Column("last_s", "instant", "its end"),
        Column("status", "text", "ok, timeout, cut (the client ended before the answer), or the error"),
        Column("response_ms", "length", "from intended; of a failure at its deadline, if the file says one"),
        Column("service_ms", "length", "from sent"),
        Column("ttft_ms", "length", "from intended to the first chunk"),
        Column("tpot_ms", "length", "from chunk to chunk: the rest by the tokens after the first"),
        Column("tokens", "int", "of the answer"),
        Column("in_passes_ms", "length", "how much of it the passes of all processes cover"),
        Column("touched", "flag", "1 if a full pass, or a pause over 5 ms, of any process meets it"),
        Column("run", "text", "the process whose passes take most of it"),
        Column("in_its_passes_ms", "length", "how much those take"),
    ),
)

_RANK = Column("process", "text", "name of the rank, a process that runs steps")

GAPS = Schema(
    "gaps",
    "one row a gap between two steps of a rank",
    (
        _RUN,
        _RANK,
        Column("start_s", "instant", "where one step ended"),
        Column("stop_s", "instant", "where the next began"),
        Column("length_ms", "length", "from one to the other"),
        Column("kind", "text", "supply (no request in flight), consistent with a pass, or unexplained"),
        Column("with", "text", "whose passes it is consistent with, the rank itself included"),
        Column("generations", "text", "of those passes, in the same order"),
    ),
)

GAP_BUCKETS = Schema(
    "gap_buckets",
    "the gaps by length",
    (
        _RUN,
        _RANK,
        Column("low_ms", "length", "the bucket: from here on"),
        Column("high_ms", "length", "and under this; unknown in the last"),
        Column("count", "int", "gaps"),
        Column("total_ms", "length", "their length"),
        Column("explained", "int", "those that are consistent with a pass"),
        Column("explained_ms", "length", "their length"),
        Column("supply", "int", "those in which no request was in flight, where requests were recorded"),
        Column("supply_ms", "length", "their length"),
    ),
)

GAP_CAUSES = Schema(
    "gap_causes",
    "what a rank's gaps are consistent with",
    (
        _RUN,
        _RANK,
        Column("passes_of", "text", "the process whose passes they are"),
        Column("its_own", "flag", "1 if it is the rank itself"),
        Column("gaps", "int", "how many of them"),
        Column("total_ms", "length", "their length"),
        Column("in_passes_ms", "length", "what of it its passes cover"),
        Column("share", "share", "of the rank's gap time without supply gaps"),
        Column("by_chance", "share", "circular shifts that cover as much"),
        Column("claimed", "flag", "0 where that is too many: then those gaps are unexplained"),
        Column("passes", "int", "that lie in them"),
        Column("gen0", "int", "of these, of generation 0"),
        Column("gen1", "int", "of generation 1"),
        Column("gen2", "int", "of generation 2"),
        Column("longest_ms", "length", "the longest of them"),
        Column("objects_walked", "int", "estimated unless the interpreter said so (3.15)"),
        Column("objects_reclaimed", "int", "by those passes"),
        Column("through", "text", "the ranks whose gaps lie between"),
        Column("clock_error_ms", "length", "of the two clocks, where they are of two hosts"),
    ),
)

HOST = Schema(
    "host",
    "one row a sample of a process, taken from outside, where something has changed since the one before; "
    "what is counted is counted since the process began",
    (
        _RUN,
        Column("pid", "int", "process id; `run` is empty for a process that is not recorded"),
        Column("at_s", "instant", "when it was looked at"),
        *(Column(name, "text" if name == "state" else "int", about) for name, about in PROCESS_FIELDS),
    ),
)

HEAP = Schema(
    "heap",
    "where `run --census` was given: one row a type of tracked objects in a census, the most frequent",
    (
        _RUN,
        Column("moment", "text", "attach, boundary or close"),
        Column("at_s", "instant", "when it began"),
        Column("type", "text", "module and qualified name"),
        Column("objects", "int", "of that type, tracked and not frozen"),
        Column("every", "int", "one object in so many was looked at: over 1 the counts are estimates"),
        Column("slots", "int", "references in its containers"),
        Column("bytes", "int", "of them alone"),
        Column("in_gen2", "int", "of `objects`, those in generation 2"),
    ),
)

TABLES = (
    RUNS, GC_EVENTS, FREEZES, STEPS, GROUPS, LONG_CALLS, GAPS, GAP_BUCKETS, GAP_CAUSES, REQUESTS, HOST, HEAP,
)  # fmt: skip

_UNITS = {
    "csv": "Times ending in `_s` are seconds since the first record of the session, those in `_ms` are\n"
    "milliseconds. An empty cell is unknown, or does not apply. Text that a spreadsheet would take for a\n"
    "formula has a `'` in front.",
    "parquet": "Instants end in `_s`, seconds since the first record of the session, and stand beside it as\n"
    "whole nanoseconds, in a column ending in `_ns`; lengths end in `_ms`, milliseconds, and stand in ns\n"
    "likewise. null is unknown, or does not apply. The files' metadata say when the session's first record\n"
    "was, on CLOCK_MONOTONIC of its host (`frostline.start_monotonic_ns`).",
}


def readme(form: Literal["csv", "parquet"]) -> str:
    """What stands beside the tables, as Markdown."""
    parts = [
        "# Tables of a Frostline session\n",
        "One *run* is one recorded process (more precisely one interpreter of it, or one program after\n"
        f"another in one process). {_UNITS[form]}\n",
    ]
    for schema in TABLES:
        parts.append(f"## {schema.file}.{form}\n\n{schema.about[:1].upper()}{schema.about[1:]}.\n")
        rows = [f"| {_named(column, form)} | {column.about} |" for column in schema.columns]
        parts.append("\n".join(("| column | meaning |", "|---|---|", *rows, "")))
    return "\n".join(parts)


def _named(column: Column, form: str) -> str:
    if form == "parquet" and column.kind in ("instant", "length"):
        return f"`{column.name}`, `{column.in_ns}`"
    return f"`{column.name}`"
