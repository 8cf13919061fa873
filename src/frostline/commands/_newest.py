"""The session that is meant where none is named."""

import click

from frostline.commands.status import printable
from frostline.reach import newest as sessions


def newest() -> str:
    """Its folder; says on stderr where it is not the very newest.

    Raises:
        FrostlineError: ``no-session``.
    """
    found = sessions.newest()
    if found.note:
        click.echo(printable(f"frostline: {found.note}"), err=True)
    return found.path
