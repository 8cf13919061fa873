"""Looks change nothing in a program and run none of its code, whatever it is made of and whatever it does."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.interpreters import Interpreter, found

HERE = Path(__file__).parent
SOURCE = HERE.parent.parent / "src"


def _output(interpreter: Interpreter, *arguments: str) -> str:
    ran = subprocess.run(
        [interpreter.executable, "-X", "utf8", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.parametrize("interpreter", found(), ids=str)
def test_no_code_of_the_program_runs(interpreter: Interpreter) -> None:
    seen = json.loads(_output(interpreter, str(HERE / "hostile.py"), str(SOURCE)))
    assert seen["ran"] == []
    assert seen["alive"] == 2
    paths = "\n".join(seen["paths"])
    for words in (
        "Evil -> __dict__['me'] -> Evil",
        "EvilError.__traceback__ -> traceback (hostile.py:",
        "dict[<Key>] -> dict",
        "method of Called -> Plain",
        "Named -> __dict__['me'] -> Named",
        "Plain -> __dict__[<Text>] -> Plain",
    ):
        assert words in paths, words


#: Objects in the variables of a frame that runs and of one that is suspended; what exec() has put beside.
KEPT = """
import sys, weakref
sys.path.insert(0, sys.argv[1])
from frostline.heap import alive, cycles, saved
class Thing: pass
class Block: pass
class Holder: pass
def suspended(holder):
    thing = Thing()
    yield weakref.ref(thing)
    thing = None
    yield
def main():
    thing, block, holder = Thing(), Block(), Holder()
    reference = weakref.ref(thing)
    holder.rows = suspended(holder)
    inner = next(holder.rows)
    exec("put = 7")
    for _ in range(2):
        (way,) = alive.holders("__main__:Block").ways
        assert "main (<string>:" in way and "variable block" in way, way
        kept = saved.saved_pass()
        cycles.cycles_of(kept)
        saved.let_go(kept)
    del thing, kept
    next(holder.rows)
    assert reference() is None, "the running frame keeps what its variable held"
    assert inner() is None, "the suspended frame keeps what its variable held"
    if sys.version_info < (3, 13):  # since then exec() writes into a copy of its own
        assert eval("put") == 7
    assert sorted(locals())[:2] == ["_", "block"]
main()
"""


@pytest.mark.parametrize("interpreter", found(), ids=str)
def test_a_frame_that_was_looked_at_keeps_nothing(interpreter: Interpreter) -> None:
    _output(interpreter, "-c", KEPT, str(SOURCE))


#: The thread puts into and takes out of the dict that is walked for the name of what it holds last.
BUSY = """
import sys, threading
sys.path.insert(0, sys.argv[1])
from frostline.heap import alive, census
class Block: pass
held = {i: i for i in range(200_000)}
held["last"] = [Block()]
row = [0] * 200_000 + [held["last"]]
done = threading.Event()
def churn():
    i = 0
    while not done.is_set():
        i += 1
        held["more", i % 50] = i
        held.pop(("more", i % 50 - 20), None)
threads = [threading.Thread(target=churn) for _ in range(2)]
sys.setswitchinterval(1e-4)
for thread in threads: thread.start()
try:
    for _ in range(8):
        (way,) = alive.holders("__main__:Block").ways
        assert way in ("__main__.held['last'][0]", "__main__.row[200000][0]"), way
finally:
    done.set()
    for thread in threads: thread.join()
"""


@pytest.mark.parametrize("interpreter", {found()[0], found()[-1]}, ids=str)
def test_other_threads_go_on(interpreter: Interpreter) -> None:
    _output(interpreter, "-c", BUSY, str(SOURCE))


#: Thousands of holders and hundreds of frames: each frame is read a few times, not once a holder.
MANY = """
import sys, threading
sys.path.insert(0, sys.argv[1])
from frostline.heap import alive
class Block: pass
class Node: pass
go, ready = threading.Event(), threading.Semaphore(0)
def deep(n):
    if n: return deep(n - 1)
    ready.release(); go.wait()
threads = [threading.Thread(target=deep, args=(10,)) for _ in range(20)]
for thread in threads: thread.start()
for _ in threads: ready.acquire()
nodes = [Node() for _ in range(3000)]
for node in nodes: node.block, node.ring = Block, nodes
nodes[0].mine = Block()
hidden = [node.__dict__ for node in nodes]
for one in hidden: one["first"] = nodes[0].mine
del one, node
reads = 0
def count(frame, event, _):
    global reads
    reads += event == "call" and frame.f_code.co_name == "variables"
sys.setprofile(count)
try: found = alive.holders("__main__:Block")
finally: sys.setprofile(None); go.set()
assert "nodes" in found.ways[0] or "hidden" in found.ways[0], found.ways
assert 0 < reads <= 3 * 20 * 15, reads
"""


@pytest.mark.parametrize("interpreter", {found()[0], found()[-1]}, ids=str)
def test_many_threads_and_holders_are_read_once(interpreter: Interpreter) -> None:
    _output(interpreter, "-c", MANY, str(SOURCE))


GARBAGE = """
import gc, sys
sys.path.insert(0, sys.argv[1])
from frostline.heap import alive
class Block: pass
gc.disable()
block = Block()
block.me = [block]
del block
(way,) = alive.holders("__main__:Block").ways
assert "held by a cycle of its own alone" in way, way
"""


@pytest.mark.parametrize("interpreter", {found()[0], found()[-1]}, ids=str)
def test_what_only_a_cycle_holds_is_called_so(interpreter: Interpreter) -> None:
    _output(interpreter, "-c", GARBAGE, str(SOURCE))
