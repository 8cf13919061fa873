"""``why-alive`` follows every kind of root, the heap frozen or not, and keeps nothing alive itself."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from frostline.report.heap import alive
from tests.commands.test_control import frostline, up
from tests.heap.test_live import told
from tests.interpreters import Interpreter, every_interpreter, found
from tests.reach.under_run import running

HERE = Path(__file__).parent
SOURCE = HERE.parent.parent / "src"

FRAME = "frame of fails (held.py:"
#: Case -> words of its way, and of the kind of holder that is told beside it; by a thread that runs, where
#: one of several ways is as short, any of them.
HELD: dict[str, tuple[tuple[str, ...], str]] = {
    "module_global": (("__main__.kept",), ""),
    "container": (("__main__.cache[<tuple>]['inner'][1]",), ""),
    "attribute": (("__main__.kept (Holder).thing",), ""),
    "class_attribute": (("__main__.Holder.shared[0]",), ""),
    "cache_of_method": (
        ("__main__.Own.method (lru_cache of function method (held.py:", "{key}[0]"),
        "an lru_cache on a method",
    ),
    "bounded_cache_of_method": (
        ("__main__.Own.bounded (lru_cache of function bounded (held.py:",),
        "an lru_cache on a method",
    ),
    "cache_of_function": (("__main__.cached (lru_cache of function cached (held.py:",), "an lru_cache: it"),
    "last_traceback": (("sys.last_traceback (" + FRAME, ") variable thing"), "the last error that nobody"),
    "last_exc": (("sys.last_exc (KeyError).__traceback__ (" + FRAME,), "the last error that nobody caught"),
    "kept_exception": (
        ("__main__.errors[0] (KeyError).__traceback__ (" + FRAME, ") variable thing"),
        "an exception that is kept",
    ),
    "kept_traceback": (("__main__.errors[0] (" + FRAME, ") variable thing"), "a traceback that is kept"),
    "deep_exception": (
        ("__main__.errors[0] (KeyError).__traceback__ (" + FRAME,),
        "an exception that is kept",
    ),
    "handled_exception": (
        ("the exception that a thread is handling (KeyError)", FRAME, ") variable thing"),
        "an exception that is being handled",
    ),
    "kept_frame": (("__main__.kept (" + FRAME, ") variable thing"), "a frame that is kept"),
    "running_function": (("work (held.py:", ") variable thing"), ""),
    "kept_and_at_work": (("__main__.cache['thing'], and now by work (held.py:", ") variable thing"), ""),
    "argument": (("inner (held.py:", ") variable things[0]"), ""),
    "loop": (("[1][0]; who holds that first one is not seen", "a running function beside its variables"), ""),
}
HELD_ON: dict[str, tuple[tuple[str, ...], str]] = {
    "generator": (
        ("__main__.running[0] (generator make (held_on.py:", "at line", "variable thing"),
        "a generator",
    ),
    "generator_in_generator": (
        ("generator outer (", "(generator inner (held_on.py:", "things[0]"),
        "a generator",
    ),
    "coroutine": (
        ("__main__.running[0] (coroutine make (held_on.py:", ") variable thing"),
        "a coroutine that",
    ),
    "asynchronous_generator": (
        ("__main__.running[0] (async generator make (held_on.py:", ") variable thing"),
        "an asynchronous generator",
    ),
    "task": (
        ("_scheduled[0]", "Task)", "(coroutine sleeper (held_on.py:", ") variable thing"),
        "a coroutine that",
    ),
    "closure": (("__main__.callbacks[0] (function <lambda> (held_on.py:", ") cell thing"), "a closure"),
    "default_argument": (("(function callback (held_on.py:", ").__defaults__[0][0]"), "the default value"),
    "bound_method": (("__main__.callbacks[0] (method call (held_on.py:", ").__self__"), "a bound method"),
    "partial": (("__main__.callbacks[0] (functools.partial", ").args[0]"), "a functools.partial"),
    "context_variable": (("the current context[variable]",), "the value of a context variable"),
    "context_of_a_thread": (("Context", "[variable]"), "the value of a context variable"),
    "kept_context": (("__main__.kept (", "Context)[variable][0]"), "the value of a context variable"),
    "many_context_variables": (("__main__.kept (", "Context)[v33]"), "the value of a context variable"),
    "context_default": (("__main__.kept (", "ContextVar).default"), "the default of a context variable"),
    "thread_local": (("__main__.local (_thread._local, a thread's own).thing",), "a thread-local"),
    "thread_local_of_a_thread": (("__main__.kept (", "Local, a thread's own).thing[0]"), "a thread-local"),
    "only_a_cycle": (("held by a cycle of its own alone",), ""),
}
#: What nothing leads to that can be asked: frozen, it cannot be found by a walk. (From 3.14 on a thread keeps
#: its context where it can be found.)
C_ALONE = {"loop", "context_of_a_thread", "only_a_cycle"}
#: A walk tells the shortest way, which is what a function has in a variable.
SHORTEST = {"kept_and_at_work": ("work (held.py:", ") variable thing")}


def looked_at(interpreter: Interpreter, *arguments: str) -> dict[str, dict[str, Any]]:
    ran = subprocess.run(
        [interpreter.executable, "-X", "utf8", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return {row["case"]: row for row in map(json.loads, ran.stdout.splitlines())}


def _wrong(name: str, look: dict[str, Any], words: tuple[str, ...], pattern: str) -> list[str]:
    if look["count"] != 1:
        return [f"{name}: {look['count']} found"]
    (way,), ((kind, remedy),) = look["ways"], look["remedies"]
    at, missing = 0, []
    for word in words:  # in this order
        place = way.find(word, at)
        missing += [word] if place < 0 else []
        at = max(at, place)
    if (
        missing
        or not kind.startswith(pattern)
        or bool(kind) != bool(pattern)
        or bool(remedy) != bool(pattern)
    ):
        return [f"{name}: {missing} not in {way!r}, or not {pattern!r}: {kind!r}"]
    return []


@pytest.mark.parametrize(("script", "held"), (("held", HELD), ("held_on", HELD_ON)), ids=("held", "held_on"))
@every_interpreter
def test_each_root_is_named_and_nothing_is_kept(
    interpreter: Interpreter, script: str, held: dict[str, tuple[tuple[str, ...], str]]
) -> None:
    seen = looked_at(interpreter, str(HERE / f"{script}.py"), str(SOURCE))
    assert set(seen) == set(held)
    wrong = []
    for name, (words, pattern) in held.items():
        row = seen[name]
        wrong += _wrong(name, row, words, pattern)
        if row["left"]:
            wrong.append(f"{name}: {row['left']} alive once the holder has let go")
        # All of it frozen: nothing is seen without a walk, and with one as much as before.
        if row["unwalked"]:
            wrong.append(f"{name}: {row['unwalked']} frozen objects were seen without a walk")
        walked = row["walked"]
        if name not in C_ALONE:
            wrong += _wrong(f"{name}, frozen", walked, SHORTEST.get(name, words), pattern)
            if walked["among_frozen"] != 1:
                wrong.append(f"{name}: not among the frozen")
        elif walked["count"] and not (name == "context_of_a_thread" and interpreter.version >= (3, 14)):
            wrong.append(f"{name}: found frozen by {walked['ways']}")
        # What is left is the interpreter's own: constants of code, and what its types keep.
        if not 0 <= walked["frozen"] - walked["reached"] < 2_000:
            wrong.append(f"{name}: {walked['reached']} of {walked['frozen']} frozen objects reached")
        if walked["cut"]:
            wrong.append(f"{name}: cut")
    assert not wrong, "\n".join(wrong)


#: A module whose C code keeps dead objects for later use (3.12): asked for its referents it would hand them
#: out, and the next pass would have no end.
FREELIST = """
import asyncio, gc, sys
sys.path.insert(0, sys.argv[1])
from frostline.heap import alive
class Thing: pass
loop = asyncio.new_event_loop()
future = loop.create_future()
iterators = [iter(future) for _ in range(5)]
# More holders in one layer than are asked for one by one: all of the heap is gone through.
thing = Thing()
many = [[thing] for _ in range(1_000)]
del iterators
gc.freeze()
for _ in range(3):
    assert alive.holders("__main__:Thing", frozen=True).count == 1
