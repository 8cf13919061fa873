"""``frostline audit`` on live processes: what is frozen, and the garbage among it (D6). Every version."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.commands.test_control import frostline, up
from tests.heap.test_live import told
from tests.interpreters import Interpreter, every_interpreter, found
from tests.reach.under_run import running, wait_for_helper

LATEST = found()[-1]
#: The oldest, 3.12, whose freeze count is not 0 at the start, and the newest.
SOME = pytest.mark.parametrize("interpreter", {found()[0], found()[2 % len(found())], LATEST}, ids=str)
#: Runs the lines that it reads, and answers each. ``Node`` is one tracked object each on every version.
HOST = """
import gc, sys, weakref
class Node:
    __slots__ = ("me", "held", "__weakref__")
class Engine(Node):
    __slots__ = ()
class Weights(bytearray):
    pass
refs = []
def cycles(count, kind=Node):
    gc.disable()  # else a young pass frees some of them
    for _ in range(count):
        one = kind()
        one.me = one
        refs.append(weakref.ref(one))
def alive():
    return sum(one() is not None for one in refs)
def state():
    return gc.isenabled(), gc.get_debug(), len(gc.garbage), gc.get_threshold()
space = globals()
print("up", flush=True)
for line in sys.stdin:
    try:
        value = eval(line, space)
    except SyntaxError:
        value = exec(line, space)
    print(value, flush=True)
