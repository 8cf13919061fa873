"""``frostline census``: what the tracked heap of a live server is made of."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from frostline.commands import _looking
from frostline.commands._newest import newest
from frostline.commands._numbers import Range
from frostline.commands.report import analysed
from frostline.commands.status import printable
from frostline.errors import FrostlineError
from frostline.reach.asking import targets
from frostline.report import write
from frostline.report.censuses import censuses_json, heap
from frostline.report.heap import census as shown


@click.command(short_help="Count what the tracked heap of a server is made of.")
@_looking.options
@click.option(
    "--budget",
    type=Range(min=0.0, max=3600.0),
    show_default="1, with --frozen 10",
    metavar="SECONDS",
    help="About how long each may be stopped: a larger heap is sampled. 0 counts it all.",
)
@click.option(
    "--since",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="What has grown since a census that --save kept.",
)
@click.option("--no-paths", is_flag=True, help="Do not look for where the largest containers hang.")
@_looking.frozen
@click.option(
    "--stored", is_flag=True, help="Of a live session too, show what `run --census` counted. Stops nobody."
)
def census(
    where: str | None,
    tree: bool,
    seconds: float,
    serving: bool,
    save: Path | None,
    as_json: bool,
    budget: float | None,
    since: Path | None,
    no_paths: bool,
    frozen: bool,
    stored: bool,
) -> int:
    """Count the objects that the collector tracks in every live process of SESSION (the newest), or of PID:
    by type and generation, with the slots that a full pass walks, and the largest containers with where
    they hang and what they hold. Objects that are frozen are counted, not seen, unless --frozen.

    It STOPS each process, one after the other, for about a second at most (10 with --frozen): a heap of over
    half a million objects is sampled (--no-paths: of over two million). With --budget 0 it is half a second a
    million objects, and some 3 s more to find where the largest hang. A process that is known to have
    requests in flight is left alone, unless --serving.

    Of a SESSION that has ended it shows what its processes counted themselves, at attach, at the boundary
    and at their end, and what grew in between: `frostline run --census boundary,close`.
    """
    where = where or newest()
    if as_json and since is not None:
        raise click.UsageError("--json does not compare: give --since without it.")
    if stored or _ended(where):
        asked = {"--since": since, "--budget": budget, "--frozen": frozen, "--no-paths": no_paths}
        idle = [name for name, given in asked.items() if given is not None and given is not False]
        if idle:
            raise click.UsageError(
                f"{', '.join(idle)} is for what is alive; what is stored is shown as it is."
            )
        return _stored(where, as_json, save)
    before = _earlier(since) if since is not None else {}
    if budget is None:
        budget = 10.0 if frozen else 1.0
    text = f"census budget={budget:g} paths={int(not no_paths)}{' frozen=1' * frozen}"
    found = _looking.look(text, where, tree, seconds, serving, save)
    if as_json:
        click.echo(json.dumps(_looking.as_rows(found), indent=1))
        return int(any(one.found is None for one in found))
    rows = [
        (one.target.name, one.found, before.get(one.target.pid)) for one in found if one.found is not None
    ]
    write(shown(rows), sys.stdout)
    for one in found:
        if since is not None and one.found is not None and one.target.pid not in before:
            who = f"{one.target.name} (pid {one.target.pid})"
            click.echo(printable(f"{who}: in {since} is no census of this pid: nothing to compare it with"))
    return _looking.silent(found)


def _ended(where: str) -> bool:
    """Whether it is a session of which nothing is alive: nobody is there to be asked."""
    if not Path(where).is_dir():
        return False  # a pid, or what the live census has an error for
    try:
        targets(where)
    except FrostlineError as error:
        return error.slug == "no-targets"
    return False


def _stored(where: str, as_json: bool, save: Path | None) -> int:
    analysis = analysed((Path(where),))
    asked = [process for process in analysis.processes if process.censuses]
    if not asked:
        raise FrostlineError(
            "no-stored-census",
            f"no process of {where} has counted its heap",
            "Record it with `frostline run --census boundary,close -- COMMAND`, or ask while it runs.",
        )
    rows = [{"process": one.name, "pid": one.pid, **censuses_json(one)} for one in asked]
    if save is not None:
        _looking.keep(save, rows)
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return 0
    write((block for one in asked for block in heap(one)), sys.stdout)
    return 0


def _earlier(path: Path) -> dict[int, dict[str, Any]]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        found = {int(row["asked"]): row for row in rows if "rows" in row}
    except (OSError, ValueError, TypeError, KeyError):
        found = {}
    if not found:
        raise FrostlineError(
            "no-census", f"{path} holds no census", "Keep one by `frostline census --save FILE`."
        )
    return found
