"""The report as text: the verdict first, then what it rests on, then what to type next."""

from __future__ import annotations

from collections.abc import Iterator

from frostline.analysis import Advice, Analysis, LabelStats, LongStep, State
from frostline.analysis.passes import FROSTLINE
from frostline.analysis.verdict import milliseconds as ms
from frostline.analysis.walked import HOW_FULL
from frostline.report.blocks import Block, Line, Table
from frostline.report.freezing import freezing, planned
from frostline.report.threads import threads
from frostline.report.words import (
    NO_CLOSE,
    NO_CLOSE_WHY,
    forecast_words,
    how_it_ended,
    longest_line,
    number,
    seconds,
    sentence,
    short_paths,
    verdict_of,
    walked,
)

#: Rows shown of what can be long; ``--csv`` and ``--json`` have them all.
SHOWN_LABELS = 5
SHOWN_COMMAND = 120
SHOWN_STEPS = 20
#: Of one label of one process: a batch of requests that waited in one stall is one finding.
SHOWN_ALIKE = 5
SHOWN_FULL = 12
SHOWN_SITES = 12
SHOWN_EVENTS = 12
SHOWN_LOSSES = 10

_KINDS = {1: "step", 2: "async", 3: "generator", 4: "begin/end"}


def report(analysis: Analysis) -> Iterator[Block]:
    """Everything, in the order in which it is needed."""
    yield from _verdict(analysis)
    yield from _processes(analysis)
    yield from _generations(analysis)
    yield from _labels(analysis)
    yield from _slow(analysis)
    yield from _full(analysis)
    yield from _explicit(analysis)
    yield from threads(analysis)
    yield from freezing(analysis)
    yield from _state(analysis)
    yield from _events(analysis)
    yield from _doubts(analysis)
    yield from _advice(analysis)


def _verdict(analysis: Analysis) -> Iterator[Block]:
    verdict = analysis.verdict
    style = {"collector": "bad", "not-the-collector": "good"}.get(verdict.kind, "headline")
    yield Line(sentence(verdict.sentence), style)
    for line in (*verdict.lines, *verdict.held):
        yield Line(line[:1].upper() + line[1:], style, indent=2)
    if analysis.advice:
        yield _next(analysis.advice)
    for line in verdict.tail:
        yield Line(f"{line}.")
    longest = max(analysis.processes, key=lambda p: p.longest, default=None)
    if longest is not None:
        yield Line(longest_line("Longest pause", longest, longest.longest, longest.longest_text))
        later = max(analysis.processes, key=lambda p: p.serving_longest)
        if later.serving and later.serving_longest != longest.longest:
            words = later.serving_longest_text
            yield Line(longest_line("After start-up", later, later.serving_longest, words))
    ours = planned(analysis)
    if ours:
        yield Line(ours)
    missed = [m for m in analysis.missed if m.python]
    count = len({(p.session, p.pid) for p in analysis.processes})
    text = f"{count} {'process' if count == 1 else 'processes'} recorded, {len(missed)} missed"
    state = ", still running" if analysis.running else ""
    yield Line(f"{text}, {analysis.records:,} records over {seconds(analysis.stop - analysis.start)}{state}.")
    if verdict.slow or verdict.slow_requests:
        factor = analysis.options.long_factor
        yield Line(
            f"Slow: over {ms(verdict.threshold)} and over {factor:g} x its label's median. "
            f"Explained: passes of its own process cover half of the excess.",
            "quiet",
        )
    for line in verdict.details[:SHOWN_LABELS]:
        yield Line(line, indent=2)
    if len(verdict.details) > SHOWN_LABELS:
        more = len(verdict.details) - SHOWN_LABELS
        yield Line(f"and {more} more {'label' if more == 1 else 'labels'}, see Steps", "quiet", indent=2)


def _next(every: tuple[Advice, ...]) -> Line:
    """The one thing to do, at the top: why and how are under Next."""
    first = every[0]
    if first.command:
        return Line(f"Next: {first.command}", "command")
    return Line(f"Next: {short_paths(first.text)}.")


