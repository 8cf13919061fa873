"""The control channel under hostile callers: served or refused, the target's heartbeat, its memory.

A target beats every 2 ms and measures its own lateness. 60,000 messages that are malformed or replayed,
and 200 callers at once, go to it in turn with a decoy, which is another process of the same kind: both
arms cost the machine the same, so what differs is the target's own work. Blocks in the order ABBA;
the ratio of p99 is that of the medians, with the 95 % interval of a bootstrap over blocks.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import TARGETS, Interpreter, Result, environment, session
from frostline import format as layout
from frostline.errors import FrostlineError
from frostline.reach import control

MESSAGES = 60_000
CALLERS = 200
BLOCKS = 60
#: The interval's lower end beyond which the heartbeat counts as moved.
NOISE = 1.1
MEMORY_KIB = 1024
NOBODY = 65534
_WORD = layout.WORD
EXTREMES = [0, 1, 3, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 2**64 - 1]


class Beating:
    """A target under way."""

    def __init__(self, python: str, folder: Path) -> None:
        self.process = subprocess.Popen(
            [python, str(TARGETS / "heartbeat.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(FROSTLINE_OUTPUT=str(folder)),
            text=True,
        )
        self.pid = self.process.pid
        self._answer()
        (path,) = (folder / "active").resolve().glob(f"{self.pid}-*.0000{layout.SUFFIX}")
        self.path = str(path)

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        value: dict[str, Any] = json.loads(self.process.stdout.readline())
        return value

    def beats(self) -> dict[str, Any]:
        """The lateness since the last call, ns."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self._answer()

    def end(self) -> None:
        self.process.communicate(timeout=60)


def malformed(target: Beating, many: int, dice: random.Random) -> dict[str, int]:
    """Writes words that no command of ours writes, and signals; what they were answered."""
    with Path(target.path).open("r+b") as file:
        words = memoryview(mmap.mmap(file.fileno(), layout.HEADER_SIZE)).cast("Q")
    counts = {"served": 0, "refused": 0, "replayed": 0, "silent": 0}
    for _ in range(many):
        operation = dice.choice([layout.OP_PING, 0, 99, 2**32, 2**64 - 1, dice.getrandbits(64)])
        arguments = [dice.choice(EXTREMES) for _ in range(3)]
        if dice.random() < 0.3:
            operation, arguments[0] = layout.OP_TUNE, 2**63  # below zero
        elif dice.random() < 0.3:
            operation, arguments[0] = layout.OP_COLLECT, 3
        replay = dice.random() < 0.2
        number = words[_WORD["reply"]] if replay else dice.getrandbits(64)
        words[_WORD["opcode"]] = operation
        for name, value in zip(("arg0", "arg1", "arg2"), arguments, strict=True):
            words[_WORD[name]] = value
        words[_WORD["request"]] = number
        os.kill(target.pid, signal.SIGURG)
        until = time.monotonic() + 2.0
        while words[_WORD["reply"]] != number and time.monotonic() < until:
            time.sleep(0.0001)
        done = words[_WORD["status"]] == layout.REPLY_DONE
        if words[_WORD["reply"]] != number:
            counts["silent"] += 1
        else:
            counts["replayed" if replay else "served" if done else "refused"] += 1
    return counts