gc.unfreeze()
for _ in range(3):
    assert alive.holders("__main__:Thing").count == 1
gc.collect()
assert [type(iter(future)) for _ in range(20)]
gc.collect()
loop.close()
print('{"case": "done"}')
"""


@every_interpreter
def test_a_module_is_not_asked_for_what_its_c_code_keeps(interpreter: Interpreter) -> None:
    assert "done" in looked_at(interpreter, "-c", FREELIST, str(SOURCE))


#: Threads that make and drop objects while another one walks; what they make is no frozen object.
BUSY = """
import gc, json, sys, threading
sys.path.insert(0, sys.argv[1])
from frostline.heap import alive, census, forward, roots
class Thing: pass
class Made: pass
old = [Thing() for _ in range(50_000)]
gc.collect()
gc.disable()
gc.freeze()
done, made = threading.Event(), []
def churn():
    while not done.is_set():
        made.append([Made()])
        if len(made) > 1000: del made[:500]
threads = [threading.Thread(target=churn) for _ in range(2)]
sys.setswitchinterval(1e-4)
for thread in threads: thread.start()
try:
    for _ in range(3):
        walk = forward.Walk(roots.Roots())
        assert sum(type(one) is Thing for one in walk.frozen) == 50_000
        assert not [one for one in walk.frozen if type(one) is Made]
        walk.drop()
    found = alive.holders("__main__:Thing", frozen=True)
    assert found.among_frozen == 50_000 and found.ways[0].startswith("__main__.old["), found.ways
