"""Objects that look like something else, or are made oddly: named as what they are, and no look fails."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.interpreters import Interpreter, every_interpreter

SOURCE = Path(__file__).parent.parent.parent / "src"
#: What each program begins with.
BEGIN = """
import gc, sys
sys.path.insert(0, sys.argv[1])
from frostline.heap import alive, census, cycles, plain, saved
gc.disable()
gc.collect()  # what importing has left
class Thing: pass
def look():
    kept = saved.saved_pass()
    told = cycles.cycles_of(kept)
    saved.let_go(kept)
    plain.dumps(cycles.as_plain(told))
    return told.kinds
"""


def _runs(interpreter: Interpreter, program: str) -> None:
    ran = subprocess.run(
        [interpreter.executable, "-c", BEGIN + program, str(SOURCE)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


#: A program has a Task, a Token and a Context of its own, and modules named after what they wrap.
NAMESAKES = """
class Context: pass
class ContextVar: pass
class Token: pass
def named(module, name): return type(name, (), {"__module__": module})
others = [
    named("jobs", "Task"), named("jobs", "Future"), named("utils.lru_cache", "Entry"),
    named("my_ctypes", "Handle"), named("weakref_tools", "Entry"),
]
for kind in (Context, ContextVar, Token, *others):
    one, two = kind(), kind()
    one.other, two.other = two, one
    del one, two
    (found,) = look()
    assert found.pattern == "objects that refer to each other, as parent and child", (kind, found.pattern)
for kind in (Context, ContextVar, Token):
    kept = [kind()]
    kept[0].thing = Thing()
    found = alive.holders("__main__:Thing")
    assert found.ways == [f"__main__.kept[0] ({kind.__name__}).thing"], found.ways
    assert found.remedies == [("", "")], found.remedies
"""


@every_interpreter
def test_a_name_alone_makes_nothing_what_it_is_not(interpreter: Interpreter) -> None:
    _runs(interpreter, NAMESAKES)


#: Classes without a module (as those of SWIG are), made of a copy of another one's namespace, with another
#: one's slot; a number that has no repr; a namespace that is no dict, in a frame that an exception keeps.
MADE = """
space = {}
exec("Bare = type('Bare', (), {})", space)
Bare = space["Bare"]
class First: pass
Copy = type("Copy", (), dict(vars(First)))
class Slots: __slots__ = ("there",)
Other = type("Other", (), {"there": vars(Slots)["there"]})
for kind in (Bare, Copy, Other):
    one = kind()
    one.me = one
    del one
    (found,) = look()
    assert kind.__name__ in found.path and found.count == 1, found.path
table = {}
table[10 ** 5000] = table
del table
(found,) = look()
assert found.path == "dict[<int>] -> dict", found.path

asked = []
class Names:
    def __init__(self): self.held = {}
    def __getitem__(self, name): return self.held[name]
    def __setitem__(self, name, value): self.held[name] = value
    def __iter__(self): asked.append("iter"); return iter(())
    def keys(self): asked.append("keys"); return ()
def fails(names):
    try: exec("1 / 0", {"__builtins__": {}}, names)
    except ZeroDivisionError as error:
        names["error"] = error.with_traceback(error.__traceback__.tb_next)
fails(Names())
(found,) = look()
assert "Names" in found.path and not asked, (found.path, asked)

kept = [Bare(), Copy(), Other()]
for one in kept: one.thing = [Thing()]
assert alive.holders("__main__:Thing").count == 3
kept *= 1_000
plain.dumps(census.as_plain(census.take()))
"""


@every_interpreter
def test_no_look_fails_on_what_was_made_in_odd_ways(interpreter: Interpreter) -> None:
    _runs(interpreter, MADE)


#: One that its finalizer brings back to life, and one that cuts its own cycle in it. A pass clears the weak
#: references to either.
RISEN = """
risen = []
class Phoenix:
    def __init__(self): self.me = self
    def __del__(self): risen.append(self)
class Cutter:
    def __init__(self): self.me = self
    def __del__(self): del self.me
Phoenix(), Cutter()
found = look()
assert len(risen) == 1 and risen[0].me is risen[0]
assert [(kind.path.split(" ")[0], kind.count, kind.finalized) for kind in found] == [("Cutter", 1, True)], (
    [kind.path for kind in found]
)
"""


@every_interpreter
def test_what_lives_again_is_not_told_as_freed(interpreter: Interpreter) -> None:
    _runs(interpreter, RISEN)


#: As with mocks: a class for each object. And what 3.12 has frozen itself is nobody's freeze.
ALIKE = """
kept = [type("Made", (), {})() for _ in range(3_000)]
counted = census.as_plain(census.take(paths=False))
(row,) = [row for row in counted["rows"] if row[0] == "Made"]
assert row[1] == 3_000 and sum(row[4]) == 3_000, row
assert counted["frozen"] == 0, counted["frozen"]
gc.freeze()
assert census.as_plain(census.take(paths=False))["frozen"] > 3_000
"""


@every_interpreter
def test_classes_of_one_name_are_one_row_and_the_interpreters_own_is_not_frozen(
    interpreter: Interpreter,
) -> None:
    _runs(interpreter, ALIKE)
