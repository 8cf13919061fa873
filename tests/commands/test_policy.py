"""``frostline policy``: a policy put in force in live processes, shown, replaced and taken out (C4, D11)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from frostline import format as layout
from frostline.format import request
from frostline.reach import asking, control, overview, segments
from tests.commands.test_control import FORKS, IN_C, PYTHON, STATES, frostline, rows, up
from tests.interpreters import Interpreter, every_interpreter
from tests.reach.under_run import notes, running, wait_for

#: Says what it sees, a line for each that it reads; what a line holds is evaluated.
SEES = """
import gc, os, subprocess, sys
import frostline
heap = [[i] for i in range(50_000)]
start = gc.get_freeze_count()
passes = []
gc.collect()
gc.set_threshold(100_000, 50, 50)
gc.callbacks.append(lambda phase, info: passes.append(info["generation"]))
print("up", flush=True)
frozen = lambda: gc.get_freeze_count() > start + 50_000
def child(code):
    environment = {**os.environ, "PYTHONPATH": os.environ["PYTHONPATH"]}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip()
def fork(see):
    r, w = os.pipe()
    if os.fork() == 0:
        os.write(w, str(see()).encode()); os._exit(0)
    os.wait(); os.close(w)
    with open(r) as file: return file.read()
for line in sys.stdin:
    print(eval(line), flush=True)
