"""Tables for people (B7): runs, passes, freezes, steps and slow steps, with a README of the columns."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from frostline.analysis import Analysis, ProcessReport
from frostline.analysis.attributes import attributes_of
from frostline.analysis.passes import kind_of
from frostline.errors import FrostlineError
from frostline.format.told import STAGES
from frostline.report.groups import HEADER as GROUPS_HEADER
from frostline.report.groups import README as GROUPS_README
from frostline.report.groups import group_rows
from frostline.report.idle import README as GAPS_README
from frostline.report.idle import tables as gap_tables
from frostline.report.requests import requests_table
from frostline.report.safe import cell
from frostline.report.words import verdict_of

_CHUNK = 100_000
_KINDS = {1: "sync", 2: "async", 3: "generator", 4: "split"}

README = (
    """# Tables of a Frostline session

One *run* is one recorded process (more precisely one interpreter of it). Times ending in `_s` are
seconds since the first record of the session, `_ms` are milliseconds. An empty cell is unknown.

**runs.csv**: one row a run. `run` its name in the other files; `pid`, `interpreter`; `process`
name; `python`; `policy`; `start_s`, `stop_s`; `closed` 1 after an orderly end; `passes`, `spans`,
`lost_passes`, `lost_spans`; `longest_ms` longest pause; `paused_ms` all pauses;
`freeze_count_attach`, `freeze_count_close` as the interpreter counts (375 at attach is CPython
3.12's own); `thresholds`; `command`; `launch` the number of the start of the server that it belongs to,
as the report numbers its runs; `launch_offset` that start's median step time over the others' (1.031 is
3.1 % slower), empty where they share no steps.

**gc_events.csv**: one row a pass of the collector. `run`; `start_s`, `stop_s` the pause as the
process felt it; `pause_ms`; `pass_ms` the pass without other tools' callbacks; `callbacks_ms`
those; `generation`; `kind` automatic, explicit, Frostline, or explicit with an unseen caller;
`collected`, `uncollectable`; `walked` objects and `walked_exact` 1 if the interpreter said so, 0 if
estimated; `thread` native id; `count0`, `count1`, `count2` and `threshold0` to `threshold2` at the
start; `trigger` file and line that were interrupted (full passes): the trigger, not the cause.

**freezes.csv**: one row each time that a heap was frozen, thawed, or walked whole by Frostline. `run`;
`at_s`; `what` freeze, thaw or walk; `why` of a freeze: boundary, boundary again, moved (the line of
`follow`), whole heap, periodic, asked (on the live process), program; `where` the program's line;
`objects` frozen since the start where they were counted, of a walk those that it kept; `garbage` why
garbage may be among them; `in_flight` requests open then, where that was told; `took_ms` and
`reclaimed` of a walk.

**steps_<run>.csv**: one row a span. `label`; `kind` sync, async, generator, split (begin and end
were two calls); `start_s`, `stop_s`, `duration_ms`; `error` 1 if it ended by an exception;
`in_passes_ms` how much of it the process's own pauses cover; `stage`, `batch` size and `group`, its
own or of the spans with it; `self_ms` without the spans directly in it, empty where others ran between.
"""
    + GROUPS_README
    + """
**long_calls.csv**: the slow steps, with and without an overlap. `run`, `process`, `label`, `kind`,
`start_s`, `duration_ms`, `compared_with_ms` the label's median; `in_passes_ms`; `passes` how many
overlap it; `explained` 1 if they cover half of the excess; `nested` 1 inside another slow step of
its thread; `verdict`; `longest_pass`.

**requests.csv**, where `--requests` gave files: one row a request of a load client in the recorded
time. `file` and which run of it; `intended_s` when it was meant to be sent, `sent_s`, `first_s` first
chunk of text, `last_s`; `status` ok, timeout, cut (the client ended before the answer), or the error;
`response_ms` from intended, a failure at its deadline (empty where the file says none); `service_ms`
from sent; `ttft_ms` from intended; `tpot_ms`; `tokens`; `in_passes_ms` how much of it the passes of
all processes cover; `touched` 1 if a full pass, or a pause over 5 ms, of any process meets it;
`run` the process whose passes take most of it, and `in_its_passes_ms`. That they lie in it is no
proof that they made it longer.
"""
)


def write_csv(analysis: Analysis, folder: Path) -> list[Path]:
    """Writes the tables into ``folder``, which is made if need be, and says which files it wrote.

    Raises:
        FrostlineError: the folder cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        runs = [_run_name(i, process) for i, process in enumerate(analysis.processes)]
        written = [_readme(folder)]
        written.append(_runs(analysis, runs, folder))
        written.append(_events(analysis, runs, folder))
        written.append(_freezes(analysis, runs, folder))
        written.append(_long_calls(analysis, runs, folder))
        written += [_write(folder / name, head, rows) for name, head, rows in gap_tables(analysis, runs)]
        if analysis.grouping.tells:
            written.append(_write(folder / "groups.csv", GROUPS_HEADER, group_rows(analysis)))
        for run, process in zip(runs, analysis.processes, strict=True):
            if len(process.series.spans.get("start", ())):
                written.append(_steps(analysis, run, process, folder))
        if analysis.requests:
            written.append(_write(folder / "requests.csv", *requests_table(analysis, runs)))
    except OSError as error:
        raise FrostlineError(
            "csv-unwritable",
            f"cannot write {error.filename or folder}: {error.strerror}",
            "give --csv a folder that can be written to",
        ) from error
    return written


def _run_name(index: int, process: ProcessReport) -> str:
    return f"{index + 1:03d}-{process.pid}"


def _readme(folder: Path) -> Path:
    path = folder / "README.md"
    path.write_text(README + GAPS_README, encoding="utf-8")
    return path


def _write(path: Path, header: tuple[str, ...], rows: Iterable[Iterable[object]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
    return path


def _runs(analysis: Analysis, runs: list[str], folder: Path) -> Path:
    header = (
        "run", "pid", "interpreter", "process", "python", "policy", "start_s", "stop_s", "closed", "passes",
        "spans", "lost_passes", "lost_spans", "longest_ms", "paused_ms", "freeze_count_attach",
        "freeze_count_close", "thresholds", "command", "launch", "launch_offset",
    )  # fmt: skip
    zero = analysis.start
    rows = []
    launches = analysis.grouping.run_of
    if len(launches) != len(runs):  # of a cut analysis
        launches = (1,) * len(runs)
    offsets = {one.run: one.ratio for one in analysis.grouping.offsets}
    for run, p, launch in zip(runs, analysis.processes, launches, strict=True):
        attach, close = p.at_attach, p.at_close
        thresholds = attach.thresholds if attach else None
        rows.append(
            (
                run,
                p.pid,
                p.interpreter,
                cell(p.name),
                p.python,
                cell(p.policy),
                f"{(p.start - zero) / 1e9:.6f}",
                f"{(p.stop - zero) / 1e9:.6f}",
                int(p.closed),
                len(p.series.passes),
                len(p.series.spans.get("start", ())),
                p.lost_passes,
                p.lost_spans,
                f"{p.longest / 1e6:.6f}",
                f"{p.pause_total / 1e6:.6f}",
                "" if attach is None or attach.frozen is None else attach.frozen,
                "" if close is None or close.frozen is None else close.frozen,
                " ".join(map(str, thresholds)) if thresholds else "",
                cell(" ".join(p.command)),
                launch,
                f"{ratio:.6f}" if (ratio := offsets.get(launch)) is not None else "",
            )
        )
    return _write(folder / "runs.csv", header, rows)


def _events(analysis: Analysis, runs: list[str], folder: Path) -> Path:
    header = (
        "run", "start_s", "stop_s", "pause_ms", "pass_ms", "callbacks_ms", "generation", "kind", "collected",
        "uncollectable", "walked", "walked_exact", "thread", "count0", "count1", "count2", "threshold0",
        "threshold1", "threshold2", "trigger",
    )  # fmt: skip

    def rows() -> Iterable[tuple[object, ...]]:
        zero = analysis.start
        for run, process in zip(runs, analysis.processes, strict=True):
            series = process.series
            pauses = process.pauses
            for i, row in enumerate(series.passes):
                start, stop = int(pauses.start[i]), int(pauses.stop[i])
                known = pauses.heap.walked[i] >= 0
                file = series.name(int(row["trigger_file"]))
                yield (
                    run,
                    f"{(start - zero) / 1e9:.9f}",
                    f"{(stop - zero) / 1e9:.9f}",
                    f"{(stop - start) / 1e6:.6f}",
                    f"{int(pauses.alone[i]) / 1e6:.6f}",
                    f"{int(pauses.others[i]) / 1e6:.6f}",
                    row["generation"],
                    kind_of(series, pauses, i),
                    row["collected"],
                    row["uncollectable"],
                    int(pauses.heap.walked[i]) if known else "",
                    int(pauses.heap.exact[i]) if known else "",
                    row["tid"],
                    row["count0"],
                    row["count1"],
                    row["count2"],
                    row["threshold0"],
                    row["threshold1"],
                    row["threshold2"],
                    cell(f"{file}:{int(row['trigger_line'])}") if file else "",
                )

    return _write(folder / "gc_events.csv", header, rows())


def _freezes(analysis: Analysis, runs: list[str], folder: Path) -> Path:
    header = (
        "run",
        "at_s",
        "what",
        "why",
        "where",
        "objects",
        "garbage",
        "in_flight",
        "took_ms",
        "reclaimed",
    )
    rows: list[tuple[object, ...]] = []
    for run, process in zip(runs, analysis.processes, strict=True):
        mine: list[tuple[int, tuple[object, ...]]] = []
        for f in process.frozen.freezes:
            counted = "" if f.objects is None else f.objects
            open_ = "" if f.in_flight is None else f.in_flight
            mine.append((f.time, ("freeze", f.why, cell(f.where), counted, f.garbage, open_, "", "")))
        mine += [(at, ("thaw", *[""] * 7)) for at in process.frozen.thaws]
        for walk in process.frozen.walks:
            why = "boundary" if walk.boundary else "planned"
            took = f"{walk.took / 1e6:.6f}"
            mine.append((walk.time, ("walk", why, "", walk.kept, "", "", took, walk.reclaimed)))
        mine.sort(key=lambda one: one[0])
        rows += [(run, f"{(at - analysis.start) / 1e9:.6f}", *row) for at, row in mine]
    return _write(folder / "freezes.csv", header, rows)


def _steps(analysis: Analysis, run: str, process: ProcessReport, folder: Path) -> Path:
    header = (
        "label", "kind", "start_s", "stop_s", "duration_ms", "error", "in_passes_ms", "stage", "batch",
        "group", "self_ms",
    )  # fmt: skip
    series = process.series
    spans = series.spans
    union = process.pauses.union
    told = attributes_of(series)
    groups = [cell(name) for name in told.names]
    own = np.full(len(spans["start"]), -1, np.int64)
    own[told.tree.which] = told.tree.own

    def rows() -> Iterable[tuple[object, ...]]:
        zero = analysis.start
        names: dict[int, str] = {}
        for at in range(0, len(spans["start"]), _CHUNK):
            part = {name: column[at : at + _CHUNK] for name, column in spans.items()}
            covered = union.overlap(part["start"], part["stop"])
            columns = [part[name].tolist() for name in ("label", "kind", "start", "stop", "flags")]
            more = (told.stage, told.batch, told.name, own)
            columns += [covered.tolist(), *(column[at : at + _CHUNK].tolist() for column in more)]
            for label, kind, start, stop, flags, inside, stage, batch, group, alone in zip(
                *columns, strict=True
            ):
                name = names.get(label)
                if name is None:
                    name = names[label] = cell(series.name(label))
                yield (
                    name,
                    _KINDS.get(kind, kind),
                    f"{(start - zero) / 1e9:.9f}",
                    f"{(stop - zero) / 1e9:.9f}",
                    f"{(stop - start) / 1e6:.6f}",
                    flags & 1,
                    f"{inside / 1e6:.6f}",
                    STAGES[stage],
                    batch if batch >= 0 else "",
                    groups[group],
                    f"{alone / 1e6:.6f}" if alone >= 0 else "",
                )

    return _write(folder / f"steps_{run}.csv", header, rows())


def _long_calls(analysis: Analysis, runs: list[str], folder: Path) -> Path:
    header = (
        "run", "process", "label", "kind", "start_s", "duration_ms", "compared_with_ms", "in_passes_ms",
        "passes", "explained", "nested", "verdict", "longest_pass",
    )  # fmt: skip
    rows = [
        (
            run,
            cell(step.process),
            cell(step.label),
            _KINDS.get(step.kind, step.kind),
            f"{(step.start - analysis.start) / 1e9:.9f}",
            f"{step.duration / 1e6:.6f}",
            f"{step.baseline / 1e6:.6f}",
            f"{step.overlap / 1e6:.6f}",
            step.passes,
            int(step.explained),
            int(step.nested),
            cell(verdict_of(step, analysis.options.long_floor)),
            cell(step.pass_text),
        )
        for run, process in zip(runs, analysis.processes, strict=True)
        for step in sorted(process.long_steps, key=lambda step: step.start)
    ]
    return _write(folder / "long_calls.csv", header, rows)
