"""``frostline run`` told to end in the middle of its own start: nothing stays, and it ends by the signal."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.interpreters import found
from tests.reach.under_run import FROSTLINE, environment, wait_for

PYTHON = found()[0].executable


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_between_the_session_and_the_command_leaves_nothing(
    tmp_path: Path, number: signal.Signals
) -> None:
    process = subprocess.Popen(
        [*FROSTLINE, "run", "-o", str(tmp_path / "rec"), "--", PYTHON, "-c", "print('up')"],
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        active = tmp_path / "rec" / "active"
        wait_for(lambda: active.is_symlink() or process.poll() is not None, "its live folder")
        live = Path(os.readlink(active))
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    # It may have become the command already; then the helper tidies up.
    wait_for(lambda: not live.exists(), "its live folder is taken back")
    assert "Traceback" not in err
    assert process.returncode in (-number, 130, 0), (process.returncode, out, err)
