"""``frostline.wrap``, ``unwrap``, ``span``, ``begin`` and ``end`` as a program uses them (B1)."""

from __future__ import annotations

import subprocess
from pathlib import Path

from frostline import format as layout
from tests.interpreters import SOURCE, Interpreter, every_interpreter
from tests.probe.target import run
from tests.probe_spans.reading import labels, ran_well, refused, spans, wrapped


@every_interpreter
def test_wrapping_and_unwrapping_in_every_order(interpreter: Interpreter, tmp_path: Path) -> None:
    _, series = ran_well(
        interpreter,
        tmp_path,
        """
        import copy, functools, sys
        import frostline
        from frostline import wrap, unwrap
        module = sys.modules[__name__]
        class Base:
            def step(self): return "base"
            def other(self): return "other"
        class Sub(Base):
            def step(self): return "sub+" + super().step()
        class Leaf(Base): pass
        original = Base.__dict__["step"]

        # An object: only its own calls, whatever class in between defines the method.
        a, b, s = Base(), Base(), Sub()
        first = wrap(a, "step", "a.step")
        assert wrap(a, "step") is first
        wrap(s, "step", "s.step")
        a.step(); b.step(); s.step(); Base.step(a)
        assert Base.step is original and Base.step(a) == "base"     # on the class nothing is to be seen
        assert unwrap(a, "step") and not unwrap(a, "step")
        assert Base.__dict__["step"] is original
        a.step()
        assert unwrap(s, "step")

        # An object, then its class, undone in the order of their making.
        h1 = wrap(a, "step", "object"); h2 = wrap(Base, "step", "class")
        a.step(); b.step()
        assert h1.undo() and h2.undo()
        a.step(); b.step()
        h2 = wrap(Base, "step", "class2"); h1 = wrap(a, "step", "object2")
        a.step(); b.step()
        h2.undo(); h1.undo()           # what stood upon the class's wrapper falls silent with it
        a.step(); b.step()

        # A subclass that only inherits: on it alone, and gone again.
        h = wrap(Leaf, "step", "leaf")
        assert "step" in vars(Leaf)
        Leaf().step(); b.step(); Sub().step()
        assert wrap(Leaf, "step") is h and h.undo() and "step" not in vars(Leaf)
        Leaf().step()

        # Somebody wraps our wrapper; ours can only go silent.
        def f(): return "f"
        raw = f
        h = wrap(module, "f", "f")
        f()
        ours = f
        @functools.wraps(ours)
        def f(): return ours() + "!"
        other = wrap(module, "f", "f!")
        assert other is not h           # functools.wraps copied our mark, which is not believed
        assert f() == "f!" and not h.undo() and f() == "f!" and other.undo() and f() == "f!"

        # Callables that are the object's own state.
        class Engine:
            def __init__(self): self.step_fn = self.step; self.hook = lambda: "hook"; self.n = 0
            def step(self): self.n += 1; return self.n
        e = Engine()
        h = wrap(e, "step_fn", "step_fn"); wrap(e, "hook", "hook")
        assert e.step_fn() == 1 and e.hook() == "hook" and e.step_fn.__self__ is e
        twin = copy.deepcopy(e)
        assert twin.step_fn() == 2 and (twin.n, e.n) == (2, 1)
        assert unwrap(e, "step_fn") and e.step_fn() == 2 and unwrap(e, "hook") and e.hook() == "hook"

        # Dots; a module as the object; what cannot be done.
        wrap(module, "Engine.step", "dotted"); e.step()
        e.inner = Base(); wrap(e, "inner.other", "inner"); e.inner.other(); assert unwrap(e, "inner.other")
        class NoWeak:
            __slots__ = ()
            def step(self): return 1
        class Static:
            @staticmethod
            def step(): return 1
            value = property(lambda self: self.nothing)
            def __getattr__(self, name): return lambda: name
        for obj, name in ((NoWeak(), "step"), (Static(), "step"), (Static(), "value"), (Static(), "made"),
                          ([], "append"), (1, "bit_length"), (None, "x"), (a, "stpe")):
            h = wrap(obj, name)
            assert h.reason and not h.undo() and not unwrap(obj, name), (obj, name)
        assert NoWeak().step() == Static().step() == 1 and Static().made() == "made"
        assert not unwrap(None) and not unwrap("x", "y") and not unwrap(3)
        """,
    )
    assert labels(series) == {
        "a.step": 1, "s.step": 1, "object": 1, "class": 2, "class2": 2, "object2": 1, "leaf": 1,
        "f": 2, "f!": 2, "step_fn": 1 + 1, "hook": 1, "dotted": 1, "inner": 1,
    }, labels(series)  # fmt: skip
    reasons = refused(series)
    assert "near: step" in reasons["__main__:Base.stpe"]
    assert "weak reference" in reasons["__main__:NoWeak.step"]
    assert "does not receive the object" in reasons["__main__:Static.step"]


