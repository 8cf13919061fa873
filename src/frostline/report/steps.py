"""Sections of the report: steps by label, and the slow ones."""

from __future__ import annotations

from collections.abc import Iterator

from frostline.analysis import Analysis, LabelStats, LongStep
from frostline.report.blocks import Block, Table
from frostline.report.marks import SLOW, STEPS
from frostline.report.words import (
    number,
    short_paths,
    verdict_of,
)

SHOWN_STEPS = 20
#: Of one label of one process: a batch of requests that waited in one stall is one finding.
SHOWN_ALIKE = 5

_KINDS = {1: "step", 2: "async", 3: "generator", 4: "begin/end"}


def labels(analysis: Analysis) -> Iterator[Block]:
    rows: list[tuple[str, ...]] = []
    for process in analysis.processes:
        for i, label in enumerate(process.labels[:30]):
            rows.append(
                (
                    process.name if i == 0 else "",
                    label.label,
                    _KINDS.get(label.kind, "?"),
                    f"{label.count:,}",
                    number(label.p50),
                    number(label.p99),
                    number(label.longest),
                    number(label.total),
                    f"{label.slow:,}",
                    _overlap_words(label),
                    f"{label.touched:,}" if label.touched else "",
                    number(label.p99_rest) if label.touched and label.p99_rest >= 0 else "",
                )
            )
    columns = (
        "process", "span", "kind", "count", "p50 ms", "p99", "max", "total", "slow", "of these", "touched",
        "p99 of the rest",
    )  # fmt: skip
    if rows:
        spare = ("of these", "touched", "p99 of the rest", "kind", "total", "p99")
        right = frozenset((*range(3, 9), 10, 11))
        yield Table("Steps", columns, tuple(rows), right, spare, section=STEPS)


def _overlap_words(label: LabelStats) -> str:
    if not label.slow:
        return ""
    word = "explained" if label.kind == 1 else "overlapped"
    text = f"{label.explained:,} {word}"
    if label.in_part:
        text += f", {label.in_part:,} in part"
    if label.elsewhere:
        text += f", {label.elsewhere:,} consistent with another process"
    return text


def slow(analysis: Analysis) -> Iterator[Block]:
    steps = [step for process in analysis.processes for step in process.long_steps]
    if not steps:
        return
    steps.sort(key=lambda step: -step.duration)
    shown: list[LongStep] = []
    alike: dict[tuple[str, str], int] = {}
    for step in steps:
        key = (step.process, step.label)
        alike[key] = alike.get(key, 0) + 1
        if alike[key] <= SHOWN_ALIKE:
            shown.append(step)
        if len(shown) == SHOWN_STEPS:
            break
    rows = tuple(
        (
            step.process,
            step.label,
            f"{(step.start - analysis.start) / 1e9:.3f}",
            number(step.duration),
            number(step.overlap),
            verdict_of(step, analysis.options.long_floor),
            short_paths(step.pass_text),
        )
        for step in shown
    )
    total = sum(label.slow for process in analysis.processes for label in process.labels)
    columns = ("process", "span", "at s", "took ms", "in passes ms", "verdict", "the longest pass in it")
    title = f"Slow steps: the {len(shown)} longest of {total:,}"
    if any(n > SHOWN_ALIKE for n in alike.values()):
        title += f", at most {SHOWN_ALIKE} of a label"
    spare = ("at s", "the longest pass in it")
    yield Table(title, columns, rows, frozenset((2, 3, 4)), spare, section=SLOW)
