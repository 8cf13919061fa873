"""``frostline doctor --self`` (D10): it proves on every interpreter, and finds a recorder that is broken."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from frostline.reach.fitness import OK, PROBLEM
from frostline.reach.selfaudit import judge
from tests.interpreters import Interpreter, every_interpreter, found
from tests.probe.target import run
from tests.reach.under_run import FROSTLINE, environment

PROOFS = ["at work", "retains nothing", "dies at once", "makes no cycle", "feeds no pass"]


def doctor(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*FROSTLINE, "doctor", "--self", *arguments]
    return subprocess.run(
        command, env=environment(tmp_path), cwd=tmp_path, capture_output=True, text=True, timeout=120
    )


@every_interpreter
def test_it_proves_on_every_interpreter(interpreter: Interpreter, tmp_path: Path) -> None:
    done = doctor(tmp_path, "--python", interpreter.executable, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert told["fit"] is True
    assert [(one["what"], one["level"]) for one in told["findings"]] == [(proof, "ok") for proof in PROOFS]
    assert "function timed (audit.py:" in told["findings"][3]["found"]


def test_the_words(tmp_path: Path) -> None:
    done = doctor(tmp_path)
    assert done.returncode == 0 and done.stdout.endswith("proved\n"), done.stdout + done.stderr
    assert "of 200 objects whose method was timed 0 outlive their last user" in done.stdout


def test_an_interpreter_that_cannot_be_recorded_proves_nothing(tmp_path: Path) -> None:
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho no such thing >&2\nexit 1\n")
    fake.chmod(0o755)
    done = doctor(tmp_path, "--python", str(fake))
    assert done.returncode == 1 and "no such thing [self-audit]" in done.stderr


#: What could be wrong with a recorder, put in its place in a real process: -> the proofs that must fail.
BROKEN = {
    "a hook that makes a cycle": (
        """
        def bad(obj, name, label=None):
            original = getattr(obj, name)
            def timed(*args): return original(*args)
            setattr(obj, name, timed)
        frostline.wrap = bad
        """,
        {"dies at once", "makes no cycle", "feeds no pass", "at work"},
    ),
    "a hook that keeps what passes through": (
        """
        kept, real = [], frostline.wrap
        def bad(obj, name, label=None):
            kept.append(obj)
            return real(obj, name, label)
        frostline.wrap = bad
        """,
        {"dies at once", "retains nothing", "feeds no pass"},
    ),
    "a callback that keeps a row for each pass": (
        """
        rows = []
        gc.callbacks.append(lambda phase, info: rows.append([phase]))
        """,
        {"retains nothing"},
    ),
    "a span that keeps a row for each": (
        """
        rows, real = [], frostline.begin
        def bad(label):
            rows.append([label])
            return real(label)
        frostline.begin = bad
        """,
        {"retains nothing", "feeds no pass"},
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_recorder_that_is_broken_is_found(kind: str, tmp_path: Path) -> None:
    code, expected = BROKEN[kind]
    lines = "\n".join(line.strip("\n").removeprefix(" " * 8) for line in code.splitlines())
    target = f"import gc, frostline\n{lines}\nfrom frostline.heap.audit import main; main()\n"
    ran = run(found()[-1], tmp_path, target, FROSTLINE_PRESETS="none")
    assert ran.code == 0, ran.errors
    series = ran.session.series
    recorded = sum(len(s.passes) for s in series), sum(len(s.spans["start"]) for s in series)
    findings = judge(json.loads(ran.output.splitlines()[-1]), recorded)
    assert {one.what for one in findings if one.level == PROBLEM} == expected


COUNTED: dict[str, Any] = {
    "young": 1, "full": 1, "spans": 4, "more": {}, "more_control": 5, "tickets": 5, "alive": 0,
    "alive_control": 5, "cycles": {"found": 0, "kinds": []}, "few": 4, "drift": 0,
    "cycles_control": {"found": 9, "kinds": [[5, "T -> function timed (audit.py:9) -> T"]]},
}  # fmt: skip


@pytest.mark.parametrize(("change", "proof"), (
    ({"more_control": 4}, "retains nothing"), ({"alive_control": 4}, "dies at once"),
    ({"cycles_control": {"found": 0, "kinds": []}}, "makes no cycle"),
))  # fmt: skip
def test_a_proof_whose_control_is_not_caught_is_none(change: dict[str, Any], proof: str) -> None:
    assert all(one.level == OK for one in judge(COUNTED, (4, 8)))
    failed = [one.what for one in judge({**COUNTED, **change}, (4, 8)) if one.level == PROBLEM]
    assert failed == [proof]
    assert [one.what for one in judge(COUNTED, (3, 8)) if one.level == PROBLEM] == ["at work"]