"""


def audit(tmp_path: Path, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
    done = frostline(tmp_path, "audit", "--json", *arguments)
    assert done.returncode == code, done.stdout + done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)["processes"]
    return rows


def names(row: dict[str, Any]) -> list[str]:
    return [one["name"] for one in row["findings"]]


def of_type(garbage: dict[str, Any], name: str) -> int:
    return sum(count for kind, count, _ in garbage["types"] if kind.rpartition(".")[2] == name)


@every_interpreter
def test_garbage_frozen_without_a_collect_is_counted_to_the_object(
    tmp_path: Path, interpreter: Interpreter
) -> None:
    """Case 09, with one and with many."""
    count = 1 if interpreter == LATEST else 4_000
    with running(tmp_path, interpreter.executable, "-c", HOST) as process:
        up(process)
        (row,) = audit(tmp_path)
        # On 3.12 the interpreter has some hundred objects of its own frozen (case 47).
        assert row["frozen"] == 0 and names(row) == ["not-frozen"]
        told(process, "gc.collect()")
        told(process, f"cycles({count})")
        told(process, "gc.freeze()")
        before = told(process, "state()")
        (row,) = audit(tmp_path)
        assert "frozen-garbage" in names(row) or count == 1
        assert row["by"].startswith("the program itself, <string>:") and row["frozen"] > 1_000
        # Nobody tells of requests: what is frozen again may be somebody's who waits.
        (row,) = audit(tmp_path, "--garbage", code=1)
        assert "nobody tells of requests" in row["why_not"] and told(process, "alive()") == str(count)
        (row,) = audit(tmp_path, "--garbage", "--serving", "--class", "__main__:Node")
        found_ = row["garbage"]
        assert found_["found"] >= count and found_["dead"] == count and found_["live"] == 0
        assert len(found_["walks"]) == 2 and not found_["left"]
        if count > 1:
            assert of_type(found_, "Node") == count
            kind = max(found_["cycles"]["kinds"], key=lambda one: one["count"])
            assert (kind["count"], kind["path"]) == (count, "Node.me -> Node")
        assert told(process, "alive()") == "0"
        assert told(process, "state()") == before
        # Frozen again, and all that was not garbage with it.
        after = int(told(process, "gc.get_freeze_count()"))
        assert after > found_["before"] - found_["found"] - 200  # some die by reference count
        (row,) = audit(tmp_path, "--garbage", "--serving")
        assert row["garbage"]["found"] == 0 and len(row["garbage"]["walks"]) == 1
        text = frostline(tmp_path, "audit", "--garbage", "--serving")
        assert "[no-garbage]" in text.stdout and "one walk of" in text.stderr
        assert "frozen-garbage" not in text.stdout  # the walks have put it right, and say so
        process.communicate(timeout=30)


@every_interpreter
def test_engines_that_stay_after_a_teardown_are_named_with_their_memory(
    tmp_path: Path, interpreter: Interpreter
) -> None:
    """Case 10: rebuilt in one process, frozen each time, never thawed."""
    options = ("--policy", "freeze")
    with running(tmp_path, interpreter.executable, "-c", HOST, options=options) as process:
        up(process)
        told(process, "import frostline")
        for _ in range(3):
            told(process, "engine = Engine()")
            told(process, "engine.held = [engine, Weights(3_000_000), [[i] for i in range(5_000)]]")
            assert int(told(process, "frostline.startup_complete()")) > 5_000
            told(process, "del engine")
            told(process, "gc.collect()")
        told(process, "engine = Engine()")
        (row,) = audit(tmp_path)
        assert "never-thawed" in names(row) and "frozen-garbage" not in names(row)
        done = frostline(tmp_path, "audit", "--class", "__main__:Engine", "--serving")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "3 objects of __main__:Engine are frozen and unreachable" in done.stdout
        assert "1 object of __main__:Engine is reachable" in done.stdout
        assert "__main__.space['engine']" in done.stdout or "__main__.engine" in done.stdout
        assert "3 x  Weights, 8.6 MiB" in done.stdout
        assert "Engine.held -> list" in done.stdout
        # With the thaw of its own, none stays.
        told(process, "del engine")
        told(process, "frostline.shutdown()")
        for _ in range(2):
            told(process, "engine = Engine()")
            told(process, "engine.me = engine")
            told(process, "frostline.startup_complete()")
            told(process, "del engine")
            told(process, "frostline.shutdown()")
        (row,) = audit(tmp_path, "--class", "__main__:Engine", "--serving")
        assert row["frozen"] == 0 and names(row) == ["thawed"]
        assert (row["garbage"]["dead"], row["garbage"]["live"], row["garbage"]["walks"]) == (0, 0, [])
        process.communicate(timeout=30)


@SOME
def test_a_freeze_while_serving_says_how_many_were_in_flight(
    tmp_path: Path, interpreter: Interpreter
) -> None:
    """Case 12: a collect just before does not help those that are alive."""
    with running(tmp_path, interpreter.executable, "-c", HOST) as process:
        up(process)
        told(process, "import frostline; request = frostline.request()")
        for _ in range(3):
            told(process, "request.__enter__()")
        told(process, "cycles(64); kept = [one() for one in refs]")
        told(process, "gc.collect(); gc.freeze()")
        told(process, "del kept; gc.collect()")
        refused = frostline(tmp_path, "audit")
        assert refused.returncode == 1 and "3 requests are in flight" in refused.stdout
        assert "[frozen-serving]" in refused.stdout and "3 requests in flight" in refused.stdout
        # It waits for an idle moment, and takes it.
        for _ in range(3):
            told(process, "request.__exit__(None, None, None)")
        assert told(process, "alive()") == "64"
        (row,) = audit(tmp_path, "--garbage")
        assert row["in_flight"] == 3 and row["garbage"]["found"] >= 64
        assert told(process, "alive()") == "0"
        (row,) = audit(tmp_path)
        assert names(row) == ["sound"]
        process.communicate(timeout=30)


SERVING = """
import asyncio, frostline, gc, sys
async def serve(ended):
    while not ended.is_set():
        with frostline.request():
            await asyncio.sleep(0.001)
async def main():
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(0, ended.set)
    frostline.startup_complete()
    print("up", flush=True)
    await serve(ended)
