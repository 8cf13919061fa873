"""Who owns what is frozen, and a freeze while requests are in flight (A3, C4; cases 10 and 12)."""

from __future__ import annotations

from pathlib import Path

import pytest

from frostline import format as layout
from tests.interpreters import Interpreter, every_interpreter
from tests.probe.target import run
from tests.probe.test_recorder import marks, only


@every_interpreter
def test_the_last_owner_thaws(interpreter: Interpreter, tmp_path: Path) -> None:
    ran = run(
        interpreter,
        tmp_path,
        """
        import frostline, gc, weakref
        at_start = gc.get_freeze_count()
        class Engine:
            def __init__(self): self.me = self; self.blocks = [[i] for i in range(5_000)]
        frozen = lambda: gc.get_freeze_count() > at_start + 4_000

        one, two = Engine(), Engine()
        frostline.startup_complete(owner=one); frostline.startup_complete(owner="two")
        frostline.shutdown(owner="nobody"); assert frozen()
        frostline.shutdown(owner=one); assert frozen()
        frostline.shutdown(owner=one); assert frozen()          # a second time is no second owner
        frostline.shutdown(owner="two"); assert not frozen()

        # Not kept alive by being an owner; one that dies has gone, and the thaw waits for no pass.
        class Handle: pass
        handle = Handle(); gone = weakref.ref(handle)
        frostline.startup_complete(owner=handle); assert frozen()
        del handle
        assert gone() is None and not frozen()

        # Objects that take no weak reference, and what cannot be hashed.
        for owner in ([1], (2,), 3):
            frostline.startup_complete(owner=owner); assert frozen()
            frostline.shutdown(owner=owner); assert not frozen()
        """,
        FROSTLINE_POLICY="freeze",
    )
    assert (ran.code, ran.errors) == (0, "")


@every_interpreter
@pytest.mark.parametrize("policy", ["freeze", "follow,thresholds=200/10/10"])
def test_an_engine_rebuilt_three_times_leaves_nothing(
    interpreter: Interpreter, policy: str, tmp_path: Path
) -> None:
    """Case 10; the engine itself is the owner, and another one stays."""
    ran = run(
        interpreter,
        tmp_path,
        """
        import frostline, weakref
        class Engine:
            def __init__(self): self.me = self; self.blocks = [[i] for i in range(20_000)]
        gone = []
        for _ in range(3):
            engine = Engine(); gone.append(weakref.ref(engine))
            assert frostline.startup_complete(owner=engine) > 20_000
            frostline.shutdown(owner=engine)
            del engine
        import gc; gc.collect()
        assert [ref() for ref in gone] == [None] * 3
        """,
        FROSTLINE_POLICY=policy,
    )
    assert (ran.code, ran.errors) == (0, "")


@every_interpreter
@pytest.mark.parametrize("policy", ["freeze", "follow,thresholds=200/10/10"])
def test_in_flight_only_the_splice_and_the_next_idle_moment_puts_it_right(
    interpreter: Interpreter, policy: str, tmp_path: Path
) -> None:
    ran = run(
        interpreter,
        tmp_path,
        """
        import frostline, gc, weakref
        class Request:
            def __init__(self): self.me = self; self.parts = [[i] for i in range(10)]
        heap = [[i] for i in range(50_000)]
        passes = []
        def watch(phase, info): passes.append(info["generation"])
        with frostline.request():
            with frostline.request():
                request = Request(); gone = weakref.ref(request)
                gc.collect(0)                                     # no pass is due by itself
                gc.callbacks.append(watch)
                assert frostline.startup_complete() == -1
                gc.callbacks.remove(watch)
                assert passes == [], passes                       # C4: none that it caused
                assert not frostline.idle()                       # nobody may walk the heap now
            assert not frostline.idle()
        del request
        gc.collect(); assert gone() is not None                   # case 12: frozen alive, dead since
        assert frostline.idle()
        assert gone() is None
        assert not frostline.idle()                               # nothing is due any more
        count = frostline.startup_complete()
        assert count > 50_000
        """,
        FROSTLINE_POLICY=policy,
    )
    assert (ran.code, ran.errors) == (0, "")
    series = only(ran.session.series)
    freezes = marks(series, layout.MARK_FREEZE)
    assert freezes[0].flags == layout.MARK_FLAG_OURS | layout.MARK_FLAG_SPLICE  # not late
    # The splice stores no count; the walk of the whole heap does.
    assert freezes[0].values[0] == -1 and freezes[1].values[0] > 50_000
    wholes = [m for m in marks(series, layout.MARK_LINE) if m.values[0] == layout.LINE_WHOLE_HEAP]
    assert wholes[0].values[1] >= 12  # what it caught
    if policy == "freeze":
        assert len(wholes) == 1


