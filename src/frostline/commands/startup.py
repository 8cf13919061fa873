"""``frostline startup``: run a command, and say where its start-up heap comes from."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click

from frostline.analysis.startup import start_ups
from frostline.commands import _command
from frostline.commands import run as options
from frostline.commands.report import Named, analysed
from frostline.errors import FrostlineError
from frostline.format import redact
from frostline.format import startup as layout
from frostline.recording import Session
from frostline.recording.loss import Losses
from frostline.recording.notes import read_notes
from frostline.recording.startup import read_imports
from frostline.report import write
from frostline.report.blocks import Block, Line
from frostline.report.html.startup import to_html
from frostline.report.startup import ROWS
from frostline.report.startup import startup as told
from frostline.report.startupjson import to_json

#: Over --until: for the helper to see the processes alive after it; and where none tells of imports.
_SEEN, _LATE = 0.6, 10.0


@click.command(
    context_settings={"allow_interspersed_args": False},
    short_help="Run a command, and say where its start-up heap comes from.",
)
@click.option("-o", "--output", metavar="DIR", help="Session folder, which must not be there yet.")
@click.option(
    "--html",
    "html_file",
    type=Named(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write one page with an icicle of each process; it works offline.",
)
@click.option("--until", metavar="TIME", help="Start-up ends so long after the start at the latest: 60s, 2m.")
@click.option("--ready-url", metavar="URL", help="... when this answers 2xx or 3xx.")
@click.option(
    "--ready-log", metavar="[FILE:]REGEX", help="... when a line of the output, or of FILE, matches."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON; what COMMAND prints goes to stderr then.")
@click.option("--policy", help="As of `frostline run`: with one, start-up ends at the boundary.")
@click.option("--rows", type=click.IntRange(min=1), default=ROWS, show_default=True, help="Rows of a table.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND [ARGUMENTS]...")
def startup(
    output: str | None,
    html_file: Path | None,
    until: str | None,
    ready_url: str | None,
    ready_log: str | None,
    as_json: bool,
    policy: str | None,
    rows: int,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND and say which imports, and what else, added the objects that full passes will walk, and
    which passes ran meanwhile.

    \b
        frostline startup -- python -c "import torch"
        frostline startup --html startup.html --until 60s -- uvicorn app:app
        frostline startup --ready-url http://127.0.0.1:8000/health -- vllm serve ./model

    Start-up ends at READY (--ready-*), else at the boundary that the program told, after --until at the
    latest, or with the program. After READY or --until COMMAND is told to end (SIGTERM). Every process
    that it starts has tables of its own. The recording stays in the session folder.
    """
    if not command:
        raise options.usage("no-command", "there is no command to run", "frostline startup -- COMMAND ...")
    chosen = options.checked_policy(policy) if policy is not None else None
    ready = options.checked_ready(ready_url, ready_log, None)
    limit = options.seconds(until) if until is not None else 0.0
    settings = _command.settings(startup="1", policy=chosen.text if chosen else "")
    folder = Path(_command.new_folder(output))
    child = _command.begin(str(folder), settings, ready, list(command), aside=as_json)
    code = _command.wait(child, _ended(folder, limit, ready is not None))
    _command.settle(str(folder))
    if code >= 125 and not _recorded(folder):
        click.get_current_context().exit(code)  # it did not start, and has said why
    came = f"--ready-url {shlex.quote(ready_url)}" if ready_url else ""
    came = f"--ready-log {shlex.quote(ready_log)}" if ready_log else came
    _show(folder, limit, html_file, rows, command, as_json, came)
    click.get_current_context().exit(code)


def _ended(folder: Path, limit: float, ready: bool) -> Callable[[], bool]:
    """What says whether start-up has ended before the command has, and says so to the user."""
    end = time.monotonic() + limit + _LATE
    seen = False

    def ended() -> bool:
        nonlocal end, seen
        now = time.monotonic()
        if limit and not seen and any(folder.glob(f"{layout.PREFIX}*")):
            seen, end = True, now + limit + _SEEN  # it counts from the first process's beginning
        if not (limit and now > end) and not (ready and _is_ready(folder)):
            return False
        click.echo("frostline: start-up has ended: telling the command to end", err=True)
        return True

    return ended


def _is_ready(folder: Path) -> bool:
    found = Session(folder)
    read_notes(found, folder, Losses())
    return found.ready is not None and found.ready[1] > 0


def _recorded(folder: Path) -> bool:
    return folder.is_dir() and bool(read_imports(folder))


def _show(
    folder: Path,
    limit: float,
    html_file: Path | None,
    rows: int,
    command: tuple[str, ...],
    as_json: bool,
    came: str,
) -> None:
    logs = read_imports(folder)
    if not logs:
        raise FrostlineError(
            "no-imports",
            "no process told of its imports: none was a CPython that Frostline reached",
            f"`frostline status {folder}` names what was missed, and why.",
        )
    analysis = analysed((folder,))
    found = start_ups(analysis, logs, int(limit * 1e9))
    if as_json:
        json.dump(to_json(analysis, found, came), sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        blocks: list[Block] = []
        missed = sum(process.python for process in analysis.missed)
        if missed:
            words = f"{missed:,} Python processes were not reached: `frostline status {folder}` says why."
            blocks.append(Line(words, "bad"))
        write([*blocks, *told(found, rows, came)], sys.stdout)
    if html_file is not None:
        html_file.write_text(
            to_html(found, f"Frostline: start-up of {folder.name}", " ".join(redact(list(command)))),
            encoding="utf-8",
        )
        click.echo(f"page: {html_file}", err=True)
    click.echo(f"session: {folder}", err=True)
