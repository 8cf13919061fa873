"""Sections of the report: passes by generation, the full ones, and explicit calls."""

from __future__ import annotations

from collections.abc import Iterator

from frostline.analysis import Analysis
from frostline.analysis.passes import FROSTLINE
from frostline.analysis.verdict import milliseconds as ms
from frostline.analysis.walked import HOW_FULL
from frostline.report.blocks import Block, Line, Table
from frostline.report.brief import noted
from frostline.report.marks import FULL, PASSES
from frostline.report.words import (
    forecast_checked,
    forecast_words,
    number,
    short_paths,
    walked,
)

SHOWN_FULL = 12
SHOWN_SITES = 12


def generations(analysis: Analysis) -> Iterator[Block]:
    rows: list[tuple[str, ...]] = []
    hows: dict[str, dict[int, tuple[int, int]]] = {}
    for process in noted(analysis):
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
    yield Table(title, columns, tuple(rows), frozenset(range(1, 13)), spare, section=PASSES)
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


def full(analysis: Analysis) -> Iterator[Block]:
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
    keys = tuple((process.name, p.start) for p, process in passes[:SHOWN_FULL])
    spare = ("at s", "trigger (not the cause)")
    yield Table(title, columns, rows, frozenset((1, 2, 4, 5)), spare, section=FULL, keys=keys)
    for process in analysis.processes:
        if process.forecast is not None:
            yield Line(f"Next in {process.name}: {forecast_words(process.forecast)}", "quiet", indent=2)
            yield Line(f"({forecast_checked(process.forecast)})", "quiet", indent=4)


def explicit(analysis: Analysis) -> Iterator[Block]:
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
