"""``frostline cycles -- COMMAND``: what the program sees of it, and what runs where (B5; cases 42, 51)."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.heap.commands import under
from tests.interpreters import Interpreter, every_interpreter, found
from tests.reach.under_run import FROSTLINE, environment

LATEST = found()[-1]

THREAD = """
import gc, threading
gc.collect()
gc.disable()
class Writer:
    def __init__(self):
        self.me = self
    def __del__(self):
        ran.append(threading.get_ident())
ran = []
for _ in range(3):
    Writer()
thread = threading.Thread(target=gc.collect)
thread.start()
thread.join()
assert len(ran) == 3 and threading.get_ident() not in ran
print("---")
"""


@every_interpreter
def test_case_42_finalizers_in_another_thread_are_told_by_type(
    tmp_path: Path, interpreter: Interpreter
) -> None:
    said = under(tmp_path, interpreter, THREAD)
    (one,) = said.found["elsewhere"]
    assert one["types"] == [{"type": "Writer", "count": 3}] and one["passes"] == 1 and one["tid"] > 0
    assert "Finalizers that ran outside the main thread" in said.text and "Writer (3)" in said.text


#: A collect in a callback and one in a finalizer do nothing, and are no pass that found nothing.
NESTED = """
import gc
gc.collect()
gc.disable()
results = []
class Held: pass
def make():
    one = Held()
    one.me = one
def seen(phase, info):
    if phase == "stop" and len(results) < 2:  # the pass that frees what was kept calls it too
        make()
        results.append(gc.collect())
class Finalized:
    def __init__(self):
        self.me = self
    def __del__(self):
        make()
        results.append(gc.collect())
Finalized()
gc.callbacks.append(seen)
gc.collect()
gc.callbacks.remove(seen)
print(results)
print("---")
"""


@every_interpreter
def test_case_51_a_collect_in_a_callback_is_skipped_and_no_look(
    tmp_path: Path, interpreter: Interpreter
) -> None:
    said = under(tmp_path, interpreter, NESTED)
    assert said.printed.splitlines() == ["[0, 0]"]
    assert [kind["count"] for kind in said.kinds("Finalized")] == [1]
    done = subprocess.run(
        [*FROSTLINE, "report", str(tmp_path / "rec")],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "skipped: a pass was running" in done.stdout


#: A callback of the program's that takes itself out in the middle of a pass takes our "stop" with it.
UNPAIRED = """
import gc
gc.collect()
gc.disable()
class Held: pass
def make():
    one = Held()
    one.me = one
def once(phase, info):
    if phase == "stop":
        gc.callbacks.remove(once)
gc.callbacks.insert(len(gc.callbacks) - 1, once)
make()
gc.collect()
make()
gc.collect()
print(gc.get_debug(), gc.garbage)
print("---")
"""


def test_the_flag_goes_off_at_the_next_stop_where_ours_never_came(tmp_path: Path) -> None:
    said = under(tmp_path, LATEST, UNPAIRED)
    assert said.printed.splitlines() == ["0 []"]
    assert [kind["count"] for kind in said.kinds("Held")] == [2]


#: A program that keeps its own garbage by the same flag.
KEEPS = """
import gc
gc.collect()
gc.disable()
gc.set_debug(gc.DEBUG_SAVEALL)
class Held: pass
one = Held()
one.me = one
del one
gc.collect()
print(sum(type(one) is Held for one in gc.garbage), gc.get_debug() == gc.DEBUG_SAVEALL)
gc.set_debug(0)
gc.garbage.clear()
print("---")
"""


def test_what_the_program_keeps_itself_is_left_to_it(tmp_path: Path) -> None:
    said = under(tmp_path, LATEST, KEEPS)
    assert said.printed.splitlines() == ["1 True"]
    assert [kind["count"] for kind in said.kinds("Held")] == [1]  # at the exit, as everything


def test_a_look_leaves_nothing_of_its_own_behind(tmp_path: Path) -> None:
    """Of the second of two passes nothing is found, and the program's heap has not grown (B5)."""
    program = """
    import gc
    gc.disable()
    class Held: pass
    def make():
        one = Held()
        one.me = one
    for _ in range(3):
        make()
        gc.collect()
    before = len(gc.get_objects())
    for _ in range(20):
        make()
        gc.collect()
    print(len(gc.get_objects()) - before <= 2, gc.collect())
    print("---")
    """
    said = under(tmp_path, LATEST, program)
    assert said.printed.splitlines() == ["True 0"]
    assert [kind["count"] for kind in said.kinds("Held")] == [23]
