"""What ``status`` and the helper's notes say of READY, of freezes, of names, and of whether it runs."""

from __future__ import annotations

import base64
import os
import pty
import signal
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest

from frostline.reach import overview
from tests.interpreters import SOURCE, found
from tests.reach.under_run import (
    FROSTLINE,
    environment,
    gone,
    notes,
    run,
    running,
    wait_for,
    wait_for_helper,
    write,
)

PYTHON = found()[0].executable
WAIT = "import sys; print('up', flush=True); sys.stdin.readline()"


def status(tmp_path: Path) -> str:
    return subprocess.run(
        [*FROSTLINE, "status", "rec"],
        env=environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout


# --- READY that never came --------------------------------------------------------------
class _Busy(BaseHTTPRequestHandler):
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.headers.get("Authorization", ""))
        self.send_response(503)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def test_a_url_that_never_answered_well(tmp_path: Path) -> None:
    server = HTTPServer(("127.0.0.1", 0), _Busy)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        url = f"http://user:hunter2@127.0.0.1:{server.server_port}/health"
        with running(tmp_path, PYTHON, "-c", WAIT, options=("--ready-url", url)) as process:
            wait_for(
                lambda: any("503" in note["ready"]["detail"] for note in notes(tmp_path / "rec", "helper")),
                "the answer is noted",
            )
            assert "READY has not come yet: --ready-url http://" in status(tmp_path)
            process.communicate("\n", timeout=30)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    ready = wait_for_helper(tmp_path / "rec")["ready"]
    assert ready["at_ns"] == 0 and ready["option"] == ""  # it holds a password
    assert ready["detail"].endswith("/health never answered 2xx or 3xx (last: it answered 503)")
    assert "hunter2" not in ready["detail"]
    assert _Busy.asked[0] == "Basic " + base64.b64encode(b"user:hunter2").decode()
    shown = status(tmp_path)
    assert "never came" in shown and f"READY never came: {ready['detail']}" in shown


def test_a_url_where_nobody_listens(tmp_path: Path) -> None:
    with running(tmp_path, PYTHON, "-c", WAIT, options=("--ready-url", "http://127.0.0.1:9/")) as process:
        wait_for(
            lambda: any("refused" in note["ready"]["detail"] for note in notes(tmp_path / "rec", "helper")),
            "the refusal is noted",
        )
        process.communicate("\n", timeout=30)
    assert "(last: Connection refused)" in wait_for_helper(tmp_path / "rec")["ready"]["detail"]


@pytest.mark.parametrize(("lines", "said"), [(1, "1 line"), (3, "3 lines"), (0, "0 lines")])
def test_a_line_that_matched_nothing(tmp_path: Path, lines: int, said: str) -> None:
    ended = run(tmp_path, "sh", "-c", "echo no; " * lines + "true", options=("--ready-log", "z{3}"))
    assert ended.output == "no\n" * lines
    assert ended.helper["ready"]["option"] == "--ready-log 'z{3}'"
    assert ended.helper["ready"]["detail"] == f"--ready-log 'z{{3}}' matched none of {said}"


def test_a_time_that_never_came(tmp_path: Path) -> None:
    ended = run(tmp_path, "true", options=("--ready-after", "1h"))
    assert ended.helper["ready"]["detail"] == "--ready-after 3600s: all processes ended before it"


def test_a_line_that_is_the_last_is_seen(tmp_path: Path) -> None:
    ended = run(tmp_path, "sh", "-c", "echo serving", options=("--ready-log", "serving"))
    assert ended.helper["ready"]["at_ns"] > 0
    assert ended.helper["ready"]["option"] == "--ready-log serving"


# --- freeze and boundary ----------------------------------------------------------------
def test_what_was_frozen_is_said_after_the_thaw(tmp_path: Path) -> None:
    """The four lines: shutdown() thaws last, and a "no" would say that nothing was frozen."""
    program = write(
        tmp_path / "server.py",
        "import frostline, sys; frostline.install(); frostline.startup_complete()\n"
        "print('up', flush=True); sys.stdin.readline(); frostline.shutdown()\n",
    )
    options = ("--policy", "freeze")
    with running(tmp_path, PYTHON, str(program), options=options, PYTHONPATH=str(SOURCE)) as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        (row,) = overview.read(str(tmp_path / "rec")).rows
        assert (row.freeze, row.boundary) == ("by Frostline", "by the program")
        process.communicate("\n", timeout=30)
    wait_for_helper(tmp_path / "rec")
    (row,) = overview.read(str(tmp_path / "rec")).rows
    assert (row.freeze, row.boundary) == ("thawed, was by Frostline", "by the program")
    assert "thawed, was by Frostline" in status(tmp_path)


