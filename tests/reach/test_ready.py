"""READY told by a supervisor: a URL, a line of the output, the clock; and the boundary that follows."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from frostline import format as layout
from frostline.errors import FrostlineError
from frostline.reach import control, segments
from tests.interpreters import Interpreter, every_interpreter, found
from tests.reach.under_run import (
    FROSTLINE,
    discard,
    environment,
    notes,
    run,
    running,
    wait_for,
    wait_for_helper,
    write,
)

PYTHON = found()[0].executable

#: Serves 503 until a line comes on stdin, then 200; a spawned child waits beside it.
SERVER = """
import http.server, multiprocessing, sys, threading

def wait(connection):
    connection.recv()

class Handler(http.server.BaseHTTPRequestHandler):
    status = 503
    def do_GET(self):
        self.send_response(Handler.status); self.send_header("Content-Length", "0"); self.end_headers()
    def log_message(self, *args): pass

if __name__ == "__main__":
    here, there = multiprocessing.Pipe()
    child = multiprocessing.get_context("spawn").Process(target=wait, args=(there,), name="worker")
    child.start()
    server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print("up", flush=True)
    for line in sys.stdin:
        if line.strip() == "ready": Handler.status = 200
        if line.strip() == "end": break
    here.send(1); child.join()
"""


def _port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("interpreter", sorted({found()[0], found()[-1]}, key=str), ids=str)
def test_a_health_url_tells_the_whole_tree(tmp_path: Path, interpreter: Interpreter) -> None:
    port = _port()
    script = write(tmp_path / "server.py", SERVER)
    url = f"http://127.0.0.1:{port}/health"
    options = ("--policy", "freeze", "--ready-url", url)
    with running(tmp_path, interpreter.executable, str(script), str(port), options=options) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == "up\n"
        (note,) = wait_for(lambda: notes(tmp_path / "rec", "helper"), "the helper's notes")
        assert note["ready"]["at_ns"] == 0 and note["boundary"] == []
        process.stdin.write("ready\n")
        process.stdin.flush()

        def told() -> bool:
            # By pid: multiprocessing's resource tracker is told as well, and may be the first.
            note = notes(tmp_path / "rec", "helper")[0]
            done = {answer["pid"] for answer in note["boundary"] if answer["reply"] == "done"}
            spawned = {one["pid"] for one in note["processes"] if "spawn_main" in str(one["argv"])}
            return bool(spawned) and {process.pid, *spawned} <= done

        wait_for(told, "both processes answer")
        process.stdin.write("end\n")
        process.stdin.flush()
        assert process.wait(timeout=30) == 0
    helper = wait_for_helper(tmp_path / "rec")
    assert helper["ready"]["kind"] == "url" and "200" in helper["ready"]["detail"]
    told_pids = {answer["pid"] for answer in helper["boundary"] if answer["reply"] == "done"}
    assert {
        process["pid"] for process in helper["processes"] if "spawn_main" in str(process["argv"])
    } <= told_pids
    for path in (tmp_path / "rec").glob("*-0.0000.flr"):
        header = segments.read_header(str(path))
        words = segments.read_words(str(path))
        assert header is not None and words is not None
        if header.pid in told_pids:
            assert words["boundary"] > 0


def test_a_process_that_comes_later_is_told_as_well(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys\n"
        "sys.stdin.readline()\n"
        "command = [sys.executable, '-c', 'import sys; sys.stdin.read()']\n"
        "child = subprocess.Popen(command, stdin=subprocess.PIPE)\n"
        "print(child.pid, flush=True)\n"
        "sys.stdin.readline(); child.communicate()\n"
    )
    with running(tmp_path, PYTHON, "-c", code, options=("--ready-after", "100ms")) as process:
        assert process.stdin is not None and process.stdout is not None

        def answered(pid: int) -> bool:
            found = notes(tmp_path / "rec", "helper")
            return any(a["pid"] == pid and a["reply"] == "done" for note in found for a in note["boundary"])

        wait_for(lambda: answered(process.pid), "the command is told")
        process.stdin.write("go\n")
        process.stdin.flush()
        child = int(process.stdout.readline())
        wait_for(lambda: answered(child), "the later child is told")
        process.stdin.write("end\n")
        process.stdin.flush()
        assert process.wait(timeout=30) == 0


def test_a_worker_that_is_started_anew_is_given_the_time_that_the_first_ones_had(tmp_path: Path) -> None:
    """A recycled worker imports what it serves; told in the middle of that it would freeze half of it."""
    code = (
        "import os, sys\n"
        "r, w = os.pipe()\n"
        "def worker():\n"
        "    pid = os.fork()\n"
        "    if not pid: os.close(w); os.read(r, 1); os._exit(0)\n"
        "    return pid\n"
        "first = worker(); sys.stdin.readline()\n"
        "print(first, worker(), flush=True)\n"
        "sys.stdin.readline()\n"
    )
    with running(tmp_path, PYTHON, "-c", code, options=("--ready-after", "2s")) as process:
        assert process.stdin is not None and process.stdout is not None

        def answered(pid: int) -> bool:
            found = notes(tmp_path / "rec", "helper")
            return any(a["pid"] == pid and a["reply"] == "done" for note in found for a in note["boundary"])

        wait_for(lambda: answered(process.pid), "the command is told")
        process.stdin.write("go\n")
        process.stdin.flush()
        first, second = map(int, process.stdout.readline().split())
        wait_for(lambda: answered(first) and answered(second), "both workers are told")
        process.stdin.write("end\n")
        process.stdin.flush()
        assert process.wait(timeout=30) == 0
    wait_for_helper(tmp_path / "rec")
    age = {}
    for path in (tmp_path / "rec").glob("*-0.0000.flr"):
        header, words = segments.read_header(str(path)), segments.read_words(str(path))
        assert header is not None and words is not None
        age[header.pid] = words["boundary"] - header.series
    assert age[second] > age[first] > 0


LOGGING = (
    "import sys\n"
    "print('starting', sys.stdout.isatty()); print('to stderr', file=sys.stderr, flush=True)\n"
    "print('Uvicorn running on http://x', flush=True)\n"
    "sys.stdin.readline(); print('last words', flush=True)\n"
)


def _ready_kind(tmp_path: Path) -> str:
    found = notes(tmp_path / "rec", "helper")
    return found[0]["ready"]["detail"] if found and found[0]["ready"]["at_ns"] else ""


def test_a_line_of_piped_output(tmp_path: Path) -> None:
    """The output arrives whole and in order, the summary does not."""
    with running(tmp_path, PYTHON, "-c", LOGGING, options=("--ready-log", r"running on http://")) as process:
        assert process.stdin is not None
        assert "running on http://x" in wait_for(lambda: _ready_kind(tmp_path), "READY")
        output, errors = process.communicate("\n", timeout=30)
    assert output == "starting False\nUvicorn running on http://x\nlast words\n"
    assert errors == "to stderr\n"
    assert process.returncode == 0


def test_a_line_of_output_that_goes_to_a_file_changes_nothing(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("running on http://yesterday\n")
    with log.open("a") as file:
        process = subprocess.Popen(
            [
                *FROSTLINE,
                "run",
                "-o",
                str(tmp_path / "rec"),
                "--ready-log",
                "running on",
                "--",
                PYTHON,
                "-c",
                LOGGING,
            ],
            env=environment(tmp_path),
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=subprocess.STDOUT,
            text=True,
        )
    detail = wait_for(lambda: _ready_kind(tmp_path), "READY")
    assert "http://x" in detail, "an old line of the log must not count"
    assert os.readlink(f"/proc/{process.pid}/fd/1") == str(log)
    process.communicate("\n", timeout=30)
    assert process.returncode == 0
    assert not list((tmp_path / "rec").glob("output-*"))


def test_a_line_of_a_named_file(tmp_path: Path) -> None:
    log = tmp_path / "own.log"
    code = (
        f"import sys; open({str(log)!r}, 'w').write('model loaded\\n')\n"
        "sys.stdin.readline(); print(sys.stdout.fileno())"
    )
    with running(tmp_path, PYTHON, "-c", code, options=("--ready-log", f"{log}:model .oaded")) as process:
        assert "own.log" in wait_for(lambda: _ready_kind(tmp_path), "READY")
        output, _ = process.communicate("\n", timeout=30)
    assert output == "1\n"


def test_with_the_helper_killed_a_captured_target_is_neither_blocked_nor_ended(tmp_path: Path) -> None:
    code = (
        "import sys\nprint('up', flush=True); sys.stdin.readline()\n"
        "sys.stdout.write('x' * 5_000_000); sys.stdout.flush()\n"
        "open('ended', 'w').close()\n"
    )
    with running(tmp_path, PYTHON, "-c", code, options=("--ready-log", "up")) as process:
        assert process.stdin is not None
        wait_for(lambda: _ready_kind(tmp_path), "READY")
        (helper,) = notes(tmp_path / "rec", "helper")
        os.kill(helper["pid"], signal.SIGKILL)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.wait(timeout=30) == 0
    assert (tmp_path / "ended").exists()
    (output,) = [path for path in (tmp_path / "rec").glob("output-*") if path.stat().st_size > 1_000_000]
    assert output.stat().st_size >= 5_000_000
    discard(tmp_path / "rec")


def test_one_terminal_for_both_streams_keeps_their_order(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    lines = "; ".join(
        f"print({i}, file={'sys.stderr' if i % 2 else 'sys.stdout'}, flush=True)" for i in range(20)
    )
    process = subprocess.Popen(
        [
            *FROSTLINE,
            "run",
            "-o",
            str(tmp_path / "rec"),
            "--ready-log",
            "19",
            "--",
            PYTHON,
            "-c",
            f"import sys; {lines}",
        ],
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    text = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:
            break
        if not part:
            break
        text += part
    os.close(ours)
    assert process.wait(timeout=30) == 0
    numbers = [int(line) for line in text.decode().split("\n") if line.strip().isdigit()]
    assert numbers == list(range(20))


# --- the mailbox --------------------------------------------------------------------
def _mailbox(folder: Path) -> str:
    def first() -> list[Path]:
        active = folder / "active"
        paths = list(active.glob("*.0000.flr")) if active.exists() else []
        return [path for path in paths if (segments.read_words(str(path)) or {}).get("handler") == 1]

    (path,) = wait_for(first, "the target's mailbox")
    return str(path)


@every_interpreter
def test_a_request_is_answered_by_a_blocked_process(tmp_path: Path, interpreter: Interpreter) -> None:
    code = "import sys; print('up', flush=True); sys.stdin.read()"
    with running(tmp_path, interpreter.executable, "-c", code) as process:
        path = _mailbox(tmp_path / "rec")
        reply = control.send(path, layout.OP_PING, timeout=10)
        assert reply.done and reply.result > 0
        again = control.send(path, layout.OP_COLLECT, (2,), timeout=10)
        # More than one further where it was asked again: a pass was running.
        assert again.done and again.result >= 0 and again.number > reply.number
        refused = control.send(path, layout.OP_COLLECT, (7,), timeout=10)
        assert refused.status == layout.REPLY_REFUSED
        unknown = control.send(path, 999, timeout=10)
        assert unknown.status == layout.REPLY_UNKNOWN
        _, errors = process.communicate("", timeout=30)
    assert (process.returncode, errors) == (0, "")


def test_no_answer_while_the_main_thread_is_in_c_and_a_late_one_after_it(tmp_path: Path) -> None:
    """SIGURG is blocked to hold the signal back without a wait: what a C call that ignores EINTR does."""
    code = (
        "import signal, sys\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGURG}); print('up', flush=True)\n"
        "sys.stdin.readline(); signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGURG})\n"
        "print('unblocked', flush=True); sys.stdin.read()\n"
    )
    with running(tmp_path, PYTHON, "-c", code) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == "up\n"
        path = _mailbox(tmp_path / "rec")
        reply = control.send(path, layout.OP_PING, timeout=0.2)
        assert reply.status == layout.REPLY_NONE and "in C" in reply.detail
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "unblocked\n"
        with control.Mailbox(path) as box:
            wait_for(lambda: box.answer(reply.number), "the late answer")
        process.communicate("", timeout=30)


def test_a_process_without_control_is_never_signalled(tmp_path: Path) -> None:
    """SIGURG with its default action would be ignored, so the refusal must come before it."""
    code = "import sys; print('up', flush=True); sys.stdin.read()"
    with running(tmp_path, PYTHON, "-c", code, options=("--no-control",)) as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        (path,) = (tmp_path / "rec" / "active").glob("*.0000.flr")
        with pytest.raises(FrostlineError) as refused:
            control.send(str(path), layout.OP_PING)
        assert refused.value.slug == "no-control"
        words = segments.read_words(str(path))
        assert words is not None and words["request"] == 0
        process.communicate("", timeout=30)


def test_a_pid_that_is_used_again_is_never_signalled(tmp_path: Path) -> None:
    """A recording that names a living pid, with the start of another process."""
    code = "import sys; print('up', flush=True); sys.stdin.read()"
    with running(tmp_path, PYTHON, "-c", code) as process:
        path = _mailbox(tmp_path / "rec")
        data = bytearray(Path(path).read_bytes())
        offset = _offset("process_start")
        data[offset : offset + 8] = (1).to_bytes(8, "little")
        copy = tmp_path / Path(path).name
        copy.write_bytes(data)
        with pytest.raises(FrostlineError) as refused:
            control.send(str(copy), layout.OP_PING)
        assert refused.value.slug == "process-gone"
        process.communicate("", timeout=30)


def _offset(name: str) -> int:
    import struct

    names = [field for field, _, _ in layout.HEADER_FIELDS]
    return struct.calcsize("<" + "".join(c for _, c, _ in layout.HEADER_FIELDS[: names.index(name)]))


def test_a_dead_process_and_a_foreign_file_are_refused(tmp_path: Path) -> None:
    ended = run(tmp_path, sys.executable, "-c", "pass")
    (path,) = ended.folder.glob("*.0000.flr")
    with pytest.raises(FrostlineError) as gone:
        control.send(str(path), layout.OP_PING)
    assert gone.value.slug == "process-gone"
    with pytest.raises(FrostlineError) as foreign:
        control.send(str(write(tmp_path / "x.flr", "nothing")), layout.OP_PING)
    assert foreign.value.slug == "no-mailbox"


def test_a_boundary_that_waits_shuts_no_command_out_and_is_told_in_the_end(tmp_path: Path) -> None:
    """The main thread takes no signal for a while; a command asks meanwhile and overwrites the request."""
    ready = tmp_path / "ready.log"  # written only when the signal is held back
    code = (
        "import signal, sys\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGURG}); print('up', flush=True)\n"
        f"open({str(ready)!r}, 'w').write('ready')\n"
        "sys.stdin.readline(); signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGURG})\n"
        "print('unblocked', flush=True); sys.stdin.read()\n"
    )

    def answer() -> str:
        return str([note["boundary"] for note in notes(tmp_path / "rec", "helper")])

    with running(tmp_path, PYTHON, "-c", code, options=("--ready-log", f"{ready}:ready")) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == "up\n"
        path = _mailbox(tmp_path / "rec")
        wait_for(lambda: "main thread is in C" in answer(), "the missing answer is noted")
        reply = control.send(path, layout.OP_PING, timeout=1.0)
        assert reply.status == layout.REPLY_NONE and reply.number > 0, "the mailbox was free"
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "unblocked\n"
        wait_for(lambda: "'done'" in answer(), "the boundary is told in the end")
        process.communicate("", timeout=30)


def test_a_boundary_that_nothing_would_tell_is_refused(tmp_path: Path) -> None:
    for policy in ("freeze,boundary=ready", "follow,budget=5ms,boundary=ready"):
        ended = run(tmp_path, "true", options=("--policy", policy), wait=False)
        assert ended.code == 2 and "[boundary-without-ready]" in ended.errors, ended
        assert "--ready-url" in ended.errors and not (tmp_path / "rec").exists()
    ended = run(tmp_path, "true", options=("--policy", "freeze,boundary=ready", "--ready-after", "1h"))
    assert ended.code == 0
