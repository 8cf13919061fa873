"""Policies in a real interpreter: thresholds, freeze at the boundary, thaw (A1-A4, C1, C4)."""

from __future__ import annotations

from pathlib import Path

from frostline import format as layout
from tests.interpreters import Interpreter, every_interpreter
from tests.probe.target import run
from tests.probe.test_recorder import marks, only


@every_interpreter
def test_freeze_at_the_boundary_counts_from_the_start_and_freezes_no_garbage(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    ran = run(
        interpreter,
        tmp_path,
        """
        import gc, weakref, frostline
        at_start = gc.get_freeze_count()
        class Garbage: pass
        g = Garbage(); g.me = g; gone = weakref.ref(g); del g
        heap = [[i] for i in range(50_000)]
        frostline.install(role="EngineCore", rank=1)
        count = frostline.startup_complete()
        assert gone() is None
        assert count == gc.get_freeze_count() - at_start >= 50_000, (count, gc.get_freeze_count(), at_start)
        more = [[i] for i in range(10_000)]
        assert frostline.startup_complete() >= count + 10_000
        frostline.shutdown()
        assert gc.get_freeze_count() <= at_start  # 3.12 moves its immortal objects back by itself
        """,
        FROSTLINE_POLICY="freeze",
    )
    assert (ran.code, ran.errors) == (0, "")
    series = only(ran.session.series)
    first, second = marks(series, layout.MARK_FREEZE)
    assert first.flags == second.flags == layout.MARK_FLAG_OURS
    assert 50_000 <= first.values[0] <= second.values[0] - 10_000
    assert len(marks(series, layout.MARK_THAW)) == 1
    ours = series.passes[(series.passes["flags"] & layout.PASS_FROSTLINE) != 0]
    assert len(ours) == 3
    (identity,) = marks(series, layout.MARK_IDENTITY)
    assert (series.name(identity.values[0]), identity.values[1]) == ("EngineCore", 1)


@every_interpreter
def test_an_engine_rebuilt_three_times_leaves_nothing(interpreter: Interpreter, tmp_path: Path) -> None:
    """Case 10, row A3."""
    ran = run(
        interpreter,
        tmp_path,
        """
        import frostline, weakref
        class Engine:
            def __init__(self): self.me = self; self.blocks = [[i] for i in range(20_000)]
        gone = []
        for _ in range(3):
            frostline.install()
            engine = Engine(); gone.append(weakref.ref(engine))
            assert frostline.startup_complete() > 20_000
            del engine
            frostline.shutdown()
        assert [ref() for ref in gone] == [None] * 3
        """,
        FROSTLINE_POLICY="freeze",
    )
    assert (ran.code, ran.errors) == (0, "")


@every_interpreter
def test_inert_when_nothing_asks(interpreter: Interpreter, tmp_path: Path) -> None:
    ran = run(
        interpreter,
        tmp_path,
        """
        import gc, sys, frostline
        heap = [[i] for i in range(1000)]
        frozen = gc.get_freeze_count()
        frostline.install(role="x"); assert frostline.startup_complete() is None; frostline.shutdown()
        assert gc.get_freeze_count() == frozen and not gc.callbacks
        assert "frostline.probe.recorder" not in sys.modules
        """,
        FROSTLINE_OUTPUT="",
    )
    assert (ran.code, ran.errors) == (0, "")


@every_interpreter
def test_thresholds_at_the_start_and_without_a_recording(interpreter: Interpreter, tmp_path: Path) -> None:
    ran = run(
        interpreter, tmp_path, "import gc; print(gc.get_threshold())",
        FROSTLINE_POLICY="tune:50000,20,100", FROSTLINE_OUTPUT="",
    )  # fmt: skip
    third = 0 if (3, 14, 0) <= interpreter.version < (3, 14, 5) else 100
    assert (ran.output.strip(), ran.errors) == (f"(50000, 20, {third})", "")
    assert not (tmp_path / "session").exists()


def test_a_nonsense_policy_in_the_environment_is_said_and_the_program_runs(tmp_path: Path) -> None:
    import sys

    ran = run(sys.executable, tmp_path, "print('served')", FROSTLINE_POLICY="freez")
    assert (ran.code, ran.output) == (0, "served\n")
    assert "did you mean 'freeze'" in ran.errors and "Traceback" not in ran.errors


@every_interpreter
def test_a_child_forked_after_the_freeze_freezes_its_own_heap_at_a_late_boundary(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    """Workers that a pre-fork server starts anew inherit "frozen" and have imported everything since."""
    ran = run(
        interpreter,
        tmp_path,
        """
        import gc, os, frostline
        from frostline.policy import engine
        frostline.startup_complete()
        assert engine.boundary(engine.BY_SUPERVISOR) is None      # done here already
        pid = os.fork()
        if pid == 0:
            before = gc.get_freeze_count()
            heap = [[i] for i in range(20_000)]
            assert engine.boundary(engine.BY_SUPERVISOR) == -1
            assert gc.get_freeze_count() >= before + 20_000
            assert engine.boundary(engine.BY_SUPERVISOR) is None
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        """,
        FROSTLINE_POLICY="freeze",
    )
    assert (ran.code, ran.errors) == (0, "")
    child = next(series for series in ran.session.series if marks(series, layout.MARK_FORKED))
    (frozen,) = marks(child, layout.MARK_FREEZE)
    late = layout.MARK_FLAG_LATE | layout.MARK_FLAG_SPLICE | layout.MARK_FLAG_OURS
    assert (frozen.flags, frozen.values[0]) == (late, -1)


@every_interpreter
def test_what_passes_unrecorded_passes_recorded(interpreter: Interpreter, tmp_path: Path) -> None:
    """A rank from the environment is a text; a server must not die of that once somebody records it."""
    text = """
        import frostline
        class Odd:
            def __str__(self): raise RuntimeError("no")
        for role, rank in (("Engine", "3"), ("Engine", "dp0-tp1"), (3, None), (None, 2**70), ("E", -5),
                           (Odd(), Odd()), ("\\udcff", 1.5), ("x" * 5000, b"1")):
            frostline.install(role=role, rank=rank)
        for label in (3, None, Odd(), [], "\\udcff", b"x"):
            with frostline.span(label): pass
            frostline.end(frostline.begin(label))
            frostline.end(label)
            frostline.wrap(Odd, "__str__", label)
        print("served")
        """
    for output in ("", str(tmp_path / "session")):
        ran = run(interpreter, tmp_path, text, FROSTLINE_OUTPUT=output)
        assert (ran.code, ran.output, ran.errors) == (0, "served\n", "")
    series = only(ran.session.series)
    said = [(series.names.get(m.values[0]), m.values[1]) for m in marks(series, layout.MARK_IDENTITY)]
    assert said[:4] == [("Engine", 3), ("Engine dp0-tp1", -1), ("3", -1), (None, -1)]