def crowd(target: Beating) -> dict[str, int]:
    """CALLERS at once, each with one request through the real caller's side."""
    statuses: list[int] = []

    def ask(number: int) -> None:
        operation = (layout.OP_PING, layout.OP_FREEZE, layout.OP_THAW, 99)[number % 4]
        statuses.append(control.send(target.path, operation, timeout=30.0).status)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(CALLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    served = statuses.count(layout.REPLY_DONE)
    silent = statuses.count(layout.REPLY_NONE) + CALLERS - len(statuses)
    return {"served": served, "refused": CALLERS - served - silent, "silent": silent}


def strangers(target: Beating) -> tuple[int, int] | None:
    """Requests of another user: tried and refused. None where we may not become one."""
    if os.geteuid() != 0:
        return None
    code = (
        "import os, signal, sys\nfrom frostline.reach import control\n"
        "from frostline.errors import FrostlineError\npath, pid = sys.argv[1], int(sys.argv[2])\n"
        f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\nrefused = 0\n"
        "for _ in range(100):\n    try: control.send(path, 4, (2,), 1.0)\n"
        "    except FrostlineError: refused += 1\n    try: os.kill(pid, signal.SIGURG)\n"
        "    except PermissionError: refused += 1\nprint(refused)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, target.path, str(target.pid)], capture_output=True, text=True, check=True
    )
    return 200, int(done.stdout)


def ratio(arms: dict[bool, list[float]]) -> tuple[float, float, float]:
    """Of the medians, storm to decoy, with its interval."""
    random_ = np.random.default_rng(0)
    storm, decoy = np.array(arms[True]), np.array(arms[False])
    picks = random_.integers(0, len(storm), size=(4000, len(storm)))
    found = np.median(storm[picks], axis=1) / np.median(decoy[picks], axis=1)
    low, high = np.quantile(found, [0.025, 0.975])
    return float(np.median(storm) / np.median(decoy)), float(low), float(high)


def measure(interpreter: Interpreter) -> list[Result]:
    dice = random.Random(5)
    counts: dict[str, int] = {}
    p99: dict[bool, list[float]] = {True: [], False: []}
    longest = {True: 0, False: 0}
    with session() as folder:
        target, decoy = Beating(interpreter.python, folder), Beating(interpreter.python, folder)
        try:
            for warm in (target, decoy):  # the first request imports what answers
                malformed(warm, 50, dice)
                crowd(warm)
                warm.beats()
            before = target.beats()["resident"]
            outside = strangers(target)
            for block in range(BLOCKS):
                for storm in (True, False) if block % 2 else (False, True):
                    target.beats()
                    asked = target if storm else decoy
                    found = [malformed(asked, MESSAGES // BLOCKS, dice), crowd(asked)]
                    seen = target.beats()
                    p99[storm].append(seen["p99"])
                    longest[storm] = max(longest[storm], seen["max"])
                    for one in found if storm else ():
                        for name, value in one.items():
                            counts[name] = counts.get(name, 0) + value
            after = target.beats()["resident"]
            try:
                alive = control.send(target.path, layout.OP_PING).done
            except FrostlineError:
                alive = False
        finally:
            target.end()
            decoy.end()
    between, low, high = ratio(p99)
    sent = MESSAGES + BLOCKS * CALLERS
    how = f"{MESSAGES:,} malformed or replayed messages and {BLOCKS} x {CALLERS} callers: {counts}"
    beats = (
        f"{BLOCKS} blocks each, storm on it and on a decoy in turn; longest {longest[True] / 1e6:.1f} "
        f"and {longest[False] / 1e6:.1f} ms; p99 {np.median(p99[True]) / 1e6:.3f} ms"
    )
    # An interval that holds both "the same" and "twice" says nothing: a busy machine.
    calm = None if high > 2 * low else low <= NOISE
    answered = sent - counts["silent"]
    results = [
        Result(
            "messages served or refused", f"{answered:,} of {sent:,}", "all", alive and answered == sent, how
        ),
        Result(
            "heartbeat p99, ratio",
            f"{between:.2f} ({low:.2f} to {high:.2f})",
            f"{NOISE}",
            calm,
            beats,
        ),
        Result("memory", f"{after - before:+} KiB", f"+{MEMORY_KIB} KiB", after - before <= MEMORY_KIB, how),
    ]
    if outside is None:
        results.append(Result("another user, refused", "not root", "all", None, "needs root"))
    else:
        tried, refused = outside
        text = "as nobody: 100 requests and 100 signals"
        results.append(
            Result("another user, refused", f"{refused} of {tried}", "all", refused == tried, text)
        )
    return results
