"""``frostline freeze``: freezes the heap of every recorded process of a live server."""

import click

from frostline import format as layout
from frostline.commands import _control
from frostline.reach.asking import Answer

#: ms between the walks of two processes, at the least: longer than most of them take.
_APART = 2000


@click.command(short_help="Freeze the heap of every process of a live server.")
@_control.options
def freeze(where: "str | None", tree: bool, seconds: float, as_json: bool) -> int:
    """Freeze the heap of every live process of SESSION (the newest), or of PID.

    A splice: microseconds at any size, no pass. Cyclic garbage that exists at this moment is frozen
    with the rest, until `frostline thaw`. Where a policy that freezes is in force, each process walks its
    whole heap in an idle moment later on, which stops it, one after the other. Ends with 1 if any
    process did not answer.
    """
    return _control.ask(layout.OP_FREEZE, (), _say, where, tree, seconds, as_json, spread=_APART)


def _say(answer: Answer) -> str:
    if answer.result == layout.FREEZE_PUT_RIGHT:
        return "frozen; its policy walks the whole heap in an idle moment: it stops as long as a full pass"
    return "frozen"
