"""``frostline report``: what the collector did, whether it explains the slow steps, what to do."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from frostline.analysis import Analysis, Options, analyse
from frostline.analysis.requests import with_requests
from frostline.commands._newest import newest
from frostline.commands._numbers import Range
from frostline.errors import FrostlineError
from frostline.reach.sealing import seal_dead
from frostline.recording import Session, merge, read_session
from frostline.recording.requests import FORMATS, read_requests
from frostline.recording.session import Progress
from frostline.report import report as text_report
from frostline.report import to_json, write, write_csv, write_parquet
from frostline.report.html import to_html
from frostline.report.toparquet import arrow


class Named(click.Path):
    """A path that is not empty: an unset variable of a script would mean the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the path is empty", param, ctx)
        return super().convert(value, param, ctx)


@click.command(name="report")
@click.argument("sessions", nargs=-1, type=Named(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema: `frostline explain json`).")
@click.option(
    "--csv",
    "csv_folder",
    type=Named(path_type=Path),
    metavar="DIR",
    help="Write tables into DIR.",
)
@click.option(
    "--parquet",
    "parquet_folder",
    type=Named(path_type=Path),
    metavar="DIR",
    help="Write the same tables into DIR, with typed columns (needs frostline[parquet]).",
)
@click.option(
    "--html",
    "html_file",
    type=Named(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write one page with figures into FILE; it works offline.",
)
@click.option(
    "--long-factor",
    type=Range(min=1.0),
    default=3.0,
    show_default=True,
    help="A step is slow over this many times its label's median ...",
)
@click.option(
    "--long-ms",
    type=Range(min=0.0),
    default=20.0,
    show_default=True,
    help="... and over this many milliseconds.",
)
@click.option(
    "--requests",
    "request_files",
    multiple=True,
    type=Named(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="What a load client measured: ours, vllm bench serve (--save-detailed), GuideLLM. Repeatable.",
)
@click.option(
    "--requests-format",
    type=click.Choice(FORMATS),
    help="The format of these files, where it cannot be told from what is in them.",
)
def report(
    sessions: tuple[Path, ...],
    as_json: bool,
    csv_folder: Path | None,
    parquet_folder: Path | None,
    html_file: Path | None,
    long_factor: float,
    long_ms: float,
    request_files: tuple[Path, ...],
    requests_format: str | None,
) -> None:
    """Report on a session (a folder), on several merged by their clocks, or on the newest.

    Works while the session is being recorded.
    """
    if parquet_folder is not None:
        arrow()  # what is missing is said before the work, not after it
    runs = [run for path in request_files for run in read_requests(path, requests_format or "")]
    analysis = analysed(sessions, Options(long_factor=long_factor, long_floor=int(long_ms * 1e6)))
    if runs:
        analysis = with_requests(analysis, runs)
    if csv_folder is not None:
        written = write_csv(analysis, csv_folder)
        click.echo(f"{len(written)} files in {csv_folder}", err=True)
    if parquet_folder is not None:
        written = write_parquet(analysis, parquet_folder)
        click.echo(f"{len(written)} files in {parquet_folder}", err=True)
    if html_file is not None:
        _replace(html_file, to_html(analysis))
        click.echo(f"report: {html_file}", err=True)
    if as_json:
        json.dump(to_json(analysis), sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        write(text_report(analysis), sys.stdout)


def _replace(path: Path, text: str) -> None:
    """Writes a file whole or not at all: a cut page in place of last week's is worse than none."""
    if path.exists() and not path.is_file():  # a pipe, a terminal
        path.write_text(text, encoding="utf-8")
        return
    target = path.resolve()  # what a link leads to is replaced, not the link
    beside = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        beside.write_text(text, encoding="utf-8")
        if target.exists():
            shutil.copymode(target, beside)
        beside.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise FrostlineError(
            "html-unwritable", f"cannot write {path}: {error.strerror}", "Give --html a file that can be."
        ) from error


def analysed(paths: tuple[Path, ...], options: Options | None = None) -> Analysis:
    """Reads and analyses sessions; of none, the newest. Segments that dead processes left are sealed."""
    chosen = paths or (Path(newest()),)
    read: list[Session] = []
    for path in chosen:
        if path.is_dir():
            seal_dead(str(path))
        with _progress(f"reading {path.name}") as progress:
            read.append(read_session(path, progress))
    return analyse(merge(read) if len(read) > 1 else read[0], options)


@contextlib.contextmanager
def _progress(title: str) -> Iterator[Progress | None]:
    """A bar on a terminal's stderr, once there is enough to wait for."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    with Bar(console=console, transient=True) as bar:
        task = bar.add_task(title, total=None, visible=False)

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, visible=total > 32 * 1024 * 1024)

        yield show