@every_interpreter
def test_one_mark_for_a_thousand_objects(interpreter: Interpreter, tmp_path: Path) -> None:
    _, series = ran_well(
        interpreter,
        tmp_path,
        """
        import frostline
        class Ticket:
            def collect(self): return 1
        for _ in range(1000):
            t = Ticket(); frostline.wrap(t, "collect"); t.collect()
        for i in range(6000):
            with frostline.span(f"request {i}"): pass
        """,
    )
    assert labels(series)["Ticket.collect"] == 1000
    assert wrapped(series) == {"__main__:Ticket.collect": "Ticket.collect"}
    assert sum(mark.kind == layout.MARK_WRAPPED for mark in series.marks) == 1
    assert labels(series)["(more labels)"] > 1000 and len(series.names) < 5000


@every_interpreter
def test_stretches_of_code(interpreter: Interpreter, tmp_path: Path) -> None:
    ran, series = ran_well(
        interpreter,
        tmp_path,
        """
        import asyncio, gc, threading
        import frostline
        from frostline import begin, end, span
        with span("block", 7) as s: s.value1 = 8.9
        with span("odd", "x", 1 << 80): pass
        try:
            with span("failed"): raise ValueError
        except ValueError: pass

        one = span("shared")                        # one object, nested and in many threads
        gate = threading.Barrier(4)
        def work():
            for _ in range(100):
                gate.wait()
                with one:
                    with one: gate.wait()
        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads: t.start()
        for t in threads: t.join()

        # One thread holds it, another comes and nests while the first has gone.
        crossed, held = span("crossed"), threading.Event()
        entered, left = threading.Event(), threading.Event()
        def second():
            with crossed:
                entered.set(); left.wait()
                with crossed: pass
                with crossed: pass
        t = threading.Thread(target=second)
        with crossed:
            t.start(); entered.wait()
        left.set(); t.join()

        both = span("tasks")
        async def nap(turns):
            with both:
                for _ in range(turns): await asyncio.sleep(0)
        async def main(): await asyncio.gather(nap(3), nap(50), nap(10))
        asyncio.run(main())

        @span("decorated")
        def f(x: int) -> int: return x
        @span("coroutine")
        async def c(): return 1
        class K:
            @span("method")
            def m(self): return 2
            @span("static")
            @staticmethod
            def s(): return 3
            @classmethod
            @span("class")
            def c(cls): return 4
        assert (f(1), asyncio.run(c()), K().m(), K.s(), K.c()) == (1, 1, 2, 3, 4)
        assert f.__name__ == "f" and span("x")(K) is K and span("x")(3) == 3

        token = begin("split")
        assert type(token) is int and not gc.is_tracked(token)
        t = threading.Thread(target=end, args=(token, 5), kwargs={"error": True}); t.start(); t.join()
        end(token); end(0); end(-1); end(None); end("x"); end(1 << 200); end(True)
        begin("never ended")
        """,
    )
    counts = labels(series)
    assert counts == {
        "block": 1, "odd": 1, "failed": 1, "shared": 800, "crossed": 4, "tasks": 3, "decorated": 1,
        "coroutine": 1, "method": 1, "static": 1, "class": 1, "split": 1,
    }, counts  # fmt: skip
    (block,) = spans(ran, "block")
    assert (block["value0"], block["value1"], block["flags"], block["kind"]) == (7, 8, 0, layout.SPAN_SYNC)
    assert spans(ran, "odd")[0]["value0"] == -1 and spans(ran, "odd")[0]["value1"] == (1 << 63) - 1
    assert spans(ran, "failed")[0]["flags"] == layout.SPAN_FLAG_ERROR
    # Nested uses of one object end inside out: half lie strictly in another of the same thread.
    shared = spans(ran, "shared")
    threads = {span["thread"] for span in shared}
    assert len(threads) == 4
    for thread in threads:
        own = sorted((s for s in shared if s["thread"] == thread), key=lambda s: s["start"])
        for outer, inner in zip(own[::2], own[1::2], strict=True):
            assert outer["start"] <= inner["start"] <= inner["stop"] <= outer["stop"]
    crossed = spans(ran, "crossed")
    main, inner, inner2, outer = crossed
    assert main["thread"] != outer["thread"] and {s["thread"] for s in crossed[1:]} == {outer["thread"]}
    assert (
        outer["start"] < main["stop"] < inner["start"] <= inner["stop"] <= inner2["start"] <= inner2["stop"]
    )
    tasks = spans(ran, "tasks")
    assert {span["kind"] for span in tasks} == {layout.SPAN_ASYNC}
    starts = sorted(tasks, key=lambda span: span["start"])
    # nap(3), nap(50), nap(10) begin in this order and end as 3, 10, 50.
    assert [starts.index(span) for span in tasks] == [0, 2, 1]
    (split,) = spans(ran, "split")
    assert (split["kind"], split["value0"], split["flags"]) == (layout.SPAN_SPLIT, 5, layout.SPAN_FLAG_ERROR)


