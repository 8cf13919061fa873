"""A target that is asked while it waits, is in C, stopped, inside a pass, a finalizer or a region."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from frostline import format as layout
from frostline.reach import asking, control
from tests.hostile.asked import PATIENCE, READ, UP, host
from tests.hostile.conftest import Stage

IDLE = {
    "sleep": "import signal, sys, threading, time\nmain = threading.main_thread().ident\n"
    "signal.signal(signal.SIGUSR1, lambda *_: sys.exit(0))\n"
    "def end():\n    sys.stdin.read(); signal.pthread_kill(main, signal.SIGUSR1)\n"
    "threading.Thread(target=end).start()\n" + UP + "time.sleep(600)",
    "select": "import select\n" + UP + "select.select([0], [], [])",
    "queue": "import queue, sys, threading\nq = queue.Queue()\n"
    "threading.Thread(target=lambda: q.put(sys.stdin.read())).start()\n" + UP + "q.get()",
    "asyncio": "import asyncio, sys\nasync def main():\n"
    "    done = asyncio.Event()\n    asyncio.get_running_loop().add_reader(0, done.set)\n"
    "    print('up', flush=True)\n    await done.wait()\nasyncio.run(main())",
    "uvloop": "import asyncio, uvloop\nasync def main():\n"
    "    done = asyncio.Event()\n    asyncio.get_running_loop().add_reader(0, done.set)\n"
    "    print('up', flush=True)\n    await done.wait()\n"
    "loop = uvloop.new_event_loop()\nloop.run_until_complete(main())\nloop.close()",
    "gevent": "from gevent import monkey\nmonkey.patch_all()\nimport gevent, gevent.os, gevent.event\n"
    "done = gevent.event.Event()\n"
    "gevent.spawn(lambda: (gevent.os.tp_read(0, 1), done.set()))\n" + UP + "done.wait()",
}


@pytest.mark.parametrize("state", IDLE)
def test_an_idle_target_answers_and_goes_on_waiting(stage: Stage, state: str) -> None:
    extra = {}
    if state in ("uvloop", "gevent"):
        package = pytest.importorskip(state)
        if stage.target.version[:2] != sys.version_info[:2]:
            pytest.skip(f"{state} is there for this interpreter only")
        extra["PYTHONPATH"] = str(Path(package.__file__ or "").parents[1])
    with host(stage, IDLE[state], **extra) as target:
        for op in (layout.OP_PING, layout.OP_FREEZE, layout.OP_THAW, layout.OP_COLLECT, layout.OP_PING):
            assert target.ask(op).done
        assert target.word("request") == target.word("reply") == 5
        target.end()


def test_a_main_thread_in_c_answers_when_it_comes_back(stage: Stage) -> None:
    code = (
        "import ctypes, signal\nlibc = ctypes.CDLL(None)\nsignal.siginterrupt(signal.SIGURG, False)\n"
        + UP
        + "libc.read(0, ctypes.create_string_buffer(1), 1)\n"
        + "import sys\nprint('back', flush=True)\nsys.stdin.read()"
    )
    with host(stage, code) as target:
        until = time.monotonic() + PATIENCE
        while not Path(f"/proc/{target.process.pid}/wchan").read_text().endswith("pipe_read"):
            assert time.monotonic() < until
        assert target.ask(layout.OP_FREEZE, timeout=0.3).status == layout.REPLY_NONE
        assert target.word("reply") == 0
        target.tell()
        target.says("back")
        assert target.word("reply") == target.word("request") == 1
        assert target.word("status") == layout.REPLY_DONE
        target.end()


def test_a_stopped_target_is_called_stopped_and_answers_when_it_goes_on(stage: Stage) -> None:
    with host(stage, READ) as target:
        target.process.send_signal(signal.SIGSTOP)
        os.waitpid(target.process.pid, os.WUNTRACED)
        one = asking.Target(target.process.pid, "host", target.path, "")
        (answer,) = asking.ask_all([one], layout.OP_PING, seconds=0.3)
        assert answer.outcome == "none" and answer.detail.startswith("it is stopped")
        target.process.send_signal(signal.SIGCONT)
        with control.Mailbox(target.path) as box:
            assert box.wait(1, time.monotonic() + PATIENCE) is not None
        target.end()


INSIDE = {
    # Code of the host that runs in the middle of a pass, and of its end.
    "start": "def here(phase, info):\n    if phase == 'start' and info['generation'] == 2: wait()\n"
    "gc.callbacks.append(here)\n",
    "stop": "def here(phase, info):\n    if phase == 'stop' and info['generation'] == 2: wait()\n"
    "gc.callbacks.append(here)\n",
    "finalizer": "class A:\n    def __init__(self): self.me = self\n    def __del__(self): wait()\nA()\n",
}


@pytest.mark.parametrize("place", INSIDE)
def test_inside_a_pass_it_is_busy_and_does_it_afterwards(stage: Stage, place: str) -> None:
    code = (
        "import gc, sys\n"
        "def wait():\n    print('inside', flush=True)\n    sys.stdin.readline()\n"
        + INSIDE[place]
        + UP
        + "gc.collect()\nwait = lambda: None\nprint('after', flush=True)\nsys.stdin.read()"
    )
    with host(stage, code) as target:
        target.says("inside")
        assert target.ask(layout.OP_PING).done
        for op in (layout.OP_FREEZE, layout.OP_THAW, layout.OP_COLLECT, layout.OP_TUNE, layout.OP_BOUNDARY):
            assert target.ask(op, timeout=0.2).status == layout.REPLY_BUSY, op
        target.tell()
        target.says("after")
        assert target.ask(layout.OP_FREEZE).done
        target.end()


def test_a_finalizer_outside_a_pass_is_no_obstacle(stage: Stage) -> None:
    code = (
        "import sys\nclass A:\n    def __del__(self):\n        print('up', flush=True); sys.stdin.read()\nA()"
    )
    with host(stage, code) as target:
        for op in (layout.OP_FREEZE, layout.OP_THAW, layout.OP_COLLECT):
            assert target.ask(op).done
        target.end()


def test_nothing_collects_inside_a_deferred_region(stage: Stage) -> None:
    """A graph capture: an operator's `collect` waits, a splice does no harm."""
    code = (
        "import frostline, gc, sys\nillegal = []\nclass A:\n    def __init__(self): self.me = self\n"
        "    def __del__(self): illegal.append(1)\n"
        "usual = gc.get_threshold()\n"
        "with frostline.defer():\n    for _ in range(3000): A()\n    print('up', flush=True)\n"
        "    sys.stdin.readline()\n    assert not illegal\n    gc.enable()\n"
        "    for _ in range(3000): A()\n    assert not illegal\n"
        "assert gc.get_threshold() == usual, gc.get_threshold()\n"
        "print('after', flush=True)\nsys.stdin.read()\nassert illegal"
    )
    with host(stage, code) as target:
        for op, arguments in (
            (layout.OP_COLLECT, (0,)),
            (layout.OP_COLLECT, (2,)),
            (layout.OP_TUNE, (10, 1, 1)),
            (layout.OP_BOUNDARY, ()),
        ):
            assert target.ask(op, *arguments, timeout=0.2).status == layout.REPLY_BUSY, op
        assert target.ask(layout.OP_FREEZE).done and target.ask(layout.OP_THAW).done
        target.tell()
        target.says("after")
        assert target.ask(layout.OP_COLLECT, 2).done
        target.end()