def _processes(analysis: Analysis) -> Iterator[Block]:
    rows: list[tuple[str, ...]] = []
    for process in analysis.processes:
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
        yield Table("Processes", columns, tuple(rows), frozenset((3, 4, 5, 6, 7, 8)), spare)
    if any(row[-1] == NO_CLOSE for row in rows):
        yield Line(NO_CLOSE_WHY, "quiet", indent=2)
    if analysis.missed:
        missed = [
            (m.name, m.reason, m.detail, " ".join(" ".join(m.command).split())[:SHOWN_COMMAND])
            for m in analysis.missed
        ]
        heading = ("process", "reason", "detail", "command")
        yield Table("Processes missed", heading, tuple(missed), spare=("detail", "command"))


def _generations(analysis: Analysis) -> Iterator[Block]:
    rows: list[tuple[str, ...]] = []
    hows: dict[str, dict[int, tuple[int, int]]] = {}
    for process in analysis.processes:
        for i, g in enumerate(process.generations):
            if g.walked.value is not None and not g.walked.exact:
                seen = hows.setdefault(g.walked.how, {})
                unknown, of = seen.get(g.generation, (0, 0))
                seen[g.generation] = (unknown + g.walked.unknown, of + g.count)
            rows.append(
                (
                    process.name if i == 0 else "",
                    str(g.generation),
                    f"{g.count:,}",
                    number(g.total),
                    number(g.p50),
                    number(g.p99),
                    number(g.longest),
                    f"{g.share:.2%}",
                    walked(g.walked),
                    f"{g.reclaimed:,}",
                    f"{g.yield_:.2%}" if g.yield_ is not None else "-",
                    number(g.others) if g.others > 0.01 * g.total else "",
                    f"{g.ours:,}: {number(g.ours_total)}" if g.ours else "",
                )
            )
    columns = (
        "process", "gen", "count", "total", "p50", "p99", "max", "of wall", "walked", "reclaimed", "yield",
        "callbacks ms", "Frostline's",
    )  # fmt: skip
    if not rows:
        return
    spare = ("callbacks ms", "Frostline's", "yield", "of wall", "p50", "p99")
    title = "Passes: pauses in ms, as the process felt them"
    yield Table(title, columns, tuple(rows), frozenset(range(1, 13)), spare)
    for how, generations in hows.items():
        which = " and ".join(map(str, sorted(generations)))
        unknown, of = (sum(numbers) for numbers in zip(*generations.values(), strict=True))
        rest = f"; {unknown:,} of {of:,} passes are unknown and not in the sums" if unknown else ""
        sign = "<=" if how is HOW_FULL else "~"
        yield Line(f"{sign} gen {which}: {how}{rest}", "quiet", indent=2)
    for process in analysis.processes:
        others = sum(g.others for g in process.generations)
        if process.other_callbacks and others > 0.01 * process.pause_total:
            alone = sum(g.passes_alone for g in process.generations)
            yield Line(
                f"{process.name}: the passes alone took {ms(alone)}; other tools' callbacks "
                f"{ms(others)}: {', '.join(process.other_callbacks[:4])}",
                indent=2,
            )


def _labels(analysis: Analysis) -> Iterator[Block]:
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
        yield Table("Steps", columns, tuple(rows), frozenset((*range(3, 9), 10, 11)), spare)


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


def _slow(analysis: Analysis) -> Iterator[Block]:
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
    yield Table(title, columns, rows, frozenset((2, 3, 4)), ("at s", "the longest pass in it"))


def _full(analysis: Analysis) -> Iterator[Block]:
    passes = [(p, process) for process in analysis.processes for p in process.full_passes]
    if not passes:
        return
    passes.sort(key=lambda pair: -pair[0].pause)
    rows = tuple(
        (
            process.name,
            f"{(p.start - analysis.start) / 1e9:.3f}",
            number(p.pause),
            p.why if p.why else p.kind,
            walked(p.walked),
            f"{p.reclaimed:,}",
            short_paths(f"{p.file}:{p.line}") if p.file and p.kind != FROSTLINE else "",
        )
        for p, process in passes[:SHOWN_FULL]
    )
    columns = ("process", "at s", "pause ms", "why", "walked", "reclaimed", "trigger (not the cause)")
    title = f"Full passes: the {len(rows)} longest of {len(passes):,}"
    yield Table(title, columns, rows, frozenset((1, 2, 4, 5)), ("at s", "trigger (not the cause)"))
    for process in analysis.processes:
        if process.forecast is not None:
            yield Line(f"Next in {process.name}: {forecast_words(process.forecast)}", "quiet", indent=2)


