"""The helper's last line: to a terminal, never into a pipe, and honest where there was nothing to record."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

from tests.interpreters import found
from tests.reach.under_run import FROSTLINE, environment, run

PYTHON = found()[0].executable
CODE = "import gc; gc.collect()"


def on_a_terminal(tmp_path: Path, *command: str) -> str:
    """What is written to the terminal by a command that is run in the session ``second``, and after it."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*FROSTLINE, "run", "-o", "the second", "--", *command],
        env=environment(tmp_path),
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    )
    os.close(theirs)
    text = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:
            break  # the last one that held the terminal has gone
        if not part:
            break
        text += part
    os.close(ours)
    assert process.wait(timeout=30) == 0
    return text.decode().strip()


def test_the_summary_goes_to_a_terminal_and_never_into_a_pipe(tmp_path: Path) -> None:
    piped = run(tmp_path, PYTHON, "-c", CODE)
    assert piped.errors == ""
    line = on_a_terminal(tmp_path, PYTHON, "-c", CODE)
    assert line.startswith("frostline: 1 process recorded, 0 missed, longest pause ")
    assert line.endswith("next: frostline report 'the second'")  # as it is typed


def test_where_no_python_was_seen_it_says_that(tmp_path: Path) -> None:
    line = on_a_terminal(tmp_path, "sh", "-c", "sleep 0.1")
    assert line == "frostline: no Python process was seen: there was nothing to record"


def test_one_that_was_missed_was_seen(tmp_path: Path) -> None:
    line = on_a_terminal(tmp_path, PYTHON, "-S", "-c", "import time; time.sleep(1)")
    assert line.startswith("frostline: 0 processes recorded, 1 missed")
