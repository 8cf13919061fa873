"""The verdict: the collector, not the collector, or cannot tell; and the doubts beside it."""

from __future__ import annotations

from frostline.analysis.model import (
    Doubt,
    FullPass,
    LabelStats,
    MissedProcess,
    Options,
    ProcessReport,
    Verdict,
)
from frostline.recording import Loss, Run

#: Under this share of the slow steps the collector is not what makes them slow.
MINOR = 0.1

#: ns an object: 1,000 is the most that was seen on cold caches.
SLOWEST = 2_000

COLLECTOR = "collector"
NOT_COLLECTOR = "not-the-collector"
CANNOT_TELL = "cannot-tell"


def milliseconds(ns: float) -> str:
    """``20 ms``, ``1.5 ms``, ``0.02 ms``: as many digits as say something."""
    ms = ns / 1e6
    if ms >= 100 or ms == int(ms):
        return f"{ms:,.0f} ms"
    return f"{ms:.1f} ms" if ms >= 1 else f"{ms:.2g} ms"


def decide(
    processes: tuple[ProcessReport, ...],
    missed: tuple[MissedProcess, ...],
    counted: tuple[int, int, int],
    options: Options,
) -> Verdict:
    """The verdict over all processes. ``counted`` is (slow, explained, elsewhere) of the headline.

    Where what was lost could turn the verdict, it is "cannot tell".
    """
    slow, explained, elsewhere = counted
    primary = [label for process in processes for label in process.labels if label.primary]
    steps = sum(label.count for label in primary)
    t = options.long_floor
    over = f"over {milliseconds(t)}"
    why_not = _cannot_tell(processes, missed, steps, slow, explained)
    details = _details(processes)
    if why_not:
        return Verdict(
            CANNOT_TELL, f"cannot tell, because {why_not}", explained, slow, elsewhere, steps, t, details
        )
    if not slow:
        sentence = f"not the collector: none of the {steps:,} steps recorded is slow ({over})"
        kind = NOT_COLLECTOR
    elif not explained:
        noun = "step" if slow == 1 else f"{slow:,} steps"
        sentence = f"not the collector: no pass explains the {noun} {over}"
        kind = NOT_COLLECTOR
    elif explained < MINOR * slow:
        sentence = f"not the collector: it explains only {explained:,} of the {slow:,} steps {over}"
        kind = NOT_COLLECTOR
    else:
        sentence = f"the collector explains {explained:,} of the {slow:,} steps {over}"
        kind = COLLECTOR
    if elsewhere:
        verb = "is" if elsewhere == 1 else "are"
        sentence += f"; {elsewhere:,} more {verb} consistent with a pass in another process"
    return Verdict(kind, sentence, explained, slow, elsewhere, steps, t, details)


def _cannot_tell(
    processes: tuple[ProcessReport, ...],
    missed: tuple[MissedProcess, ...],
    steps: int,
    slow: int,
    explained: int,
) -> str:
    if not processes:
        gone = [m for m in missed if m.python]
        if gone:
            return f"no process was recorded; missed: {_some([m.name for m in gone])}"
        return "no process was recorded"
    free = [p for p in processes if p.series.free_threaded]
    if free and len(free) == len(processes):
        return "these are free-threaded builds, which this version does not record"
    if not steps:
        return "no steps were recorded" + _longest(processes)
    if slow and explained >= max(1, MINOR * slow):
        return ""  # what was lost can only add to it
    lost_spans = sum(p.lost_spans for p in processes)
    if lost_spans > 0.01 * steps and not slow:
        return f"{lost_spans:,} spans were lost, and the slow ones may be among them"
    if slow:
        lost = [p for p in processes if p.lost_passes and _slow(p)]
        if lost:
            return f"passes were lost in {_some([p.name for p in lost])}, which has slow steps"
        off = [p for p in processes if p.series.words.get("off_reason") and _slow(p)]
        if off:
            return f"recording stopped before the end in {_some([p.name for p in off])}"
        gone = [m for m in missed if m.python]
        if gone:
            verb = "was" if len(gone) == 1 else "were"
            return f"{_some([m.name for m in gone])} {verb} not recorded"
    return ""


def _slow(process: ProcessReport) -> int:
    return sum(label.slow for label in process.labels)


def _longest(processes: tuple[ProcessReport, ...]) -> str:
    serving = max(processes, key=lambda p: p.serving_longest)
    if serving.serving_longest:
        pause = milliseconds(serving.serving_longest)
        return f"; the longest pause after start-up was {pause}, in {serving.name}"
    worst = max(processes, key=lambda p: p.longest)
    if not worst.longest:
        return ""
    return f"; the longest pause was {milliseconds(worst.longest)}, in {worst.name}"


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown


def _details(processes: tuple[ProcessReport, ...]) -> tuple[str, ...]:
    """One line for each label of each process that has slow steps."""
    lines: list[tuple[int, str]] = []
    for process in processes:
        for label in process.labels:
            if label.slow:
                lines.append((-label.slow if label.primary else 1, _detail(process, label)))
    return tuple(line for _, line in sorted(lines, key=lambda pair: pair[0]))


