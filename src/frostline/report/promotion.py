"""What feeds the next full pass: its rhythm (C7), and the types that gen-1 passes promote (D5)."""

from __future__ import annotations

from collections.abc import Iterator

from frostline.analysis import Analysis
from frostline.analysis.verdict import milliseconds as ms
from frostline.report.blocks import Block, Line, Table
from frostline.report.words import short_paths

#: Types shown of one process; ``--json`` has them all.
SHOWN = 8


def rhythm(analysis: Analysis) -> Iterator[Block]:
    """One line a process in which full passes come sooner as the load grows."""
    for process in analysis.processes:
        found = process.rhythm
        if found is None:
            continue
        yield Line(
            f"Full passes of {process.name} come sooner as it does more: every {found.quiet / 1e9:,.2f} s at "
            f"{found.quiet_rate:,.0f} net container allocations a second, every {found.busy / 1e9:,.2f} s at "
            f"{found.busy_rate:,.0f} (medians of the quietest and the busiest quarter of {found.intervals:,} "
            f"intervals, rank correlation {found.correlation:.2f}). The quarter rule makes it so: what gen-1 "
            "passes leave reaches a quarter of the heap sooner.",
            indent=2,
        )


def promoted(analysis: Analysis) -> Iterator[Block]:
    """A table, where it was asked for."""
    rows: list[tuple[str, ...]] = []
    for process in analysis.processes:
        found = process.promotions
        for i, one in enumerate(found.types[:SHOWN] if found else ()):
            rows.append(
                (
                    process.name if i == 0 else "",
                    one.name,
                    f"~{one.share:.1%}",
                    f"~{one.objects:,.0f}",
                    f"{one.samples:,}",
                )
            )
    if not rows:
        return
    title = "What feeds the next full pass: types in generation 1 just before gen-1 passes, sampled"
    yield Table(
        title, ("process", "type", "share", "objects a pass", "samples"), tuple(rows), frozenset((2, 3, 4))
    )
    for process in analysis.processes:
        found = process.promotions
        if found is not None:
            yield Line(
                f"{process.name}: {found.samples:,} {'sample' if found.samples == 1 else 'samples'}, "
                f"which took {ms(found.cost)} of its main thread, {ms(found.longest)} at most. "
                "What dies by reference "
                "count later was promoted too.",
                "quiet",
                indent=2,
            )
    yield from _allocated(analysis)


def _allocated(analysis: Analysis) -> Iterator[Block]:
    """By what line they were allocated, where tracemalloc was on; else how to hear it."""
    told = [
        (process.name, process.promotions.allocated)
        for process in analysis.processes
        if process.promotions is not None
    ]
    rows: list[tuple[str, ...]] = []
    for name, found in told:
        for i, one in enumerate(found.sites[:SHOWN] if found else ()):
            rows.append(
                (
                    name if i == 0 else "",
                    short_paths(f"{one.file}:{one.line}"),
                    one.name,
                    f"~{one.share:.1%}",
                    f"~{one.objects:,.0f}",
                    f"{one.samples:,}",
                )
            )
    if rows:
        yield Table(
            "Where it was allocated, by tracemalloc",
            ("process", "line", "type", "share", "objects a pass", "samples"),
            tuple(rows),
            frozenset((3, 4, 5)),
        )
    for name, found in told:
        if found is not None:
            yield Line(
                f"{name}: {found.asked:,} objects in {found.samples:,} "
                f"{'sample' if found.samples == 1 else 'samples'} were asked about, which took "
                f"{ms(found.cost)}; of {found.unknown:,} it does not know. What tracemalloc itself costs the "
                "program is not in that",
                "quiet",
                indent=2,
            )
    if told and not any(found for _, found in told):
        yield Line(
            "which lines allocate it is told where tracemalloc is on (PYTHONTRACEMALLOC=1), which slows a "
            "program down",
            "quiet",
            indent=2,
        )
