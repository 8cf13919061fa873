"""``frostline demo``: the reference server, run stock and frozen under the same load, and compared."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from frostline.analysis import Analysis, ProcessReport
from frostline.commands._ending import interruptible
from frostline.commands._numbers import Range
from frostline.commands.report import analysed
from frostline.demo.drive import Load, describe
from frostline.demo.show import ARMS, Outcome, Progress, run_show
from frostline.errors import FrostlineError
from frostline.experiment.load.plan import is_url
from frostline.report import Block, Line, Table, sidebyside, write
from frostline.report import report as text_report

#: Without a terminal a line is printed so often (seconds).
_EVERY = 10.0
#: Other programs that use more cores than this make the clients' times worth little.
_BUSY_CORES = 0.3
#: What keeps a server from a port.
_NO_PLACE = (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES)


@click.group(invoke_without_command=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="New folder for the recordings.")
@click.option("--scale", type=Range(0.01, 10), default=1.0, show_default=True,
              help="Size of the heaps; 1 is 0.6 to 1 million objects a process.")  # fmt: skip
@click.option("--workers", type=click.IntRange(1, 8), default=1, show_default=True,
              help="Worker processes behind the engine core.")  # fmt: skip
@click.option("--seconds", type=Range(1, 3600), default=40.0, show_default=True,
              help="Time under load, for each of the two runs.")  # fmt: skip
@click.option("--rate", type=Range(0.1, 1000), default=12.0, show_default=True,
              help="Requests a second.")  # fmt: skip
@click.pass_context
def demo(
    context: click.Context, output: Path | None, scale: float, workers: int, seconds: float, rate: float
) -> None:
    """Run the reference server twice under the same load, stock and frozen, and compare.

    The server is a stand-in for an LLM server: the processes, heaps and pauses are
    real, the model is random numbers. Nothing is left running afterwards.
    """
    if context.invoked_subcommand is not None:
        return
    console = Console(highlight=False)
    folder = output or Path("demo-recordings", time.strftime(f"%Y%m%d-%H%M%S-{os.getpid()}"))
    if folder.exists():
        raise click.BadParameter(f"{folder} exists; name a new folder", param_hint="--output")
    console.print(
        f"The reference server, a stand-in for an LLM server, under {rate:g} requests a second,\n"
        f"{seconds:.0f} s stock and {seconds:.0f} s with the policy `freeze`. Ctrl-C leaves nothing behind."
    )
    analyses: list[Analysis] = []

    def report(session: Path, path: Path) -> None:
        analyses.append(analysed((session,)))
        with path.open("w") as file:
            write(text_report(analyses[-1]), file)

    with interruptible(), _progress(console) as progress:
        outcomes = run_show(folder, scale, workers, Load(rate=rate, seconds=seconds), progress, report)
    write(_result(outcomes, analyses), sys.stdout)


@demo.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default=True,
              help="Port to listen on; 0: the kernel chooses.")  # fmt: skip
@click.option("--scale", type=Range(0.01, 10), default=1.0, show_default=True,
              help="Size of the heaps; 1 is 0.6 to 1 million objects a process.")  # fmt: skip
@click.option("--workers", "--tensor-parallel", type=click.IntRange(1, 8), default=1, show_default=True,
              help="Worker processes behind each engine core, in lock-step.")  # fmt: skip
@click.option("--data-parallel", type=click.IntRange(1, 8), default=1, show_default=True,
              help="Engine cores in lock-step.")  # fmt: skip
@click.option("--disaggregated", is_flag=True, help="Prefill and decode in engine cores of their own.")
@click.option("--merge", type=click.Choice(["off", "linear", "quadratic"]), default="off", show_default=True,
              help="How chunks that wait are merged; quadratic is the control.")  # fmt: skip
@click.option("--kv-events", default="", metavar="ADDRESS",
              help="Publish what the prefix cache holds: tcp://HOST:PORT or ipc:///PATH.")  # fmt: skip
@click.option("--step-ms", type=Range(0, 1000), default=5.0, show_default=True,
              help="A step takes at least so long, as on an accelerator.")  # fmt: skip
@click.option("--seed", type=int, default=0, help="Of the model's weights.")
@click.option("--announce", type=click.Path(path_type=Path), help="File to write the address to.")
def serve(
    host: str, port: int, scale: float, workers: int, data_parallel: int, disaggregated: bool, merge: str,
    kv_events: str, step_ms: float, seed: int, announce: Path | None,
) -> int:  # fmt: skip
    """Run the reference server until it is told to stop."""
    from frostline.demo import front_end
    from frostline.demo.events import check_address
    from frostline.demo.launch import Settings

    try:
        events = check_address(kv_events)
    except ValueError as problem:
        raise click.BadParameter(str(problem), param_hint="--kv-events") from None
    settings = Settings(
        scale=scale, workers=workers, data_parallel=data_parallel, disaggregated=disaggregated, merge=merge,
        events=events, seed=seed, step_ms=step_ms,
    )  # fmt: skip
    try:
        return front_end.serve(settings, host, port, announce)
    except OSError as error:
        told = isinstance(error, socket.gaierror) or error.errno in _NO_PLACE
        if not told or error.filename is not None:  # a file's own: the announcement's
            raise
        raise FrostlineError(
            "demo-server",
            f"the server cannot listen on {host}:{port}: {error.strerror}",
            "Another --port (0: the kernel chooses) or --host.",
        ) from error


@demo.command()
@click.argument("url")
@click.option("--rate", type=Range(0.1, 1000), default=12.0, show_default=True,
              help="Requests a second.")  # fmt: skip
@click.option("--seconds", type=Range(1, 3600), default=30.0, show_default=True,
              help="How long requests are sent.")  # fmt: skip
@click.option("--seed", type=int, default=0, help="Of the plan of arrivals.")
@click.option("--output", type=click.Path(path_type=Path), help="File for every request's times.")
def drive(url: str, rate: float, seconds: float, seed: int, output: Path | None) -> None:
    """Send a running reference server load, with an open loop, and say how it answered."""
    if not is_url(url):
        raise click.BadParameter(f"{url!r} is none; for example http://127.0.0.1:8000", param_hint="URL")
    from frostline.demo import drive as client

    click.echo(describe(client.drive(url, Load(rate=rate, seconds=seconds, seed=seed), output)))


@contextlib.contextmanager
def _progress(console: Console) -> Iterator[Progress]:
    """A bar on a terminal, a line now and then where the output is piped."""
    if not console.is_terminal:
        yield _Lines()
        return
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    # No refresh thread: children are forked from this process.
    with Bar(*columns, console=console, auto_refresh=False, transient=True) as bar:
        tasks: dict[str, TaskID] = {}

        def show(stage: str, done: float, whole: float) -> None:
            if stage not in tasks:
                for task in tasks.values():
                    bar.update(task, visible=False)
                tasks[stage] = bar.add_task(stage, total=None)
            bar.update(tasks[stage], completed=done, total=whole or None)
            bar.refresh()

        yield show


class _Lines:
    def __init__(self) -> None:
        self._stage = ""
        self._next = 0.0

    def __call__(self, stage: str, done: float, whole: float) -> None:
        if stage != self._stage:
            self._stage, self._next = stage, _EVERY
            click.echo(f"{stage} ..." if not whole else f"{stage}, {whole:.0f} s ...")
        elif done >= self._next:
            self._next += _EVERY
            click.echo(f"  {done:.0f} s" + (f" of {whole:.0f} s" if whole else ""))


def _result(outcomes: list[Outcome], analyses: list[Analysis]) -> Iterator[Block]:
    """The two arms side by side: what the clients felt, then what the processes did."""
    names = tuple(name for name, _ in ARMS)
    rows = (
        ("requests", "requests", "{:d}"),
        ("errors", "errors", "{:d}"),
        ("response p50", "response_p50", "{:.0f} ms"),
        ("response p90", "response_p90", "{:.0f} ms"),
        ("response p99", "response_p99", "{:.0f} ms"),
        ("longest response", "response_max", "{:.0f} ms"),
        ("first token p99", "first_p99", "{:.0f} ms"),
        ("client's own lateness p99", "late_p99", "{:.1f} ms"),
    )
    cells = tuple(
        (label, *(form.format(getattr(outcome.summary, field)) for outcome in outcomes))
        for label, field, form in rows
    )
    cores = os.cpu_count() or 1
    noise = ("-" if one.others is None else f"{one.others:.1f} of {cores} cores" for one in outcomes)
    cells += (("used by other programs", *noise),)
    yield Table("What the clients felt: last token - intended time", ("", *names), cells, frozenset((1, 2)))
    for outcome in outcomes:
        if not outcome.summary.valid:
            yield Line(f"{outcome.name}: {describe(outcome.summary).splitlines()[-1]}", "bad")
    if max(one.others or 0 for one in outcomes) > _BUSY_CORES:
        yield Line(
            "The machine was busy with other programs: these times are theirs too, so do not compare them. "
            "Run it again when the machine is quiet.",
            "bad",
        )
    stock, frozen = (
        _under_load(analysis, outcome) for analysis, outcome in zip(analyses, outcomes, strict=True)
    )
    yield Line("")
    yield Line("What the processes did while the load ran (their start-up and end are in the reports):")
    yield from sidebyside(stock, frozen, (names[0], names[1]))
    yield Line("")
    yield Line(_conclusion(stock, frozen), "headline")
    for outcome in outcomes:
        yield Line(f"  {outcome.name}: recordings in {outcome.session}, whole report in {outcome.report}")


def _under_load(analysis: Analysis, outcome: Outcome) -> Analysis:
    """The analysis of the time under load: a walk at start-up, the freeze's own too, stops nobody."""
    serving = (process for process in analysis.processes if process.labels)
    cut = tuple(_cut(process, outcome.begin, outcome.end) for process in serving)
    return dataclasses.replace(analysis, processes=cut, start=outcome.begin, stop=outcome.end)