def _explicit(analysis: Analysis) -> Iterator[Block]:
    sites = [(site, process) for process in analysis.processes for site in process.call_sites]
    sites.sort(key=lambda pair: -pair[0].total)
    rows = []
    for site, process in sites[:SHOWN_SITES]:
        found = f"{site.reclaimed:,}"
        if site.skipped == site.count:
            found = "skipped: a pass was running"
        elif site.skipped:
            found += f"; {site.skipped:,} skipped: a pass was running"
        if site.raised:
            found += f"; {site.raised:,} raised"
        where = (
            "Frostline" if site.ours else short_paths(f"{site.file}:{site.line}") if site.file else "unknown"
        )
        rows.append((process.name, where, str(site.generation), f"{site.count:,}", number(site.total), found))
    columns = ("process", "call site", "gen", "calls", "total ms", "reclaimed")
    if rows:
        title = "Explicit gc.collect()"
        if len(sites) > len(rows):
            title += f": the {len(rows)} costliest of {len(sites):,} call sites"
        yield Table(title, columns, tuple(rows), frozenset((2, 3, 4)))
    for process in analysis.processes:
        if process.unseen_explicit:
            passes = "pass" if process.unseen_explicit == 1 else "passes"
            yield Line(
                f"gc.collect() unseen in {process.name}: {process.unseen_explicit:,} {passes} "
                f"({ms(process.unseen_explicit_total)}) that no threshold started: "
                "called in C, or through a reference older than the recording",
                indent=2,
            )


def _state(analysis: Analysis) -> Iterator[Block]:
    rows = []
    for process in analysis.processes:
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
        yield Table("The collector's state", columns, tuple(rows), frozenset((5, 6)), spare)


def _state_cells(state: State, thawed: bool) -> tuple[str, ...]:
    enabled = "" if state.enabled is None else "on" if state.enabled else "off"
    thresholds = ", ".join(map(str, state.thresholds)) if state.thresholds else "-"
    counts = ", ".join("-" if s is None else f"{s[0]:,}" for s in state.stats)
    frozen = "-" if state.frozen is None else f"{state.frozen:,}"
    if thawed:
        frozen = f"{frozen} (thawed)"
    return enabled, thresholds, counts, frozen, "" if state.others is None else str(state.others)


def _events(analysis: Analysis) -> Iterator[Block]:
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


def _doubts(analysis: Analysis) -> Iterator[Block]:
    if analysis.doubts:
        yield Line("")
        yield Line("Doubts", "headline")
        for doubt in analysis.doubts:
            yield Line(f"{doubt.text} [{doubt.slug}]", "bad", indent=2)
    if analysis.losses:
        yield Line("")
        yield Line("Not in the recording", "headline")
        for loss in analysis.losses[:SHOWN_LOSSES]:
            who = f"pid {loss.pid}: " if loss.pid else ""
            yield Line(f"{who}{loss}", indent=2)
        if len(analysis.losses) > SHOWN_LOSSES:
            yield Line(f"and {len(analysis.losses) - SHOWN_LOSSES:,} more, see --json", "quiet", indent=2)


def _advice(analysis: Analysis) -> Iterator[Block]:
    if analysis.advice:
        yield Line("")
        yield Line("Next", "headline")
    for advice in analysis.advice:
        yield Line(short_paths(sentence(advice.text)), indent=2)
        if advice.how:
            yield Line(f"(how that was obtained: {advice.how})", "quiet", indent=2)
        if advice.command:
            yield Line(advice.command, "command", indent=4)
