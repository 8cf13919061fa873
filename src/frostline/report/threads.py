"""Passes outside the main thread, by thread."""

from __future__ import annotations

from collections.abc import Iterator

from frostline.analysis import Analysis
from frostline.report.blocks import Block, Line, Table
from frostline.report.words import number

#: Threads shown of one process; ``--json`` has them all.
SHOWN = 5


def threads(analysis: Analysis) -> Iterator[Block]:
    """A table, where any pass ran outside the main thread."""
    rows: list[tuple[str, ...]] = []
    for process in analysis.processes:
        for i, one in enumerate(process.threads[:SHOWN]):
            rows.append(
                (
                    process.name if i == 0 else "",
                    str(one.tid) if one.tid else "(not known)",
                    f"{one.count:,}",
                    f"{one.full:,}",
                    number(one.total),
                    number(one.longest),
                    f"{one.reclaimed:,}",
                )
            )
        if len(process.threads) > SHOWN:
            rows.append(("", f"and {len(process.threads) - SHOWN:,} more", *[""] * 5))
    if rows:
        columns = ("process", "native id of the thread", "passes", "full", "total ms", "max", "reclaimed")
        yield Table("Passes outside the main thread", columns, tuple(rows), frozenset(range(2, 7)))
        yield Line("finalizers of what a pass reclaims run in its thread", "quiet", indent=2)
