"""``frostline ablate``: an experiment on a server of the user's own, per process role."""

from __future__ import annotations

import contextlib
import json
import shlex
import sys
from collections.abc import Iterator
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import click

from frostline.commands._ending import interruptible
from frostline.commands._experiment import Flags, flags, plan_of, wrong
from frostline.commands._outcome import after, before, minutes
from frostline.commands._typed import typed
from frostline.commands.run import checked_policy
from frostline.experiment.ablation import doing
from frostline.experiment.ablation import plan as plans
from frostline.experiment.ablation.judging import Outcome, judge
from frostline.experiment.ablation.plan import Plan
from frostline.report import write


@click.command(short_help="Prove on your own server what a policy changes, role by role.")
@click.argument("words", nargs=-1, metavar="PLAN.toml | -- COMMAND [ARGUMENTS]...")
@click.option("--policy", metavar="POLICY", help="Without a PLAN: of all arms but the control.")
@click.option("--role", "roles", multiple=True, metavar="NAME",
              help="Without a PLAN: a process, as the report names it; repeatable.")  # fmt: skip
@flags
@click.option("-o", "--output", metavar="DIR", type=click.Path(path_type=Path, file_okay=False),
              help="Folder of the runs; it goes on there if it was stopped.")  # fmt: skip
@click.option("--blocks", type=click.IntRange(1, 1000), help="Instead of the plan's.")
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="One figure, as a page.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.option("--only-report", is_flag=True, help="No run: what there is.")
@click.option("--dry-run", is_flag=True, help="No run: what it would do, and how long that takes.")
def ablate(
    words: tuple[str, ...],
    policy: str | None,
    roles: tuple[str, ...],
    output: Path | None,
    blocks: int | None,
    html: Path | None,
    as_json: bool,
    only_report: bool,
    dry_run: bool,
    **given: Any,
) -> int:
    """Run your server under each arm in fresh processes, in blocks of balanced order, and say what that
    changed, with its interval, and whether the collector explains it.

    \b
        frostline ablate plan.toml
        frostline ablate --policy follow --role APIServer --role EngineCore -o runs \\
            --ready-url URL --load-url URL --rate 20 -- ./my-server

    Ends with 0 whatever was found, and with 1 where nothing can be concluded yet.
    """
    if policy is None:
        if len(words) != 1:
            raise wrong(
                "give one PLAN.toml, or --policy and a command behind --", "frostline ablate plan.toml"
            )
        beside = typed({"roles", *(one.name for one in fields(Flags))})
        if beside:
            raise wrong(
                f"{', '.join(beside)} would change nothing: a PLAN.toml says that itself",
                f"Write it into {words[0]}.",
            )
        plan = plans.read(Path(words[0]))
    else:
        plan = plan_of(Flags(**given), words, plans.of_roles(policy, roles), roles)
    if blocks:
        plan = replace(plan, blocks=blocks)
    check_policies(plan)
    if dry_run:
        write(before(plan), sys.stdout)
        click.echo("arms: " + "; ".join(f"{arm.name} ({arm.given or 'no policy'})" for arm in plan.arms))
        return 0
    if output is None and policy is not None:
        raise wrong("without a PLAN.toml it needs a folder for the runs", "-o DIR")
    folder = output or Path(words[0]).with_suffix(".ablation")
    done = doing.load(plan, folder) if only_report else performed(plan, folder)
    outcome = judge(plan, done)
    show(outcome, as_json, html)
    return 0 if outcome.judged and outcome.blocks >= outcome.least else 1


def check_policies(plan: Plan) -> None:
    """Before anything starts: a typing mistake is not to be found after an hour.

    Raises:
        FrostlineError: ``bad-policy``.
    """
    for arm in plan.arms:
        if arm.policy:
            checked_policy(arm.given)


def performed(plan: Plan, folder: Path) -> doing.Done:
    """Makes the runs, and says on stderr where it is."""
    write(before(plan), sys.stderr)
    with interruptible(), _progress() as shown:
        try:
            return doing.perform(plan, folder, shown)
        except KeyboardInterrupt:
            there = shlex.quote(str(folder))
            click.echo(f"\nfrostline: stopped; with -o {there} the same command goes on from there", err=True)
            raise


def show(outcome: Outcome, as_json: bool, html: Path | None) -> None:
    """To stdout, and the page."""
    if html is not None:
        from frostline.commands._forest import page

        html.write_text(page(outcome, after(outcome)), encoding="utf-8")
        click.echo(f"figure: {html}", err=True)
    if as_json:
        json.dump(to_json(outcome), sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        write(after(outcome), sys.stdout)


def to_json(outcome: Outcome) -> dict[str, Any]:
    """The outcome for programs; see docs/ablate.md."""
    interaction = outcome.interaction
    return {
        "ablation": doing.VERSION,
        "control": outcome.done.confirmed[0].name,
        "blocks": outcome.blocks,
        "least_blocks": outcome.least,
        "effects": [asdict(one) for one in outcome.judged],
        "mechanisms": [asdict(one) for one in outcome.mechanisms],
        "interaction": asdict(interaction) if interaction else None,
        "screening": outcome.done.why,
        "machine": outcome.done.machine,
        "runs": [asdict(run) for run in outcome.done.runs],
    }


@contextlib.contextmanager
def _progress() -> Iterator[doing.Progress]:
    """One line on a terminal; elsewhere one for each run."""

    def line(name: str, what: str, left: float | None) -> str:
        return f"{name}: {what}" + (f"; about {minutes(left)} left" if left is not None else "")

    if not sys.stderr.isatty():
        last = [""]

        def plainly(name: str, what: str, left: float | None) -> None:
            if name != last[0] or what.startswith("does not count"):
                last[0] = name
                click.echo(line(name, what, left), err=True)

        yield plainly
        return
    from rich.console import Console
    from rich.status import Status
    from rich.text import Text

    console = Console(stderr=True, highlight=False)
    with Status("", console=console) as status:

        def shown(name: str, what: str, left: float | None) -> None:
            if what.startswith("does not count"):
                console.print(Text(line(name, what, None)))
            status.update(Text(line(name, what, left)))

        yield shown