"""
HOST = "(100000, 50, 50)"


def see(process: subprocess.Popen[str], what: str) -> str:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(what + "\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def said(tmp_path: Path, *arguments: str) -> str:
    """What one process answered; it did it."""
    done = frostline(tmp_path, "policy", *arguments, "--json")
    assert done.returncode == 0, (done.stdout, done.stderr)
    (row,) = rows(done)
    return f"{str(row['detail']).partition(': ')[0]} {row['result']}"


@every_interpreter
def test_a_policy_comes_acts_and_goes(tmp_path: Path, interpreter: Interpreter) -> None:
    with running(tmp_path, interpreter.executable, "-c", SEES) as process:
        up(process)
        pid = str(process.pid)
        assert said(tmp_path) == said(tmp_path, "rec") == said(tmp_path, pid) == "off 0"
        assert said(tmp_path, "freeze,thresholds=90000/9/9", pid) == "freeze,thresholds=90000/9/9 2"
        assert see(process, "frozen(), gc.get_threshold()[:2]") == "(False, (90000, 9))"
        assert said(tmp_path, "freeze,thresholds=90000/9/9", pid, "--now").endswith(" 4")
        assert see(process, "frozen(), passes") == "(True, [])"  # C4: a splice, and no pass
        assert said(tmp_path, "tune:80000,8,8") == "tune:80000,8,8 1"
        assert see(process, "frozen(), gc.get_threshold()[:2]") == "(False, (80000, 8))"
        # Start-up has been told to be over: nothing to wait for any more.
        assert said(tmp_path, "prefork") == "prefork 4"
        assert see(process, "frozen(), fork(frozen)") == "(True, 'True')"
        assert see(process, "gc.get_threshold()[:2]") == "(100000, 50)"
        assert said(tmp_path) == "prefork 3"  # the fork has put the splice right
        row = overview.read(str(tmp_path / "rec")).rows[0]
        assert (row.policy, row.freeze) == ("prefork", "by Frostline")
        assert said(tmp_path, "off") == "off 0"
        assert see(process, "frozen(), gc.get_threshold()[:2]") == "(False, (100000, 50))"
        process.communicate(timeout=30)


@every_interpreter
def test_the_boundary_that_is_past_is_not_told_again(tmp_path: Path, interpreter: Interpreter) -> None:
    """Told by a supervisor while no policy was there; by the program in another."""
    ready = ("--ready-after", "10ms")
    with running(tmp_path, interpreter.executable, "-c", SEES, options=ready) as process:
        up(process)
        wait_for(
            lambda: any(
                b["reply"] == "done" for n in notes(tmp_path / "rec", "helper") for b in n["boundary"]
            ),
            "it is told",
        )
        assert said(tmp_path, "freeze,boundary=program") == "freeze,boundary=program 2"
        assert said(tmp_path, "freeze,boundary=ready") == "freeze,boundary=ready 4"
        assert see(process, "frozen(), passes") == "(True, [])"
        assert said(tmp_path, "off") == "off 0"
        assert see(process, "frostline.startup_complete()") == "None"
        assert said(tmp_path, "follow,boundary=program") == "follow,boundary=program 4"
        (path,) = (tmp_path / "rec" / "active").resolve().glob(f"{process.pid}-*.0000{layout.SUFFIX}")
        words = segments.read_words(str(path))
        assert words is not None
        told = words["boundary"]
        # One policy that freezes after another: what is frozen stays, and the line goes on from there.
        assert said(tmp_path, "freeze") == "freeze 4" and see(process, "frozen()") == "True"
        assert said(tmp_path, "follow") == "follow 4" and see(process, "frozen()") == "True"
        third = see(process, "gc.get_threshold()[2]")
        assert third != "50" and said(tmp_path, "follow") == "follow 4"
        words = segments.read_words(str(path))
        assert words is not None and words["boundary"] == told
        process.communicate(timeout=30)


@every_interpreter
def test_it_is_the_policy_of_what_starts_later(tmp_path: Path, interpreter: Interpreter) -> None:
    """By environment, by fork, and over an install() that the program does later."""
    thresholds = "import gc; print(gc.get_threshold()[:2])"
    with running(tmp_path, interpreter.executable, "-c", SEES) as process:
        up(process)
        said(tmp_path, "tune:70000,7,7")
        assert see(process, f"child({thresholds!r})") == "(70000, 7)"
        assert see(process, "fork(lambda: gc.get_threshold()[:2])") == "(70000, 7)"
        assert see(process, "frostline.install(policy='tune:1000,2,2'), gc.get_threshold()[:2]").endswith(
            "7))"
        )
        said(tmp_path, "off")
        assert see(process, "frostline.install(policy='tune:1000,2,2'), gc.get_threshold()[:2]").endswith(
            "50))"
        )
        assert (
            see(process, f"child({thresholds!r}) == child({thresholds.replace('[:2]', '[0:2]')!r})") == "True"
        )
        process.communicate(timeout=30)
    forked = [
        row for row in overview.read(str(tmp_path / "rec")).rows if row.recorded and row.pid != process.pid
    ]
    assert "tune:70000,7,7" in [row.policy for row in forked]


def test_a_tree_is_asked_each(tmp_path: Path) -> None:
    with running(tmp_path, PYTHON, "-c", FORKS) as process:
        try:
            up(process, 3)
            done = frostline(tmp_path, "policy", "freeze", str(process.pid), "--tree", "--now", "--json")
            assert done.returncode == 0 and [row["result"] for row in rows(done)] == [4, 4, 4]
        finally:
            for row in rows(frostline(tmp_path, "ping", "rec", "--json")):
                if row["pid"] != process.pid:
                    subprocess.run(["kill", "-9", str(row["pid"])], check=True)
            process.kill()


def test_a_main_thread_in_c_keeps_the_request(tmp_path: Path) -> None:
    with running(tmp_path, PYTHON, "-c", IN_C) as process:
        up(process)
        done = frostline(tmp_path, "policy", "freeze", "--wait", "0.3")
        assert done.returncode == 1 and "its main thread is in C" in done.stdout
        process.kill()


@pytest.mark.parametrize("state", ["busy", "read"])
def test_torn_and_hostile_texts(tmp_path: Path, state: str) -> None:
    """Refused in the target, in words; what is torn is asked for again; what was in force stays."""
    with running(tmp_path, PYTHON, "-c", STATES[state]) as process:
        up(process)
        assert said(tmp_path, "tune:900,8,7") == "tune:900,8,7 1"
        (target,) = asking.targets(str(process.pid))

        def send(text: bytes, *more: int) -> control.Reply:
            return control.send(target.mailbox, layout.OP_POLICY, more or (0,), 5.0, text=text)

        refused = layout.REPLY_REFUSED
        for text, why in (
            (b"freez", "did you mean 'freeze'"), (b"\xff\xfe", "utf-8"), (b"freeze\0", "unknown policy"),
            (b" ", "unknown policy"), (b"freeze" + b",boundary=ready" * 16, "at most 200 bytes"),
            (b"x" * 256, "at most 200 bytes"),
        ):  # fmt: skip
            reply = send(text)
            assert (reply.status, why in reply.text) == (refused, True), (text, reply)
            assert why in reply.detail
        with control.Mailbox(target.mailbox) as box:
            good = request.checksum(b"freeze")
            for arguments, status in (
                ((6, good + 1, 1), layout.REPLY_BUSY), ((5, good, 1), layout.REPLY_BUSY),
                ((257, good, 1), refused), ((-1, 0, 1), refused), ((2**62, good, 0), refused),
            ):  # fmt: skip
                box._bytes[request.TEXT : request.TEXT + 6] = b"freeze"
                found = box.wait(box.request(layout.OP_POLICY, arguments), float("inf"))
                assert found is not None and found.status == status, arguments
        assert said(tmp_path) == "tune:900,8,7 1"
        assert send(b" OFF ").text == "off" and send(b"tune:1000,9,9").status == layout.REPLY_DONE
        # Any flag but 1 is none: nothing is frozen.
        assert send(b"freeze", 2**40).result == layout.POLICY_WAITS
        process.kill()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("freez",), "did you mean 'freeze'"), (("",), "unknown policy"),
        (("freeze", "nowhere"), "no folder"),
        (("--now",), "goes with a policy"), (("freeze,boundary=program", "--now"), "now-and-program"),
        (("freeze," + "x" * 300,), "at most 200 bytes"), (("freeze", "1", "2"), "unexpected extra"),
        (("sync:0",), "from 1 to"), (("tune:1,2",), "three whole numbers"),
        (("rec", "freeze"), "unknown policy"),
    ],
    ids=str,
)  # fmt: skip
def test_nonsense_is_refused_before_anything_is_sent(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    with running(tmp_path, PYTHON, "-c", STATES["read"]) as process:
        up(process)
        (target,) = asking.targets(str(process.pid))
        done = frostline(tmp_path, "policy", *arguments)
        assert done.returncode in (1, 2) and "Traceback" not in done.stderr and said in done.stderr
        words = segments.read_words(target.mailbox)
        assert words is not None and words["request"] == 0
        process.communicate(timeout=30)