finally:
    done.set()
    for thread in threads: thread.join()
counted = census.take(frozen=True)
rows = {row.name: row.count for row in counted.frozen_rows}
assert rows["Thing"] == 50_000 and "Thing" not in {row.name for row in counted.rows}
assert counted.reached <= counted.frozen and not counted.cut
(length, way), = [(length, way) for length, kind, way in counted.largest if length == 50_000]
assert way == "__main__.old", way
# No time: that is said, and nothing is taken for frozen that is not.
late = forward.Walk(roots.Roots(), until=0.0)
assert late.cut and not late.frozen
none = alive.holders("__main__:Thing", budget=1e-9, frozen=True)
assert none.cut and not none.count and none.reached == 0
print('{"case": "done"}')
"""


@pytest.mark.parametrize(
    "interpreter", sorted({*found()[:1], *found()[2:3], *found()[-1:]}, key=str), ids=str
)
def test_other_threads_go_on_while_it_walks(interpreter: Interpreter) -> None:
    assert "done" in looked_at(interpreter, "-c", BUSY, str(SOURCE))


#: Graphs drawn at random, frozen with their garbage: what is reached, and in how many steps, is what the
#: definition says. And holders looked for in either way are the same.
GRAPHS = """
import gc, random, sys
sys.path.insert(0, sys.argv[1])
from frostline.heap import alive, census, forward, hang, referents, roots
class Node(list): __slots__ = ("number",)
def distances(edges, count):
    far, layer = {0: 0}, [0]
    while layer:
        after = []
        for here in layer:
            for to in edges[here]:
                if to not in far:
                    far[to] = far[here] + 1
                    after.append(to)
        layer = after
    return far
def draw(seed):
    rng = random.Random(seed)
    count = rng.randrange(1, 400)
    edges = [[] for _ in range(count)]
    for _ in range(int(count * rng.uniform(0.5, 2.5))):
        edges[rng.randrange(count)].append(rng.randrange(count))
    nodes = [Node() for _ in range(count)]
    for number, node in enumerate(nodes):
        node.number = number
        node.extend(nodes[to] for to in edges[number])
    return nodes[0], distances(edges, count)
def check(seed):
    global kept
    kept, far = draw(seed)
    gc.freeze()
    walk = forward.Walk(roots.Roots())
    seen = [one for one in walk.frozen if type(one) is Node]
    assert sorted(one.number for one in seen) == sorted(far), seed
    steps = {seen[at].number: len(chain) - 2 for at, chain in walk.chains(seen).items()}
    assert steps == far, seed
    walk.drop()
    gc.unfreeze()
    some = tuple(seen)
    few = gc.get_referrers(*some)
    many, wanted = [], {id(one): one for one in some}
    for generation in range(3):
        hang._holders_among(
            gc.get_objects(generation=generation), wanted, referents.Referents(), float("inf"), many
        )
    ids = [{id(one) for one in found if type(one) is Node} for found in (few, many)]
    assert ids[0] == ids[1], seed
    kept = None
def leaves(look):
    look()
    gc.collect()
    gc.freeze()
    look()
    gc.unfreeze()
    return gc.collect()
gc.disable()
for seed in range(40):
    check(seed)
    gc.collect()