asyncio.run(main())
"""


def test_who_is_never_idle_is_left_alone(tmp_path: Path) -> None:
    options = ("--policy", "freeze")
    with running(tmp_path, LATEST.executable, "-c", SERVING, options=options) as process:
        up(process)
        (row,) = audit(tmp_path, "--garbage", "--wait", "1", code=1)
        assert row["garbage"] is None
        assert "in flight" in row["why_not"] or "came in while an idle moment" in row["why_not"]
        process.communicate("end\n", timeout=30)


@SOME
@pytest.mark.parametrize("policy", ("freeze", "follow"))
def test_a_policy_goes_on_as_after_its_own_walk(
    tmp_path: Path, interpreter: Interpreter, policy: str
) -> None:
    if policy == "follow" and (3, 14) <= interpreter.version < (3, 14, 5):
        pytest.skip("refused on the incremental collector")
    with running(tmp_path, interpreter.executable, "-c", HOST, options=("--policy", policy)) as process:
        up(process)
        told(process, "import frostline; request = frostline.request()")
        told(process, "request.__enter__()")
        told(process, "cycles(300)")
        assert told(process, "frostline.startup_complete()") == "-1"  # a splice, with garbage in it
        told(process, "request.__exit__(None, None, None)")
        (row,) = audit(tmp_path)
        assert row["in_flight"] == 1 and names(row) == ["frozen-serving"]
        assert "in the next idle moment" in row["findings"][0]["do"]
        (row,) = audit(tmp_path, "--class", "__main__:Node")
        assert row["garbage"]["dead"] == 300
        shown = frostline(tmp_path, "policy").stdout
        assert f"{policy}: frozen" in shown and "spliced" not in shown
        # It is due no more, and thaws what is its own.
        assert told(process, "frostline.idle()") == "False"
        told(process, "frostline.shutdown()")
        (row,) = audit(tmp_path)
        assert row["frozen"] == 0 and names(row) == ["thawed"]
        process.communicate(timeout=30)


#: A thread that makes garbage all the time, beside the one that is asked.
BESIDE = """
import threading
ended = threading.Event()
def work():
    while not ended.is_set():
        one = Node()
        one.me = one
        ended.wait(0.0005)
threading.Thread(target=work, daemon=True).start()
"""


@SOME
def test_beside_threads_it_is_frozen_again_and_the_collector_is_on(
    tmp_path: Path, interpreter: Interpreter
) -> None:
    code = HOST.replace("space = globals()\n", "space = globals()\n" + BESIDE)
    with running(tmp_path, interpreter.executable, "-c", code) as process:
        up(process)
        told(process, "cycles(2_000, Engine); gc.freeze(); gc.enable()")
        before = told(process, "state()")
        for _ in range(3):
            (row,) = audit(tmp_path, "--class", "__main__:Engine", "--serving")
        assert told(process, "state()") == before
        assert told(process, "alive()") == "0" and row["garbage"]["dead"] == 0
        assert int(told(process, "gc.get_freeze_count()")) > 1_000
        told(process, "ended.set()")
        process.communicate(timeout=30)


FORK = """
import os, time
cycles(500); gc.freeze()
child = os.fork()
if child == 0:
    time.sleep(600)
"""


@SOME
def test_a_forked_child_is_not_asked_to_finalize_what_its_parent_has_too(
    tmp_path: Path, interpreter: Interpreter
) -> None:
    code = HOST.replace('print("up", flush=True)', FORK + 'print("up", flush=True)')
    with running(tmp_path, interpreter.executable, "-c", code) as process:
        up(process)
        child = int(told(process, "child"))
        try:
            rows = {row["pid"]: row for row in audit(tmp_path, "--garbage", "--serving", code=1)}
        finally:
            told(process, "os.kill(child, 9)")
        assert "shares what was frozen with" in rows[child]["why_not"]
        assert rows[child]["garbage"] is None and names(rows[child]) == ["inherited"]
        assert rows[process.pid]["garbage"]["found"] >= 500
        process.communicate(timeout=30)


def test_what_would_take_too_long_is_not_begun(tmp_path: Path) -> None:
    with running(tmp_path, LATEST.executable, "-c", HOST) as process:
        up(process)
        told(process, "cycles(100); gc.freeze()")
        (row,) = audit(tmp_path, "--garbage", "--serving", "--max-stop", "0", code=1)
        assert "more than --max-stop 0" in row["why_not"] and row["walk"]["how"]
        assert told(process, "alive()") == "100"
        (row,) = audit(tmp_path, "--class", "__main__:Nothing", "--serving", code=1)
        assert "has no Nothing" in row["why_not"] and told(process, "alive()") == "100"
        process.communicate(timeout=30)


#: A class whose every word is a trap, in a cycle that is frozen as garbage.
HOSTILE = """
ran = []
class Meta(type):
    def __hash__(cls): ran.append("hash"); return 1
    def __eq__(cls, other): ran.append("eq"); return cls is other
    def __instancecheck__(cls, other): ran.append("instance"); return True
    def mro(cls): return type.mro(cls)
