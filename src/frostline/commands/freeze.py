"""``frostline freeze``: freezes the heap of every recorded process of a live server."""

import click

from frostline import format as layout
from frostline.commands import _control
from frostline.reach.asking import Answer


@click.command(short_help="Freeze the heap of every process of a live server.")
@_control.options
def freeze(where: "str | None", tree: bool, seconds: float, as_json: bool) -> int:
    """Freeze the heap of every live process of SESSION (the newest), or of PID.

    A splice: microseconds at any size, no pass. Cyclic garbage that exists at this moment is frozen
    with the rest, until `frostline thaw`. Ends with 1 if any process did not answer.
    """
    return _control.ask(layout.OP_FREEZE, (), _say, where, tree, seconds, as_json)


def _say(answer: Answer) -> str:
    return "frozen"
