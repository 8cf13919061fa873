"""Callers that are many, slow, dead or strangers; what they ask is done once, by the right process."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from frostline import format as layout
from frostline.errors import FrostlineError
from frostline.reach import asking, control
from tests.hostile.asked import PATIENCE, READ, UP, host
from tests.hostile.conftest import LIMIT, SOURCE, Stage, needs_root

NOBODY = 65534


# --- what is done, and how often ----------------------------------------------------
def test_a_request_is_done_once_however_often_it_is_signalled(stage: Stage) -> None:
    """Callers signal again every 50 ms, and signals land in what the request itself runs."""
    code = (
        "import gc, sys, time\nfull = []\n"
        "def slow(phase, info):\n"
        "    if phase == 'stop' and info['generation'] == 2:\n"
        "        full.append(1)\n        for _ in range(40): time.sleep(0.01)\n"
        "gc.callbacks.append(slow)\n" + UP + "sys.stdin.read()\nprint(len(full))"
    )
    with host(stage, code) as target:
        assert target.ask(layout.OP_COLLECT, 2).done
        assert target.word("nested") > 0
        target.process.stdin.close()  # type: ignore[union-attr]
        target.process.stdin = None
        target.end("1\n")


def test_an_exception_of_the_hosts_handler_inside_a_request_reaches_the_host(stage: Stage) -> None:
    """A callback in C trips SIGINT inside the pass, so its handler runs in whatever Python comes next."""
    code = (
        "import ctypes, gc, signal, time\n"
        "def late(*_): raise TimeoutError('of the host')\nsignal.signal(signal.SIGINT, late)\n"
        "trip = ctypes.pythonapi.PyErr_SetInterrupt\ntrip.argtypes = [ctypes.py_object] * 2\n"
        "trip.restype = None\n"
        "try:\n    gc.callbacks.append(trip); print('up', flush=True); time.sleep(600)\n"
        "except TimeoutError as error:\n    gc.callbacks.remove(trip); print(error)"
    )
    with host(stage, code) as target:
        with contextlib.suppress(FrostlineError):  # it ends
            target.ask(layout.OP_COLLECT, 2)
        # Tripped at "start" as well, it can also land in a callback, where the interpreter prints it.
        out, _ = target.process.communicate(timeout=LIMIT)
        assert (target.process.returncode, out) == (0, "of the host\n")


# --- callers ------------------------------------------------------------------------
def caller(path: str, what: str) -> subprocess.Popen[str]:
    """A process that begins a request and never ends it. Says "there" when it is in the middle."""
    code = (
        f"import sys, time\nsys.path.insert(0, {str(SOURCE)!r})\n"
        f"from frostline.reach import control\nbox = control.Mailbox({path!r})\n"
        "assert box.locked(time.monotonic() + 60)\n" + what + "\nprint('there', flush=True)\nsys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "there\n"
    return process


#: How far it has come: locked; half written; a number but no signal; all of it.
HALVES = {
    "locked": "",
    "half": "box._words[control._WORD['opcode']] = 0\nbox._words[control._WORD['arg0']] = 2**64 - 1",
    "unsignalled": "box.wake = lambda: None\nbox.request(4, (2,))",
    "asked": "box.request(1)",
}


@pytest.mark.parametrize("far", HALVES)
def test_a_caller_that_dies_in_the_middle_takes_its_lock_with_it(stage: Stage, far: str) -> None:
    with host(stage, READ) as target:
        for _ in range(3):
            other = caller(target.path, HALVES[far])
            assert target.ask(layout.OP_PING, timeout=0.1) == control.Reply(layout.REPLY_BUSY, 0, 0)
            other.kill()
            other.communicate()
            assert target.ask(layout.OP_PING).done
        target.end()


def test_a_caller_that_keeps_the_lock_for_ever_is_named_in_time(stage: Stage) -> None:
    with host(stage, READ) as target:
        other = caller(target.path, "")
        try:
            one = asking.Target(target.process.pid, "host", target.path, "")
            begun = time.monotonic()
            answers = asking.ask_all([one] * 40, layout.OP_PING, seconds=0.5)
            assert {(a.outcome, a.detail) for a in answers} == {
                ("busy", "others were asking it all the time")
            }
            assert time.monotonic() - begun < PATIENCE
            assert target.word("request") == 0
        finally:
            other.kill()
            other.communicate()
        target.end()


def test_two_hundred_callers_at_once(stage: Stage) -> None:
    code = UP + "import select\nx = 0\nwhile not select.select([0], [], [], 0)[0]: x += 1"
    with host(stage, code) as target:
        target.ask(layout.OP_PING)
        before = target.resident()
        replies: list[control.Reply] = []
        operations = [layout.OP_PING, layout.OP_FREEZE, layout.OP_THAW, layout.OP_COLLECT, 77]
        threads = [
            threading.Thread(target=lambda n=n: replies.append(target.ask(operations[n % 5])))
            for n in range(200)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        statuses = [reply.status for reply in replies]
        assert statuses.count(layout.REPLY_DONE) == 160 and statuses.count(layout.REPLY_UNKNOWN) == 40
        assert len({reply.number for reply in replies}) == 200
        assert target.resident() - before < 4 << 20
        target.end()


@needs_root
def test_another_user_can_neither_read_nor_write_nor_signal(stage: Stage) -> None:
    """As nobody: the mailbox does not open, and the kernel refuses the signal."""
    with host(stage, READ) as target:
        code = (
            "import os, signal, sys\n"
            f"sys.path.insert(0, {str(SOURCE)!r})\n"
            "from frostline.reach import control, asking\n"
            "from frostline.errors import FrostlineError\n"
            f"path, pid = {target.path!r}, {target.process.pid}\n"
            f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
            "def refused(what):\n"
            "    try: what()\n"
            "    except (FrostlineError, PermissionError) as error: print(type(error).__name__)\n"
            "    else: print('DONE')\n"
            "refused(lambda: control.send(path, 4, (2,), 1.0))\n"
            "refused(lambda: asking.targets(str(pid)))\n"
            "refused(lambda: open(path, 'rb'))\n"
            "refused(lambda: os.truncate(path, 0))\n"
            "refused(lambda: os.unlink(path))\n"
            "refused(lambda: os.listdir(os.path.dirname(path)))\n"
            "refused(lambda: os.kill(pid, signal.SIGURG))\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT)
        expected = ["FrostlineError"] * 2 + ["PermissionError"] * 5
        assert done.stdout.split() == expected, done.stderr
        assert target.word("request") == 0
        target.end()


# --- the segment file ---------------------------------------------------------------
def refused(path: Path) -> str:
    with pytest.raises(FrostlineError) as error:
        control.send(str(path), layout.OP_PING, timeout=1.0)
    assert error.value.slug == "no-mailbox"
    return error.value.message


def test_a_mailbox_that_is_not_one_is_refused(stage: Stage, tmp_path: Path) -> None:
    """Truncated, removed, a link, a FIFO, a folder; on copies, since a live one may not be truncated."""
    with host(stage, READ) as target:
        live, copy = Path(target.path), tmp_path / Path(target.path).name
        for size in (0, 1, layout.WORDS + 8, layout.HEADER_SIZE - 1):
            copy.write_bytes(live.read_bytes()[:size])
            assert "not the first segment" in refused(copy)
        copy.unlink()
        assert "cannot open" in refused(copy)
        copy.symlink_to(live)
        assert "cannot open" in refused(copy)
        copy.unlink()
        os.mkfifo(copy)
        assert "cannot open" in refused(copy)
        copy.unlink()
        copy.mkdir()
        assert "cannot open" in refused(copy)
        # Moved away and a link in its place: as by somebody who wants our words written elsewhere.
        kept = live.with_name("kept")
        live.rename(kept)
        live.symlink_to(kept)
        assert "cannot open" in refused(live)
        live.unlink()
        assert "cannot open" in refused(live)
        kept.rename(live)
        assert target.ask(layout.OP_PING).done
        target.end()


# --- fork and exec ------------------------------------------------------------------
@pytest.mark.parametrize("what", ["fork", "exec"])
def test_requests_while_it_forks_and_execs(stage: Stage, what: str) -> None:
    """Each is answered or refused, and none reaches a child or the next program by mistake."""
    forks = (
        "import os\nfor n in range(60):\n    pid = os.fork()\n    if pid == 0:\n"
        "        x = [[i] for i in range(2000)]; os._exit(0)\n"
        "    while True:\n        if os.waitpid(pid, os.WNOHANG)[0]: break\n"
    )
    execs = (
        "import os, sys\nleft = int(os.environ.get('LEFT', '12'))\n"
        "if left:\n    os.environ['LEFT'] = str(left - 1)\n"
        "    os.execv(sys.executable, [sys.executable, '-c', sys.argv[1], sys.argv[1]])\n"
    )
    if what == "fork":
        code = UP + forks + "print('end', flush=True)"
    else:
        inner = execs + "print('end', flush=True)"
        code = UP + f"import os, sys\nos.execv(sys.executable, [sys.executable, '-c', {inner!r}, {inner!r}])"
    with host(stage, code) as target:
        seen: dict[int, int] = {}
        while target.process.poll() is None:
            for path in sorted(target.live.glob(f"{target.process.pid}-*.0000{layout.SUFFIX}"))[-1:]:
                op = (layout.OP_PING, layout.OP_FREEZE, layout.OP_THAW, layout.OP_COLLECT)[len(seen) % 4]
                with contextlib.suppress(FrostlineError, OSError):
                    reply = control.send(str(path), op, (0,), 0.2)
                    seen[reply.status] = seen.get(reply.status, 0) + 1
        # A program that execs at once may never come to answer.
        assert seen.get(layout.REPLY_DONE, 0) > 0 or what == "exec", seen
        assert set(seen) <= {layout.REPLY_DONE, layout.REPLY_NONE, layout.REPLY_BUSY}
        target.end("end\n")
