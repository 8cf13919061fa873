"""``frostline export``: a session for Perfetto and Chrome, or into a trace of torch's profiler."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from frostline.analysis.verdict import milliseconds as ms
from frostline.commands._numbers import Range
from frostline.commands.report import Named, analysed
from frostline.errors import FrostlineError
from frostline.export.chrome import write_chrome
from frostline.export.torch import DeviceGaps, Merged, merge_into
from frostline.report.safe import safe

#: Gaps of a device that are listed one by one.
LONGEST = 5


@click.command(name="export")
@click.argument("sessions", nargs=-1, type=Named(path_type=Path))
@click.option(
    "--chrome",
    type=Named(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write trace events for ui.perfetto.dev and chrome://tracing.",
)
@click.option("--no-spans", is_flag=True, help="With --chrome: passes only.")
@click.option(
    "--into",
    type=Named(path_type=Path, exists=True, dir_okay=False),
    metavar="TRACE",
    help="Put the passes into this trace of torch's profiler (JSON, also .gz).",
)
@click.option(
    "--to",
    type=Named(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="With --into: what to write; by default TRACE's name with '.frostline' in it.",
)
@click.option(
    "--gap-ms",
    type=Range(min=0.001),
    default=5.0,
    show_default=True,
    help="With --into: a device's gap is one from this length on.",
)
def export(
    sessions: tuple[Path, ...],
    chrome: Path | None,
    no_spans: bool,
    into: Path | None,
    to: Path | None,
    gap_ms: float,
) -> None:
    """Write a session (a folder), or several merged by their clocks, or the newest, for other tools.

    \b
        frostline export --chrome trace.json        # open it at ui.perfetto.dev
        frostline export --into profiler.json.gz    # the passes, in a trace of torch's profiler
    """
    if (chrome is None) == (into is None):
        raise click.UsageError("give --chrome FILE, or --into TRACE")
    out = to or (into.with_name(_named(into.name)) if into else None)
    if into is not None and out is not None and out.exists() and out.samefile(into):
        raise FrostlineError(
            "trace-kept", f"{out} would overwrite the trace itself", "Give another file with --to."
        )
    analysis = analysed(sessions)
    if chrome is not None:
        count = write_chrome(analysis, chrome, spans=not no_spans)
        click.echo(f"{count:,} events in {chrome}; open it at ui.perfetto.dev")
    elif into is not None and out is not None:
        for line in _said(merge_into(analysis, into, out, int(gap_ms * 1e6)), out):
            click.echo(line)


def _named(name: str) -> str:
    stem, dot, rest = name.partition(".json")
    return f"{stem}.frostline{dot}{rest}" if dot else f"{name}.frostline"


def _said(merged: Merged, out: Path) -> Iterator[str]:
    yield f"{merged.passes:,} passes put into {out}; open it at ui.perfetto.dev or chrome://tracing"
    if merged.already:
        yield f"  {merged.already:,} were in the trace already, by torch itself, and are not doubled"
    if merged.outside:
        yield f"  {merged.outside:,} lie outside the trace's time"
    yield (
        f"  clocks aligned through the wall clock: to {merged.error / 1e3:,.1f} us on our side; "
        "the profiler does not say its own error"
    )
    for pid in merged.unrecorded:
        yield f"  pid {pid} was profiled, and this session has no recording of it: its passes are not known"
    if not merged.devices:
        yield "No kernel, copy, set or operator in the trace, so there are no gaps to explain"
    for device in merged.devices:
        yield from _gaps(device, merged.start)


def _counted(gaps: int) -> str:
    return f"{gaps:,} gap" if gaps == 1 else f"{gaps:,} gaps"


def _gaps(device: DeviceGaps, start: int) -> Iterator[str]:
    if device.operators:
        # No device is in the trace: torch computed on the CPU, in the process itself.
        name = f"Between operators of {safe(device.label or f'pid {device.device}')}"
    else:
        name = f"Device {safe(device.device)}" + (f" ({safe(device.label)})" if device.label else "")
    if not device.buckets:
        yield f"{name}: no gap"
        return
    pairs = [(bucket.total, bucket.explained_total) for bucket in device.buckets]
    total, held = (sum(numbers) for numbers in zip(*pairs, strict=True))
    yield (
        f"{name}: {_counted(len(device.gaps))}, {ms(total)}; consistent with passes: "
        f"{_counted(sum(b.explained for b in device.buckets))}, {ms(held)}, {held / total:.0%} of the time"
    )
    for bucket in device.buckets:
        size = f"{ms(bucket.low)} to {ms(bucket.high)}" if bucket.high else f"over {ms(bucket.low)}"
        yield (
            f"  {size}: {_counted(bucket.count)}, {ms(bucket.total)}; {bucket.explained:,} of them "
            f"({ms(bucket.explained_total)}) consistent with a pass"
        )
    for one in device.found:
        count = int((one.by >= 0).sum())
        yield (
            f"  {safe(one.name)}: {_counted(count)}; its passes cover {ms(one.covered)} of the gaps, as much "
            f"by chance in {one.by_chance:.1%} of 1,000 shifts"
        )
    longest = sorted(device.gaps, key=lambda gap: -gap.length)[:LONGEST]
    yield f"  the longest{f' {len(longest)}' if len(longest) > 1 else ''}, since the trace's first slice:"
    for gap in longest:
        words = "; ".join(map(safe, gap.passes))
        told = f"consistent with {words}" if words else "no pass that was recorded lies in it"
        yield f"    {ms(gap.length)} at {(gap.start - start) / 1e9:,.3f} s: {told}"
