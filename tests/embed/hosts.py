"""Runs a small host program, given as text, on an interpreter that has the source tree on its path."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.interpreters import SOURCE, Interpreter

#: A host that takes longer hangs.
LIMIT = 120.0


def environment(**settings: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FROSTLINE_")}
    return kept | {"PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"} | settings


def run(
    interpreter: Interpreter | None,
    folder: Path,
    program: str,
    *arguments: str,
    options: tuple[str, ...] = (),
    **settings: str,
) -> subprocess.CompletedProcess[str]:
    """Runs it as a file, since spawned children import it; without an interpreter on this one."""
    file = folder / "host.py"
    file.write_text(program)
    return subprocess.run(
        [interpreter.executable if interpreter else sys.executable, *options, str(file), *arguments],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        cwd=folder,
        env=environment(**settings),
    )


def said(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The lines of a host that went well and complained of nothing."""
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.splitlines()
