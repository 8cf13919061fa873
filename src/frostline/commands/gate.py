"""``frostline gate``: a budget of pauses, walks and garbage for CI; ends with 3 if it is broken."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from frostline import gate as gating
from frostline.analysis import Analysis
from frostline.analysis.verdict import some
from frostline.commands.report import Named, analysed
from frostline.errors import FrostlineError


def _limit(name: str, text: str) -> Callable[[Any], Any]:
    return click.option(f"--{name}", multiple=True, metavar="[ROLE=]VALUE", help=text)


@click.command(short_help="Hold a session to a budget of pauses, for CI.")
@click.argument("session", required=False, type=Named(path_type=Path))
@_limit("max-pause", "No pause is longer, as 20ms.")
@_limit("max-total", "Passes take no more of the time, as 0.5%.")
@_limit("max-walked", "No pass walks more objects.")
@_limit("max-full", "There are no more full passes, in each process.")
@click.option(
    "--no-new-cycles", is_flag=True, help="Passes reclaim no more than in the baseline; without one, nothing."
)
@click.option("--since-serving", is_flag=True, help="Only what comes after start-up counts.")
@click.option(
    "--baseline",
    type=Named(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="For --no-new-cycles, which it implies.",
)
@click.option(
    "--write-baseline",
    type=Named(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write what this session reclaims as the baseline, and check nothing.",
)
@click.option("--strict", is_flag=True, help="Fail, too, where something cannot be told.")
@click.option(
    "--junit", type=Named(path_type=Path, dir_okay=False), metavar="FILE", help="Write JUnit XML into FILE."
)
@click.option("--github", is_flag=True, help="Print annotations; without it, where GITHUB_ACTIONS is set.")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Another pyproject.toml than the nearest.",
)
def gate(
    session: Path | None,
    no_new_cycles: bool,
    since_serving: bool,
    baseline: Path | None,
    write_baseline: Path | None,
    strict: bool,
    junit: Path | None,
    github: bool,
    config: Path | None,
    **limits: tuple[str, ...],
) -> int:
    """Hold a session (the newest if none is named) to a budget.

    Limits come from [tool.frostline.gate] of pyproject.toml and from these options, which go before it; each
    can be repeated for a role, as --max-pause 20ms --max-pause EngineCore=5ms. Ends with 3 if one is broken.
    """
    budget = gating.configured(Path(), config)
    for name in gating.NAMES:
        for text in limits[name.replace("-", "_")]:
            budget = gating.with_option(budget, name, text)
    budget = replace(
        budget,
        no_new_cycles=budget.no_new_cycles or no_new_cycles or baseline is not None,
        since_serving=budget.since_serving or since_serving,
        strict=budget.strict or strict,
        baseline=str(baseline) if baseline else budget.baseline,
    )
    if budget.empty and write_baseline is None:
        raise FrostlineError(
            "no-limits",
            "there is nothing to check: no limit is given",
            "frostline gate --max-full 0 --since-serving   or [tool.frostline.gate] in pyproject.toml",
            exit_code=2,
        )
    known = None
    if budget.no_new_cycles and budget.baseline and write_baseline is None:
        known = gating.read_baseline(Path(budget.baseline), budget.since_serving)
    analysis = analysed((session,) if session else ())
    if write_baseline is not None:
        measured = gating.measure(analysis, budget.since_serving)
        if not measured.roles:
            raise _nothing(analysis, budget.since_serving)
        gating.write_baseline(measured, write_baseline)
        click.echo(f"baseline: {write_baseline}, of {len(measured.roles)} roles")
        return 0
    checks = gating.judge(analysis, budget, known)
    if not checks:
        raise _nothing(analysis, budget.since_serving)
    if analysis.running:
        click.echo("frostline: the session is still being recorded: this is so far", err=True)
    for line in gating.text(checks, budget.strict):
        click.echo(line)
    if github or os.environ.get("GITHUB_ACTIONS"):
        for line in gating.workflow(
            checks, budget.strict, Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd())
        ):
            click.echo(line)
    if junit is not None:
        gating.write_file(junit, gating.junit(analysis, checks, budget.strict))
    return 3 if any(check.fails(budget.strict) for check in checks) else 0


def _nothing(analysis: Analysis, since_serving: bool) -> FrostlineError:
    why, do = "it holds no process", "Record one with `frostline run -- COMMAND`."
    if since_serving:
        why = "none of its processes is known to have served"
        do = (
            "Tell when start-up is over (--ready-url, --ready-log, frostline.startup_complete()), or leave "
            "out --since-serving."
        )
    elif analysis.processes:
        why = f"no limit is for a process of it; it has {some([one.name for one in analysis.processes])}"
        do = "A role is the name that the report prints, without the pid: ROLE=VALUE, or a limit for all."
    return FrostlineError("gate-empty", f"{analysis.path}: nothing can be judged: {why}", do)