def _detail(process: ProcessReport, label: LabelStats) -> str:
    # Of a coroutine others ran in between: its passes overlapped it, which is not yet "explains".
    what = f"{label.explained:,} of {label.slow:,} slow {label.label!r}"
    if label.kind == 1:
        text = f"{what} explained"
    else:
        text = f"{what} overlapped for at least half of their excess (others ran in between)"
    nothing = label.slow - label.explained - label.in_part - label.elsewhere
    if label.in_part:
        text += f", {label.in_part:,} overlapped by too little"
    if label.elsewhere:
        text += f", {label.elsewhere:,} consistent with a pass in another process"
    if nothing:
        text += f", {nothing:,} with no pass at all"
    if label.note:
        text += f" ({label.note})"
    return f"{process.name}: {text}"


def doubts(
    processes: tuple[ProcessReport, ...],
    missed: tuple[MissedProcess, ...],
    losses: tuple[Loss, ...],
    runs: tuple[Run, ...],
    running: bool,
    clock_error: int,
) -> tuple[Doubt, ...]:
    """What may be wrong with the numbers, for printing beside them."""
    found: list[Doubt] = []
    python = [m for m in missed if m.python]
    if python:
        found.append(
            Doubt(
                "processes-missed",
                f"{_counted(len(python), 'Python process was', 'Python processes were')} not recorded: "
                "what they wait for or cause is not here",
            )
        )
    lost = sum(p.lost_passes for p in processes)
    if lost:
        found.append(Doubt("passes-lost", f"{lost:,} passes are missing from the recording"))
    spans = sum(p.lost_spans for p in processes)
    if spans:
        found.append(Doubt("spans-lost", f"{spans:,} spans are missing from the recording"))
    for process in processes:
        found.extend(_process_doubts(process))
    for target in _unused_spans(processes, runs):
        found.append(Doubt("span-unused", f"--span {target} was asked for, and never put on a callable"))
    damaged = sum(loss.count for loss in losses if loss.slug == "records-damaged")
    if damaged:
        found.append(Doubt("records-damaged", f"{damaged:,} damaged records were left out"))
    unread = {loss.path for loss in losses if loss.slug.startswith(("segment-", "region-"))}
    if unread:
        found.append(Doubt("files-damaged", f"{len(unread)} files could not be read whole"))
    if running:
        found.append(Doubt("still-running", "the session is still being recorded: these numbers are so far"))
    if clock_error:
        found.append(
            Doubt(
                "clocks",
                f"sessions of different hosts were laid over each other by wall time, to within "
                f"{milliseconds(clock_error)} and whatever their clocks differ by",
            )
        )
    return tuple(found)


def _descheduled(one: FullPass) -> bool:
    walked = one.walked.value or 0
    # What finalizers do with what was found takes time of its own.
    return walked >= 10_000 and one.reclaimed < walked / 100 and one.alone > SLOWEST * walked


def _counted(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _unused_spans(processes: tuple[ProcessReport, ...], runs: tuple[Run, ...]) -> list[str]:
    """Spans that were asked for and that no process wrapped; refused ones are told with the reason."""
    told = [text for process in processes for text in (*process.wrapped, *process.refused)]
    asked = dict.fromkeys(span.partition("=")[0].strip() for run in runs for span in run.spans)
    return [target for target in asked if target and not any(text.startswith(target) for text in told)]


def _process_doubts(process: ProcessReport) -> list[Doubt]:
    found: list[Doubt] = []
    name = process.name
    others = sum(g.others for g in process.generations)
    if others > 0.2 * max(1, process.pause_total) and process.other_callbacks:
        found.append(
            Doubt(
                "other-callbacks",
                f"{name}: {milliseconds(others)} of {milliseconds(process.pause_total)} of its pauses were "
                f"other tools' callbacks: {', '.join(process.other_callbacks[:3])}",
            )
        )
    slow = [p for p in process.full_passes if _descheduled(p)]
    if slow:
        found.append(
            Doubt(
                "slow-walk",
                f"{name}: {_counted(len(slow), 'full pass', 'full passes')} took over "
                f"{SLOWEST / 1000:g} us for each object walked: the process was off the CPU, "
                "or its heap was swapped out",
            )
        )
    if process.series.free_threaded:
        found.append(Doubt("free-threaded", f"{name}: a free-threaded build, not recorded by this version"))
    if any(event.kind == "dead collector" for event in process.events):
        found.append(Doubt("dead-collector", f"{name}: its collector is dead, so no pass can show"))
    if process.frozen_since and any(
        event.kind == "freeze" and "without a collect" in event.text for event in process.events
    ):
        found.append(
            Doubt("frozen-garbage", f"{name}: frozen without a collect before: garbage may be frozen")
        )
    if (3, 14, 0) <= process.series.version < (3, 14, 5):
        found.append(Doubt("incremental", f"{name}: the incremental collector of 3.14.0 to 3.14.4"))
    return found
