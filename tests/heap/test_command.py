"""``frostline cycles -- COMMAND``: what the passes of a command reclaim, by signature (B10; cases 03, 18)."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.heap.commands import options_of, under
from tests.interpreters import Interpreter, every_interpreter, found
from tests.jsondoc import documented
from tests.reach.under_run import FROSTLINE, environment

LATEST, OLDEST = found()[-1], found()[0]

#: A hook that stores a closure on the ticket whose method it holds, the same mended, and none.
HOOK = """
import gc, weakref

class Ticket:
    def collect(self):
        return 42

class Proxy:
    def __init__(self, ticket, call):
        self.ticket, self.collect = ticket, call

def step(mode):
    ticket = Ticket()
    reference = weakref.ref(ticket)
    if mode != "none":
        original = ticket.collect
        def timed():
            return original()
        if mode == "assigned":
            ticket.collect = timed
        else:
            ticket = Proxy(ticket, timed)
    assert ticket.collect() == 42
    return reference

gc.collect()
gc.disable()
for mode in ("none", "assigned", "proxy"):
    references = [step(mode) for _ in range(300)]
    alive = sum(one() is not None for one in references)
    reclaimed = gc.collect()
    print(mode, alive, reclaimed >= 900, reclaimed == 0, sum(one() is not None for one in references))
    print(gc.get_debug(), gc.garbage, gc.isenabled())
print("---")
raise SystemExit(7)
"""


@every_interpreter
def test_case_03_the_hook_is_named_and_the_program_sees_nothing(
    tmp_path: Path, interpreter: Interpreter
) -> None:
    said = under(tmp_path, interpreter, HOOK, code=7)
    state = "0 [] False"
    assert said.printed.splitlines() == [
        "none 0 False True 0", state, "assigned 300 True False 0", state, "proxy 0 False True 0", state,
    ]  # fmt: skip
    (kind,) = said.kinds("Ticket")
    assert kind["path"].startswith("Ticket -> __dict__['collect'] -> function timed (case.py:")
    assert kind["path"].endswith("-> cell original -> method collect -> Ticket")
    assert kind["count"] == 300 and kind["objects"] >= 900 and "stored on the object" in kind["pattern"]
    assert not said.kinds("Proxy")
    assert "at least 300 x  Ticket -> __dict__['collect'] -> function timed (case.py:17)" in said.text
    # What looked is none of what it found.
    assert not said.kinds("frostline") and not said.kinds("saving.py")


#: An exception that a variable of a frame in its own traceback holds, the same cleared, an awaited future.
EXCEPTION = """
import asyncio, gc

class Tensor(bytearray):
    pass

def stored():
    tensor = Tensor(100)
    err = None
    try:
        raise KeyError("x")
    except KeyError as e:
        err = e

def cleared():
    tensor = Tensor(100)
    err = None
    try:
        raise KeyError("x")
    except KeyError as e:
        err = e
    finally:
        err = None

async def awaited():
    tensor = Tensor(100)
    future = asyncio.get_running_loop().create_future()
    future.set_exception(ValueError("y"))
    try:
        await future
    except ValueError:
        pass

gc.collect()
gc.disable()
for _ in range(40):
    stored()
for _ in range(30):
    cleared()
asyncio.run(awaited())
gc.enable()
print("---")
"""


@every_interpreter
def test_case_18_the_frame_and_the_variable_are_named(tmp_path: Path, interpreter: Interpreter) -> None:
    said = under(tmp_path, interpreter, EXCEPTION)
    (kind,) = said.kinds("frame of stored (case.py:7")
    assert kind["count"] == 40 and "variable err" in kind["path"] and "err" in kind["remedy"]
    assert not said.kinds("frame of cleared")
    assert said.kinds("frame of awaited") or said.kinds("coroutine awaited")
    assert said.found["looked"][0]["looks"]["exit"] == 1


#: Every pass of the program's own, the young ones too: then next to nothing is missed.
YOUNG = """
import gc
gc.set_threshold(300, 3, 3)
class Node: pass
def make():
    one, two = Node(), Node()
    one.other, two.other = two, one
kept = []
for number in range(3000):
    make()
    kept.append([number])