@every_interpreter
def test_without_a_recording_everything_is_inert(interpreter: Interpreter) -> None:
    done = subprocess.run(
        [interpreter.executable, "-W", "error", "-c", """if True:
        import frostline
        class K:
            def m(self): return 1
        raw = vars(K)["m"]
        k = K()
        h = frostline.wrap(k, "m")
        assert h is frostline.wrap(K, "nothing at all") and h.reason and not h.undo()
        assert vars(K) and vars(K)["m"] is raw and not vars(k)
        def f(): return 1
        assert frostline.span("x")(f) is f
        with frostline.span("x") as s: s.value0 = 3
        assert frostline.begin("x") == 0
        frostline.end(0)
        assert not frostline.unwrap(k, "m") and not frostline.unwrap(h)
        """],
        env={"PYTHONPATH": str(SOURCE)}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


@every_interpreter
def test_wrappers_follow_a_fork_and_outlive_the_recorder(interpreter: Interpreter, tmp_path: Path) -> None:
    ran = run(
        interpreter,
        tmp_path,
        """
        import os, sys
        import frostline
        def f(): return 1
        frostline.wrap(sys.modules[__name__], "f", "f")
        token = frostline.begin("split")
        f()
        pid = os.fork()
        if pid == 0:
            f(); f(); frostline.end(token)
            sys.exit(0)
        os.waitpid(pid, 0)
        class AtExit:
            def __del__(self, f=f): f()
        keep = AtExit()
        sys.modules["kept"] = keep      # dies when modules are cleared
        """,
        FROSTLINE_PRESETS="none",
    )
    assert (ran.code, ran.errors) == (0, "")
    child, parent = sorted(ran.session.series, key=lambda s: -len(s.spans["start"]))
    assert labels(child) == {"f": 2, "split": 1} and labels(parent)["f"] == 1
