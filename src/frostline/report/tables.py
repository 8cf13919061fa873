"""Tables for people (B7): runs, passes, freezes, steps and slow steps, in pieces, for any form of file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from frostline.analysis import Analysis, ProcessReport
from frostline.analysis.attributes import attributes_of
from frostline.analysis.passes import KINDS, kind_codes
from frostline.format.told import STAGES
from frostline.recording import Series
from frostline.recording.layout import Array, Int64
from frostline.report import schema as columns
from frostline.report.groups import group_rows
from frostline.report.hosttable import host_columns
from frostline.report.idle import bucket_rows, cause_rows, gap_rows, ranks_of
from frostline.report.requests import requests_rows
from frostline.report.safe import cell
from frostline.report.schema import Schema
from frostline.report.words import verdict_of

#: Rows of a piece: ten million steps never stand in memory as Python objects.
PIECE = 200_000
_SPAN_KINDS = ("", "sync", "async", "generator", "split")


@dataclass(frozen=True)
class Coded:
    """Texts of a column by number: ``texts[codes[i]]``; an empty text is unknown."""

    codes: Array
    texts: Sequence[str]


@dataclass(frozen=True)
class Known:
    """Numbers of a column, of which some are unknown."""

    values: Array
    known: Array


#: A column of a piece: an array, or a list in which None is unknown. Instants are ns since the
#: session's start, lengths ns.
Values = Array | Coded | Known | Sequence[object]
Piece = Mapping[str, Values]


@dataclass(frozen=True)
class Rows:
    """One table: the name of its file without ending, what its columns are, and its rows."""

    file: str
    schema: Schema
    pieces: Iterable[Piece]


def tables(analysis: Analysis) -> Iterator[Rows]:
    """Every table of an analysis. A piece is made when it is asked for."""
    runs = [f"{i + 1:03d}-{process.pid}" for i, process in enumerate(analysis.processes)]
    pairs = list(zip(runs, analysis.processes, strict=True))
    zero = analysis.start
    yield _of_rows(columns.RUNS, _runs(analysis, pairs))
    yield Rows("gc_events", columns.GC_EVENTS, _events(pairs, zero))
    yield _of_rows(columns.FREEZES, _freezes(pairs, zero))
    yield _of_rows(columns.LONG_CALLS, _long_calls(pairs, analysis))
    if analysis.ranks:
        ranks = ranks_of(analysis, runs)
        yield _of_rows(columns.GAPS, gap_rows(analysis, ranks))
        yield _of_rows(columns.GAP_BUCKETS, bucket_rows(ranks))
        yield _of_rows(columns.GAP_CAUSES, cause_rows(ranks))
    if analysis.host_logs:
        yield Rows("host", columns.HOST, _host(analysis, runs))
    if any(process.censuses for process in analysis.processes):
        yield _of_rows(columns.HEAP, _heap(pairs, zero))
    if analysis.grouping.tells:
        yield _of_rows(columns.GROUPS, group_rows(analysis))
    for run, process in pairs:
        if len(process.series.spans.get("start", ())):
            yield Rows(columns.STEPS.file.replace("<run>", run), columns.STEPS, _steps(process, zero))
    if analysis.requests:
        yield _of_rows(columns.REQUESTS, requests_rows(analysis, runs))


def _of_rows(schema: Schema, rows: Iterable[tuple[object, ...]]) -> Rows:
    """A table of few rows, each a tuple in the order of the columns; times in ns, None is unknown."""
    every = list(rows)
    names = [column.name for column in schema.columns]
    by_column = zip(*every, strict=True) if every else ((),) * len(names)
    return Rows(schema.file, schema, (dict(zip(names, by_column, strict=True)),))


def _runs(analysis: Analysis, pairs: list[tuple[str, ProcessReport]]) -> Iterator[tuple[object, ...]]:
    launches = analysis.grouping.run_of
    if len(launches) != len(pairs):  # of a cut analysis
        launches = (1,) * len(pairs)
    offsets = {one.run: one.ratio for one in analysis.grouping.offsets}
    for (run, process), launch in zip(pairs, launches, strict=True):
        doubts = dict.fromkeys(one.slug for one in analysis.doubts if process.name in one.about)
        yield (*_run(run, process, analysis.start), launch, offsets.get(launch), " ".join(doubts) or None)


def _run(run: str, p: ProcessReport, zero: int) -> tuple[object, ...]:
    attach, close = p.at_attach, p.at_close
    thresholds = attach.thresholds if attach else None
    return (
        run,
        p.pid,
        p.interpreter,
        cell(p.name),
        p.python,
        cell(p.policy),
        p.start - zero,
        p.stop - zero,
        p.closed,
        len(p.series.passes),
        len(p.series.spans.get("start", ())),
        p.lost_passes,
        p.lost_spans,
        p.longest,
        p.pause_total,
        attach.frozen if attach else None,
        close.frozen if close else None,
        " ".join(map(str, thresholds)) if thresholds else None,
        cell(" ".join(p.command)),
    )


def _host(analysis: Analysis, runs: list[str]) -> Iterator[Piece]:
    for run, named, states in host_columns(analysis, runs):
        yield {"run": Coded(np.zeros(len(states), np.int32), (run,)), "state": states, **named}


def _events(pairs: list[tuple[str, ProcessReport]], zero: int) -> Iterator[Piece]:
    for run, process in pairs:
        series, pauses = process.series, process.pauses
        kinds = kind_codes(series, pauses)
        for at in range(0, len(series.passes), PIECE):
            here = slice(at, at + PIECE)
            passes = series.passes[here]
            walked = pauses.heap.walked[here]
            known = walked >= 0
            yield {
                "run": Coded(np.zeros(len(passes), np.int32), (run,)),
                "start_s": pauses.start[here] - zero,
                "stop_s": pauses.stop[here] - zero,
                "pause_ms": pauses.length[here],
                "pass_ms": pauses.alone[here],
                "callbacks_ms": pauses.others[here],
                "kind": Coded(kinds[here], KINDS),
                "walked": Known(walked, known),
                "walked_exact": Known(pauses.heap.exact[here], known),
                "thread": passes["tid"],
                "trigger": _triggers(series, passes),
                **{name: passes[name] for name in _AS_RECORDED},
            }


#: Columns of a pass that the recording holds by the same name.
_AS_RECORDED = (
    "generation", "collected", "uncollectable", "count0", "count1", "count2",
    "threshold0", "threshold1", "threshold2",
)  # fmt: skip


def _triggers(series: Series, passes: Array) -> Coded:
    where: Int64 = passes["trigger_file"].astype(np.int64) << 32 | passes["trigger_line"]
    where[passes["trigger_file"] == 0] = 0
    places, codes = np.unique(where, return_inverse=True)
    texts = [cell(f"{series.name(p >> 32)}:{p & 0xFFFFFFFF}") if p else "" for p in places.tolist()]
    return Coded(codes, texts)


def _freezes(pairs: list[tuple[str, ProcessReport]], zero: int) -> Iterator[tuple[object, ...]]:
    for run, process in pairs:
        mine: list[tuple[int, tuple[object, ...]]] = []
        for f in process.frozen.freezes:
            row = ("freeze", f.why, cell(f.where), f.objects, f.garbage, f.in_flight, None, None)
            mine.append((f.time, row))
        mine += [(at, ("thaw", *[None] * 7)) for at in process.frozen.thaws]
        for walk in process.frozen.walks:
            why = "boundary" if walk.boundary else "planned"
            mine.append((walk.time, ("walk", why, None, walk.kept, None, None, walk.took, walk.reclaimed)))
        mine.sort(key=lambda one: one[0])
        yield from ((run, at - zero, *row) for at, row in mine)


def _heap(pairs: list[tuple[str, ProcessReport]], zero: int) -> Iterator[tuple[object, ...]]:
    for run, process in pairs:
        for census in process.censuses:
            at = (run, census.moment, census.time - zero)
            for t in census.types:
                yield (*at, cell(t.name), t.objects, census.every, t.slots, t.size, t.old)


def _steps(process: ProcessReport, zero: int) -> Iterator[Piece]:
    spans = process.series.spans
    union = process.pauses.union
    told = attributes_of(process.series)
    groups = [cell(name) for name in told.names]
    own = np.full(len(spans["start"]), -1, np.int64)
    own[told.tree.which] = told.tree.own
    for at in range(0, len(spans["start"]), PIECE):
        here = slice(at, at + PIECE)
        part = {name: column[at : at + PIECE] for name, column in spans.items()}
        labels, codes = np.unique(part["label"], return_inverse=True)
        start, stop = part["start"], part["stop"]
        yield {
            "label": Coded(codes, [cell(process.series.name(label)) for label in labels.tolist()]),
            "kind": Coded(part["kind"], _SPAN_KINDS),
            "start_s": start - zero,
            "stop_s": stop - zero,
            "duration_ms": stop - start,
            "error": part["flags"] & 1,
            "in_passes_ms": union.overlap(start, stop),
            "stage": Coded(told.stage[here], STAGES),
            "batch": Known(told.batch[here], told.batch[here] >= 0),
            "group": Coded(told.name[here], groups),
            "self_ms": Known(own[here], own[here] >= 0),
        }


def _long_calls(pairs: list[tuple[str, ProcessReport]], analysis: Analysis) -> Iterator[tuple[object, ...]]:
    for run, process in pairs:
        for step in sorted(process.long_steps, key=lambda step: step.start):
            yield (
                run,
                cell(step.process),
                cell(step.label),
                _SPAN_KINDS[step.kind],
                step.start - analysis.start,
                step.duration,
                step.baseline,
                step.overlap,
                step.passes,
                step.explained,
                step.nested,
                cell(verdict_of(step, analysis.options.long_floor)),
                cell(step.pass_text),
            )
