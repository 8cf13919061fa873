"""Runs a program under ``frostline cycles -- COMMAND``, and reads what it says."""

from __future__ import annotations

import json
import subprocess
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.interpreters import Interpreter
from tests.reach.under_run import FROSTLINE, environment


@dataclass
class Said:
    """What the program printed and how it ended, what was told of its cycles, and the same as JSON."""

    code: int
    printed: str
    text: str
    errors: str
    found: dict[str, Any]

    def kinds(self, word: str, span: str = "") -> list[dict[str, Any]]:
        """The kinds with a word in their path, of the command or of one span."""
        (looked,) = [one for one in self.found["looked"] if one["span"] == span]
        return [
            kind
            | {"processes": {one["process"]: one["count"] for one in kind["processes"]}}
            | {"sites": {one["site"]: one["looks"] for one in kind["sites"]}}
            for kind in looked["cycles"]
            if word in kind["path"]
        ]


def options_of(folder: Path, *options: str) -> list[str]:
    """The command line up to ``--``."""
    return [*FROSTLINE, "cycles", "-o", str(folder / "rec"), "--save", str(folder / "found.json"), *options]


def under(folder: Path, interpreter: Interpreter, program: str, *options: str, code: int = 0) -> Said:
    """Runs a program to its end. Of its output the line ``---`` is the last."""
    script = folder / "case.py"
    script.write_text(textwrap.dedent(program) + "\n")
    done = subprocess.run(
        [*options_of(folder, *options), "--", interpreter.executable, str(script)],
        env=environment(folder, PYTHONPATH=str(folder)),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    printed, _, text = done.stdout.partition("---\n")
    saved = folder / "found.json"
    return Said(code, printed, text, done.stderr, json.loads(saved.read_text()) if saved.exists() else {})