class Evil(metaclass=Meta):
    def __sizeof__(self): ran.append("sizeof"); return 1
    def __repr__(self): ran.append("repr"); return ""
    def __eq__(self, other): ran.append("equal"); return True
    def __hash__(self): ran.append("hashed"); return 1
    def __getattribute__(self, name): ran.append(name); return object.__getattribute__(self, name)
    @property
    def __class__(self): ran.append("class"); return int
def evil(count):
    for _ in range(count):
        one = Evil()
        object.__setattr__(one, "me", one)
gc.disable()
evil(50)
del ran[:]
"""


@SOME
def test_nothing_of_the_program_s_own_code_runs_but_finalizers(
    tmp_path: Path, interpreter: Interpreter
) -> None:
    code = HOST.replace("space = globals()\n", "space = globals()\n" + HOSTILE)
    with running(tmp_path, interpreter.executable, "-c", code) as process:
        up(process)
        told(process, "gc.freeze()")
        (row,) = audit(tmp_path, "--class", "__main__:Evil", "--serving")
        assert row["garbage"]["dead"] == 50
        assert told(process, "ran") == "[]"
        process.communicate(timeout=30)


#: A parent that freezes itself, and a program that it starts, which does not.
SERVER = """
import gc, subprocess, sys
heap = [[i] for i in range(60_000)]
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
assert child.stdout.readline() == b"up\\n"
gc.collect(); gc.freeze()
print("up", flush=True)
sys.stdin.read()
child.communicate()
"""
WORKER = """
import gc, sys
heap = [[i] for i in range(60_000)]
print("up", flush=True)
sys.stdin.read()
"""


def test_a_process_that_was_left_out_is_named_live_and_ended(tmp_path: Path) -> None:
    with running(tmp_path, LATEST.executable, "-c", SERVER, WORKER) as process:
        up(process)
        done = frostline(tmp_path, "audit", str(process.pid), "--tree")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "nothing is frozen here, as it is in" in done.stdout and "[left-out]" in done.stdout
        assert "[sound]" in done.stdout and "[not-frozen]" not in done.stdout
        process.communicate(timeout=30)
    wait_for_helper(tmp_path / "rec")
    rows = audit(tmp_path, "rec")
    assert sorted(name for row in rows for name in names(row)) in (
        ["left-out", "sound"],
        ["not-frozen", "sound"],  # where no full pass has told how large the other one is
    )
    (server,) = [row for row in rows if "sound" in names(row)]
    assert server["how"] == "counted at its end" and server["frozen"] > 60_000
    refused = frostline(tmp_path, "audit", "rec", "--garbage")
    assert refused.returncode == 1 and "[no-targets]" in refused.stderr


def test_one_that_is_not_recorded_is_named(tmp_path: Path) -> None:
    with subprocess.Popen(
        [LATEST.executable, "-c", HOST], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        up(process)
        done = frostline(tmp_path, "audit", str(process.pid))
        assert done.returncode == 1 and "NOT AUDITED: not recorded" in done.stdout
        assert "frostline attach" in done.stdout
        process.communicate(timeout=30)
