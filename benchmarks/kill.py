"""kill -9 at random instants: every completed record is read, and no false one."""

from __future__ import annotations

import mmap
import os
import random
import subprocess
import time

import numpy as np

from benchmarks.common import TARGETS, Interpreter, Result, environment, session
from benchmarks.records import all_records, segments
from frostline import format as layout
from frostline.errors import FrostlineError
from frostline.recording import read_session

KILLS = int(os.environ.get("FROSTLINE_KILLS", "200"))


class Tally:
    """Sums over all kills."""

    def __init__(self) -> None:
        self.records = self.missing = self.false = self.unread = 0


def kill_once(python: str, delay: float, wait_for_start: bool, tally: Tally) -> None:
    with session() as folder:
        shared = os.memfd_create("done")
        os.ftruncate(shared, 4096)
        page = memoryview(mmap.mmap(shared, 4096)).cast("Q")
        child = subprocess.Popen(
            [python, str(TARGETS / "killed.py"), str(shared)],
            pass_fds=(shared,),
            stdout=subprocess.PIPE,
            env=environment(FROSTLINE_OUTPUT=str(folder)),
        )
        assert child.stdout is not None
        if wait_for_start:
            child.stdout.readline()
        time.sleep(delay)
        child.kill()
        child.wait()
        child.stdout.close()
        os.close(shared)
        done_spans, done_passes, begun = page[0], page[1], page[2]
        parts = segments(folder)
        spans, _, damaged = all_records(parts, layout.REGION_SPANS)
        passes, _, damaged_passes = all_records(parts, layout.REGION_PASSES)
        passes = passes[passes["start"] >= begun] if begun else passes[:0]
        order = np.arange(len(spans), dtype=np.uint64)
        begin = np.sort(spans["start"]) - np.uint64(begun)
        sound = np.array_equal(begin, order) and np.array_equal(
            spans["stop"] - spans["start"], spans["start"] - np.uint64(begun)
        )
        tally.records += len(spans) + len(passes)
        tally.missing += max(0, done_spans - len(spans)) + max(0, done_passes - len(passes))
        # One more may be complete that was not counted yet.
        tally.false += max(0, len(spans) - done_spans - 1) + max(0, len(passes) - done_passes - 1)
        tally.false += damaged + damaged_passes + (not sound)
        if parts:
            try:
                read = read_session(folder)
            except FrostlineError:
                tally.unread += 1
            else:
                found = sum(len(one.spans["start"]) for one in read.series if one.spans)
                tally.unread += abs(found - len(spans))


def measure(interpreter: Interpreter) -> list[Result]:
    dice = random.Random(2)
    tally = Tally()
    for number in range(KILLS):
        # Each tenth while it starts: a header that was never finished must not disturb.
        starting = number % 10 == 9
        kill_once(interpreter.python, dice.uniform(0, 0.05 if starting else 0.15), not starting, tally)
    how = f"{KILLS} kills, {tally.records:,} records; the target counts in a shared memory page"
    return [
        Result("completed records not read", str(tally.missing), "0", tally.missing == 0, how),
        Result("false records", str(tally.false), "0", tally.false == 0, how),
        Result("records that read_session leaves out", str(tally.unread), "0", tally.unread == 0, how),
    ]
