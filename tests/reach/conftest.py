"""Environments that have Frostline, and those that do not."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.interpreters import SOURCE, Interpreter

HOOK = SOURCE.parent / "hook" / "frostline.pth"
_made: dict[str, Path] = {}


def make_venv(base: Path, interpreter: Interpreter, with_frostline: bool) -> Path:
    """A virtual environment; Frostline in it is what an editable install puts there."""
    subprocess.run(
        [interpreter.executable, "-m", "venv", "--without-pip", "--symlinks", str(base)],
        check=True,
        timeout=120,
    )
    if with_frostline:
        (site,) = base.glob("lib/python3.*/site-packages")
        (site / "a_frostline_source.pth").write_text(f"{SOURCE}\n")
        (site / "frostline.pth").write_text(HOOK.read_text())
    return base / "bin" / "python"


@pytest.fixture
def with_frostline(interpreter: Interpreter, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The interpreter's virtual environment that has Frostline."""
    key = f"{interpreter}"
    if key not in _made:
        _made[key] = make_venv(tmp_path_factory.mktemp("venv") / key, interpreter, True)
    return str(_made[key])
