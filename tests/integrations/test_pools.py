"""Worker processes of pools: frozen between their initializer and their first task (C1, C9)."""

from __future__ import annotations

from pathlib import Path

from frostline import format as layout
from frostline.policy.engine import BY_INTEGRATION
from frostline.recording.session import read_session
from tests.integrations.hosts import boundaries, frozen
from tests.interpreters import Interpreter, every_interpreter
from tests.reach.conftest import with_frostline  # noqa: F401
from tests.reach.under_run import run, write

POOLS = """
import gc, json, multiprocessing, os, sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.pool import ThreadPool

HEAP = []

def initialize():
    HEAP.extend([i] for i in range(30_000))

def task(_):
    moments = sys.modules["frostline.policy.moments"]
    return os.getpid(), gc.get_freeze_count(), moments.in_flight()

if __name__ == "__main__":
    inherited = [[i] for i in range(60_000)]
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        at_least = 90_000 if method == "fork" else 30_000
        with context.Pool(2, initialize, maxtasksperchild=2) as pool:
            answers = pool.map(task, range(6), chunksize=1)
        assert len({pid for pid, _, _ in answers}) > 2, answers     # recycled ones are frozen as well
        with ProcessPoolExecutor(2, context, initialize) as pool:
            answers += pool.map(task, range(3))
        for pid, frozen, in_flight in answers:
            assert pid != os.getpid() and frozen >= at_least and in_flight == 1, (method, answers)
            print(pid)
    with ThreadPool(2, initialize) as pool:
        assert pool.map(task, range(2)) == [(os.getpid(), START, 0)] * 2
"""


@every_interpreter
def test_a_worker_is_frozen_before_its_first_task(
    interpreter: Interpreter,
    with_frostline: str,  # noqa: F811
    tmp_path: Path,
) -> None:
    start = "375 if sys.version_info[:2] == (3, 12) else 0"  # what the interpreter itself has frozen
    program = write(tmp_path / "pools.py", POOLS.replace("START", start))
    ran = run(tmp_path, with_frostline, str(program), options=("--policy", "freeze"))
    assert (ran.code, ran.errors) == (0, "")
    worked = {int(pid) for pid in ran.output.split()}
    workers = [series for series in read_session(ran.folder).series if series.pid in worked]
    assert len(workers) == len(worked)
    for series in workers:
        assert boundaries(series) == [BY_INTEGRATION] and frozen(series) >= 30_000


INHERITS = """
import gc, multiprocessing, os

class Finalized:
    def __init__(self):
        self.me = self
    def __del__(self):
        os.write(1, b"finalized in %d\\n" % os.getpid())

def task(_):
    import sys
    return gc.get_freeze_count(), len(gc.get_objects())

if __name__ == "__main__":
    gc.disable()
    keep = [[i] for i in range(100_000)]
    garbage = Finalized()
    del garbage
    with multiprocessing.get_context("fork").Pool(1) as pool:
        (frozen, tracked), = pool.map(task, [0])
    assert frozen > 100_000 and tracked < 20_000, (frozen, tracked)
    os.write(1, b"parent %d\\n" % os.getpid())
    gc.collect()
"""


@every_interpreter
def test_a_forked_worker_leaves_alone_what_it_has_inherited(
    interpreter: Interpreter,
    with_frostline: str,  # noqa: F811
    tmp_path: Path,
) -> None:
    """Its own pass walks what it has made itself: no page is copied, no finalizer runs twice."""
    program = write(tmp_path / "inherits.py", INHERITS)
    ran = run(tmp_path, with_frostline, str(program), options=("--policy", "freeze"))
    assert (ran.code, ran.errors) == (0, "")
    first, second = ran.output.splitlines()
    assert first.split()[-1] == second.split()[-1]


IDLE = """
import gc, multiprocessing, os, sys
from concurrent.futures import ProcessPoolExecutor

def add(_):
    import frostline
    return frostline.startup_complete()

def due(_):
    return sys.modules["frostline.policy.engine"]._due()

if __name__ == "__main__":
    import time
    def settles(run):
        assert run(add) == -1                   # in flight: a splice
        pause = 0.2
        while run(due):                         # until the worker has waited for as long as a walk takes
            time.sleep(pause)
            pause = min(2 * pause, 2.5)
    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        with context.Pool(1) as pool:
            settles(lambda task: pool.apply(task, (0,)))
        with ProcessPoolExecutor(1, context) as pool:
            settles(lambda task: pool.submit(task, 0).result())
"""


@every_interpreter
def test_a_worker_that_waits_is_idle(
    interpreter: Interpreter,
    with_frostline: str,  # noqa: F811
    tmp_path: Path,
) -> None:
    program = write(tmp_path / "idle.py", IDLE)
    ran = run(tmp_path, with_frostline, str(program), options=("--policy", "follow"))
    assert (ran.code, ran.errors) == (0, "")
    walks = [
        mark
        for series in read_session(ran.folder).series
        for mark in series.marks
        if mark.kind == layout.MARK_LINE and mark.values[0] == layout.LINE_WHOLE_HEAP
    ]
    assert len(walks) == 8  # at the boundary, and one that puts the splice right
