"""``frostline cycles --span X -- COMMAND``: the cycles that are made inside a call (B10)."""

from __future__ import annotations

from pathlib import Path

from tests.heap.commands import under
from tests.interpreters import Interpreter, every_interpreter, found

LATEST = found()[-1]

ENGINE = """
import gc, os, sys, threading

class Ticket: pass
class Batch: pass
class Stray: pass

def cycle(kind):
    one = kind()
    one.me = one

class Engine:
    def step(self, number):
        cycle(Ticket)
        if number == 1:
            cycle(Batch)  # caches and the like: the first call only
        return number

    def nested(self, number):
        return self.step(number) if number else 0

    def collects(self):
        cycle(Ticket)
        gc.collect()
        cycle(Ticket)

    def fails(self):
        cycle(Ticket)
        raise KeyError("on purpose")

    def rows(self):
        cycle(Ticket)
        yield 1

    async def arrive(self):
        cycle(Ticket)

    def waits(self, go, done):
        go.set()
        done.wait()

    def forks(self, number):
        child = os.fork()
        if child == 0:
            self.step(3)
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        return self.step(number)

    def stays(self, inside):
        cycle(Ticket)
        inside.set()
        threading.Event().wait()

    def never(self):
        pass
"""


def spanned(folder: Path) -> None:
    (folder / "engine.py").write_text(ENGINE)


STEPS = """
import gc
from engine import Engine, Stray, cycle
thresholds = gc.get_threshold()
engine = Engine()
for number in range(1, 9):
    cycle(Stray)
    assert engine.step(number) == number
    cycle(Stray)
print(gc.get_threshold() == thresholds, gc.get_debug(), gc.garbage, gc.isenabled())
print("---")
"""


@every_interpreter
def test_what_is_made_inside_the_calls_is_told_and_nothing_else(
    tmp_path: Path, interpreter: Interpreter
) -> None:
    spanned(tmp_path)
    said = under(tmp_path, interpreter, STEPS, "--span", "engine:Engine.step=step", "--calls", "4")
    assert said.printed.splitlines() == ["True 0 [] True"]
    (kind,) = said.kinds("Ticket", "step")
    assert (kind["count"], kind["looks"]) == (4, 4)
    (kind,) = said.kinds("Batch", "step")
    assert (kind["count"], kind["looks"]) == (1, 1)
    assert not said.kinds("Stray", "step") and len(said.found["looked"]) == 1
    assert "step: at least 5 cycles" in said.text and "in 4 of 4 calls" in said.text
    assert "in 1 of 4 calls" in said.text and "other threads" not in said.text


KINDS = """
import asyncio
from engine import Engine
engine = Engine()
engine.collects()
try:
    engine.fails()
except KeyError:
    pass
list(engine.rows())
asyncio.run(engine.arrive())
print("---")
"""


@every_interpreter
def test_calls_of_each_kind(tmp_path: Path, interpreter: Interpreter) -> None:
    spanned(tmp_path)
    names = ("collects", "fails", "rows", "arrive", "never", "missing")
    spans = [word for name in names for word in ("--span", f"engine:Engine.{name}={name}")]
    said = under(tmp_path, interpreter, KINDS, *spans)
    assert [looked["span"] for looked in said.found["looked"]] == list(names)
    # What the program's own pass reclaims in the middle of the call is in it.
    (kind,) = said.kinds("Ticket", "collects")
    assert kind["count"] == 2 and kind["looks"] == 1
    assert "1 pass ran inside the calls" in said.text
    assert [kind["count"] for kind in said.kinds("Ticket", "fails")] == [1]
    assert [kind["count"] for kind in said.kinds("Ticket", "arrive")] == [1]
    for name in ("rows", "never", "missing"):
        assert f"{name}: no call of it was looked at" in said.text


def test_a_fork_inside_a_call_leaves_the_call_to_the_parent(tmp_path: Path) -> None:
    """The child's own calls are looked at; the one that it was forked in has not begun there."""
    spanned(tmp_path)
    program = "from engine import Engine\nEngine().forks(2)\nprint('---')"
    spans = ("--span", "engine:Engine.forks=forks", "--span", "engine:Engine.step=step")
    said = under(tmp_path, LATEST, program, *spans)
    forks, step = said.found["looked"]
    # Of calls within each other the outer one is looked at.
    assert (forks["looks"]["span"], step["looks"]["span"]) == (1, 1)
    ((parent, count),) = said.kinds("Ticket", "forks")[0]["processes"].items()
    ((child, other),) = said.kinds("Ticket", "step")[0]["processes"].items()
    assert count == other == 1 and parent != child


THREADS = """
import threading
from engine import Engine, Stray, cycle
go, done = threading.Event(), threading.Event()
def beside():
    go.wait()
    cycle(Stray)
    done.set()
thread = threading.Thread(target=beside)
thread.start()
Engine().waits(go, done)
thread.join()
print("---")
"""


def test_other_threads_are_named_as_a_doubt(tmp_path: Path) -> None:
    spanned(tmp_path)
    said = under(tmp_path, LATEST, THREADS, "--span", "engine:Engine.waits=waits")
    assert said.found["looked"][0]["others_ran"] and "other threads or tasks may have run" in said.text
    assert [kind["count"] for kind in said.kinds("Stray", "waits")] == [1]


def test_a_program_that_ends_inside_a_call_tells_of_it(tmp_path: Path) -> None:
    """A call in a thread that the exit does not wait for."""
    spanned(tmp_path)
    program = """
    import threading
    from engine import Engine
    inside = threading.Event()
    threading.Thread(target=Engine().stays, args=(inside,), daemon=True).start()
    inside.wait()
    print("---")
    """
    said = under(tmp_path, LATEST, program, "--span", "engine:Engine.stays=stays")
    (looked,) = said.found["looked"]
    assert looked["unfinished"] == 1 and "had not ended when the process did" in said.text
    assert [kind["count"] for kind in said.kinds("Ticket", "stays")] == [1]