kept, _ = draw(3)
# No cycle of its own is left, which would keep all that was reached.
for look in (
    lambda: forward.Walk(roots.Roots()), lambda: census.take(paths=False, frozen=True),
    lambda: census.take(frozen=True), lambda: alive.holders("__main__:Node", frozen=True),
    lambda: census.take(), lambda: alive.holders("__main__:Node"),
):
    assert leaves(look) == 0
print('{"case": "done"}')
"""


@pytest.mark.parametrize("interpreter", {found()[0], found()[-1]}, ids=str)
def test_a_walk_reaches_what_the_definition_says(interpreter: Interpreter) -> None:
    assert "done" in looked_at(interpreter, "-c", GRAPHS, str(SOURCE))


UNTRACKED = """
import sys
sys.path.insert(0, sys.argv[1])
from frostline.heap import alive
class Full(bytearray): pass
kept = [bytearray(9), Full(9)]
found = alive.holders("builtins:bytearray")
assert (found.tracked, found.count, found.subclasses) == (False, 1, 1), (found.tracked, found.count)
assert alive.holders("__main__:Full").tracked
print('{"case": "done"}')
"""


def test_a_class_whose_objects_nobody_can_list_is_told() -> None:
    assert "done" in looked_at(found()[-1], "-c", UNTRACKED, str(SOURCE))
    counted = {"name": "b:B", "count": 0, "subclasses": 0, "frozen": 0, "ways": [], "reached": -1}
    for tracked in (True, False):
        text = " ".join(str(block) for block in alive([("p", {**counted, "tracked": tracked})]))
        assert ("0 live objects" in text) is tracked and ("does not track" in text) is not tracked


#: A server that freezes what it has at its boundary; each line that it reads is a step.
FROZEN = """
import gc, sys, functools
import frostline
class Ticket:
    @functools.lru_cache(maxsize=None)
    def price(self): return 1
class Free: pass
cache = {i: [i] for i in range(20_000)}
Ticket().price()
frostline.install(role="server")
frostline.startup_complete()
print("up", flush=True)
for line in sys.stdin:
    print(gc.get_freeze_count() > 20_000, gc.isenabled(), flush=True)
"""


@pytest.mark.parametrize("interpreter", {found()[0], found()[-1]}, ids=str)
def test_a_frozen_server_is_looked_into_without_a_thaw(tmp_path: Path, interpreter: Interpreter) -> None:
    options = ("--policy", "freeze")
    with running(tmp_path, interpreter.executable, "-c", FROZEN, options=options) as process:
        up(process)
        assert told(process, "state") == "True True"
        text = frostline(tmp_path, "why-alive", "__main__:Ticket").stdout
        assert "0 objects of __main__:Ticket found" in text and "frozen ones not all seen" in text
        assert "--frozen walks to them" in text and "live objects" not in text
        text = frostline(tmp_path, "why-alive", "__main__:Ticket", "--frozen", "--budget", "60").stdout
        assert "1 live objects of __main__:Ticket, 1 of them frozen" in text
        assert "held by __main__.Ticket.price (lru_cache of function price (<string>:" in text
        assert "an lru_cache on a method: it keeps each self" in text and "functools.cached_property" in text
        assert "it stopped the process for" in text
        # What is found nowhere is not said to be nowhere.
        text = frostline(tmp_path, "why-alive", "__main__:Free", "--frozen", "--budget", "60").stdout
        assert "0 objects of __main__:Free found" in text and "no module, running function" in text
        text = frostline(tmp_path, "census", "--frozen", "--budget", "60").stdout
        assert "were reached" in text and "20,000" in text and "__main__.cache" in text
        (one,) = json.loads(frostline(tmp_path, "census", "--frozen", "--budget", "60", "--json").stdout)
        rows = {row[0]: row[1] for row in one["frozen_rows"]}
        assert rows["list"] >= 20_000 and one["reached"] <= one["frozen"] and not one["cut"]
        text = frostline(tmp_path, "census").stdout
        assert "--frozen walks to them" in text and "were reached" not in text
        text = frostline(tmp_path, "census", "--frozen", "--budget", "0.000001").stdout
        assert "the time was up before all were reached (--budget)" in text
        assert "no cyclic garbage" in frostline(tmp_path, "cycles").stdout
        # Nothing was thawed, and the collector is as it was.
        assert told(process, "state") == "True True"
        process.communicate(timeout=30)
