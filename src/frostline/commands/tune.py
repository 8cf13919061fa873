"""``frostline tune``: sets the collector's thresholds in every recorded process of a live server."""

import click

from frostline import format as layout
from frostline.commands import _control
from frostline.errors import FrostlineError
from frostline.policy import grammar
from frostline.reach.asking import Answer


@click.command(short_help="Set the collector's thresholds in every process of a live server.")
@click.argument("thresholds", metavar="T0,T1,T2")
@_control.options
def tune(thresholds: str, where: "str | None", tree: bool, seconds: float, as_json: bool) -> int:
    """Set the thresholds T0,T1,T2 in every live process of SESSION (the newest), or of PID.

    As `gc.set_threshold` does. A threshold lower than what has been counted starts a pass at the next
    allocation. Ends with 1 if any process did not answer.
    """
    wanted = _parsed(thresholds)

    def say(answer: Answer) -> str:
        return "thresholds are " + ",".join(map(str, wanted))

    return _control.ask(layout.OP_TUNE, wanted, say, where, tree, seconds, as_json)


def _parsed(text: str) -> tuple[int, int, int]:
    """As a policy's are read, before anything is sent."""
    try:
        return grammar.three_thresholds(text, ",", "50000,20,100")
    except ValueError as error:
        raise FrostlineError(
            "bad-thresholds", str(error), "For example: frostline tune 50000,20,100", exit_code=2
        ) from error
