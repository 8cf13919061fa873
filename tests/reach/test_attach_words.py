"""What ``attach``, ``detach`` and ``status`` say of processes that are no Python, were left out, or belong to
another session (C5).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from frostline.errors import FrostlineError
from frostline.reach import permission, proc
from tests.interpreters import Interpreter, found
from tests.reach.test_attach import ASKED, TREE, ask, attach, frostline, target
from tests.reach.under_run import FROSTLINE, environment, notes, wait_for

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
        both = frostline(tmp_path, "attach", "--yes", "-o", "the two", "--tree", str(process.pid))
        assert "frostline report 'the two', frostline detach 'the two'" in both.stdout
        assert f"it is recorded already, into {tmp_path}/one" in both.stdout and both.returncode == 0
        wait_for(lambda: any(note["processes"] for note in notes(tmp_path / "the two", "helper")), "its look")
        shown = frostline(tmp_path, "status", "the two").stdout
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


#: Each command that takes a pid, as it is typed before one.
COMMANDS = [
    ("attach", "--yes"), ("detach",), ("freeze",), ("thaw",), ("collect",), ("tune", "700,10,10"),
    ("policy", "freeze"), ("ping",), ("census",), ("why-alive", "x:Y"),
]  # fmt: skip


def old_python() -> str:
    """An interpreter that is too old to be recorded; empty if there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    there = [str(path) for path in pyenv.glob("3.[6-9].*/bin/python")]
    there += [path for minor in range(6, 10) if (path := shutil.which(f"python3.{minor}"))]
    return there[0] if there else ""


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
def test_every_command_says_the_same_of_a_pid(tmp_path: Path, command: tuple[str, ...]) -> None:
    """Of one that is no Python, too old, or gone: why, and never that an attach would record it."""
    waiting = "print('up', flush=True); input()"
    programs = {"no CPython": ["sh", "-c", "echo up; read line"]}
    if old_python():
        programs["is older than 3.10"] = [old_python(), "-c", waiting]
    for why, program in programs.items():
        process = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None and process.stdout.readline() == "up\n"
            done = frostline(tmp_path, *command, str(process.pid))
            assert done.returncode == 1 and why in done.stdout, done
            assert "records it" not in done.stdout and "[needs-yes]" not in done.stderr
        finally:
            process.communicate("\n")
        done = frostline(tmp_path, *command, str(process.pid))
        assert done.returncode == 1 and f"there is no process {process.pid} [no-process]" in done.stderr
    assert not list(tmp_path.glob("frostline-*"))


def test_one_that_is_not_recorded_is_told_the_command_that_records_it(tmp_path: Path) -> None:
    with target(NEWEST, ASKED, tmp_path) as process:
        done = frostline(tmp_path, "ping", str(process.pid))
        assert done.returncode == 1
        assert f"not recorded: `frostline attach {process.pid}` records it" in done.stdout


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
def test_another_users_process_is_answered_with_the_command_for_that_user(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    typed = " ".join(word for word in command if not word.startswith("-"))
    if os.geteuid():
        done = frostline(tmp_path, *command, "1")
        assert done.returncode == 1 and f"sudo -u root frostline {typed} 1" in done.stderr, done
        return
    sleeper = subprocess.Popen(["sleep", "600"], user=54321)
    try:
        done = frostline(tmp_path, *command, str(sleeper.pid))
        assert done.returncode == 1 and "belongs to another user (54321) [not-yours]" in done.stderr, done
        assert (
            f"setpriv --reuid=54321 --regid=54321 --clear-groups frostline {typed} {sleeper.pid}"
            in done.stderr
        )
    finally:
        sleeper.kill()
        sleeper.wait()


def test_no_script_stays_behind(tmp_path: Path) -> None:
    """In the temporary directory: of one that refuses, or has ended. What a live one awaits stays."""
    if NEWEST.version < (3, 14):
        pytest.skip("below 3.14 there is no such script")
    folder = tmp_path / "tmp"
    folder.mkdir()

    def attached(pid: int, into: str) -> str:
        done = subprocess.run(
            [*FROSTLINE, "attach", "--yes", "-o", into, str(pid)],
            env=environment(tmp_path, TMPDIR=str(folder)),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            stdin=subprocess.DEVNULL,
        )
        if "is refused" in done.stdout + done.stderr:
            pytest.skip("ptrace is refused here")
        return done.stdout + done.stderr

    with target(NEWEST, ASKED, tmp_path, "-X", "disable-remote-debug") as process:
        assert "remote debugging is disabled" in attached(process.pid, "one")
    assert list(folder.glob("frostline-attach-*")) == []

    ended = subprocess.Popen(["true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)  # its pid is not given to another yet
    try:
        space = proc.pid_namespace()
        for left in (f"{space}-{ended.pid}", f"{space}-{os.getpid()}", f"{space + 1}-{ended.pid}"):
            (folder / f"frostline-attach-{left}-0123abcd.py").touch()
        (folder / "frostline-attach-notes.py").touch()
        with target(NEWEST, ASKED, tmp_path) as process:
            assert "1 of 1 processes attached" in attached(process.pid, "two")
            assert frostline(tmp_path, "detach", str(process.pid)).returncode == 0
    finally:
        ended.wait()
    assert sorted(path.name for path in folder.glob("frostline-attach-*")) == sorted(
        f"frostline-attach-{left}.py"
        for left in (f"{space}-{os.getpid()}-0123abcd", f"{space + 1}-{ended.pid}-0123abcd", "notes")
    )


def test_the_program_s_own_policy_is_left_to_what_it_starts(tmp_path: Path) -> None:
    ours = Interpreter(sys.executable, sys.version_info[:3])  # which has the start-up hook
    with target(ours, ASKED, tmp_path, FROSTLINE_POLICY="freeze") as process:
        before = ask(process, "dict(os.environ)")
        assert attach(tmp_path, process.pid)["attached"] == 1
        assert ask(process, "os.environ['FROSTLINE_POLICY']") == "freeze"
        done = frostline(tmp_path, "detach", str(process.pid))
        assert "the program's own policy was left in force" in done.stdout
        assert ask(process, "dict(os.environ)") == before
