"""``frostline check``: does every process that serves, and every spawned one, apply the policy?"""

import contextlib
import dataclasses
import gc
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

from frostline import checking
from frostline.commands.status import printable


@click.command(short_help="Check that every process of your source applies the policy.")
@click.argument("path", type=click.Path(path_type=Path), default=Path())
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Another pyproject.toml than the nearest.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def check(path: Path, config: "Path | None", as_json: bool) -> int:
    """Check the Python source at PATH, without running it.

    Finds where processes begin and servers start, and follows the calls from there: each must reach
    frostline.install(), and those that serve frostline.startup_complete(). Configured in
    [tool.frostline.check] of pyproject.toml. Ends with 3 if a call is missing.
    """
    settings = checking.load(path, config)
    with _no_collections():
        result = checking.check(path, settings)
    if as_json:
        click.echo(json.dumps(_as_json(result), indent=2))
    else:
        _print(result)
    return 3 if result.findings else 0


@contextlib.contextmanager
def _no_collections() -> Iterator[None]:
    """Millions of nodes that all live to the end: full passes would walk them again and again."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _as_json(result: checking.Result) -> dict[str, object]:
    value = dataclasses.asdict(result)
    value["excused"] = [dataclasses.asdict(one) | {"reason": reason} for one, reason in result.excused]
    value["skipped"] = [{"path": path, "reason": reason} for path, reason in result.skipped]
    return value


def _print(result: checking.Result) -> None:
    def say(text: str) -> None:
        click.echo(printable(text))

    for finding in result.findings:
        say(f"{finding.path}:{finding.line}: {finding.message} [{finding.slug}]")
        if finding.calls:
            say("    " + " -> ".join(finding.calls))
        if finding.elsewhere:
            say("    called, but not on this way: " + ", ".join(finding.elsewhere))
    for finding, reason in result.excused:
        say(f"{finding.path}:{finding.line}: excused: {finding.message}: {reason}")
    for note in result.notes:
        say(f"note: {note}")
    for path, reason in result.skipped:
        say(f"not read: {path}: {reason}")
    kinds = Counter(entry.kind for entry in result.entries)
    found = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "none"
    left_out = f", {result.tests_left_out} test files left out" if result.tests_left_out else ""
    if result.sessions_left_out:
        left_out += f", {result.sessions_left_out} session folders of recordings skipped"
    say(f"{result.files} files{left_out}. Entry points: {len(result.entries)} ({found})")
    serving = sum(entry.serves for entry in result.entries)
    rpc = f"; {result.rpc_functions} functions called over RPC" if result.rpc_functions else ""
    say(
        f"{serving} serve. Each must reach {', '.join(result.require)}, "
        f"those that serve {', '.join(result.require_serving) or 'no more'} as well{rpc}"
    )
    if result.findings:
        say(f"{len(result.findings)} to put right, {len(result.excused)} excused")
    elif not result.entries:
        say("no entry point was found, so nothing was checked: name yours in [tool.frostline.check]")
    else:
        say(f"fine, {len(result.excused)} excused")
