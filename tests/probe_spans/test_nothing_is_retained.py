"""No wrapper makes a cycle or keeps what passes through it (B5, cases 03 and 40).

Each target runs with the collector off and is held to what the fixtures ``released`` and ``no_cycles`` of
our own pytest plugin check: what a bare call would have freed at its end must be freed at the end of the
timed one. Where it is not, the test says by whom it is held.
"""

from __future__ import annotations

from pathlib import Path

from tests.interpreters import Interpreter, every_interpreter
from tests.probe_spans.reading import labels, ran_well

PRELUDE = """
import asyncio, dataclasses, functools, gc, sys
import frostline
from frostline.heap.promises import NoCycles, Released
gc.collect(); gc.disable()
module = sys.modules[__name__]

class Ticket:
    def collect(self): return 42
    def fail(self): raise ValueError(self)
"""


@every_interpreter
def test_a_wrapped_object_dies_with_its_last_reference(interpreter: Interpreter, tmp_path: Path) -> None:
    _, series = ran_well(
        interpreter,
        tmp_path,
        PRELUDE
        + """
class Child(Ticket):
    def collect(self): return super().collect() + 1
class Slots:
    __slots__ = ("__weakref__", "x")
    def collect(self): return 42
class SlotState:
    __slots__ = ("__weakref__", "collect")
    def __init__(self): self.collect = functools.partial(int, "42")
@dataclasses.dataclass(frozen=True)
class Data:
    x: int = 0
    def collect(self): return 42
class Property:
    @property
    def value(self): return self.collect()
    def collect(self): return 42
def counted(cls):
    class Counted(cls):
        def collect(self): return super().collect()
    return Counted
@counted
class Decorated(Ticket): pass
class Async:
    async def collect(self):
        await asyncio.sleep(0)
        return 42
class Generators:
    def collect(self):
        yield 42
class AsyncGenerators:
    async def collect(self):
        yield 42
class State:
    "The callable is instance state, and knows the object already only where the host made it so."
    def __init__(self): self.collect = lambda: 42
class Frozen:
    __setattr__ = None
    def collect(self): return 42

loop = asyncio.new_event_loop()
def call(obj):
    result = obj.collect()
    if type(obj) is Async: return loop.run_until_complete(result)
    if type(obj) is Generators: return list(result)
    if type(obj) is AsyncGenerators:
        async def first():
            async for x in result: return x
        return loop.run_until_complete(first())
    return result

for cls in (Ticket, Child, Slots, SlotState, Data, Property, Decorated, Async, Generators, AsyncGenerators,
            State, Frozen):
    gone = Released()
    for i in range(50):
        obj = cls()
        handle = frostline.wrap(obj, "collect", cls.__name__)
        assert not handle.reason, (cls, handle.reason)
        assert frostline.wrap(obj, "collect", "again") is handle
        call(obj)
        bound = obj.collect
        gone(obj)
        if i % 3 == 0: assert frostline.unwrap(obj, "collect")
        elif i % 3 == 1: assert handle.undo() and not handle.undo()
        # An object may keep its own handle.
        if cls not in (Slots, SlotState, Data, Frozen): obj.handle = handle
        del obj, bound, handle
    loop.run_until_complete(loop.shutdown_asyncgens())
    gone.check()
loop.close()
del loop, gone
found = gc.collect()
# The event loop's own cycles are the same without us; tickets and wrappers are not among them.
assert not [o for o in gc.garbage]
""",
    )
    assert labels(series)["Ticket"] == 50
    assert labels(series)["Async"] == labels(series)["Generators"] == labels(series)["AsyncGenerators"] == 50
    assert "again" not in labels(series)


@every_interpreter
def test_arguments_results_and_exceptions_die_as_before(interpreter: Interpreter, tmp_path: Path) -> None:
    ran_well(
        interpreter,
        tmp_path,
        PRELUDE
        + """
def plain(t): return t
def fails(t): raise ValueError(t)
async def coroutine(t):
    gone = Released(); gone(t)
    del t
    await asyncio.sleep(0)
    gone.check(); return True
def generator(t):
    gone = Released(); gone(t)
    del t
    gone.check(); yield True
def passes():
    got = None
    while True:
        del got
        got = yield Ticket()
async def agenerator(t):
    gone = Released(); gone(t)
    del t
    gone.check(); yield True
async def apasses():
    while True:
        yield Ticket()
class K:
    @staticmethod
    def s(t): return t
    @classmethod
    def c(cls, t): return t
    part = staticmethod(functools.partial(plain))
for name in "plain fails coroutine generator passes agenerator apasses".split():
    assert not frostline.wrap(module, name).reason
for name in "s c part".split():
    assert not frostline.wrap(K, name).reason
for name in ("collect", "fail"):
    assert not frostline.wrap(Ticket, name).reason

for call in (plain, K.s, K.c, K.part, Ticket.collect):
    gone = Released()
    for _ in range(20):
        t = Ticket(); gone(t); call(t); del t
    gone.check()

# Exceptions: the object dies with the exception, which refers to frames, ours among them.
for call in (fails, Ticket.fail):
    gone = Released()
    for _ in range(20):
        t = Ticket(); gone(t)
        try: call(t)
        except ValueError: pass
        del t
    gone.check()

assert next(generator(Ticket()))
gone = Released()
g = passes(); gone(next(g))
gone.check()                      # a suspended wrapper keeps no item that came out
t = Ticket(); gone(t); g.send(t); del t
gone.check()                      # and none that went in
try: g.throw(KeyError(Ticket()))
except KeyError as e: gone(e.args[0]); e = None
gone.check()
g = passes(); next(g); del g

async def main():
    assert await coroutine(Ticket())
    gone = Released()
    async for dead in agenerator(Ticket()): assert dead
    a = apasses()
    for _ in range(5): gone(await a.__anext__())
    gone.check()
    await a.aclose()
asyncio.run(main())
""",
    )


@every_interpreter
def test_spans_leave_no_tracked_object_and_start_no_pass(interpreter: Interpreter, tmp_path: Path) -> None:
    ran_well(
        interpreter,
        tmp_path,
        PRELUDE
        + """
def step(): return 1
frostline.wrap(module, "step", "step")
def once():
    step()
    with frostline.span("block", 1): pass
    frostline.end(frostline.begin("split"))
for _ in range(1000): once()
gc.collect()
before = len(gc.get_objects())
for _ in range(30_000): once()
after = len(gc.get_objects())
assert after == before, (before, after)
with NoCycles():
    for _ in range(1000): once()
gc.enable()
stats = [s["collections"] for s in gc.get_stats()]
for _ in range(30_000): once()
assert [s["collections"] for s in gc.get_stats()] == stats
""",
        FROSTLINE_RETENTION=str(1 << 20),
    )
