"""Which options were typed, and not left as they are by themselves."""

from __future__ import annotations

import click
from click.core import ParameterSource


def typed(names: set[str]) -> list[str]:
    """Those of the command that runs, by the names of their parameters, as they are written."""
    context = click.get_current_context()
    return [
        one.opts[0]
        for one in context.command.params
        if one.name in names and context.get_parameter_source(one.name) is ParameterSource.COMMANDLINE
    ]
