"""``frostline cycles``: which cycles feed the collector in a live server."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from frostline.commands import _looking
from frostline.commands._numbers import Range
from frostline.report import write
from frostline.report.heap import cycles as shown


@click.command(short_help="Name the cycles that feed the collector in a live server.")
@_looking.options
@click.option(
    "--generation", type=click.IntRange(0, 2), default=2, show_default=True, help="The oldest to collect."
)
@click.option(
    "--budget",
    type=Range(min=0.0, max=3600.0),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="How long it looks at most; what it has seen by then is told. The two passes are not in it.",
)
def cycles(
    where: str | None,
    tree: bool,
    seconds: float,
    serving: bool,
    save: Path | None,
    as_json: bool,
    generation: int,
    budget: float,
) -> int:
    """Run one collection in every live process of SESSION (the newest), or of PID, keep what it would free
    for a moment, and say which cycles that was: how many, how large, by which attributes, and what ends them.

    It STOPS each process, one after the other, for two collections and the look: about a second where
    there are 100,000 dead objects; --budget bounds the look. A process that is known to have requests in
    flight is left alone, unless --serving.
    """
    found = _looking.look(
        f"cycles generation={generation} budget={budget:g}", where, tree, seconds, serving, save
    )
    if as_json:
        click.echo(json.dumps(_looking.as_rows(found), indent=1))
    else:
        write(shown([(one.target.name, one.found) for one in found if one.found is not None]), sys.stdout)
    return _looking.silent(found) if not as_json else int(any(one.found is None for one in found))
