"""What the commands share that ask live processes for something: options, table, exit code."""

import json
from collections.abc import Callable
from typing import Any, TypeVar

import click

from frostline.commands._newest import newest
from frostline.commands._numbers import Range
from frostline.commands.status import printable
from frostline.reach import asking

F = TypeVar("F", bound=Callable[..., Any])


def options(function: F, seconds: float = 5.0) -> F:
    """The arguments that they all take: ``where``, ``tree``, ``seconds``, ``as_json``.

    Args:
        seconds: how long the answers are awaited, unless told.
    """
    for add in (
        click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs."),
        click.option(
            "--wait",
            "seconds",
            type=Range(min=0.1, max=3600.0),
            default=seconds,
            show_default=True,
            metavar="SECONDS",
            help="How long the answers are awaited.",
        ),
        click.option("--tree", is_flag=True, help="With a PID: its descendants as well."),
        click.argument("where", required=False, metavar="[SESSION|PID]"),
    ):
        function = add(function)
    return function


def targets(where: "str | None", tree: bool) -> list[asking.Target]:
    """The processes that the running command means; its errors name it, as it was typed.

    Raises:
        FrostlineError: as ``asking.targets``.
    """
    context = click.get_current_context()
    typed = [context.info_name]
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        if isinstance(parameter, click.Argument) and parameter.name != "where" and isinstance(value, str):
            typed.append(value)
    return asking.targets(where or newest(), tree, " ".join(word for word in typed if word))


def ask(
    op: int,
    arguments: tuple[int, ...],
    say: Callable[[asking.Answer], str],
    where: "str | None",
    tree: bool,
    seconds: float,
    as_json: bool,
    text: "bytes | None" = None,
    spread: int = 0,
) -> int:
    """Asks, prints who answered what and who did not, and returns the exit code.

    Args:
        say: what a "done" means, in words.
        spread: behind the arguments each process gets so much more than the one before it.
    """
    found = targets(where, tree)
    answers = asking.ask_all(found, op, arguments, seconds, text=text, spread=spread)
    silent = [answer for answer in answers if not answer.done]
    if as_json:
        rows = [
            answer._asdict() | {"detail": say(answer) if answer.done else answer.detail} for answer in answers
        ]
        click.echo(json.dumps({"answered": len(answers) - len(silent), "processes": rows}, indent=2))
    else:
        pid_width = max(len(str(answer.pid)) for answer in answers)
        width = max(len(answer.name) for answer in answers)
        for answer in answers:
            what = say(answer) if answer.done else f"NOT DONE: {answer.detail}"
            click.echo(printable(f"{answer.pid:>{pid_width}}  {answer.name:<{width}}  {what}"))
        click.echo(f"{len(answers) - len(silent)} of {len(answers)} processes did it")
    return 1 if silent else 0
