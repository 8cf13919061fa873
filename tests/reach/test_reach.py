"""Which processes are reached: every way to start one, with and without Frostline in its environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interpreters import SOURCE, Interpreter, every_interpreter, found
from tests.reach.under_run import notes, run, wait_for_helper, write

SPAWNING = """
import multiprocessing, os, subprocess, sys

def child(name):
    import gc
    gc.collect()

if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        process = context.Process(target=child, args=(method,), name="child-" + method)
        process.start()
        process.join()
        print(method, process.pid, process.exitcode)
    code = "import gc, os, sys; gc.collect(); print(sys.argv[1], os.getpid(), 0)"
    subprocess.run([sys.executable, "-c", code, "subprocess"])
    pid = os.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", code, "exec"])
    os.waitpid(pid, 0)
"""


@every_interpreter
@pytest.mark.parametrize("installed", [False, True], ids=["fallback", "installed"])
def test_children_of_every_kind_are_recorded(
    tmp_path: Path, interpreter: Interpreter, installed: bool, request: pytest.FixtureRequest
) -> None:
    python = request.getfixturevalue("with_frostline") if installed else interpreter.executable
    script = write(tmp_path / "spawning.py", SPAWNING)
    ended = run(tmp_path, python, str(script))
    assert ended.code == 0, ended.errors
    said = [line.split() for line in ended.output.splitlines()]
    assert sorted(word[0] for word in said) == ["exec", "fork", "forkserver", "spawn", "subprocess"]
    assert all(word[2] == "0" for word in said), said
    recorded = {process["pid"] for process in ended.recorded}
    for kind, pid, _ in said:
        assert int(pid) in recorded, (kind, ended.processes)
    assert ended.missed == []
    # Nothing is left on tmpfs, and every series has been sealed.
    assert not (ended.folder / "active").is_symlink()
    for process in ended.recorded:
        for series in process["series"]:
            assert (ended.folder / f"{process['pid']}-{series}-0.0000.flr").exists()


@every_interpreter
@pytest.mark.parametrize("option", ["-E", "-I"])
def test_options_that_shut_the_environment_out(
    tmp_path: Path, interpreter: Interpreter, with_frostline: str, option: str
) -> None:
    ended = run(tmp_path, with_frostline, option, "-c", "import gc; gc.collect()")
    assert ended.code == 0, ended.errors
    assert len(ended.recorded) == 1 and ended.missed == []


@pytest.mark.parametrize("interpreter", sorted({found()[0], found()[-1]}, key=str), ids=str)
@pytest.mark.parametrize(
    ("option", "reason"), [("-S", "no-site"), ("-I", "isolated"), ("-E", "isolated"), ("-IS", "no-site")]
)
def test_what_is_missed_is_named_with_its_reason(
    tmp_path: Path, interpreter: Interpreter, option: str, reason: str
) -> None:
    script = write(
        tmp_path / "parent.py",
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, {option!r}, '-c', 'import time; time.sleep(0.6)'])\n"
        "print(child.pid); child.wait()\n",
    )
    ended = run(tmp_path, interpreter.executable, str(script))
    (missed,) = ended.missed
    assert missed["pid"] == int(ended.output)
    assert missed["missed"] == reason
    assert len(ended.recorded) == 1


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("env={}", "scrubbed-environment"),
        ("env={**os.environ, 'PYTHONPATH': ''}", "pythonpath-replaced"),
        ("env={**os.environ, 'FROSTLINE_DISABLE': '1'}", "disabled"),
        ("env={**os.environ, 'FROSTLINE_OUTPUT': '/nowhere'}", "other-session"),
    ],
)
def test_a_child_with_another_environment_is_named(tmp_path: Path, how: str, reason: str) -> None:
    script = write(
        tmp_path / "parent.py",
        "import os, subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(0.6)'], {how})\n"
        "print(child.pid); child.wait()\n",
    )
    ended = run(tmp_path, found()[0].executable, str(script))
    (missed,) = ended.missed
    assert (missed["pid"], missed["missed"]) == (int(ended.output), reason)


def test_a_python_inside_another_program_is_named(tmp_path: Path) -> None:
    """As in a frozen application: the program's name is no interpreter's, and no hook runs."""
    server = tmp_path / "server"
    prefix = subprocess.run(
        [found()[0].executable, "-c", "import sys; print(sys.base_prefix)"], capture_output=True, text=True
    ).stdout.strip()
    shutil.copyfile(os.path.realpath(found()[0].executable), server)
    server.chmod(0o755)
    code = "import _ctypes, time; time.sleep(1.6)"
    ended = run(tmp_path, "env", f"PYTHONHOME={prefix}", str(server), "-S", "-c", code)
    (missed,) = ended.missed
    assert (missed["missed"], missed["detail"]) == ("frozen", "server")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_users_process_is_named(tmp_path: Path) -> None:
    code = (
        "import os, subprocess, sys\n"
        "command = [sys.executable, '-c', 'import time; time.sleep(0.6)']\n"
        "print(subprocess.run(command, preexec_fn=lambda: os.setuid(65534)).returncode)\n"
    )
    ended = run(tmp_path, _readable_python(), "-c", code)
    if ended.output.strip() != "0":
        pytest.skip("no interpreter here that another user can run")
    (missed,) = ended.missed
    assert missed["missed"] == "other-user"


def test_a_series_from_before_an_exec_does_not_count_for_what_came_after(tmp_path: Path) -> None:
    """With preexec_fn the child is forked by Python and records, until it becomes what is missed."""
    code = (
        "import subprocess, sys\n"
        "command = [sys.executable, '-S', '-c', 'import time; time.sleep(0.6)']\n"
        "child = subprocess.Popen(command, preexec_fn=lambda: None); child.wait(); print(child.pid)\n"
    )
    ended = run(tmp_path, found()[0].executable, "-c", code)
    (missed,) = ended.missed
    assert (missed["pid"], missed["missed"]) == (int(ended.output), "no-site")


def _readable_python() -> str:
    return shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin") or found()[0].executable


def test_a_recording_that_begins_late_says_so(tmp_path: Path) -> None:
    """Without a hook in its environment and with PYTHONPATH ignored, the program begins by itself."""
    code = (
        f"import os, sys, time\ntime.sleep(5.3)\nsys.path.insert(0, {str(SOURCE)!r})\n"
        "import frostline; frostline._boot(); time.sleep(0.3)"
    )
    ended = run(tmp_path, found()[0].executable, "-E", "-c", code)
    (process,) = ended.recorded
    assert process["detail"] == "recorded from 5 s after its start" and process["missed"] is None


def test_an_old_python_is_named_and_not_harmed(tmp_path: Path) -> None:
    old = _old_python()
    ended = run(tmp_path, old, "-c", "import sys, time; sys.stdout.write('fine'); time.sleep(0.6)")
    assert (ended.code, ended.output, ended.errors) == (0, "fine", "")
    (missed,) = ended.missed
    assert missed["missed"] == "old-python"


def _old_python() -> str:
    for name in ("3.9.*", "3.8.*", "2.7.*"):
        for path in sorted((Path.home() / ".pyenv/versions").glob(f"{name}/bin/python")):
            return str(path)
    pytest.skip("no Python older than 3.10 on this machine")


def test_python_2_runs_the_fallback_without_harm(tmp_path: Path) -> None:
    two = next(iter((Path.home() / ".pyenv/versions").glob("2.7.*/bin/python")), None)
    if two is None:
        pytest.skip("no Python 2.7 on this machine")
    ended = run(tmp_path, str(two), "-c", "import sys; print([p for p in sys.path if 'boot' in p])")
    assert (ended.code, ended.output.strip(), ended.errors) == (0, "[]", "")


def test_a_shell_script_that_starts_python_in_the_background(tmp_path: Path) -> None:
    python = found()[0].executable
    script = write(
        tmp_path / "start.sh",
        f"#!/bin/sh\n{python} -c 'import gc; gc.collect(); print(1)' &\nwait\nexec {python} -c 'print(2)'\n",
        0o755,
    )
    ended = run(tmp_path, str(script))
    assert ended.output.split() == ["1", "2"]
    assert len(ended.recorded) == 2 and ended.missed == []


def test_a_script_by_its_first_line_and_a_module(tmp_path: Path) -> None:
    python = found()[-1].executable
    script = write(tmp_path / "tool", f"#!{python}\nimport sys; print(sys.argv[1:])\n", 0o755)
    ended = run(tmp_path, str(script), "a b", "--", "-x")
    assert ended.output.strip() == "['a b', '--', '-x']"
    assert len(ended.recorded) == 1

    write(tmp_path / "package/__init__.py", "")
    write(tmp_path / "package/__main__.py", "import sys; print('main', sys.argv[1:])")
    (tmp_path / "second").mkdir()
    ended = run(tmp_path / "second", python, "-m", "package", "1", cwd=tmp_path)
    assert ended.output.strip() == "main ['1']"
    assert len(ended.recorded) == 1


def test_a_daemon_that_leaves_its_parent_stays_in_the_tree(tmp_path: Path) -> None:
    script = write(
        tmp_path / "daemon.py",
        "import os, time\n"
        "read, write = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        os.write(write, b'%d' % os.getpid())\n"
        "        time.sleep(1.2)\n"
        "        open('daemon-ended', 'w').close()\n"
        "    os._exit(0)\n"
        "print(os.read(read, 9).decode())\n",
    )
    ended = run(tmp_path, found()[0].executable, str(script))
    # The helper ended after the daemon, not after the command.
    assert (tmp_path / "daemon-ended").exists()
    assert int(ended.output) in {process["pid"] for process in ended.recorded}


@every_interpreter
def test_a_fork_that_python_does_not_know_of_is_missed_or_recorded_but_never_wrong(
    tmp_path: Path, interpreter: Interpreter
) -> None:
    script = write(
        tmp_path / "raw.py",
        "import ctypes, gc, os, time\n"
        "pid = ctypes.CDLL(None).fork()\n"
        "if pid == 0:\n"
        "    gc.collect(); time.sleep(0.6); os._exit(0)\n"
        "os.waitpid(pid, 0); print(pid)\n",
    )
    ended = run(tmp_path, interpreter.executable, str(script))
    assert ended.code == 0, ended.errors
    child = next(p for p in ended.processes if p["pid"] == int(ended.output))
    assert child["recorded"] or child["missed"] == "raw-fork"


def test_a_storm_of_short_children_is_recorded_whole(tmp_path: Path) -> None:
    """Most begin and end between two looks of the helper: what they wrote says that they were there."""
    code = (
        "import gc, os, subprocess, sys\n"
        "forked = []\n"
        "for _ in range(60):\n"
        "    pid = os.fork()\n"
        "    if pid == 0: gc.collect(); os._exit(0)\n"
        "    forked.append(pid)\n"
        "for pid in forked: os.waitpid(pid, 0)\n"
        "command = [sys.executable, '-c', 'import gc; gc.collect()']\n"
        "started = [subprocess.Popen(command) for _ in range(12)]\n"
        "for child in started: child.wait()\n"
        "print(*forked, *(child.pid for child in started))\n"
    )
    ended = run(tmp_path, found()[-1].executable, "-c", code)
    assert ended.missed == []
    assert {int(word) for word in ended.output.split()} <= {process["pid"] for process in ended.recorded}


def test_two_commands_share_a_session(tmp_path: Path) -> None:
    python = found()[0].executable
    first = run(tmp_path, python, "-c", "import gc; gc.collect()")
    assert len(first.recorded) == 1
    second = run(tmp_path, sys.executable, "-c", "import gc; gc.collect()", wait=False)
    wait_for_helper(second.folder, 2)
    assert len(notes(second.folder, "run")) == 2
    recorded = [p for note in notes(second.folder, "helper") for p in note["processes"] if p["recorded"]]
    assert len({p["pid"] for p in recorded}) == 2
    assert not (second.folder / "active").is_symlink()
