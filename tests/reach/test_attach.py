"""``frostline attach`` and ``detach`` on processes that were started without Frostline."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from frostline.reach import asking
from tests.interpreters import Interpreter, every_interpreter, found
from tests.reach.under_run import FROSTLINE, environment, notes, wait_for, wait_for_helper

#: Answers each line of its input, a Python expression, with its value as JSON.
ASKED = """
import gc, json, os, signal, sys, threading
from multiprocessing import spawn, util
class Loop: pass
def allocate(count):
    for _ in range(count):
        loop = Loop(); loop.self = loop
    return gc.collect()
def state():
    return {
        "callbacks": len(gc.callbacks), "frozen": gc.get_freeze_count(),
        "thresholds": gc.get_threshold(),
        "functions": [type(getattr(gc, name)).__name__ for name in
            ("collect", "freeze", "unfreeze", "set_threshold", "enable", "disable")],
        "exec": [repr(os.execv), repr(os.execve)], "urg": repr(signal.getsignal(signal.SIGURG)),
        "environment": dict(os.environ), "path": sys.path,
        "finders": [repr(finder) for finder in sys.meta_path],
        "prepare": repr(spawn.prepare), "after_fork": len(util._afterfork_registry),
        "main": sorted(globals()),
        "threads": threading.active_count(), "names": [work.__qualname__, repr(work)],
    }
def work():
    return 1
print("up", flush=True)
for line in sys.stdin:
    print(json.dumps(eval(line)), flush=True)
"""
#: Each says "up" in the state meant.
STATES = {
    "sleep": "import time\nprint('up', flush=True)\ntime.sleep(600)",
    "read": "import sys\nprint('up', flush=True)\nsys.stdin.read()",
    "lock": "import threading\nl = threading.Lock()\nl.acquire()\nprint('up', flush=True)\nl.acquire()",
    "queue": "import queue\nprint('up', flush=True)\nqueue.Queue().get()",
    "busy": "print('up', flush=True)\nx = 0\nwhile True:\n    x += 1",
    "asyncio": (
        "import asyncio\nasync def main():\n    print('up', flush=True)\n    await asyncio.sleep(600)\n"
        "asyncio.run(main())"
    ),
    "wait": (
        "import os, time\nif os.fork():\n    print('up', flush=True)\n    os.wait()\n"
        "else:\n    time.sleep(600)"
    ),
}
X86 = platform.machine() == "x86_64"


@contextlib.contextmanager
def target(
    interpreter: Interpreter, program: str, tmp_path: Path, *options: str, **variables: str
) -> Iterator[subprocess.Popen[str]]:
    if not X86 and interpreter.version < (3, 14):
        pytest.skip("below 3.14 an attach is made for x86-64 only")
    process = subprocess.Popen(
        [interpreter.executable, *options, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment(tmp_path, **variables),
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def ask(process: subprocess.Popen[str], expression: str) -> Any:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(expression + "\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def frostline(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*FROSTLINE, *arguments],
        env=environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )
    if "ptrace is refused" in done.stdout + done.stderr:
        pytest.skip("ptrace is refused here")
    return done


def attach(tmp_path: Path, *arguments: object) -> dict[str, Any]:
    done = frostline(tmp_path, "attach", "--yes", "--json", "-o", "rec", *map(str, arguments))
    assert done.stdout, done.stderr
    value: dict[str, Any] = json.loads(done.stdout)
    value["code"] = done.returncode
    return value


def words(tmp_path: Path, pid: int) -> Any:
    done = frostline(tmp_path, "status", "--json", "rec")
    (row,) = [row for row in json.loads(done.stdout)["rows"] if row["pid"] == pid]
    return row


@every_interpreter
def test_what_goes_in_comes_out(interpreter: Interpreter, tmp_path: Path) -> None:
    with target(interpreter, ASKED, tmp_path) as process:
        before = ask(process, "state()")
        policy = "freeze,thresholds=900/10/10"
        found = attach(tmp_path, process.pid, "--span", "json:dumps", "--policy", policy)
        assert found["code"] == 0 and found["attached"] == 1, found
        during = ask(process, "state()")
        assert during["callbacks"] == before["callbacks"] + 1
        assert during["urg"] != before["urg"] and during["thresholds"] == [900, 10, 10]
        assert during["environment"]["FROSTLINE_OUTPUT"] == str(tmp_path / "rec")
        assert during["path"] == before["path"] and during["main"] == before["main"]
        assert ask(process, "allocate(3000)") > 0
        wait_for(lambda: ask(process, "gc.get_freeze_count()") > before["frozen"], "the freeze")
        assert words(tmp_path, process.pid)["boundary"] == "told, late"
        done = frostline(tmp_path, "detach", "rec")
        assert done.returncode == 0 and "thawed" in done.stdout and "thresholds as before" in done.stdout
        # A thaw gives back what was frozen before, too: 3.12 has 375 immortal objects there.
        after = ask(process, "state()")
        assert after.pop("frozen") == 0 and before.pop("frozen") in (0, 375)
        assert after == before
        assert ask(process, "allocate(100)") > 0
        wait_for_helper(tmp_path / "rec")
        assert not (tmp_path / "rec" / "active").exists()
        assert words(tmp_path, process.pid)["reason"] == "detached"
        report = json.loads(frostline(tmp_path, "report", "rec", "--json").stdout)
        assert "json" in json.dumps(report) and report["processes"][0]["passes"]
        # and once more, into the same session
        assert attach(tmp_path, process.pid)["attached"] == 1
        assert ask(process, "len(gc.callbacks)") == before["callbacks"] + 1
        assert ask(process, "[os.waitpid(os.fork() or os._exit(0), 0)[1], len(gc.callbacks)]")[0] == 0
        assert frostline(tmp_path, "detach", str(process.pid)).returncode == 0
        after = ask(process, "state()")
        after.pop("frozen")
        assert after == before


@every_interpreter
def test_what_it_ran_there_is_gone_without_a_pass(interpreter: Interpreter, tmp_path: Path) -> None:
    with target(interpreter, ASKED, tmp_path) as process:
        ask(process, "gc.disable()")
        assert attach(tmp_path, process.pid)["attached"] == 1
        named = "[o.__name__ for o in gc.get_objects() if getattr(o, '__module__', '') == 'frostline-attach']"
        assert ask(process, named) == []


@every_interpreter
@pytest.mark.parametrize("state", STATES)
def test_whatever_the_main_thread_waits_for(interpreter: Interpreter, state: str, tmp_path: Path) -> None:
    with target(interpreter, STATES[state], tmp_path) as process:
        found = attach(tmp_path, process.pid)
        assert found["attached"] == 1, found
        assert asking.is_recorded(process.pid)
        assert frostline(tmp_path, "detach", str(process.pid)).returncode == 0
        assert process.poll() is None


@every_interpreter
def test_later_children_are_recorded_until_the_detach(interpreter: Interpreter, tmp_path: Path) -> None:
    spawn = (
        "__import__('subprocess').run("
        "[sys.executable, '-c', 'import sys; print(\"frostline\" in sys.modules)'],"
        " capture_output=True, text=True).stdout"
    )
    with target(interpreter, ASKED, tmp_path) as process:
        assert attach(tmp_path, process.pid)["attached"] == 1
        assert ask(process, spawn) == "True\n"
        assert frostline(tmp_path, "detach", str(process.pid)).returncode == 0
        assert ask(process, spawn) == "False\n"
        assert attach(tmp_path, process.pid, "--no-children")["attached"] == 1
        assert ask(process, spawn) == "False\n"


TREE = """
import multiprocessing, sys, time
def child(ready):
    ready.set()
    time.sleep(600)
