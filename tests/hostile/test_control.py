"""Requests through the mailbox: hosts that wait in every way answer, and notice nothing."""

from __future__ import annotations

import contextlib
import mmap
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
        number = (words[WORD["request"]] + 1) & (2**64 - 1) if number is None else number
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
            operation = dice.choice([0, 1, 2, 3, 4, 4, 5, 6, 7, 9, 2**32, 2**64 - 1, dice.getrandbits(64)])
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


WORDS = st.one_of(
    st.sampled_from([0, 1, 2, 3, 7, 700, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 2**64 - 1]),
    st.integers(0, 2**64 - 1),
)
#: What is written over: not the words that the test itself goes by.
CALLERS = [n for n, _ in layout.WORD_FIELDS if n not in ("reply", "status", "state", "handler", "retention")]


def test_any_word_may_hold_anything(stage: Stage) -> None:
    """Numbers that are replayed, go back, or wrap round; counters at their end; any operation."""

    def drive(mailbox: Mailbox | None, process: subprocess.Popen[str]) -> None:
        if mailbox is None:
            signals_only(process)
            return

        @settings(max_examples=sized(300, 10_000), database=None)
        @given(st.dictionaries(st.sampled_from(CALLERS), WORDS), WORDS, WORDS, st.tuples(WORDS, WORDS, WORDS))
        def ask(words: dict[str, int], number: int, operation: int, arguments: tuple[int, int, int]) -> None:
            for name, value in words.items():
                mailbox.words[WORD[name]] = value
            process.send_signal(signal.SIGURG)
            assert mailbox.ask(operation, arguments, number) != layout.REPLY_NONE or number == 0

        ask()
        while mailbox.ask(layout.OP_TUNE, (700, 10, 10)) == layout.REPLY_BUSY:
            pass

    hold(stage, "work", drive)
    (root,) = stage.read()
    assert root.words["state"] == layout.STATE_CLOSED
    assert root.damaged == 0


def test_a_replayed_number_does_nothing(stage: Stage) -> None:
    def drive(mailbox: Mailbox | None, process: subprocess.Popen[str]) -> None:
        if mailbox is None:
            signals_only(process)
            return
        assert mailbox.ask(layout.OP_COLLECT, (2, 0, 0), 5) == layout.REPLY_DONE
        assert mailbox.ask(layout.OP_PING, (0, 0, 0), 6) == layout.REPLY_DONE
        mailbox.words[WORD["result"]] = 77
        for operation in (layout.OP_COLLECT, layout.OP_TUNE, layout.OP_FREEZE):
            for _ in range(50):
                mailbox.ask(operation, (2, 0, 0), 6)
                signals_only(process, 1)
        assert mailbox.words[WORD["result"]] == 77
        assert mailbox.ask(layout.OP_PING, (0, 0, 0), 5) == layout.REPLY_DONE  # it goes back: a new one
        assert mailbox.words[WORD["result"]] != 77

    hold(stage, "read", drive)
    (root,) = stage.read()
    ours = [one for one in root.passes if one["flags"] & layout.PASS_FROSTLINE]
    assert len(ours) == 1


def test_a_storm_of_signals_without_a_request(stage: Stage) -> None:
    """Nothing is pending: each costs a look at two words, and they do not pile up."""

    def drive(mailbox: Mailbox | None, process: subprocess.Popen[str]) -> None:
        for _ in range(sized(30_000, 1_000_000)):
            process.send_signal(signal.SIGURG)
        if mailbox is not None:
            assert mailbox.words[WORD["reply"]] == 0
            assert mailbox.ask(layout.OP_PING) == layout.REPLY_DONE

    hold(stage, "work", drive)


@pytest.mark.parametrize("asked", [False, True], ids=["signal", "request"])
def test_a_request_at_every_moment_of_start_and_end(stage: Stage, asked: bool) -> None:
    """From the first instant on: while the handler is not yet, or no more, installed, and in mid-import."""
    code = "import gc; gc.collect(); print('done')"
    for number in range(sized(15, 100)):
        process = subprocess.Popen(
            [str(stage.target.python), "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=stage.environment(True, {}),
        )
        mailbox = None
        until = time.monotonic() + LIMIT
        while process.poll() is None:
            assert time.monotonic() < until, "it hangs"
            if asked and mailbox is None:
                with contextlib.suppress(OSError, ValueError):  # not there yet, or not of its size
                    mailbox = Mailbox(stage.live, process)
            if mailbox is not None:
                words = mailbox.words
                words[WORD["opcode"]] = random.Random(number).choice(
                    [layout.OP_PING, layout.OP_FREEZE, layout.OP_THAW, layout.OP_COLLECT]
                )
                words[WORD["request"]] += 1
            os.kill(process.pid, signal.SIGURG)
            time.sleep(0.0003)
        out, err = process.communicate(timeout=LIMIT)
        assert (process.returncode, out, err) == (0, "done\n", ""), number
