"""Short processes that did nothing of note: one line for all of them, where there are several.

A server starts helpers that end at once (vLLM: ten interpreters that only try an import). Each had rows in
four tables, and the server's own were lost among them.
"""

from __future__ import annotations

from collections.abc import Iterator

from frostline.analysis import Analysis, ProcessReport
from frostline.analysis.verdict import milliseconds as ms
from frostline.report.blocks import Line

#: ns. One that lived for less, and never stopped for so long, is short.
LIFE = 2_000_000_000
QUIET = 20_000_000
#: Fewer than this have rows of their own.
FEW = 3


def _is_short(process: ProcessReport) -> bool:
    return (
        process.wall < LIFE
        and process.longest < QUIET
        and process.policy == "off"
        and not process.series.live
        and not len(process.series.spans.get("start", ()))
        and not process.frozen.freezes
        and not process.call_sites
        and not process.lost_passes + process.lost_spans
    )


def short(analysis: Analysis) -> list[ProcessReport]:
    """Those without rows; none where they are few, or all that there is."""
    found = [process for process in analysis.processes if _is_short(process)]
    return found if FEW <= len(found) < len(analysis.processes) else []


def noted(analysis: Analysis) -> list[ProcessReport]:
    """All others, in their order."""
    without = {id(process) for process in short(analysis)}
    return [process for process in analysis.processes if id(process) not in without]


def rest(analysis: Analysis) -> Iterator[Line]:
    """What the short ones were, in a line; nothing where all have rows."""
    found = short(analysis)
    if not found:
        return
    names = {process.role for process in found}
    like = f"{found[0].role}" if len(names) == 1 else f"such as {found[0].role}"
    yield Line(
        f"and {len(found):,} short ones without a span ({like}): none lived for {LIFE // 10**9} s, "
        f"{sum(len(process.series.passes) for process in found):,} passes, "
        f"{ms(sum(process.pause_total for process in found))} in all, "
        f"the longest {ms(max(process.longest for process in found))}; --json has each",
        "quiet",
        indent=2,
    )
