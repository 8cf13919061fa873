"""The pass that broke a limit: what it was, where it began, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

from frostline import format as fmt
from frostline.analysis.model import Analysis, ProcessReport
from frostline.analysis.passes import AUTOMATIC, EXPLICIT, UNSEEN, kind_of
from frostline.analysis.verdict import milliseconds as ms


@dataclass(frozen=True)
class Offender:
    """One pass, in words. ``file`` is empty where nothing tells which line began it."""

    text: str
    #: ``812,345 objects``, ``<= 812,345 objects``, or ``unknown``.
    walked: str
    file: str
    line: int
    function: str
    todo: tuple[str, ...]


def offender(
    analysis: Analysis, process: ProcessReport, index: int, since: int, cycles: bool = False
) -> Offender:
    """Pass ``index`` of a process. ``cycles``: what it reclaimed is the fault, not how long it took."""
    series, pauses = process.series, process.pauses
    row = series.passes[index]
    kind = kind_of(series, pauses, index)
    generation = int(row["generation"])
    number = int(pauses.heap.walked[index])
    exact = bool(pauses.heap.exact[index])
    walked = "unknown" if number < 0 else f"{'' if exact else '<= '}{number:,} objects"
    file, line, function = where(process, index)
    after = (int(pauses.start[index]) - since) / 1e9
    by = {AUTOMATIC: "triggered at", EXPLICIT: "called at"}.get(kind, "at")
    at = f" {by} {file}:{line}" + (f" in {function}" if function else "") if file else ""
    start = "start-up was over" if since != process.start else "recording began"
    text = (
        f"gen {generation}, {ms(int(pauses.length[index]))}, {kind},{at or ' no line known'}, "
        f"{after:.2f} s after {start}; walked {walked}, reclaimed {int(row['collected']):,}"
    )
    return Offender(
        text, walked, file, line, function, _todo(analysis, process, index, kind, generation, cycles)
    )


def where(process: ProcessReport, index: int) -> tuple[str, int, str]:
    """The line that called for it, else the line that it interrupted."""
    series, pauses = process.series, process.pauses
    start, row = int(pauses.start[index]), series.passes[index]
    for mark in series.marks:
        if mark.kind == fmt.MARK_COLLECT and mark.file and mark.time <= start <= mark.stop:
            return mark.file, mark.line, mark.function
    file = series.name(int(row["trigger_file"]))
    return file, int(row["trigger_line"]) if file else 0, series.name(int(row["trigger_function"]))


def _todo(
    analysis: Analysis, process: ProcessReport, index: int, kind: str, generation: int, cycles: bool
) -> tuple[str, ...]:
    if cycles:
        return (
            "frostline cycles PID   names them in the live process, attribute and line",
            "in tests the fixture no_cycles does, for the block that makes them",
        )
    others, length = int(process.pauses.others[index]), int(process.pauses.length[index])
    if 2 * others > length:
        names = ", ".join(process.other_callbacks) or "not named"
        return (f"{ms(others)} of it is another tool's entry in gc.callbacks ({names}): take it out",)
    if kind == EXPLICIT:
        return ("take that gc.collect() out, or call it where nothing waits for this process",)
    if kind == UNSEEN:
        return ("C code, or a gc.collect taken before recording began, asked for it: find the caller",)
    if generation < 2:
        return ("a young pass is as long as what was allocated and kept since the one before it",)
    for advice in analysis.advice:
        if advice.command:
            return (f"{advice.command}   ({advice.text})",)
    return ("frostline report   says why full passes come, and what would gain",)
