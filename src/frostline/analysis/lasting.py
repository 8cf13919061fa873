"""A freeze of live processes, which ends with them, and one before a fork, which workers share."""

from __future__ import annotations

from frostline import format as fmt
from frostline.analysis.choice import rounded
from frostline.analysis.commands import attached, top
from frostline.analysis.model import FullPass, ProcessReport

#: ns. Who lives on for so long after a thaw was not thawed at its own end.
LIVED_ON = 1_000_000_000


def now(process: ProcessReport, processes: tuple[ProcessReport, ...], live: str, policy: str) -> str:
    """The command that freezes it without a restart; empty where it is frozen, or may have ended.

    ``live``: the session for a shell, while it runs. ``policy`` that it needs.
    """
    if process.frozen.since and not _ended_thawed(process):
        return ""
    if live:
        return f"frostline freeze {live}"
    if attached(process):
        return f"frostline attach {top(process, processes)} --tree --policy {policy}"
    return ""


def again(process: ProcessReport) -> str:
    """What to do beside the freeze of a live process."""
    gone = "It was frozen, and thawed again while it ran. " if thawed(process) else ""
    return (
        f"then make it last. {gone}A freeze that is asked of a live process ends with it: freeze it at the "
        "end of start-up, at its next start"
    )


def thawed(process: ProcessReport) -> bool:
    """Whether it ran on unfrozen: somebody thawed or detached it, not its own end."""
    removed = process.series.words.get("off_reason", 0) == fmt.OFF_REMOVED
    return _ended_thawed(process) and (removed or process.stop - process.frozen.thaws[-1] > LIVED_ON)


def _ended_thawed(process: ProcessReport) -> bool:
    story = process.frozen
    return bool(story.freezes and story.thaws) and story.thaws[-1] >= story.freezes[-1].time


def inherits(
    process: ProcessReport, processes: tuple[ProcessReport, ...], passes: tuple[FullPass, ...]
) -> str:
    """``about 460,000 objects of NAME``: what a forked worker's passes walk for the most part; else empty."""
    number = process.series.first_text("parent_series")
    parent = next((p for p in processes if number == str(p.series.series)), None)
    walked = sorted(p.walked.value for p in passes if p.walked.value)
    if parent is None or not walked or parent.frozen.at(process.start):
        return ""
    known = parent.pauses.heap.at(process.start)
    left = [
        p.walked.value - p.reclaimed for p in parent.full_passes if p.walked.value and p.start < process.start
    ]
    heap = known[0] if known is not None else left[-1] if left else 0
    return f"about {rounded(heap)} objects of {parent.name}" if 2 * heap >= walked[len(walked) // 2] else ""
