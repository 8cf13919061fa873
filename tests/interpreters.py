"""The interpreters that the in-target tests run on.

One a minor version, 3.10 and newer: from FROSTLINE_PYTHONS (separated by ``:``) if set, else the
running one and whatever is found on PATH, under ``$PYENV_ROOT/versions`` (``~/.pyenv`` if unset) and
under ``~/.cache/frostline-pythons/*/bin``.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src"


@dataclass(frozen=True)
class Interpreter:
    """One Python to run a target on."""

    executable: str
    version: tuple[int, int, int]

    def __str__(self) -> str:
        return ".".join(map(str, self.version))


def _ask(executable: str) -> Interpreter | None:
    question = (
        "import sys; print(sys.implementation.name, getattr(sys, '_is_gil_enabled', lambda: True)(),"
        " *sys.version_info[:3])"
    )
    try:
        answer = subprocess.run([executable, "-c", question], capture_output=True, text=True, timeout=30)
    except OSError:
        return None
    words = answer.stdout.split()
    if answer.returncode or words[:2] != ["cpython", "True"]:
        return None
    version = (int(words[2]), int(words[3]), int(words[4]))
    return Interpreter(executable, version) if version >= (3, 10, 0) else None


@functools.cache
def found() -> tuple[Interpreter, ...]:
    """Every usable interpreter, oldest first."""
    named = os.environ.get("FROSTLINE_PYTHONS")
    if named:
        candidates = named.split(":")
    else:
        base = getattr(sys, "_base_executable", sys.executable)
        candidates = [base]
        pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
        candidates += [str(path) for path in sorted(pyenv.glob("3.1*/bin/python"))]
        candidates += [
            str(path) for path in sorted((Path.home() / ".cache/frostline-pythons").glob("3.*/bin/python"))
        ]
        candidates += [path for minor in range(10, 16) if (path := shutil.which(f"python3.{minor}"))]
    by_minor: dict[tuple[int, int], Interpreter] = {}
    for candidate in candidates:
        interpreter = _ask(candidate)
        if interpreter is not None:
            by_minor.setdefault(interpreter.version[:2], interpreter)
    return tuple(by_minor[minor] for minor in sorted(by_minor))


#: For tests that take ``interpreter``: one run on each.
every_interpreter = pytest.mark.parametrize("interpreter", found(), ids=str)


if __name__ == "__main__":
    print(":".join(interpreter.executable for interpreter in found()))
