"""Sections of the report: the processes, their state, and what happened to them."""

from __future__ import annotations

from collections.abc import Iterator

from frostline.analysis import Analysis, State
from frostline.report.blocks import Block, Line, Table
from frostline.report.brief import noted, rest
from frostline.report.marks import PROCESSES, STATE
from frostline.report.words import (
    NO_CLOSE,
    NO_CLOSE_WHY,
    how_it_ended,
    number,
    seconds,
    short_paths,
)

SHOWN_COMMAND = 120
SHOWN_EVENTS = 12


def processes(analysis: Analysis) -> Iterator[Block]:
    rows: list[tuple[str, ...]] = []
    for process in noted(analysis):
        spans = process.series.spans
        lost = process.lost_passes + process.lost_spans
        rows.append(
            (
                process.name,
                process.python,
                process.policy,
                seconds(process.wall),
                f"{len(process.series.passes):,}",
                f"{len(spans.get('start', ())):,}",
                number(process.longest),
                f"{process.pause_total / process.wall:.2%}",
                f"{lost:,}" if lost else "",
                how_it_ended(process),
            )
        )
    columns = (
        "process", "python", "policy", "recorded", "passes", "spans", "longest ms", "paused", "lost", "end",
    )  # fmt: skip
    if rows:
        spare = ("lost", "policy", "python", "spans", "recorded", "end")
        right = frozenset((3, 4, 5, 6, 7, 8))
        yield Table("Processes", columns, tuple(rows), right, spare, section=PROCESSES)
        yield from rest(analysis)
    if any(row[-1] == NO_CLOSE for row in rows):
        yield Line(NO_CLOSE_WHY, "quiet", indent=2)
    if analysis.missed:
        alike: dict[tuple[str, str, str], list[str]] = {}
        for m in analysis.missed:
            command = " ".join(" ".join(m.command).split())[:SHOWN_COMMAND]
            alike.setdefault((m.reason, m.detail, command), []).append(m.name)
        missed = [
            (names[0] + (f" and {len(names) - 1:,} more" if len(names) > 1 else ""), *key)
            for key, names in alike.items()
        ]
        heading = ("process", "reason", "detail", "command")
        yield Table("Processes missed", heading, tuple(missed), spare=("detail", "command"))


def state(analysis: Analysis) -> Iterator[Block]:
    rows = []
    for process in noted(analysis):
        for when, state in (("attach", process.at_attach), ("close", process.at_close)):
            if state is not None:
                # What was frozen all the time and thawed at the very end was frozen.
                thawed = when == "close" and 0 < process.frozen_until <= state.time
                rows.append((process.name if when == "attach" else "", when, *_state_cells(state, thawed)))
        if process.frozen_since_attach:
            rows.append(("", "difference", "", "", "", f"{process.frozen_since_attach:+,}", ""))
    columns = ("process", "at", "collector", "thresholds", "collections by gen", "frozen", "callbacks")
    if rows:
        spare = ("callbacks", "collector")
        right = frozenset((5, 6))
        yield Table("The collector's state", columns, tuple(rows), right, spare, section=STATE)


def _state_cells(state: State, thawed: bool) -> tuple[str, ...]:
    enabled = "" if state.enabled is None else "on" if state.enabled else "off"
    thresholds = ", ".join(map(str, state.thresholds)) if state.thresholds else "-"
    counts = ", ".join("-" if s is None else f"{s[0]:,}" for s in state.stats)
    frozen = "-" if state.frozen is None else f"{state.frozen:,}"
    if thawed:
        frozen = f"{frozen} (thawed)"
    return enabled, thresholds, counts, frozen, "" if state.others is None else str(state.others)


def events(analysis: Analysis) -> Iterator[Block]:
    rows: list[tuple[str, ...]] = []
    for process in analysis.processes:
        quiet = {"attach", "close"}
        notable = [event for event in process.events if event.kind not in quiet and not event.minor]
        forks = [event for event in notable if event.kind == "fork"]
        if len(forks) > 1:
            notable = [event for event in notable if event.kind != "fork" or event is forks[0]]
        for event in notable[:SHOWN_EVENTS]:
            text = event.text
            if event.kind == "fork" and len(forks) > 1:
                text += f" ({len(forks):,} times)"
            rows.append(
                (process.name, f"{(event.time - analysis.start) / 1e9:.3f}", event.kind, short_paths(text))
            )
        if len(notable) > SHOWN_EVENTS:
            rows.append((process.name, "", "", f"and {len(notable) - SHOWN_EVENTS:,} more events"))
        rows += [(process.name, "", "span refused", text) for text in process.refused[:SHOWN_EVENTS]]
    if rows:
        yield Table("Events", ("process", "at s", "what", "how"), tuple(rows), frozenset((1,)))
