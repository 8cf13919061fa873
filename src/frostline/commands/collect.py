"""``frostline collect``: one collection in every recorded process of a live server."""

import click

from frostline import format as layout
from frostline.commands import _control
from frostline.reach.asking import Answer


@click.command(short_help="Run a collection in every process of a live server.")
@_control.options
@click.option(
    "--generation", type=click.IntRange(0, 2), default=2, show_default=True, help="The oldest to collect."
)
def collect(where: "str | None", tree: bool, seconds: float, as_json: bool, generation: int) -> int:
    """Run one collection in every live process of SESSION (the newest), or of PID.

    A full one STOPS each process for as long as its heap takes: tens to hundreds of milliseconds for
    a million objects. It is marked as Frostline's in the recording. Ends with 1 if any process did
    not answer.
    """
    return _control.ask(layout.OP_COLLECT, (generation,), _say, where, tree, seconds, as_json)


def _say(answer: Answer) -> str:
    return f"{answer.result:,} objects reclaimed"