print("---")
"""


@every_interpreter
def test_all_passes_find_what_the_program_makes(tmp_path: Path, interpreter: Interpreter) -> None:
    said = under(tmp_path, interpreter, YOUNG, "--all-passes")
    (kind,) = said.kinds("Node -> __dict__['other'] -> Node")
    looked = said.found["looked"][0]
    assert said.found["skipped"] == 0 and looked["looks"]["pass"] >= 5
    # What is made between a pass and the one that frees what it had kept is freed with it, unseen.
    assert 3000 - 2 * looked["looks"]["pass"] <= kind["count"] <= 3000
    assert 0 < said.found["seen"] <= said.found["reclaimed"]


def test_full_passes_of_its_own_are_looked_at_and_no_pass_is_added_for_it(tmp_path: Path) -> None:
    program = YOUNG.replace("range(3000)", "range(60_000)").replace("(300, 3, 3)", "(300, 3, 1)")
    said = under(tmp_path, OLDEST, program)
    (kind,) = said.kinds("Node -> __dict__['other'] -> Node")
    looked = said.found["looked"][0]
    assert looked["looks"]["pass"] >= 2 and looked["looks"]["exit"] == 1
    assert 0 < kind["count"] < 60_000 and said.found["seen"] < said.found["reclaimed"]
    assert "of them in passes that were looked at" in said.text


#: The parent has garbage when it forks. Its finalizers must not run in the child, and each tells its own.
FORKS = """
import gc, os, subprocess, sys
gc.collect()
gc.disable()
class Owned:
    def __init__(self):
        self.me = self
    def __del__(self):
        os.write(1, b"finalized in %d\\n" % os.getpid())
class Inner: pass
class Outer: pass
def make(kind):
    one = kind()
    one.me = one
Owned()
for _ in range(5):
    make(Outer)
sys.stdout.flush()
child = os.fork()
if child == 0:
    for _ in range(20):
        make(Inner)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
code = "import gc\\ngc.disable()\\nclass Third: pass\\nfor _ in range(7):\\n    t = Third(); t.me = t\\ndel t"
subprocess.run([sys.executable, "-c", code], check=True)
print("pid", os.getpid(), flush=True)
gc.collect()
print("---")
"""


@every_interpreter
def test_each_process_tells_of_its_own_and_a_fork_runs_no_finalizer_of_its_parent(
    tmp_path: Path, interpreter: Interpreter
) -> None:
    said = under(tmp_path, interpreter, FORKS)
    lines = said.printed.splitlines()
    (pid,) = [line.split()[1] for line in lines if line.startswith("pid")]
    assert [line for line in lines if line.startswith("finalized")] == [f"finalized in {pid}"]
    assert [kind["count"] for kind in said.kinds("Inner")] == [20]
    assert [kind["count"] for kind in said.kinds("Outer")] == [5]
    assert [kind["count"] for kind in said.kinds("Third")] == [7]
    assert [kind["count"] for kind in said.kinds("Owned")] == [1]
    assert len(said.found["watched"]) == 3 and not said.found["unended"]
    assert len({name for kind in said.kinds("") for name in kind["processes"]}) == 3


#: By multiprocessing: before 3.13 its forked children run no atexit functions.
POOL = """
import gc, multiprocessing, sys
class Work: pass
def work(number):
    gc.disable()  # a young pass would take them away unseen
    for _ in range(10):
        one = Work()
        one.me = one
if __name__ == "__main__":
    for how in ("fork", "forkserver", "spawn"):
        child = multiprocessing.get_context(how).Process(target=work, args=(1,), name=how)
        child.start()
        child.join()
        assert child.exitcode == 0
    print("---")
"""


@every_interpreter
def test_children_of_multiprocessing_are_looked_at(tmp_path: Path, interpreter: Interpreter) -> None:
    said = under(tmp_path, interpreter, POOL)
    (kind,) = said.kinds("Work -> __dict__['me'] -> Work")
    assert kind["count"] == 30
    names = " ".join(kind["processes"])
    assert all(how in names for how in ("fork", "forkserver", "spawn")), names
    assert not said.found["unended"]  # each has come to its exit, and its recording was closed


KILLED = """
import gc, os, signal, sys
gc.collect()
gc.disable()
class Lost: pass
for _ in range(10):
    one = Lost()
    one.me = one
