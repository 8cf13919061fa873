"""Requests through the mailbox: hosts that wait in every way answer, and notice nothing."""

from __future__ import annotations

import mmap
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from frostline import format as layout
from tests.hostile.conftest import HOSTS, LIMIT, Stage, sized

WORD = layout.WORD


class Mailbox:
    """The live words of a running process, as a command of the same user writes them."""

    def __init__(self, live: Path, process: subprocess.Popen[str]) -> None:
        (path,) = live.glob(f"{process.pid}-*.0000{layout.SUFFIX}")
        with path.open("r+b") as file:
            self.words = memoryview(mmap.mmap(file.fileno(), layout.HEADER_SIZE)).cast("Q")
        self.process = process

    def ask(
        self, operation: int, arguments: tuple[int, int, int] = (0, 0, 0), number: int | None = None
    ) -> int:
        """Makes a request and returns its status, REPLY_NONE if nobody answers."""
        words = self.words
        words[WORD["opcode"]] = operation
        for name, value in zip(("arg0", "arg1", "arg2"), arguments, strict=True):
            words[WORD[name]] = value & (2**64 - 1)
        number = words[WORD["request"]] + 1 if number is None else number
        words[WORD["request"]] = number
        self.process.send_signal(signal.SIGURG)
        until = time.monotonic() + 20
        turns = 0
        while words[WORD["reply"]] != number:
            if self.process.poll() is not None or time.monotonic() > until:
                return layout.REPLY_NONE
            time.sleep(0.0002)
            turns += 1
            if turns % 250 == 0:
                # CPython may miss a signal between a handler's end and the system call it resumes.
                self.process.send_signal(signal.SIGURG)
        return words[WORD["status"]]


Drive = Callable[["Mailbox | None", "subprocess.Popen[str]"], None]


def signals_only(process: subprocess.Popen[str], many: int = 30) -> None:
    for _ in range(many):
        process.send_signal(signal.SIGURG)
        time.sleep(0.0005)


def hold(stage: Stage, mode: str, drive: Drive, extra: dict[str, str] | None = None) -> dict[bool, str]:
    """Runs the host without and with a recording, drives it in between, compares what it said."""
    said = {}
    for recorded in (False, True):
        process = subprocess.Popen(
            [str(stage.target.python), str(HOSTS / "answering.py"), mode],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=stage.environment(recorded, extra or {}),
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            drive(Mailbox(stage.live, process) if recorded else None, process)
            out, err = process.communicate(timeout=LIMIT)
        finally:
            process.kill()
            process.wait()
        assert process.returncode == 0, err
        said[recorded] = out + err
    assert said[False] == said[True]
    return said


@pytest.mark.parametrize("mode", ["read", "loop", "wakeup", "thread", "work"])
def test_a_waiting_host_answers(stage: Stage, mode: str) -> None:
    def drive(mailbox: Mailbox | None, process: subprocess.Popen[str]) -> None:
        if mailbox is None:
            signals_only(process)
            return
        assert mailbox.words[WORD["handler"]] == 1
        for _ in range(200):
            assert mailbox.ask(layout.OP_PING) == layout.REPLY_DONE

    hold(stage, mode, drive)
    (root,) = stage.read()
    assert root.words["state"] == layout.STATE_CLOSED


def test_a_handler_that_the_host_sets_after_us(stage: Stage) -> None:
    """The host's handler gets its signals; ours is out, and a request is simply not answered."""

    def drive(mailbox: Mailbox | None, process: subprocess.Popen[str]) -> None:
        signals_only(process)

    assert "mine True" in hold(stage, "after", drive)[True]


def test_a_handler_that_was_there_before_us(stage: Stage) -> None:
    """Ours answers and passes the signal on."""
    site = stage.target.site_packages
    (site / "host_handler.py").write_text(
        "import signal\nseen = []\nsignal.signal(signal.SIGURG, lambda number, frame: seen.append(number))\n"
    )
    (site / "ab_host.pth").write_text(
        "import os; 'HOST_HANDLER' in os.environ and __import__('host_handler')\n"
    )

    def drive(mailbox: Mailbox | None, process: subprocess.Popen[str]) -> None:
        if mailbox is None:
            signals_only(process)
        else:
            assert mailbox.ask(layout.OP_PING) == layout.REPLY_DONE
            signals_only(process)

    try:
        assert "before True" in hold(stage, "read", drive, {"HOST_HANDLER": "1"})[True]
    finally:
        (site / "ab_host.pth").unlink()
        (site / "host_handler.py").unlink()


def test_control_off_takes_no_signal(stage: Stage) -> None:
    def drive(mailbox: Mailbox | None, process: subprocess.Popen[str]) -> None:
        assert mailbox is None or mailbox.words[WORD["handler"]] == 0
        signals_only(process)

    hold(stage, "read", drive, {"FROSTLINE_CONTROL": "off"})


@pytest.mark.parametrize("mode", ["read", "work"])
def test_random_requests(stage: Stage, mode: str) -> None:
    """Each is answered, none stalls or ends the host, whatever stands in the words."""
    dice = random.Random(11)
    replies = set()

    def drive(mailbox: Mailbox | None, process: subprocess.Popen[str]) -> None:
        if mailbox is None:
            signals_only(process)
            return
        numbers = [0, 1, 2, 3, -1, 700, 2**31 - 1, 2**31, 2**63, 2**64 - 1]
        for _ in range(sized(1500, 10_000)):
            operation = dice.choice([0, 1, 2, 3, 4, 4, 5, 6, 7, 2**32, 2**64 - 1, dice.getrandbits(64)])
            first, second, third = (dice.choice([*numbers, dice.getrandbits(64)]) for _ in range(3))
            number = None if dice.random() < 0.7 else dice.getrandbits(64)
            status = mailbox.ask(operation, (first, second, third), number)
            assert status != layout.REPLY_NONE, (operation, first, second, third, number, process.poll())
            replies.add(status)
        assert mailbox.ask(layout.OP_PING, number=12345) == layout.REPLY_DONE
        mailbox.ask(layout.OP_TUNE, (700, 10, 10))

    hold(stage, mode, drive)
    assert {layout.REPLY_DONE, layout.REPLY_UNKNOWN, layout.REPLY_REFUSED} <= replies
    (root,) = stage.read()
    assert root.words["state"] == layout.STATE_CLOSED
    assert root.words["off_reason"] == layout.OFF_NONE
    assert root.damaged == 0


def test_a_request_at_every_moment_of_start_and_end(stage: Stage) -> None:
    """SIGURG from the first instant on: while the handler is not yet, or no more, installed."""
    code = "import gc; gc.collect(); print('done')"
    for number in range(sized(15, 100)):
        process = subprocess.Popen(
            [str(stage.target.python), "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=stage.environment(True, {}),
        )
        while process.poll() is None:
            os.kill(process.pid, signal.SIGURG)
            time.sleep(0.0003)
        out, err = process.communicate(timeout=LIMIT)
        assert (process.returncode, out, err) == (0, "done\n", ""), number
