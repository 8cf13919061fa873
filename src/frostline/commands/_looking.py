"""What the commands share that look into heaps: options, progress, and where answers are kept."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from frostline.commands import _control
from frostline.commands.status import printable
from frostline.errors import FrostlineError
from frostline.reach import asking, looking
from frostline.reach.looking import Look

F = TypeVar("F", bound=Callable[..., Any])


def options(function: F) -> F:
    """The arguments that they all take: those of ``_control.options``, ``serving`` and ``save``."""
    for add in (
        click.option(
            "--save",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Keep what was found, as JSON.",
        ),
        click.option(
            "--serving", is_flag=True, help="Also where requests are known to be in flight: they wait."
        ),
    ):
        function = add(function)
    return _control.options(function, seconds=60.0)


def frozen(function: F) -> F:
    """``--frozen``, of those that can look into what is frozen."""
    return click.option(
        "--frozen",
        is_flag=True,
        help="Also into what is frozen, by a walk from modules and functions: 1 to 3 s a million objects.",
    )(function)


def look(
    text: str, where: str | None, tree: bool, seconds: float, serving: bool, save: Path | None
) -> list[Look]:
    """Asks every process meant, says which one is being asked, and keeps the answers where that is wanted."""
    found = ask(_control.targets(where, tree), text + (" serving=1" if serving else ""), seconds)
    if save is not None:
        keep(save, as_rows(found))
    return found


def ask(targets: list[asking.Target], text: str, seconds: float) -> list[Look]:
    """Asks one after the other, and says on a terminal which one is being asked."""
    found: list[Look] = []
    shown = sys.stderr.isatty()

    def told(target: asking.Target) -> None:
        if shown:
            name = printable(target.name)
            click.echo(f"\r\x1b[K{len(found) + 1} of {len(targets)}: {name}", nl=False, err=True)

    for one in looking.looks(targets, text, seconds, told):
        found.append(one)
    if shown:
        click.echo("\r\x1b[K", nl=False, err=True)
    return found


def keep(path: Path, value: Any) -> None:
    """Writes what was found, as JSON.

    Raises:
        FrostlineError: ``save-unwritable``.
    """
    try:
        path.write_text(json.dumps(value, indent=1), encoding="utf-8")
    except OSError as error:
        raise FrostlineError(
            "save-unwritable", f"cannot write {path}: {error.strerror}", "Give --save a file that can be."
        ) from error


def as_rows(found: list[Look]) -> list[dict[str, Any]]:
    """The answers, one a process; ``why_not`` where there is none."""
    return [
        {"process": one.target.name, "asked": one.target.pid, "why_not": one.why_not, **(one.found or {})}
        for one in found
    ]


def silent(found: list[Look]) -> int:
    """Says who did not answer and why; the exit code."""
    missing = [one for one in found if one.found is None]
    for one in missing:
        click.echo(printable(f"{one.target.pid}  {one.target.name}: NOT LOOKED AT: {one.why_not}"))
    return 1 if missing else 0
