"""Labelled stalls of real programs under ``frostline run``: ``programs/`` with faults put into them.

What happened is known from the programs' own logs alone: each fault with its begin and end, and each
step.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.common import environment
from benchmarks.labelled.blind.labels import BEFORE, CALLER, FED, LAST, Victim, label
from benchmarks.labelled.truth import Labelled, write_truth

PROGRAMS = Path(__file__).parent / "programs"
#: Seconds after which a program is taken to hang.
LIMIT = 100.0


@dataclass(frozen=True)
class Program:
    """One of ``programs/``.

    Attributes:
        faults: role -> the faults that it may be asked for, each as likely as the others.
        victims: role -> whom its faults can hold up.
        aside: roles that no other role of the path waits for, by the victim's label.
        settings: what the program reads beside its plan.
    """

    name: str
    faults: dict[str, Sequence[str]]
    victims: dict[str, Sequence[Victim]]
    settings: dict[str, Any]
    aside: dict[str, Sequence[str]] = field(default_factory=dict)

    def others(self, victim: Victim, name: str) -> set[str]:
        return {"sidecar", *self.aside.get(name, ())}


def _both(*pairs: tuple[str, str, str, str]) -> dict[str, Sequence[Victim]]:
    return {role: (Victim(role, own), Victim(caller, label, CALLER)) for role, own, caller, label in pairs}


PASS = "explicit pass"
GATEWAY = Program(
    "gateway",
    {
        "gateway": (PASS, PASS, PASS, "sleep", "disk", "C call", "callback", "small pass in a sleep"),
        "chat": ("sleep", "disk", "page faults", "stopped", "small pass in a sleep", "C call"),
        "embed": (PASS, PASS, PASS, "finalizer in a pass", "child process", "callback", "sleep"),
    },
    {
        "gateway": (Victim("gateway", "ask"),),
        **_both(
            ("chat", "infer chat", "gateway", "ask chat"),
            ("embed", "infer embed", "gateway", "ask embed"),
        ),
    },
    {"apart": 0.013, "breath": 1100},
    {
        "ask chat": ("embed",),
        "ask embed": ("chat",),
        "infer chat": ("embed", "gateway"),
        "infer embed": ("chat", "gateway"),
    },
)  # fmt: skip
POOL = Program(
    "pool",
    {
        "parent": (PASS, PASS, "disk", "child process", "sleep"),
        "housekeeper": (PASS, PASS, PASS, "lock", "C call", "callback"),
        **{
            f"worker {n}": (PASS, PASS, PASS, "sleep", "disk", "page faults", "stopped", "C call")
            for n in range(3)
        },
    },
    {
        "parent": (Victim("parent", "dispatch"),),
        **_both(*((f"worker {n}", "job", "parent", "dispatch") for n in range(3))),
    },
    {"apart": 0.008},
)
PIPELINE = Program(
    "pipeline",
    {
        "source": (PASS, PASS, "disk", "sleep", "page faults"),
        "input": ("no input",),
        "transform": ("sleep", "C call", "callback", "small pass in a sleep"),
        "sink": (PASS, PASS, "finalizer in a pass", "sleep", "child process", "stopped"),
    },
    {
        "source": (
            Victim("source", "make"),
            Victim("transform", "", FED, "transform"),
            Victim("sink", "", LAST, "store"),
        ),
        "input": (Victim("transform", "", FED, "transform"), Victim("sink", "", LAST, "store")),
        "transform": (
            Victim("transform", "transform"),
            Victim("source", "make", CALLER),
            Victim("sink", "", FED, "store"),
        ),
        "sink": (
            Victim("sink", "store"),
            Victim("transform", "transform", CALLER),
            Victim("source", "make", BEFORE),
        ),
    },
    {"breath": 1100},
)
ALL = (GATEWAY, POOL, PIPELINE)


def plan(program: Program, seed: int, faults: int) -> tuple[dict[str, Any], int]:
    """(step -> fault, how many steps)."""
    chance = random.Random(f"{program.name} {seed}")
    made: dict[str, Any] = {}
    step = 120
    for number in range(faults):
        role = chance.choice([*program.faults])
        one: dict[str, Any] = {"role": role, "ms": chance.uniform(60, 170)}
        one["cause"] = chance.choice(program.faults[role])
        if program is POOL:  # a step belongs to the thread that takes it
            thread = int(role[-1]) if role.startswith("worker") else number % 3
            step += (thread - step) % 3
        made[str(step)] = one
        step += chance.randint(45, 75)
    return made, step + 120


def served(program: Program, folder: Path, seed: int, faults: int) -> tuple[Labelled, dict[str, int]]:
    """One run, recorded, with its truth beside it; and how many faults were left out, by reason.

    Raises:
        RuntimeError: the program failed or hangs.
    """
    folder.mkdir(parents=True)
    made, steps = plan(program, seed, faults)
    session, log = folder / "rec", folder / "faults.jsonl"
    with tempfile.TemporaryDirectory(prefix="frostline-blind-") as scratch:
        settings = {
            "plan": made, "steps": steps, "log": str(log), "scratch": f"{scratch}/file", "seed": seed,
            "ballast": 440_000, "every": 0.9, **program.settings,
        }  # fmt: skip
        _run(program, session, json.dumps(settings), Path(scratch))
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    told = [json.loads(path.read_text()) for path in sorted(folder.glob("faults.jsonl.steps-*"))]
    for line in lines:
        if line["cause"] == "no input":
            line["role"] = "input"
    stalls, left = label(lines, told, program.victims, program.others, random.Random(f"victims {seed}"))
    write_truth(folder / "truth.jsonl", stalls)
    return Labelled("blind real", session, tuple(stalls)), left


def _run(program: Program, session: Path, settings: str, scratch: Path) -> None:
    run = [sys.executable, "-m", "frostline.commands.main", "run", "-o", str(session), "--"]
    around = environment(XDG_STATE_HOME=str(scratch), PYTHONDONTWRITEBYTECODE="1")
    code = f"import subprocess, sys; sys.argv = ['start', *sys.argv[1:]]; {_START}"
    done = subprocess.run(
        [*run, sys.executable, "-c", code, str(PROGRAMS), program.name, settings],
        env=around,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    if done.returncode:
        raise RuntimeError(f"{program.name} ended with {done.returncode}: {done.stderr.strip()[-1500:]}")
    until = time.monotonic() + 20
    while os.path.lexists(session / "active") and time.monotonic() < until:
        time.sleep(0.1)  # the helper moves the segments when the last process is gone


#: The parent of the program and of the sidecar. It waits for them and does nothing else.
_START = (
    "folder, name, settings = sys.argv[1:]; "
    "aside = subprocess.Popen([sys.executable, f'{folder}/sidecar.py', settings],"
    " stdin=subprocess.PIPE, stdout=subprocess.PIPE); "
    "aside.stdout.readline(); "
    "code = subprocess.run([sys.executable, f'{folder}/{name}.py', settings]).returncode; "
    "aside.communicate(b'.'); sys.exit(code)"
)