del one
gc.collect()
print("---", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_had_told_is_in(tmp_path: Path) -> None:
    said = under(tmp_path, LATEST, KILLED, code=128 + signal.SIGKILL)
    (kind,) = said.kinds("Lost")
    assert kind["count"] == 10
    assert len(said.found["unended"]) == 1 and "Killed, or ended by os._exit()" in said.text


#: A pause() that a signal comes just before would never end.
WAITS = """
import gc, time
gc.collect()
gc.disable()
class Held: pass
for _ in range(10):
    one = Held()
    one.me = one
del one
print("up", flush=True)
while True:
    time.sleep(0.05)
"""


def test_ctrl_c_prints_what_there_is(tmp_path: Path) -> None:
    (tmp_path / "case.py").write_text(WAITS)
    process = subprocess.Popen(
        [*options_of(tmp_path), "--", LATEST.executable, str(tmp_path / "case.py")],
        env=environment(tmp_path),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    os.killpg(process.pid, signal.SIGINT)  # as a terminal sends it: to both
    text, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "at least 10 x  Held -> __dict__['me'] -> Held" in text


#: Ends when somebody has collected its garbage and has taken the answer; nobody does but who asks it to.
ASKED = """
import gc, os, signal, weakref
gc.collect()
gc.disable()
class Held: pass
gone = []
def make():
    one = Held()
    one.me = one
    return weakref.ref(one, gone.append)
references = [make() for _ in range(10)]
active = os.path.realpath(os.environ["FROSTLINE_OUTPUT"] + "/active")
print("---", flush=True)
while len(gone) < 10 or [name for name in os.listdir(active) if name.endswith(".look")]:
    signal.sigtimedwait([], 0.01)
os._exit(5)
"""


def test_while_it_runs_it_is_asked(tmp_path: Path) -> None:
    said = under(tmp_path, LATEST, ASKED, "--every", "100ms", code=5)
    (kind,) = said.kinds("Held")
    assert kind["count"] == 10 and said.found["looked"][0]["looks"]["asked"] >= 1
    assert "while it ran" in said.text


TRACED = """
import gc
gc.collect(); gc.disable()
class Held: pass
def make():
    return Held()  # line 6
def caller():
    one = make()  # line 8
    one.me = one
for _ in range(10):
    caller()
gc.collect()
print("---")
"""


@pytest.mark.parametrize("interpreter", sorted({OLDEST, LATEST}, key=str), ids=str)
def test_the_allocation_site_is_told_and_what_tracing_costs(tmp_path: Path, interpreter: Interpreter) -> None:
    said = under(tmp_path, interpreter, TRACED, "--tracemalloc", "2")
    (kind,) = said.kinds("Held")
    (site,) = kind["sites"]
    assert site.replace(f"{tmp_path}/", "") == "case.py:6 < case.py:8"
    (cost,) = said.found["tracemalloc"]
    assert {f"tracemalloc[].{key}" for key in cost} == {
        key for key in documented("cycles -- COMMAND") if key.startswith("tracemalloc[].")
    }
    assert cost["frames"] == 2 and cost["memory"] > 0 and cost["with_ns"] > cost["without_ns"] > 0
    assert "allocated at" in said.text and "ns of CPU more with it" in said.text


def test_no_cycle_is_an_answer(tmp_path: Path) -> None:
    said = under(tmp_path, LATEST, "import gc\ngc.collect()\ngc.collect()\nprint('---')")
    looked = said.found["looked"][0]
    # An interpreter's own imports make some: those are told, and nothing of the program's.
    assert looked["looks"]["exit"] == 1 and not said.kinds("case.py")


def test_json_stands_alone_on_stdout(tmp_path: Path) -> None:
    (tmp_path / "case.py").write_text("print('mine')\n")
    done = subprocess.run(
        [*FROSTLINE, "cycles", "-o", str(tmp_path / "rec"), "--json", "--", LATEST.executable, "case.py"],
        env=environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0 and done.stdout.startswith("{") and "mine\n" in done.stderr


@pytest.mark.parametrize(
    ("words", "slug"),
    [
        ("--every 1s", "cycles-options"),
        ("--span a:b", "cycles-options"),
        ("--tree -- python", "cycles-options"),
        ("--span a:b --all-passes -- python", "cycles-options"),
        ("--span nonsense -- python", "bad-span"),
        ("--span a:b=c|batch=len(args[0]) -- python", "bad-span"),
        ("--every soon -- python", "bad-duration"),
        ("--", "no-command"),
        ("123 -- python", "no-command"),
        ("-o . -- python", "output-exists"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_starts(tmp_path: Path, words: str, slug: str) -> None:
    done = subprocess.run(
        [*FROSTLINE, "cycles", *(word.replace("|", " ") for word in words.split())],
        env=environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2 and f"[{slug}]" in done.stderr, done.stderr
    assert not list(tmp_path.glob("frostline-*"))


def test_what_is_no_python_is_said(tmp_path: Path) -> None:
    def run(*command: str) -> tuple[int, str]:
        done = subprocess.run(
            [*FROSTLINE, "cycles", "-o", str(tmp_path / command[0]), "--", *command],
            env=environment(tmp_path),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return done.returncode, done.stderr

    code, errors = run("no-such-command")
    assert code == 127 and "[not-found]" in errors and "Traceback" not in errors
    code, errors = run("true")
    assert code == 1 and "[no-looks]" in errors
