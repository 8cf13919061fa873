"""``frostline ping``: whether every recorded process of a live server answers a request."""

import click

from frostline import format as layout
from frostline.commands import _control
from frostline.reach.asking import Answer


@click.command(short_help="Ask every process of a live server for a sign of life.")
@_control.options
def ping(where: "str | None", tree: bool, seconds: float, as_json: bool) -> int:
    """Ask every live process of SESSION (the newest), or of PID, for a sign of life.

    Changes nothing. Says who would answer `freeze` and the others, how soon, and who would not and
    why. Ends with 1 if any process did not answer.
    """
    return _control.ask(layout.OP_PING, (), _say, where, tree, seconds, as_json)


def _say(answer: Answer) -> str:
    return f"answered after {answer.took * 1e3:.1f} ms"
