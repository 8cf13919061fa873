"""A command that is run as ``frostline run`` does it, by one that stays and tells of it afterwards."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any

import click

from frostline.commands.run import checked_integrations, usage
from frostline.errors import FrostlineError
from frostline.reach import files, session
from frostline.reach.start import start

#: Between two looks at it, and how long a command that was told to end may take, seconds.
_EVERY, _PATIENCE = 0.1, 60.0
#: How long what the command has left behind may take to end as well, seconds.
_SETTLES = 5.0


def settings(**more: str) -> dict[str, str]:
    """Of ``frostline run``, with as little as can be in force."""
    return {
        "policy": "",
        "presets": "none",
        "integrations": checked_integrations(os.environ.get("FROSTLINE_INTEGRATIONS", "")),
        "spans": "",
        "control": "on",
        "retention": "0",
        "promotions": "",
    } | more


def new_folder(output: str | None) -> str:
    """The session's folder: what the command tells is to be that of this run alone.

    Raises:
        FrostlineError: ``output-exists``.
    """
    if output is not None and os.path.lexists(output):
        raise usage("output-exists", f"{output} is there already", "Give -o a new folder.")
    return output if output is not None else session.default_folder()


def begin(
    folder: str,
    chosen: dict[str, str],
    ready: dict[str, Any] | None,
    command: list[str],
    aside: bool = False,
) -> int:
    """The command's pid: a child that does what ``frostline run`` does, which becomes the command.

    Args:
        aside: what it prints goes to stderr, since stdout is for JSON.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        return child
    code = 125
    try:
        if aside:
            os.dup2(2, 1)
        start(folder, chosen, ready, command, counters=False, host=False)
    except FrostlineError as error:
        click.echo(f"frostline: {error.message} [{error.slug}]\n  {error.remedy}", err=True)
        code = error.exit_code if error.exit_code >= 125 else 125
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def wait(child: int, due: Callable[[], bool]) -> int:
    """Waits for the command, and passes SIGTERM on; its exit code, 0 if we ended it.

    Args:
        due: asked again and again; once it says so the command is told to end (SIGTERM, after a minute
            SIGKILL).
    """

    def pass_on(number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)

    # Ctrl-C reaches the command from the terminal as it reaches us; what it has told is reported then too.
    interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
    terminate = signal.signal(signal.SIGTERM, pass_on)
    told_at = 0.0
    try:
        while True:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                return 0 if told_at else code if code >= 0 else 128 - code
            if told_at:
                if time.monotonic() - told_at > _PATIENCE:
                    os.kill(child, signal.SIGKILL)
            elif due():
                os.kill(child, signal.SIGTERM)
                told_at = time.monotonic()
            time.sleep(_EVERY)
    finally:
        signal.signal(signal.SIGINT, interrupt)
        signal.signal(signal.SIGTERM, terminate)


def settle(folder: str) -> None:
    """Waits until the last process of the command has ended, a few seconds at most: some end after the first
    one (multiprocessing's helpers), and tell of themselves only then. A daemon lives on.
    """
    until = time.monotonic() + _SETTLES
    while time.monotonic() < until:
        helpers = files.read_notes(folder, "helper-")
        if not helpers or all(note.true("ended") for note in helpers):
            return
        time.sleep(_EVERY)
