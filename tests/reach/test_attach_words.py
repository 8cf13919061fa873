"""What ``attach``, ``detach`` and ``status`` say of processes that are no Python, were left out, or belong to
another session (C5).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from frostline.errors import FrostlineError
from frostline.reach import permission
from tests.interpreters import found
from tests.reach.test_attach import ASKED, TREE, attach, frostline, target
from tests.reach.under_run import notes, wait_for

NEWEST = found()[-1]


@pytest.mark.parametrize("text", ["abc", "0", "1.5", "99999999999", "", "٣"])
def test_what_is_no_pid(tmp_path: Path, text: str) -> None:
    done = frostline(tmp_path, "attach", "--yes", text)
    assert done.returncode == 2 and f"{text!r} is not a pid" in done.stderr and "[bad-pid]" in done.stderr


def test_no_python_is_said_before_what_else_forbids_it(tmp_path: Path) -> None:
    sleeper = subprocess.Popen(["sleep", "600"])
    try:
        os.kill(sleeper.pid, signal.SIGSTOP)
        wait_for(lambda: " T " in Path(f"/proc/{sleeper.pid}/stat").read_text(), "the stop")
        (row,) = attach(tmp_path, sleeper.pid)["processes"]
        assert "it is no CPython" in row["why_not"] and "CONT" not in row["remedy"]
    finally:
        sleeper.kill()
        sleeper.wait()


def test_one_that_may_not_be_looked_into_by_its_name(tmp_path: Path) -> None:
    try:
        permission.check(1)
    except FrostlineError as error:
        if error.slug != "no-ptrace":
            pytest.skip(f"pid 1: {error.message}")
    else:
        pytest.skip("pid 1 may be looked into")
    (row,) = attach(tmp_path, 1)["processes"]
    assert row["why_not"].startswith("by its name (") and row["remedy"].startswith("Name the pid of a Python")


def test_children_that_are_left_out_are_named_with_the_command(tmp_path: Path) -> None:
    (tmp_path / "tree.py").write_text(TREE)
    shell = f"import subprocess; subprocess.run([{NEWEST.executable!r}, 'tree.py'])"
    with target(NEWEST, shell, tmp_path) as process:
        done = frostline(tmp_path, "attach", "--yes", "-o", "one", str(process.pid))
        named, command = done.stdout.splitlines()[-2:]
        assert named.startswith("without --tree its Python children are not attached to: ")
        assert "tree.py (pid " in named and named.count("(pid ") == 4  # the resource tracker, too
        assert command.strip() == f"frostline attach {process.pid} --tree -o one"
        # At the helper's first look they are no longer awaited.
        wait_for(lambda: any(note["processes"] for note in notes(tmp_path / "one", "helper")), "its look")
        seen = json.loads(frostline(tmp_path, "status", "--json", "one").stdout)["rows"]
        assert sorted(row["reason"] for row in seen) == ["", *["before-attach"] * 4]
        again = frostline(tmp_path, "attach", "--yes", "-o", "two", str(process.pid))
        assert f"is recorded already, into {tmp_path}/one" in again.stderr
        assert f"frostline attach {process.pid} --tree -o {tmp_path}/one" in again.stderr
        # The rest goes into another session: each of the two knows whose the others are.
        both = frostline(tmp_path, "attach", "--yes", "-o", "two", "--tree", str(process.pid))
        assert f"it is recorded already, into {tmp_path}/one" in both.stdout and both.returncode == 0
        wait_for(lambda: any(note["processes"] for note in notes(tmp_path / "two", "helper")), "its look")
        shown = frostline(tmp_path, "status", "two").stdout
        assert f"it records into another session ({tmp_path}/one)" in shown and "not yet" not in shown
        assert frostline(tmp_path, "detach", str(process.pid), "--tree").returncode == 0


def test_a_second_detach(tmp_path: Path) -> None:
    with target(found()[0], ASKED, tmp_path) as process:
        assert attach(tmp_path, process.pid)["left_out"] == []
        assert frostline(tmp_path, "detach", str(process.pid)).returncode == 0
        done = frostline(tmp_path, "detach", str(process.pid))
        assert done.returncode == 1 and "ending" not in done.stdout
        assert "detached already" in done.stdout or "not recorded" in done.stdout
        done = frostline(tmp_path, "detach", "rec")
        assert done.returncode == 1 and "ending" not in done.stdout + done.stderr
