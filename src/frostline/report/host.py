"""Section of the report: what the host did to the processes, and what was slow because of it (B13)."""

from __future__ import annotations

from collections.abc import Iterator

from frostline.analysis import Analysis
from frostline.analysis.hostmodel import KINDS, HostProcessReport, HostReport
from frostline.report.blocks import Block, Line, Table
from frostline.report.marks import HOST
from frostline.report.words import number, seconds

#: A pressure, or a share stolen, that is worth a word.
WORTH = 0.01


def host(analysis: Analysis) -> Iterator[Block]:
    """Nothing where nothing was sampled."""
    sampled = [(p.name, p.host) for p in analysis.processes if p.host is not None]
    if analysis.host is None and not sampled:
        return
    yield from _processes(sampled)
    yield from _slow(analysis)
    if analysis.host is not None:
        yield from _machine(analysis.host)


def _processes(sampled: list[tuple[str, HostProcessReport]]) -> Iterator[Block]:
    rows = tuple(
        (
            name,
            _percent(one.cpu, one.sampled),
            _percent(one.main_cpu, one.sampled),
            _percent(one.main_queue, one.sampled),
            _rate(one.voluntary, one.sampled),
            _rate(one.involuntary, one.sampled),
            _rate(one.migrations, one.sampled),
            _rate(one.minor_faults, one.sampled),
            f"{one.major_faults:,}",
            f"{one.resident_most / 1e6:,.0f}",
            f"{one.private_dirty / 1e6:,.0f}" if one.private_dirty else "",
            f"{one.throttled:,}, {one.throttled_time / 1e6:,.0f} ms" if one.throttled else "",
        )
        for name, one in sampled
    )
    columns = (
        "process", "CPU %", "main thread %", "its run queue %", "gave up CPU /s", "was put off /s",
        "moved /s", "minor faults /s", "major", "resident MB", "private dirty", "throttled",
    )  # fmt: skip
    if rows:
        spare = (
            "throttled",
            "private dirty",
            "moved /s",
            "minor faults /s",
            "main thread %",
            "was put off /s",
        )
        yield Table("The host", columns, rows, frozenset(range(1, 12)), spare, section=HOST)


def _slow(analysis: Analysis) -> Iterator[Block]:
    rows = [
        (process.name, KINDS[kind], f"{count:,}", number(excess))
        for process in analysis.processes
        for kind, count, excess in (process.host.slow if process.host is not None else ())
    ]
    if rows:
        columns = ("process", "what the host shows", "slow steps", "their excess ms")
        yield Table("Slow steps that no pass explains", columns, tuple(rows), frozenset((2, 3)))


def _machine(one: HostReport) -> Iterator[Block]:
    parts = [f"idle {one.idle:.0%}", f"load up to {one.load_most:.1f}"]
    for share, words in (
        (one.cpu_pressure, "somebody waited for a CPU"),
        (one.io_pressure, "for a disk"),
        (one.memory_pressure, "for memory"),
        (one.steal, "taken by the hypervisor"),
    ):
        if share >= WORTH:
            parts.append(f"{words} {share:.0%}")
    cost = f"; sampling took {one.cost:.2%} of one CPU" if one.cost is not None else ""
    yield Line("")
    yield Line(f"The machine, over {seconds(one.sampled)}: {', '.join(parts)}{cost}.", indent=2)
    for i, gpu in enumerate(one.gpus):
        limited = ", ".join(f"{reason} {share:.0%} of the time" for reason, share in gpu.throttle)
        yield Line(
            f"GPU {i} ({gpu.name}): {gpu.sm_mhz_least:,} to {gpu.sm_mhz_most:,} MHz, "
            f"{gpu.power_mw / 1000:,.0f} W (up to {gpu.power_mw_most / 1000:,.0f}), busy "
            f"{gpu.busy_percent} %, up to {gpu.celsius_most} C; "
            + (f"slowed down: {limited}." if limited else "not slowed down."),
            indent=2,
        )


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / max(1, whole):,.1f}"


def _rate(count: int, length: int) -> str:
    value = count / max(1, length) * 1e9
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"
