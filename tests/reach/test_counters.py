"""The collector's two numbers, read from the memory of real processes of every version (D4)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frostline import format as layout
from frostline.reach import counters
from frostline.reach.watching import LONGEST, SHORTEST, pause
from tests.cases.test_cases import incremental
from tests.interpreters import Interpreter, every_interpreter

#: Does what it is told, a word a line, and says so.
PROGRAM = """
import gc, sys
gc.disable()
kept = []
print(sys.hexversion, flush=True)
for word in sys.stdin:
    word = word.strip()
    if word == "grow":
        kept.extend([[n] for n in range(5000)])
    elif word == "middle":
        gc.collect(1)
    elif word == "full":
        gc.collect()
    elif word == "tune":
        gc.set_threshold(1234, 5, 6)
    print(word, gc.get_count()[2], flush=True)
"""


class Told:
    """A process that does one thing after the other."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.hexversion = int(self.line()[0])

    def line(self) -> list[str]:
        assert self.process.stdout is not None
        return self.process.stdout.readline().split()

    def tell(self, word: str) -> int:
        """Returns count 2 after it."""
        assert self.process.stdin is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        said = self.line()
        assert said[0] == word
        return int(said[1])


@contextmanager
def told(executable: str) -> Iterator[Told]:
    process = subprocess.Popen(
        [executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield Told(process)
    finally:
        process.communicate()


@every_interpreter
def test_they_are_what_the_collector_does(interpreter: Interpreter) -> None:
    with told(interpreter.executable) as program:
        if incremental(interpreter):
            with pytest.raises(counters.Refused):
                counters.find(program.process.pid, program.hexversion, 0)
            return
        program.tell("full")
        memory = counters.find(program.process.pid, program.hexversion, 0)
        first = memory.read()
        assert first is not None and first.before <= first.after
        assert first.pending == 0 and 1000 < first.total < 100_000 and first.counts[2] == 0
        for times in (1, 2, 3):
            program.tell("grow")
            count2 = program.tell("middle")
            now = memory.read()
            assert now is not None and now.counts[2] == count2 == times
            assert now.total == first.total
            # To a few that the passes themselves untrack, or that reading a line makes.
            assert abs(now.pending - 5000 * times) <= 200 * times
        program.tell("tune")
        program.tell("full")
        last = memory.read()
        assert last is not None and last.thresholds == (1234, 5, 6)
        assert last.pending == 0 and abs(last.total - first.total - 15_000) <= 1000
    with pytest.raises(counters.Refused):  # the process has ended
        memory.read()
    memory.close()


@pytest.mark.parametrize(
    ("hexversion", "build"),
    [
        (0x031000F0, 0),  # not known yet
        (0x030E03F0, 0),  # the incremental collector
        (0x030D05F0, layout.BUILD_FREE_THREADED),
        (0x030900F0, 0),
        (0, 0),
    ],
)
def test_what_is_not_known_is_refused(hexversion: int, build: int) -> None:
    assert counters.layout_of(hexversion, build) is None
    with pytest.raises(counters.Refused):
        counters.find(os.getpid(), hexversion, build)


def test_another_program_is_refused_and_so_is_a_layout_that_is_not_there() -> None:
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    try:
        with pytest.raises(counters.Refused, match="not found"):
            counters.find(process.pid, sys.hexversion, 0)
    finally:
        process.communicate()
    other = 0x030F00F0 if sys.version_info < (3, 15) else 0x030B07F0
    with pytest.raises(counters.Refused, match="not found"):
        counters.find(os.getpid(), other, 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")
def test_without_the_right_it_says_what_is_missing() -> None:
    reader, writer = os.pipe()
    pid = os.getpid()
    child = os.fork()
    if not child:
        try:
            os.setgid(65534)
            os.setuid(65534)
            counters.find(pid, sys.hexversion, 0)
            os.write(writer, b"read it")
        except counters.Refused as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    assert text.startswith("Permission denied. ")


@given(
    count2=st.integers(0, 40),
    total=st.integers(0, 10**7),
    pending=st.integers(0, 10**7),
    each=st.floats(0, 10**6),
    gap=st.floats(0, 10**11),
)
def test_the_next_look_is_neither_at_once_nor_never(
    count2: int, total: int, pending: int, each: float, gap: float
) -> None:
    now = counters.Counters(0, 0, (0, 0, count2), (700, 10, 10), total, pending)
    wait = pause(now, each, gap)
    assert SHORTEST <= wait <= LONGEST
    nearer = now._replace(pending=max(pending, total), counts=(0, 0, 11))
    if gap:
        assert pause(nearer, each, gap) <= max(wait, int(gap / 12), SHORTEST)
