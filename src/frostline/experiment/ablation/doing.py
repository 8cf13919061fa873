"""All runs of a plan, in order; each is a line of results.jsonl, so that an interrupt costs one run."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shlex
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from frostline.errors import FrostlineError
from frostline.experiment.ablation import machine
from frostline.experiment.ablation.plan import Arm, Plan
from frostline.experiment.ablation.running import SCREEN, Run, run_once
from frostline.experiment.statistics import order
from frostline.format import redact

RESULTS = "results.jsonl"
VERSION = 1
#: An arm that removes less than this share of what the control walks has nothing for the clock to confirm.
LITTLE = 0.05

#: Called with where it is, what it does just now, and the seconds left (None: not known yet).
Progress = Callable[[str, str, "float | None"], None]


@dataclass(frozen=True)
class Done:
    """What there is of an experiment.

    Attributes:
        runs: all, invalid ones too.
        confirmed: arms in the blocks, the control first; all of the plan unless it was screened.
        machine: what it was when the experiment began.
        why: of the screening, how it chose; empty without one.
    """

    runs: tuple[Run, ...]
    confirmed: tuple[Arm, ...]
    machine: dict[str, Any]
    why: str = ""


def estimate(plan: Plan, confirmed: int = 0) -> tuple[int, float]:
    """(runs, seconds at least: the servers' starts come on top).

    Args:
        confirmed: arms in the blocks, once the screening has told them.
    """
    arms = confirmed or plan.compared + 1
    runs = plan.each * arms * plan.blocks + (len(plan.arms) if plan.screened else 0)
    return runs, runs * (plan.warmup + plan.window + plan.drain)


def perform(plan: Plan, folder: Path, progress: Progress) -> Done:
    """Makes the runs that are not there yet.

    Raises:
        FrostlineError: ``ablate-changed``: the folder holds another experiment; ``ablate-busy``: it goes on
            just now; ``ablate-run``: a run failed as often as the plan allows.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        facts, runs = _begin(plan, folder)
        total, _ = estimate(plan)
        took = [run.seconds for run in runs]
        if plan.screened:
            for place, arm in enumerate(plan.arms):
                _place(plan, arm, SCREEN, place, folder, runs, took, total, progress)
        confirmed, why = chosen(plan, runs)
        total, _ = estimate(plan, len(confirmed))
        for block in range(plan.blocks):
            runs_of = order(len(confirmed), block, plan.seed)[: plan.each * len(confirmed)]
            for place, number in enumerate(runs_of):
                _place(plan, confirmed[number], block, place, folder, runs, took, total, progress)
    return Done(tuple(runs), confirmed, facts, why)


def load(plan: Plan, folder: Path) -> Done:
    """What there is, without a run more.

    Raises:
        FrostlineError: ``ablate-changed``; ``ablate-nothing``: there is nothing.
    """
    if not (folder / RESULTS).exists():
        raise FrostlineError("ablate-nothing", f"{folder} holds no results", "Run it first.", exit_code=2)
    facts, runs = _read(plan, folder / RESULTS)
    confirmed, why = chosen(plan, runs)
    return Done(tuple(runs), confirmed, facts, why)


def _place(
    plan: Plan,
    arm: Arm,
    block: int,
    place: int,
    folder: Path,
    runs: list[Run],
    took: list[float],
    total: int,
    progress: Progress,
) -> None:
    """One run that counts, after as many that do not as the plan allows."""
    before = [run for run in runs if (run.block, run.place, run.arm) == (block, place, arm.name)]
    if any(run.valid for run in before):
        return
    where = "screening" if block == SCREEN else f"block {block + 1} of {plan.blocks}"
    for attempt in range(len(before), len(before) + plan.tries):
        done = sum(run.valid for run in runs)
        left = sum(took) / len(took) * (total - done) if took else None
        name = f"{done + 1} of {total}, {where}, {arm.name}" + (f", try {attempt + 1}" if attempt else "")

        def shown(what: str, name: str = name, left: float | None = left) -> None:
            progress(name, what, left)

        stem = "screen" if block == SCREEN else f"{block}"
        at = folder / f"{stem}-{place}-{_file_name(arm.name)}-{attempt}"
        run = run_once(plan, arm, (block, place, attempt), at, shown)
        _append(folder / RESULTS, {"run": asdict(run)})
        runs.append(run)
        before.append(run)
        took.append(run.seconds)
        if run.valid:
            return
        progress(name, f"does not count: {run.why}", left)
    raise FrostlineError(
        "ablate-run",
        f"{where}, arm {arm.name!r}: no valid run in {plan.tries} tries; the last: {before[-1].why}",
        f"Its output is in {folder}. Mend it; with -o {shlex.quote(str(folder))} the same command goes on.",
    )


def chosen(plan: Plan, runs: list[Run]) -> tuple[tuple[Arm, ...], str]:
    """The arms that the clock confirms, the control first, and how they were chosen.

    Those that remove most of what full passes walk, in all processes together. Of arms that differ by
    less than ``LITTLE`` of the control's, the one that treats fewer processes. Where it is not known how
    much was walked, seconds in passes stand in for it.
    """
    if not plan.screened:
        return plan.arms, ""
    screened = {run.arm: run for run in runs if run.block == SCREEN and run.valid}
    if len(screened) < len(plan.arms):
        return plan.arms[:1], "the screening is not complete"
    known = not any(role["unknown"] for run in screened.values() for role in run.roles.values())
    what = "walked" if known else "pause_s"
    size = {name: sum(role[what] for role in run.roles.values()) for name, run in screened.items()}
    control = size[plan.arms[0].name]
    words = "objects walked by full passes" if known else "seconds in passes (what they walked is not known)"
    if control <= 0:
        return (plan.arms[0], *plan.arms[-plan.confirm :]), (
            f"by nothing: the control has no {words} in the window: there is nothing for a policy to remove"
        )
    step = LITTLE * control
    rising = sorted(plan.arms[1:], key=lambda arm: (round(size[arm.name] / step), _treats(plan, arm)))
    good = [arm for arm in rising if size[arm.name] <= control - step][: plan.confirm]
    if not good:
        return (plan.arms[0], rising[0]), (
            f"no arm removes 5 % of the {words}; the one that removes most is confirmed all the same"
        )
    return (plan.arms[0], *good), f"by {words}, one run each"


def _treats(plan: Plan, arm: Arm) -> int:
    """How many roles an arm treats."""
    if not arm.roles:
        return len(plan.roles) or 1_000
    return len(plan.roles) - len(arm.roles) if arm.others else len(arm.roles)


def _file_name(name: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in name)[:40]


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise FrostlineError(
                "ablate-busy", f"another run of it works in {folder}", "Wait for it, or use another folder."
            ) from None
        yield


def _begin(plan: Plan, folder: Path) -> tuple[dict[str, Any], list[Run]]:
    path = folder / RESULTS
    if path.exists() and path.stat().st_size:
        facts, runs = _read(plan, path)
        _mend(path)
        return facts, runs
    facts = machine.facts()
    about = {
        "frostline_ablation": VERSION,
        "plan": plan.name,
        "server": redact(list(plan.command)),
        "arms": [{"name": arm.name, "policy": arm.given} for arm in plan.arms],
        "machine": facts,
        "begun": round(time.time(), 3),
    }
    _append(path, about)
    return facts, []


def _append(path: Path, value: dict[str, Any]) -> None:
    """One whole line, or after a crash a torn one, which the reader leaves out."""
    with path.open("ab") as file:
        file.write(json.dumps(value).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _mend(path: Path) -> None:
    """Takes a torn last line away."""
    data = path.read_bytes()
    if not data.endswith(b"\n"):
        with path.open("r+b") as file:
            file.truncate(data.rfind(b"\n") + 1)


def _read(plan: Plan, path: Path) -> tuple[dict[str, Any], list[Run]]:
    names = {one.name for one in fields(Run)}
    lines = path.read_bytes().split(b"\n")
    try:
        head = json.loads(lines[0])
        whose, facts = head["plan"], head["machine"]
        told = [json.loads(line)["run"] for line in lines[1:-1] if line]
        runs = [Run(**{k: v for k, v in run.items() if k in names}) for run in told]
    except (ValueError, KeyError, TypeError) as error:
        raise FrostlineError(
            "ablate-changed", f"{path} cannot be read: {error}", "Use another folder."
        ) from error
    if whose != plan.name or head.get("frostline_ablation") != VERSION:
        raise FrostlineError(
            "ablate-changed",
            f"{path} was made by another plan: another server, load, window or other arms",
            "Use another folder (-o), or the plan as it was. The number of blocks may change.",
        )
    return facts, runs
