"""``frostline thaw``: gives back what Frostline froze, in every recorded process of a live server."""

import click

from frostline import format as layout
from frostline.commands import _control
from frostline.reach.asking import Answer


@click.command(short_help="Thaw what Frostline froze in every process of a live server.")
@_control.options
def thaw(where: "str | None", tree: bool, seconds: float, as_json: bool) -> int:
    """Thaw what Frostline froze in every live process of SESSION (the newest), or of PID.

    Microseconds; the collector walks the heap again from the next full pass on, and that pass
    reclaims what garbage was frozen. Ends with 1 if any process did not answer.
    """
    return _control.ask(layout.OP_THAW, (), _say, where, tree, seconds, as_json)


def _say(answer: Answer) -> str:
    return "thawed" if answer.result else "nothing of Frostline's was frozen"
