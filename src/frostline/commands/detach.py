"""``frostline detach``: take the recorder out of processes that run on."""

import click

from frostline import format as layout
from frostline.commands._control import ask, options
from frostline.reach.asking import Answer

_SAID = (
    (layout.DETACH_THAWED, "what Frostline froze is thawed (the next full pass walks it)"),
    (layout.DETACH_THRESHOLDS, "thresholds as before"),
    (layout.DETACH_SPANS, "some wrapped functions stay, silent: others have built upon them"),
    (layout.DETACH_STAND_INS, "some stand-ins of gc stay, silent: another tool has replaced them"),
    (layout.DETACH_HANDLER, "SIGURG's handler is another's by now, and was left"),
    (layout.DETACH_OWN_POLICY, "the program's own policy was left in force"),
)


@click.command(short_help="Take the recorder out of a live server.")
@options
def detach(where: "str | None", tree: bool, seconds: float, as_json: bool) -> int:
    """Take everything of Frostline's out of every live process of SESSION (the newest), or of PID.

    Callbacks, stand-ins, spans, the signal handler and the environment variables go, what Frostline
    froze is thawed, and the files are closed: `frostline report` reads them as ever. Loaded modules and
    an empty at-fork function stay. Ends with 1 if any process did not answer.
    """
    return ask(layout.OP_DETACH, (), _say, where, tree, seconds, as_json)


def _say(answer: Answer) -> str:
    found = [text for flag, text in _SAID if answer.result & flag]
    return "; ".join(["detached", *found])
