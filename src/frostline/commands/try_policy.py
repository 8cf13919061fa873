"""``frostline try``: a policy on the user's own server and load, kept or not by what an A/B shows."""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from frostline.commands._experiment import Flags, flags, plan_of
from frostline.commands._numbers import Range
from frostline.commands.ablate import check_policies, performed, show, to_json
from frostline.experiment.ablation.judging import Judged, Mechanism, Outcome, judge
from frostline.experiment.ablation.plan import CONTROL, Arm, Plan, arm_of
from frostline.experiment.statistics import IMPROVED, INCONCLUSIVE
from frostline.report import Line, write

#: Of memory, times the control's, that a policy may take and still be kept.
MEMORY = 1.10


@click.command(
    name="try",
    context_settings={"allow_interspersed_args": False},
    short_help="Try a policy on your own server and load: keep it, or hear that it gained nothing.",
)
@click.option("--policy", required=True, help="As `run --policy` takes it, follow@EngineCore too.")
@flags
@click.option(
    "--blocks", type=click.IntRange(1, 1000), help="Of four runs each; 6 are the fewest that conclude."
)
@click.option("--max-memory", type=Range(min=1.0), default=MEMORY, show_default=True,
              help="Times the memory of today that it may take and still be kept.")  # fmt: skip
@click.option("-o", "--output", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
              help="Folder of the runs; it goes on there if it was stopped.")  # fmt: skip
@click.option("--write", "keep_file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Where the policy gained, write its settings here, as NAME=value lines.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND [ARGUMENTS]...")
def try_policy(
    policy: str,
    blocks: int | None,
    max_memory: float,
    output: Path | None,
    keep_file: Path | None,
    as_json: bool,
    command: tuple[str, ...],
    **given: Any,
) -> int:
    """Run COMMAND in turn as it is and under --policy, in fresh processes, under your load; say what that
    changed, and what to write into your configuration if it gained.

    \b
        frostline try --policy follow --ready-url http://127.0.0.1:8000/health \\
            --load-url http://127.0.0.1:8000/ --rate 20 -- ./my-server

    Ends with 0 if it gained, 3 if it did not, 1 if it cannot tell.
    """
    plan = plan_of(Flags(**given), command, (Arm(CONTROL), arm_of(policy)), blocks=blocks or 0)
    if output is None:
        plan = replace(plan, keep=False)  # nobody would find the recordings
    check_policies(plan)
    folder = output or Path(tempfile.mkdtemp(prefix="frostline-try-"))
    outcome = judge(plan, performed(plan, folder))
    kept, words = decide(outcome, max_memory)
    settings = configuration(plan) if kept else []
    if as_json:
        import json

        told = to_json(outcome) | {"kept": kept, "decision": words, "keep": settings}
        click.echo(json.dumps(told, indent=1))
    else:
        show(outcome, False, None)
        write([Line(words, "good" if kept else "bad")], sys.stdout)
        if kept:
            click.echo("\nKeep it with\n    " + _command(plan))
    if kept and keep_file is not None:
        keep_file.write_text("".join(f"{line}\n" for line in settings), encoding="utf-8")
        click.echo(f"settings: {keep_file}", err=True)
    code = 0 if kept else 3
    if not kept and (outcome.blocks < outcome.least or outcome.main[0].verdict == INCONCLUSIVE):
        code = 1
    if output is None:
        if code == 1:
            goes = f"with -o {shlex.quote(str(folder))} and more --blocks the same command goes on from there"
            click.echo(f"frostline: the runs are kept: {goes}", err=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return code


def decide(outcome: Outcome, max_memory: float) -> tuple[bool, str]:
    """Whether to keep the policy, and why, in a sentence. Only what is proved is kept."""
    if not outcome.judged:
        return False, "Not kept: no block is complete, so nothing is known."
    one: Judged = outcome.main[0]
    mechanism: Mechanism = outcome.mechanisms[0]
    if one.verdict == INCONCLUSIVE:
        return False, f"Not kept: it cannot be told whether {one.arm} gains anything here."
    if one.verdict != IMPROVED:
        gained = "it gained nothing" if one.verdict != "regressed" else "it made it worse"
        fell = ""
        if mechanism.fell:
            fell = f", though pause seconds fell from {mechanism.a:.3f} to {mechanism.b:.3f} s a window"
        elif not mechanism.full_a:
            fell = ": without it there is no full pass in a window to remove"
        return False, f"Not kept: {gained}, {one.metric} is {one.verdict}{fell}."
    if not mechanism.explained:
        return False, (
            f"Not kept: {one.metric} improved, but pauses did not fall, so it is not explained by the "
            "collector; look for what else differs."
        )
    if mechanism.memory_a and mechanism.memory_b > max_memory * mechanism.memory_a:
        return False, (
            f"Not kept: {one.metric} improved, and memory went from {mechanism.memory_a:,.0f} to "
            f"{mechanism.memory_b:,.0f} MiB, over {max_memory:g} times (--max-memory)."
        )
    memory = ""
    if mechanism.memory_a:
        memory = f"; memory {mechanism.memory_a:,.0f} to {mechanism.memory_b:,.0f} MiB"
    return True, f"Keep it: {one.metric} x {one.effect.ratio:.3f}, and the pauses fell with it{memory}."


def configuration(plan: Plan) -> list[str]:
    """NAME=value lines for a service's environment."""
    return [f"FROSTLINE_POLICY={plan.arms[1].given}"]


def _command(plan: Plan) -> str:
    """What to type, with the option that tells the boundary; the variable alone where the server does."""
    assert plan.ready is not None
    kind = plan.ready["kind"]
    value = {"url": "url", "log": "regex", "after": "seconds"}[kind]
    told = str(plan.ready[value]) + "s" * (kind == "after")
    words = ["frostline", "run", "--policy", plan.arms[1].given, f"--ready-{kind}", told, "--", *plan.command]
    return (
        f"{shlex.join(words)}\n  or, where the server itself says that start-up is over, in its environment\n"
        f"    {configuration(plan)[0]}"
    )