@every_interpreter
def test_a_supervisor_asks_for_no_splice_where_nothing_is_in_flight(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    ran = run(
        interpreter,
        tmp_path,
        """
        import frostline
        from frostline.policy import engine
        with frostline.request(): pass                            # somebody tells of requests
        assert engine.boundary(engine.BY_SUPERVISOR) > 1000
        """,
        FROSTLINE_POLICY="freeze",
    )
    assert (ran.code, ran.errors) == (0, "")
    (freeze,) = marks(only(ran.session.series), layout.MARK_FREEZE)
    assert not freeze.flags & layout.MARK_FLAG_SPLICE


@every_interpreter
def test_requests_are_counted_over_threads_forks_and_ends_too_many(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    ran = run(
        interpreter,
        tmp_path,
        """
        import frostline, os, sys, threading, warnings
        from frostline.policy import moments
        warnings.simplefilter("ignore")                           # of a fork, where a thread is just ending
        sys.setswitchinterval(1e-6)
        def serve():
            for _ in range(20_000):
                with frostline.request(): pass
        threads = [threading.Thread(target=serve) for _ in range(4)]
        [t.start() for t in threads]; [t.join(60) for t in threads]
        assert moments.in_flight() == 0
        moments.leave(); assert moments.in_flight() == 0
        try:
            with frostline.request():
                assert moments.in_flight() == 1
                pid = os.fork()
                if pid == 0: os._exit(moments.in_flight())        # the parent's, not the child's
                assert os.waitpid(pid, 0)[1] == 0
                raise KeyError
        except KeyError:
            pass
        assert moments.in_flight() == 0
        """,
        FROSTLINE_POLICY="freeze", FROSTLINE_OUTPUT="",
    )  # fmt: skip
    assert (ran.code, ran.errors) == (0, "")


@every_interpreter
@pytest.mark.parametrize("kind", ["freeze", "follow", "periodic:1h", "idle", "prefork"])
def test_whose_boundary_counts(interpreter: Interpreter, kind: str, tmp_path: Path) -> None:
    """``boundary=``: the other's is noted, and that is all."""
    for option, counts in (("", "123"), (",boundary=program", "13"), (",boundary=ready", "2")):
        ran = run(
            interpreter,
            tmp_path,
            f"""
            import gc, os
            from frostline.policy import engine
            def acts(told_by):
                before = gc.get_freeze_count(), gc.get_threshold()
                engine.boundary(told_by)
                return before != (gc.get_freeze_count(), gc.get_threshold())
            heap = [[i] for i in range(5_000)]
            seen = ""
            for told_by in (engine.BY_PROGRAM, engine.BY_SUPERVISOR, engine.BY_INTEGRATION):
                pid = os.fork()                                  # each begins afresh
                if pid == 0: os._exit(acts(told_by))
                seen += str(told_by) if os.waitpid(pid, 0)[1] else ""
            assert seen == "{counts}", seen
            """,
            FROSTLINE_POLICY=kind + option,
        )
        # Without `frostline run --ready-*` nobody will tell it: that is said, in one line.
        alone = option == ",boundary=ready"
        assert (ran.code, ran.errors.count("\n")) == (0, int(alone)), ran.errors
        assert ("nobody tells it" in ran.errors) is alone
        children = [series for series in ran.session.series if marks(series, layout.MARK_FORKED)]
        assert len([mark for child in children for mark in marks(child, layout.MARK_BOUNDARY)]) % 3 == 0


@every_interpreter
def test_a_policy_that_is_replaced_gives_its_thresholds_back(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    ran = run(
        interpreter,
        tmp_path,
        """
        import frostline, gc
        from frostline.policy import engine
        host = gc.get_threshold(); start = gc.get_freeze_count()
        engine.adopt("freeze,thresholds=900/8/7"); assert gc.get_threshold()[:2] == (900, 8)
        assert frostline.startup_complete() > 1000
        engine.adopt("prefork"); assert gc.get_threshold() == host
        assert gc.get_freeze_count() > start + 1000                # the line of a freeze stays under a freeze
        engine.adopt("tune:600,5,5"); assert gc.get_threshold()[:2] == (600, 5)
        assert gc.get_freeze_count() <= start                      # 3.12's own are thawed with the rest
        engine.abandon(); assert gc.get_threshold() == host and engine.in_force() == "off"
        engine.adopt("tune:600,5,5"); gc.set_threshold(500, 4, 4)
        engine.abandon(); assert gc.get_threshold()[:2] == (500, 4)  # the host's own since
        engine.abandon()
        """,
    )
    assert (ran.code, ran.errors) == (0, "")