def test_a_forked_child_holds_what_its_parent_had_frozen_by_then(tmp_path: Path) -> None:
    """Also a child's child; one that was forked before holds nothing, and one that thaws no more."""
    program = write(
        tmp_path / "server.py",
        "import frostline, gc, os, sys\n"
        "frostline.install()\n"
        "def child(*acts):\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        for act in acts: act()\n"
        "        os.write(1, b'up\\n'); sys.stdin.read(); os._exit(0)\n"
        "    return pid\n"
        "pids = [child()]\n"
        "frostline.startup_complete()\n"
        "pids += [child(), child(gc.unfreeze), child(child), child(gc.freeze)]\n"
        "print(*pids, flush=True); sys.stdin.read()\n",
    )
    options = ("--policy", "freeze")
    with running(tmp_path, PYTHON, str(program), options=options, PYTHONPATH=str(SOURCE)) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(7)]
        (said,) = (line for line in lines if line != "up\n")
        early, late, thawed, both, own = map(int, said.split())
        found = {row.pid: row.freeze for row in overview.read(str(tmp_path / "rec")).rows}
        assert found[process.pid] == "by Frostline"
        assert (found[early], found[thawed], found[own]) == ("no", "no", "by the program")
        assert (found[late], found[both]) == ("inherited", "inherited")
        (childs,) = set(found) - {process.pid, early, late, thawed, both, own}
        assert found[childs] == "inherited"
        process.communicate(timeout=30)


def test_a_boundary_of_a_supervisors_says_so(tmp_path: Path) -> None:
    options = ("--policy", "freeze", "--ready-after", "10ms")
    with running(tmp_path, PYTHON, "-c", WAIT, options=options) as process:
        wait_for(
            lambda: (
                any(note["boundary"] for note in notes(tmp_path / "rec", "helper"))
                and overview.read(str(tmp_path / "rec")).rows[0].boundary == "told, late"
            ),
            "it is told",
        )
        process.communicate("\n", timeout=30)


# --- names ------------------------------------------------------------------------------
def test_a_shell_that_ends_in_an_exec_goes_by_what_it_became(tmp_path: Path) -> None:
    """As in the report: the helper may have seen the shell alone. (The shell is stopped to be seen.)"""
    from frostline.analysis import analyse
    from frostline.recording import read_session

    script = write(tmp_path / "start.sh", f"exec {PYTHON} server.py\n")
    write(tmp_path / "server.py", "import gc; gc.collect()\n")
    run(tmp_path, "sh", str(script))
    (path,) = (tmp_path / "rec").glob("helper-*.json")
    path.write_text(path.read_text().replace('"server.py"', '"x"').replace(f'"{PYTHON}"', '"sh"'))
    (row,) = overview.read(str(tmp_path / "rec")).rows
    (process,) = analyse(read_session(tmp_path / "rec")).processes
    assert process.name == f"{row.name} (pid {row.pid})" and row.name == "server.py"


# --- does it run ------------------------------------------------------------------------
def test_it_runs_while_a_process_of_it_lives_and_no_longer(tmp_path: Path) -> None:
    """A helper that is not done yet is no process of the session; a shell is one."""
    with running(tmp_path, "sh", "-c", "echo up; read x; exit 0") as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        (helper,) = wait_for(lambda: notes(tmp_path / "rec", "helper"), "the helper's notes")
        assert overview.read(str(tmp_path / "rec")).live
        os.kill(helper["pid"], signal.SIGSTOP)
        try:
            process.communicate("\n", timeout=30)
            seen = overview.read(str(tmp_path / "rec"))
            assert (seen.live, seen.helper) == (False, "finishing")
        finally:
            os.kill(helper["pid"], signal.SIGCONT)
    assert gone(helper["pid"], 10)
    seen = overview.read(str(tmp_path / "rec"))
    assert (seen.live, seen.helper) == (False, "ended")


# --- output of a terminal that has gone -------------------------------------------------
def test_what_a_terminal_missed_is_in_the_session(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", "import sys; sys.stdin.readline(); print('why it crashed'); sys.exit(1)"]
    process = subprocess.Popen(
        [*FROSTLINE, "run", "-o", "rec", "--ready-log", "serving", "--", *command],
        env=environment(tmp_path),
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=theirs,
        stderr=theirs,
        text=True,
    )
    os.close(theirs)
    (helper,) = wait_for(lambda: notes(tmp_path / "rec", "helper"), "the helper's notes")
    (kept,) = (tmp_path / "rec").glob("output-*.log")
    assert f"the output passes through {kept}".encode() in os.read(ours, 4096).replace(b"\r\n", b"")
    os.kill(helper["pid"], signal.SIGSTOP)  # slower than the terminal, for certain
    process.communicate("\n", timeout=30)
    os.close(ours)
    os.kill(helper["pid"], signal.SIGCONT)
    assert process.returncode == 1
    warnings = wait_for_helper(tmp_path / "rec")["warnings"]
    assert warnings == [f"the reader of the output had gone: from byte 0 on it is in {kept.name}"]
    assert kept.read_text() == "why it crashed\n"
    assert warnings[0] in status(tmp_path)
