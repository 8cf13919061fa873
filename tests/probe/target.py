"""Runs a script as a target with the recorder in it, and reads what it recorded."""

from __future__ import annotations

import os
import subprocess
import textwrap
from dataclasses import dataclass
from pathlib import Path

from frostline.recording.session import Session, read_session
from tests.interpreters import SOURCE, Interpreter

#: What the start-up hook does, for interpreters that have no environment with Frostline in it.
BOOT = "import frostline; frostline._boot()\n"


@dataclass(frozen=True)
class Ran:
    """A target that has ended."""

    output: str
    errors: str
    code: int
    folder: Path

    @property
    def session(self) -> Session:
        return read_session(self.folder)


def environment(folder: Path, **more: str) -> dict[str, str]:
    """The environment of a target that records into ``folder``."""
    return {**os.environ, "FROSTLINE_OUTPUT": str(folder), "PYTHONPATH": str(SOURCE), **more}


def script(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "target_script.py"
    path.write_text(textwrap.dedent(text))
    return path


def run(
    interpreter: Interpreter | str, tmp_path: Path, text: str, *, options: tuple[str, ...] = (), **more: str
) -> Ran:
    """Runs ``text`` under the recorder; the session is ``tmp_path/session``."""
    path = script(tmp_path, text)
    executable = interpreter if isinstance(interpreter, str) else interpreter.executable
    name = repr(str(path))
    boot = f"{BOOT}import runpy, sys; sys.argv = [{name}]; runpy.run_path({name}, run_name='__main__')"
    done = subprocess.run(
        [executable, *options, "-c", boot],
        env=environment(tmp_path / "session", **more),
        capture_output=True,
        text=True,
        timeout=120,
    )
    return Ran(done.stdout, done.stderr, done.returncode, tmp_path / "session")
