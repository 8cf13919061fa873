"""``frostline why-alive``: who holds objects that should be gone."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from frostline.commands import _looking
from frostline.commands._numbers import Range
from frostline.report import write
from frostline.report.heap import alive as shown


@click.command(name="why-alive", short_help="Say who holds the objects of a class in a live server.")
@click.argument("name", metavar="MODULE:CLASS")
@_looking.options
@click.option(
    "--budget",
    type=Range(min=0.0, max=3600.0),
    show_default="5, with --frozen 10",
    metavar="SECONDS",
    help="About how long each may be stopped for the ways, and for --frozen. 0: no bound.",
)
@_looking.frozen
def why_alive(
    name: str,
    where: str | None,
    tree: bool,
    seconds: float,
    serving: bool,
    save: Path | None,
    as_json: bool,
    budget: float | None,
    frozen: bool,
) -> int:
    """Count the live objects of MODULE:CLASS in every live process of SESSION (the newest), or of PID, and
    follow the first few, the oldest, back to what holds them: a module, a running function, a cache, an
    exception that is kept, a generator, a closure, a context variable, a thread-local.

    What is reachable is no matter for the collector: no pass frees it. It STOPS each process, one after the
    other, for some 30 ms a million objects and step of the way, for about --budget seconds at most; how long
    it was is printed.
    """
    if budget is None:
        budget = 10.0 if frozen else 5.0
    text = f"why {name} budget={budget:g}{' frozen=1' * frozen}"
    found = _looking.look(text, where, tree, seconds, serving, save)
    if as_json:
        click.echo(json.dumps(_looking.as_rows(found), indent=1))
    else:
        write(shown([(one.target.name, one.found) for one in found if one.found is not None]), sys.stdout)
    return _looking.silent(found) if not as_json else int(any(one.found is None for one in found))