if __name__ == "__main__":
    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        ready = context.Event()
        context.Process(target=child, args=(ready,), name=f"Worker-{method}").start()
        ready.wait()
    print("up", flush=True)
    time.sleep(600)
"""


@every_interpreter
def test_a_tree_and_who_was_left_out(interpreter: Interpreter, tmp_path: Path) -> None:
    (tmp_path / "tree.py").write_text(TREE)
    shell = f"import subprocess; subprocess.run([{interpreter.executable!r}, 'tree.py'])"
    with target(interpreter, shell, tmp_path) as process:
        assert attach(tmp_path, process.pid)["attached"] == 1
        wait_for(lambda: notes(tmp_path / "rec", "helper"), "the helper")
        missed = wait_for(
            lambda: [
                p for p in notes(tmp_path / "rec", "helper")[0]["processes"] if p["missed"] == "before-attach"
            ],
            "those that were left out",
        )
        assert len(missed) >= 3
        found = attach(tmp_path, process.pid, "--tree")
        rest = [row for row in found["processes"] if row["why_not"]]
        why = f"it is recorded already, into {tmp_path}/rec"
        assert [row["why_not"] for row in rest] == [why] and found["code"] == 0
        assert {"Worker-fork", "Worker-spawn"} <= {
            row["name"] for row in json.loads(frostline(tmp_path, "status", "--json", "rec").stdout)["rows"]
        }
        done = frostline(tmp_path, "detach", str(process.pid), "--tree")
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("interpreter", found()[:1] + found()[-1:], ids=str)
def test_an_attach_that_is_killed_harms_nobody(interpreter: Interpreter, tmp_path: Path) -> None:
    with target(interpreter, ASKED, tmp_path) as process:
        stat = Path(f"/proc/{process.pid}/stat")
        for attempt in range(12):
            killed = subprocess.Popen(
                [*FROSTLINE, "attach", "--yes", "-o", f"rec{attempt}", str(process.pid)],
                env=environment(tmp_path),
                cwd=tmp_path,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            # Spread over what it does, from its start to its last line.
            with contextlib.suppress(subprocess.TimeoutExpired):
                killed.wait(0.15 * attempt)
            killed.kill()
            killed.communicate()
            assert ask(process, "allocate(1000)") > 0
            assert stat.read_text().rpartition(")")[2].split()[0] in "SR"
            if asking.is_recorded(process.pid):
                frostline(tmp_path, "detach", str(process.pid))
        assert ask(process, "len(gc.callbacks)") == 0


@every_interpreter
def test_inside_a_callback_of_the_collector_it_waits(interpreter: Interpreter, tmp_path: Path) -> None:
    program = (
        "import gc, sys\n"
        "def slow(phase, info):\n"
        "    if phase == 'start':\n"
        "        print('up', flush=True)\n"
        "        sys.stdin.readline()\n"
        "gc.callbacks.append(slow)\n"
        "gc.collect()\n"
        "gc.callbacks.remove(slow)\n"
        "print('out', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with target(interpreter, program, tmp_path) as process:
        found = attach(tmp_path, process.pid, "--wait", "1")
        assert "collector's callback" in found["processes"][0]["why_not"] and found["code"] == 1
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "out\n"
        assert attach(tmp_path, process.pid)["attached"] == 1


def test_it_asks_before_it_acts(tmp_path: Path) -> None:
    with target(found()[0], ASKED, tmp_path) as process:
        done = frostline(tmp_path, "attach", str(process.pid))
        assert done.returncode == 2 and "[needs-yes]" in done.stderr
        assert ask(process, "len(gc.callbacks)") == 0 and list(tmp_path.glob("frostline-*")) == []


def test_recorded_already(tmp_path: Path) -> None:
    with target(found()[0], ASKED, tmp_path) as process:
        assert attach(tmp_path, process.pid)["attached"] == 1
        done = frostline(tmp_path, "attach", "--yes", "-o", "other", str(process.pid))
        assert done.returncode == 2 and "[already-recorded]" in done.stderr
        assert not (tmp_path / "other").exists()


def test_no_python_and_a_stopped_one(tmp_path: Path) -> None:
    sleeper = subprocess.Popen(["sleep", "600"])
    try:
        found_ = attach(tmp_path, sleeper.pid)
        assert found_["code"] == 1 and "no CPython" in found_["processes"][0]["why_not"]
    finally:
        sleeper.kill()
        sleeper.wait()
    with target(found()[0], ASKED, tmp_path) as process:
        os.kill(process.pid, signal.SIGSTOP)
        wait_for(lambda: " T " in Path(f"/proc/{process.pid}/stat").read_text(), "the stop")
        row = attach(tmp_path, process.pid)["processes"][0]
        assert "stopped" in row["why_not"] and row["remedy"] == f"kill -CONT {process.pid}"
        said = frostline(tmp_path, "attach", "--yes", "-o", "rec", str(process.pid)).stdout
        assert said.splitlines()[1].strip() == f"kill -CONT {process.pid}"
        os.kill(process.pid, signal.SIGCONT)
        assert ask(process, "1") == 1


def test_another_user(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can start a process of another user")
    sleeper = subprocess.Popen(["sleep", "600"], user=65534)
    try:
        done = frostline(tmp_path, "attach", "--yes", str(sleeper.pid))
        assert done.returncode and "[not-yours]" in done.stderr
    finally:
        sleeper.kill()
        sleeper.wait()


@pytest.mark.parametrize("way", ["option", "variable"])
def test_remote_debugging_switched_off(way: str, tmp_path: Path) -> None:
    interpreter = found()[-1]
    if interpreter.version < (3, 14):
        pytest.skip("no 3.14 here")
    options = ("-X", "disable-remote-debug") if way == "option" else ()
    variables = {} if way == "option" else {"PYTHON_DISABLE_REMOTE_DEBUG": "1"}
    with target(interpreter, ASKED, tmp_path, *options, **variables) as process:
        row = attach(tmp_path, process.pid)["processes"][0]
        assert "remote debugging is disabled" in row["why_not"]
        assert ask(process, "len(gc.callbacks)") == 0


def test_ptrace_taken_by_another(tmp_path: Path) -> None:
    interpreter = found()[0]
    tracer = (
        "import ctypes, sys, time\nlibc = ctypes.CDLL(None)\n"
        "libc.ptrace.argtypes = [ctypes.c_long] * 4\n"
        "print(libc.ptrace(0x4206, int(sys.argv[1]), 0, 0), flush=True)\ntime.sleep(600)"
    )
    with target(interpreter, ASKED, tmp_path) as process:
        other = subprocess.Popen(
            [sys.executable, "-c", tracer, str(process.pid)], stdout=subprocess.PIPE, text=True
        )
        try:
            assert other.stdout is not None
            if other.stdout.readline() != "0\n":
                pytest.skip("ptrace is refused here")
            done = subprocess.run(
                [*FROSTLINE, "attach", "--yes", "--json", "-o", "rec", str(process.pid)],
                env=environment(tmp_path),
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=60,
            )
            row = json.loads(done.stdout)["processes"][0]
            assert f"Process {other.pid} traces it" in row["remedy"] and done.returncode == 1
        finally:
            other.kill()
            other.communicate()
        assert ask(process, "1") == 1


def test_the_time_of_the_stop_is_said(tmp_path: Path) -> None:
    with target(found()[0], ASKED, tmp_path) as process:
        begun = time.monotonic_ns()
        row = attach(tmp_path, process.pid)["processes"][0]
        assert 0 < row["stopped_ns"] < time.monotonic_ns() - begun and row["busy_ns"] > 0
