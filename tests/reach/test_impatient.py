"""``frostline run`` told to end in the middle of its own start: nothing stays, and it ends by the signal."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.interpreters import found
from tests.reach.under_run import FROSTLINE, environment, wait_for, write

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


#: Interrupts its own process, as Ctrl-C does, when it is about to import a module.
INTERRUPTS = """
import os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["INTERRUPT_AT"]:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
"""


@pytest.mark.parametrize("ignored", [False, True])
@pytest.mark.parametrize(
    "module",
    [
        "frostline.commands._surroundings",
        "click",
        "click.core",
        "frostline.commands.run",
        "frostline.reach.start",
    ],
)
def test_an_interrupt_while_it_is_loaded_prints_nothing(tmp_path: Path, module: str, ignored: bool) -> None:
    write(tmp_path / "sitecustomize.py", INTERRUPTS)
    done = subprocess.run(
        [*FROSTLINE, "run", "-o", str(tmp_path / "rec"), "--", "echo", "ran"],
        env=environment(tmp_path, PYTHONPATH=str(tmp_path), INTERRUPT_AT=module),
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=(lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)) if ignored else None,
    )
    # What is ignored (nohup) stays so.
    assert (done.returncode, done.stdout, done.stderr) == ((0, "ran\n", "") if ignored else (130, "", ""))
    assert (tmp_path / "rec").exists() == ignored
