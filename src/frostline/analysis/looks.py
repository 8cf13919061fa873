"""Steps that were slow since Frostline itself had stopped their process to look at its heap, as asked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from frostline import format as fmt
from frostline.analysis.hostmodel import HostCause
from frostline.analysis.intervals import union
from frostline.analysis.model import LongStep, ProcessReport
from frostline.analysis.verdict import milliseconds as ms
from frostline.format.request import LOOKS
from frostline.recording import Mark

#: What is typed for each of ``request.LOOKS``.
COMMANDS = dict(zip(LOOKS, ("census", "cycles", "why-alive", "audit"), strict=True))


def command(mark: Mark) -> str:
    """The command that asked for a look."""
    if mark.kind == fmt.MARK_CENSUS:
        return "run --census"
    at = mark.values[0]
    return COMMANDS[LOOKS[at]] if 0 <= at < len(LOOKS) else "a look"


def is_look(mark: Mark) -> bool:
    """Whether it says how long a look stopped the process: of a census the first mark does."""
    return mark.kind == fmt.MARK_LOOK or (mark.kind == fmt.MARK_CENSUS and not mark.values[0])


def stopped(process: ProcessReport) -> list[int]:
    """ns that each look stopped it; the censuses of ``--census`` have a table of their own."""
    return [mark.stop - mark.time for mark in process.series.marks if mark.kind == fmt.MARK_LOOK]


def with_looks(process: ProcessReport) -> ProcessReport:
    """The process, its slow steps that looks fill for half of their excess named as that: Frostline's doing.

    That goes before whatever else the host shows of them, and before passes: those of a look are ours.
    """
    marks = [mark for mark in process.series.marks if is_look(mark)]
    if not marks or not process.long_steps:
        return process
    start = np.array([mark.time for mark in marks], np.int64)
    stop = np.array([mark.stop for mark in marks], np.int64)
    looks = union(start, stop)
    first = np.array([step.start for step in process.long_steps], np.int64)
    last = np.array([step.start + step.duration for step in process.long_steps], np.int64)
    covered = looks.overlap(first, last).tolist()
    steps = tuple(
        _told(step, covers, marks) for step, covers in zip(process.long_steps, covered, strict=True)
    )
    return replace(process, long_steps=steps)


def _told(step: LongStep, covered: int, marks: list[Mark]) -> LongStep:
    if 2 * covered < step.excess:
        return step
    end = step.start + step.duration
    which = dict.fromkeys(command(m) for m in marks if m.time < end and m.stop > step.start)
    text = f"stood still for {ms(covered)} of its {ms(step.duration)} while Frostline looked at the heap"
    return replace(step, host=HostCause("look", f"{text} ({', '.join(which)})", sure=True))
