"""What may be wrong with the numbers, for printing beside them."""

from __future__ import annotations

from frostline.analysis.model import Doubt, FullPass, MissedProcess, ProcessReport
from frostline.analysis.verdict import milliseconds
from frostline.recording import Loss, Run

#: ns an object: 1,000 is the most that was seen on cold caches.
SLOWEST = 2_000


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
