"""Two sessions of the same server side by side, process by process (stock against frozen)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from frostline.analysis import Analysis, LabelStats, ProcessReport
from frostline.analysis.verdict import plural
from frostline.report.blocks import Block, Line, Table
from frostline.report.words import number, seconds

_EMPTY = "-"


@dataclass(frozen=True)
class _Group:
    """The processes of one role in one session, added up: counts and totals, and the longest."""

    processes: tuple[ProcessReport, ...]

    def full(self) -> tuple[int, int, int]:
        """(count, total, longest) of the full passes, ns."""
        pauses = [p.pause for process in self.processes for p in process.full_passes]
        return len(pauses), sum(pauses), max(pauses, default=0)

    def longest(self) -> int:
        return max((p.longest for p in self.processes), default=0)

    def paused(self) -> float:
        return sum(p.pause_total for p in self.processes) / max(1, sum(p.wall for p in self.processes))

    def counting(self) -> LabelStats | None:
        """The headline label with the most steps."""
        labels = [label for p in self.processes for label in p.labels if label.primary]
        return max(labels, key=lambda x: x.count, default=None)

    def slow(self) -> tuple[int, int, int]:
        """(slow, explained, steps) over the labels that count."""
        labels = [label for p in self.processes for label in p.labels if label.primary]
        return sum(x.slow for x in labels), sum(x.explained for x in labels), sum(x.count for x in labels)


def sidebyside(a: Analysis, b: Analysis, labels: tuple[str, str]) -> Iterator[Block]:
    """Blocks that compare two sessions; processes are paired by their role, never by pid.

    One session each is no proof of anything but the pauses: the sentence below says so.
    """
    for analysis, label in ((a, labels[0]), (b, labels[1])):
        sentence = analysis.verdict.sentence
        style = {"collector": "bad", "not-the-collector": "good"}.get(analysis.verdict.kind, "")
        yield Line(f"{label}: {sentence}.", style)
        for line in (*analysis.verdict.lines, *analysis.verdict.held):
            yield Line(line[:1].upper() + line[1:], style, indent=2)
    rows: list[tuple[str, ...]] = []
    for role in _roles(a, b):
        left, right = _group(a, role), _group(b, role)
        rows += _rows(role, left, right)
    yield Table(
        f"{labels[0]} and {labels[1]} side by side",
        ("process", "", labels[0], labels[1]),
        tuple(rows),
        frozenset((2, 3)),
    )
    yield Line(f"{labels[0]}: {a.path} ({seconds(a.stop - a.start)})", "quiet")
    yield Line(f"{labels[1]}: {b.path} ({seconds(b.stop - b.start)})", "quiet")
    yield Line("One run of each: the pauses are what was compared, not the throughput.", "quiet")


def _roles(a: Analysis, b: Analysis) -> list[str]:
    worst: dict[str, int] = {}
    for analysis in (a, b):
        for process in analysis.processes:
            worst[process.role] = max(worst.get(process.role, 0), process.longest)
    return sorted(worst, key=lambda role: -worst[role])


def _group(analysis: Analysis, role: str) -> _Group | None:
    found = tuple(process for process in analysis.processes if process.role == role)
    return _Group(found) if found else None


def _rows(role: str, left: _Group | None, right: _Group | None) -> list[tuple[str, ...]]:
    def cells(group: _Group | None) -> list[str]:
        if group is None:
            return [_EMPTY] * 7
        count, total, longest = group.full()
        slow, explained, steps = group.slow()
        label = group.counting()
        return [
            f"{number(group.longest())} ms",
            f"{count} in {number(total)} ms",
            f"{number(longest)} ms",
            f"{group.paused():.2%}",
            f"{number(label.p99)} ms" if label else _EMPTY,
            f"{slow:,} of {steps:,}" if steps else _EMPTY,
            f"{explained:,}" if steps else _EMPTY,
        ]

    # A front end has requests, an engine steps: each row says which.
    label = next((found for group in (left, right) if group and (found := group.counting())), None)
    what = plural(label.label) if label else "steps"
    names = [
        "longest pause",
        "full passes",
        "longest full pass",
        "time paused",
        f"p99 of {what}",
        f"slow {what}",
        "  by the collector",
    ]
    return [
        (role if i == 0 else "", name, one, other)
        for i, (name, one, other) in enumerate(zip(names, cells(left), cells(right), strict=True))
    ]