def _cut(process: ProcessReport, begin: int, end: int) -> ProcessReport:
    pauses = process.pauses
    inside = (pauses.start >= begin) & (pauses.start < end)
    lengths = pauses.length[inside]
    return dataclasses.replace(
        process,
        start=begin,
        stop=end,
        longest=int(lengths.max(initial=0)),
        pause_total=int(lengths.sum()),
        full_passes=tuple(one for one in process.full_passes if begin <= one.start < end),
    )


def _conclusion(stock: Analysis, frozen: Analysis) -> str:
    """What the two runs show, from the pauses alone: they do not depend on how busy the machine was."""
    before, after = (
        [one.pause / 1e6 for process in analysis.processes for one in process.full_passes]
        for analysis in (stock, frozen)
    )
    if not before:
        return (
            "No full pass fell into the time under load, so there was nothing to remove: try more --seconds."
        )
    text = f"Under load, full passes stopped the stock server's processes {_stops(before)}"
    if not after:
        return f"{text}; frozen, never."
    return f"{text}; frozen, {_stops(after)}: the heap that start-up built is not walked any more."


def _stops(pauses: list[float]) -> str:
    times = "once" if len(pauses) == 1 else f"{len(pauses)} times"
    return f"{times}, for {sum(pauses):,.0f} ms in all and {max(pauses):,.0f} ms at the longest"
