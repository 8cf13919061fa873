"""``frostline startup``: run a command, and say where its start-up heap comes from."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from pathlib import Path
from types import FrameType
from typing import Any

import click

from frostline.analysis.startup import start_ups
from frostline.commands import run as options
from frostline.commands.report import Named, analysed
from frostline.errors import FrostlineError
from frostline.format import redact
from frostline.format import startup as layout
from frostline.reach import session
from frostline.reach.start import start
from frostline.recording import Session
from frostline.recording.loss import Losses
from frostline.recording.notes import read_notes
from frostline.recording.startup import read_imports
from frostline.report import write
from frostline.report.blocks import Block, Line
from frostline.report.html.startup import to_html
from frostline.report.startup import ROWS
from frostline.report.startup import startup as told

#: Between two looks at whether start-up has ended, and how long a command may take to end then, seconds.
_EVERY, _PATIENCE = 0.1, 60.0
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
@click.option("--policy", help="As of `frostline run`: with one, start-up ends at the boundary.")
@click.option("--rows", type=click.IntRange(min=1), default=ROWS, show_default=True, help="Rows of a table.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND [ARGUMENTS]...")
def startup(
    output: str | None,
    html_file: Path | None,
    until: str | None,
    ready_url: str | None,
    ready_log: str | None,
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
    if output is not None and os.path.lexists(output):
        raise options.usage("output-exists", f"{output} is there already", "Give -o a new folder.")
    settings = {
        "startup": "1",
        "policy": chosen.text if chosen else "",
        "presets": "none",
        "integrations": options.checked_integrations(os.environ.get("FROSTLINE_INTEGRATIONS", "")),
        "spans": "",
        "control": "on",
        "retention": "0",
        "promotions": "",
    }
    folder = output if output is not None else session.default_folder()
    child = _begin(folder, settings, ready, list(command))
    code = _wait(child, Path(folder), limit, ready is not None)
    if code >= 125 and not _recorded(Path(folder)):
        click.get_current_context().exit(code)  # it did not start, and has said why
    _show(Path(folder), limit, html_file, rows, command)
    click.get_current_context().exit(code)


def _begin(folder: str, settings: dict[str, str], ready: dict[str, Any] | None, command: list[str]) -> int:
    """The command's pid: a child that does what ``frostline run`` does, which becomes the command."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        return child
    code = 125
    try:
        start(folder, settings, ready, command, counters=False, host=False)
    except FrostlineError as error:
        click.echo(f"frostline: {error.message} [{error.slug}]\n  {error.remedy}", err=True)
        code = error.exit_code if error.exit_code >= 125 else 125
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _wait(child: int, folder: Path, limit: float, ready: bool) -> int:
    """Waits for the command, and ends it when start-up has ended; returns its exit code, 0 if we ended it."""

    def pass_on(number: int, frame: FrameType | None) -> None:
        os.kill(child, number)

    # Ctrl-C reaches the command from the terminal as it reaches us; what it has told is reported then too.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, pass_on)
    end = time.monotonic() + limit + _LATE
    seen = False
    told_at = 0.0
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            code = os.waitstatus_to_exitcode(status)
            return 0 if told_at else code if code >= 0 else 128 - code
        now = time.monotonic()
        if limit and not seen and any(folder.glob(f"{layout.PREFIX}*")):
            seen, end = True, now + limit + _SEEN  # it counts from the first process's beginning
        if told_at:
            if now - told_at > _PATIENCE:
                os.kill(child, signal.SIGKILL)
        elif (limit and now > end) or (ready and _is_ready(folder)):
            click.echo("frostline: start-up has ended: telling the command to end", err=True)
            os.kill(child, signal.SIGTERM)
            told_at = now
        time.sleep(_EVERY)


def _is_ready(folder: Path) -> bool:
    found = Session(folder)
    read_notes(found, folder, Losses())
    return found.ready is not None and found.ready[1] > 0


def _recorded(folder: Path) -> bool:
    return folder.is_dir() and bool(read_imports(folder))


def _show(folder: Path, limit: float, html_file: Path | None, rows: int, command: tuple[str, ...]) -> None:
    logs = read_imports(folder)
    if not logs:
        raise FrostlineError(
            "no-imports",
            "no process told of its imports: none was a CPython that Frostline reached",
            f"`frostline status {folder}` names what was missed, and why.",
        )
    analysis = analysed((folder,))
    found = start_ups(analysis, logs, int(limit * 1e9))
    blocks: list[Block] = []
    missed = sum(process.python for process in analysis.missed)
    if missed:
        words = f"{missed:,} Python processes were not reached: `frostline status {folder}` says why."
        blocks.append(Line(words, "bad"))
    blocks += told(found, rows)
    write(blocks, sys.stdout)
    if html_file is not None:
        html_file.write_text(
            to_html(found, f"Frostline: start-up of {folder.name}", " ".join(redact(list(command)))),
            encoding="utf-8",
        )
        click.echo(f"page: {html_file}", err=True)
    click.echo(f"session: {folder}", err=True)
