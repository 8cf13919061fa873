"""Cases 01, 15 and 43 as real processes under ``frostline run``, on every interpreter."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.interpreters import SOURCE, Interpreter, every_interpreter
from tests.reach.under_run import FROSTLINE, environment, run, running, write

# --- 01: what one process sets, spawned children do not have --------------------------
SPAWN_NOT_INHERITED = """
import gc, multiprocessing as mp, subprocess, sys

def report(how, queue, end):
    queue.put((how, gc.get_threshold(), gc.isenabled()))
    end.wait(120)

def nested(how, queue, end):
    context = mp.get_context("spawn")
    inner = context.Process(target=report, args=(how, queue, end), name="inner")
    inner.start()
    inner.join()

if __name__ == "__main__":
    print("parent", gc.get_threshold(), gc.isenabled(), flush=True)
    context = mp.get_context("spawn")
    queue, end = context.SimpleQueue(), context.Event()
    children = []
    for how in ("fork", "forkserver", "spawn"):
        children.append(mp.get_context(how).Process(target=report, args=(how, queue, end), name=how))
    children.append(context.Process(target=nested, args=("spawn in spawn", queue, end), name="outer"))
    for child in children:
        child.start()
    for _ in children:
        print(*queue.get(), sep=" ", flush=True)
    code = "import gc; print('subprocess', gc.get_threshold(), gc.isenabled())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    print(done.stdout, end="", flush=True)
    sys.stdin.readline()
    end.set()
    for child in children:
        child.join()
"""


@every_interpreter
def test_case_01_a_policy_reaches_every_kind_of_child(interpreter: Interpreter, tmp_path: Path) -> None:
    case = write(tmp_path / "case.py", SPAWN_NOT_INHERITED)
    options = ("--policy", "tune:50000,20,20")
    with running(tmp_path, interpreter.executable, str(case), options=options) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline().strip() for _ in range(6)]
        kinds = ("parent", "fork", "forkserver", "spawn", "spawn in spawn", "subprocess")
        assert sorted(lines) == sorted(f"{how} (50000, 20, 20) True" for how in kinds), process.poll()
        done = subprocess.run(
            [*FROSTLINE, "status", "rec", "--json"],
            env=environment(tmp_path),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )
        live = [row for row in json.loads(done.stdout)["rows"] if row["alive"] and row["recorded"]]
        # The parent, four children, the one inside; and multiprocessing's own helpers.
        assert len(live) >= 6
        assert {row["policy"] for row in live} == {"tune:50000,20,20"}
        assert {row["thresholds"] for row in live} == {"50000,20,20"}
        names = " ".join(row["name"] for row in live)
        assert all(name in names for name in ("forkserver", "spawn", "outer", "inner")), names
        _, errors = process.communicate("\n", timeout=120)
        assert process.returncode == 0, errors


# --- 15: a finalizer in a critical section ----------------------------------------------
CRITICAL_SECTION = """
import gc, threading
import frostline

capturing, illegal = False, 0

class Kernel:
    def __init__(self): self.me = self
    def __del__(self):
        global illegal
        illegal += capturing

def capture(inner=None, n=3000):
    global capturing
    capturing = True
    for i in range(n):
        Kernel()
        if inner is not None and i == n // 2:
            inner()
    capturing = False

def nested():
    global capturing
    with frostline.defer():
        for _ in range(3000): Kernel()
    gc.enable()                                  # a library that means well

def beside():
    threads = [threading.Thread(target=lambda: [Kernel() for _ in range(3000)]) for _ in range(3)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()

def failing():
    raise KeyError("a capture that fails")

usual = gc.isenabled(), gc.get_threshold()
frostline.startup_complete()
in_force = gc.isenabled(), gc.get_threshold()
capture()
assert illegal > 0                               # without the region, freeze or no freeze
illegal = 0
for inner in (None, nested, beside):
    with frostline.defer():
        capture(inner)
    assert illegal == 0, inner
    assert (gc.isenabled(), gc.get_threshold()) == in_force, inner
    illegal = 0
try:
    with frostline.defer():
        capture(failing)
except KeyError:
    capturing = False
assert illegal == 0 and (gc.isenabled(), gc.get_threshold()) == in_force
gc.disable()                                     # the caller has it off: it stays off
for inner in (None, nested, beside):
    with frostline.defer():
        capture(inner)
    assert illegal == 0 and not gc.isenabled(), inner
gc.enable()
illegal = 0
capture()
assert illegal > 0                               # and then it is as before
print("done")
"""


@every_interpreter
@pytest.mark.parametrize("policy", ["off", "freeze", "follow", "sync:3"])
def test_case_15_no_finalizer_in_a_critical_section(
    interpreter: Interpreter, policy: str, tmp_path: Path
) -> None:
    case = write(tmp_path / "case.py", CRITICAL_SECTION)
    ended = run(
        tmp_path, interpreter.executable, str(case), options=("--policy", policy), PYTHONPATH=str(SOURCE)
    )
    assert (ended.code, ended.output, ended.errors) == (0, "done\n", "")


# --- 43: stragglers ---------------------------------------------------------------------
STRAGGLERS = """
import gc, multiprocessing as mp
import frostline

STEPS, RANKS = 300, 4

def rank(r, barrier, queue):
    heap = [[i] for i in range(20_000 + 7_000 * r)]        # ranks never have identical heaps
    gc.collect()
    gc.set_threshold(500, 3, 3)
    hit, step = set(), 0
    def watch(phase, info):
        if phase == "start" and info["generation"] == 2: hit.add(step)
    gc.callbacks.append(watch)
    keep = []
    for step in range(1, STEPS + 1):
        keep.extend([i] for i in range(300 + 20 * r))
        frostline.step()
        barrier.wait()                                     # the job is as fast as its slowest rank
    gc.callbacks.remove(watch)
    queue.put(sorted(hit))

if __name__ == "__main__":
    context = mp.get_context("spawn")
    queue, barrier = context.SimpleQueue(), context.Barrier(RANKS)
    ranks = [context.Process(target=rank, args=(r, barrier, queue)) for r in range(RANKS)]
    for one in ranks: one.start()
    hits = [queue.get() for _ in ranks]
    for one in ranks: one.join()
    print(max(map(len, hits)), *sorted(set().union(*hits)))
"""


@every_interpreter
def test_case_43_the_job_waits_on_as_many_steps_as_there_are_collections(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    case = write(tmp_path / "case.py", STRAGGLERS)
    waited = {}
    for policy in ("off", "sync:75"):
        place = tmp_path / policy.partition(":")[0]
        place.mkdir()
        ended = run(
            place, interpreter.executable, str(case), options=("--policy", policy), PYTHONPATH=str(SOURCE)
        )
        assert (ended.code, ended.errors) == (0, "")
        waited[policy] = [int(word) for word in ended.output.split()]
    # Alone, each rank collects on steps of its own, so the job waits on more steps than any of them has.
    most, *union = waited["off"]
    assert len(union) > most > 0
    most, *union = waited["sync:75"]
    assert (most, union) == (4, [75, 150, 225, 300])
