"""``follow`` beside its host: thresholds, forks, other callbacks, regions, the recursion limit (D8)."""

from __future__ import annotations

from pathlib import Path

import pytest

from frostline import format as layout
from tests.interpreters import Interpreter, every_interpreter
from tests.policy.test_follow import POLICY, generational
from tests.probe.target import run
from tests.probe.test_recorder import marks, only


@generational
def test_a_budget_below_two_periods_is_raised_and_that_is_recorded(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    ran = run(
        interpreter,
        tmp_path,
        """
        import frostline, gc
        frostline.startup_complete()
        assert gc.get_threshold() == (700, 10, 0)
        """,
        FROSTLINE_POLICY="follow,thresholds=700/10/10,budget=100",
    )
    assert (ran.code, ran.errors) == (0, "")
    raised = [
        m
        for m in marks(only(ran.session.series), layout.MARK_LINE)
        if m.values[0] == layout.LINE_BUDGET_RAISED
    ]
    assert [m.values[1] for m in raised] == [2 * 12 * 701]


@generational
def test_a_host_that_sets_thresholds_later_is_followed(interpreter: Interpreter, tmp_path: Path) -> None:
    """And at the end it gets back what it set, not what we found."""
    ran = run(
        interpreter,
        tmp_path,
        """
        import frostline, gc
        from frostline.policy import engine
        frostline.startup_complete()
        line = engine.keeper().line
        gc.set_threshold(100, 5, 7)
        heap = [[i] for i in range(20_000)]
        assert line.host == (100, 5, 7) and line.period() == 7 * 101, line.host
        assert gc.get_threshold()[:2] == (100, 5)
        frostline.shutdown()
        assert gc.get_threshold() == (100, 5, 7)
        assert engine.keeper().callback not in gc.callbacks
        """,
        FROSTLINE_POLICY=POLICY,
    )
    assert (ran.code, ran.errors) == (0, "")


@generational
def test_near_the_recursion_limit_the_host_sees_nothing(interpreter: Interpreter, tmp_path: Path) -> None:
    """Passes are skipped, and counted; what cannot happen switches the rule off."""
    ran = run(
        interpreter,
        tmp_path,
        """
        import frostline, gc, sys
        from frostline.policy import engine
        frostline.startup_complete()
        line = engine.keeper().line
        def deep(n):
            try:
                return deep(n + 1)
            except RecursionError:
                gc.collect()
                return n
        keep = []
        for _ in range(20):
            keep.extend([i] for i in range(3000))
            deep(0)
        assert not line.broken
        gc.collect()
        line.budget = None                      # a state that cannot be
        gc.collect(); gc.collect()
        assert line.broken
        assert gc.get_threshold() == (200, 10, 10)
        """,
        FROSTLINE_POLICY=POLICY,
    )
    # What the interpreter itself says of a callback that it cannot even enter is not ours to stop.
    assert ran.code == 0, ran.errors
    assert "AttributeError" not in ran.errors and "TypeError" not in ran.errors
    whats = [mark.values[0] for mark in marks(only(ran.session.series), layout.MARK_LINE)]
    assert layout.LINE_SWITCHED_OFF in whats


@generational
def test_nothing_is_retained_by_the_callback(interpreter: Interpreter, tmp_path: Path) -> None:
    ran = run(
        interpreter,
        tmp_path,
        """
        import frostline, gc, sys
        frostline.startup_complete()
        def passes(n):
            for _ in range(n): gc.collect()
        passes(50)
        before = sys.getallocatedblocks()
        passes(500)
        assert sys.getallocatedblocks() - before < 60, sys.getallocatedblocks() - before
        """,
        FROSTLINE_POLICY=POLICY, FROSTLINE_OUTPUT="",
    )  # fmt: skip
    assert (ran.code, ran.errors) == (0, "")


def test_a_collector_of_another_kind_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """The facts of the interpreter are set here, since no such build may be at hand."""
    from frostline import probe
    from frostline.policy import engine

    for fact, said in (("INCREMENTAL", "3.14.5 or newer"), ("FREE_THREADED", "free-threaded build")):
        monkeypatch.setattr(probe, fact, True)
        for policy in ("follow", "idle", "sync:10"):
            with pytest.raises(ValueError, match=said):
                engine.adopt(policy)
        monkeypatch.setattr(probe, fact, False)
    assert engine.in_force() == "off"


@every_interpreter
def test_a_forked_child_keeps_its_own_account(interpreter: Interpreter, tmp_path: Path) -> None:
    if (3, 14, 0) <= interpreter.version < (3, 14, 5):
        pytest.skip("refused there")
    ran = run(
        interpreter,
        tmp_path,
        """
        import frostline, gc, os
        from frostline.policy import engine
        heap = [[i] for i in range(60_000)]
        frostline.startup_complete()
        line = engine.keeper().line
        pid = os.fork()
        if pid == 0:
            frozen = gc.get_freeze_count()
            more = [[i] for i in range(30_000)]
            assert line.moves >= 1 and gc.get_freeze_count() > frozen
            # The parent's objects are not thawed here: that would copy every page of them.
            assert engine.whole_heap() >= 90_000
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        assert line.moves == 0
        """,
        FROSTLINE_POLICY=POLICY,
    )
    assert (ran.code, ran.errors) == (0, "")
    child = next(series for series in ran.session.series if marks(series, layout.MARK_FORKED))
    assert marks(child, layout.MARK_FREEZE) and not marks(child, layout.MARK_THAW)


@generational
def test_a_late_boundary_counts_what_it_spliced_and_then_follows(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    ran = run(
        interpreter,
        tmp_path,
        """
        import gc
        from frostline.policy import engine
        at_start = gc.get_freeze_count()
        heap = [[i] for i in range(60_000)]
        assert engine.boundary(engine.BY_SUPERVISOR) == -1
        line = engine.keeper().line
        assert line.kept == gc.get_freeze_count() - at_start > 60_000
        more = [[i] for i in range(30_000)]
        assert line.moves >= 2 and not line.exhausted
        assert line.kept + line.frozen <= line.kept * 1.5 + line.budget
        """,
        FROSTLINE_POLICY=POLICY,
    )
    assert (ran.code, ran.errors) == (0, "")
    first = marks(only(ran.session.series), layout.MARK_FREEZE)[0]
    late = layout.MARK_FLAG_LATE | layout.MARK_FLAG_SPLICE | layout.MARK_FLAG_OURS
    assert first.flags == late and first.values[0] == -1


@generational
def test_a_budget_in_time_is_translated_by_the_walk_of_the_whole_heap(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    ran = run(
        interpreter,
        tmp_path,
        """
        import frostline
        from frostline.policy import engine
        heap = [[i] for i in range(100_000)]
        frostline.startup_complete()
        line = engine.keeper().line
        assert line.ns_whole > 1
        assert line.budget == max(2 * line.period(), int(5_000_000 / line.ns_whole))
        """,
        FROSTLINE_POLICY="follow,thresholds=200/10/10,budget=5ms", FROSTLINE_OUTPUT="",
    )  # fmt: skip
    assert (ran.code, ran.errors) == (0, "")


@generational
def test_deaths_by_reference_count_give_credit_back_without_a_walk(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    """A cache that was frozen and dropped: F is an overestimate until it is counted."""
    ran = run(
        interpreter,
        tmp_path,
        """
        import frostline
        from frostline.policy import engine
        heap = [[i] for i in range(30_000)]
        frostline.startup_complete()
        line = engine.keeper().line
        cache = []
        while not line.exhausted:
            cache += [[i] for i in range(4000)]
        cache.clear()
        assert frostline.idle()
        assert not line.exhausted and line.wholes == 1 and line.frozen < line.credit() // 2
        moves = line.moves
        cache += [[i] for i in range(30_000)]
        assert line.moves > moves
        """,
        FROSTLINE_POLICY=POLICY,
    )
    assert (ran.code, ran.errors) == (0, "")
    whats = [mark.values[0] for mark in marks(only(ran.session.series), layout.MARK_LINE)]
    assert layout.LINE_RESTORED in whats


@generational
def test_a_host_that_empties_the_list_of_callbacks_ends_the_following_and_no_more(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    """Until the next walk of the whole heap puts ours back."""
    ran = run(
        interpreter,
        tmp_path,
        """
        import frostline, gc
        from frostline.policy import engine
        frostline.startup_complete()
        gc.callbacks.clear()
        heap = [[i] for i in range(60_000)]
        keeper = engine.keeper()
        assert keeper.line.moves == 0
        frostline.startup_complete()
        assert gc.callbacks.count(keeper.callback) == 1
        more = [[i] for i in range(20_000)]
        assert keeper.line.moves >= 1
        """,
        FROSTLINE_POLICY=POLICY,
    )
    assert (ran.code, ran.errors) == (0, "")


@generational
def test_following_and_a_deferred_region_leave_each_other_their_thresholds(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    ran = run(
        interpreter,
        tmp_path,
        """
        import frostline, gc
        from frostline.policy import engine
        with frostline.defer():
            heap = [[i] for i in range(60_000)]
            frostline.startup_complete()                 # a boundary inside a region: P1 from the host's T0
            line = engine.keeper().line
            assert line.period() == 12 * 201 and gc.get_threshold() == (0, 10, 0), gc.get_threshold()
            for _ in range(3):
                heap += [[i] for i in range(20_000)]
                gc.collect()                             # explicit: judged like any other
        assert gc.get_threshold()[:2] == (200, 10) and line.host == (200, 10, 10)
        frostline.shutdown()
        assert gc.get_threshold() == (200, 10, 10) and gc.isenabled()
        """,
        FROSTLINE_POLICY=POLICY,
    )
    assert (ran.code, ran.errors) == (0, "")


@generational
def test_a_pass_that_reclaimed_a_good_part_moves_nothing_nor_does_the_next(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    ran = run(
        interpreter,
        tmp_path,
        """
        import frostline, gc
        from frostline.policy import engine
        class Cycle:
            def __init__(self): self.me = [self]
        heap = [[i] for i in range(30_000)]
        old = [Cycle() for _ in range(1000)]
        frostline.startup_complete()
        line = engine.keeper().line
        gc.set_threshold(0)                              # every pass here is ours to ask for
        fresh = [Cycle() for _ in range(1000)]
        keep = [[i] for i in range(line.budget)]
        del fresh
        gc.collect(); assert line.moves == 0 and line.yielded
        gc.collect(); assert line.moves == 0 and not line.yielded
        gc.collect(); assert line.moves == 1 and line.frozen > len(keep)
        gc.collect(); assert line.moves == 1             # under half the budget: what is in flight stays
        """,
        FROSTLINE_POLICY=POLICY,
    )
    assert (ran.code, ran.errors) == (0, "")
    whats = [mark.values[0] for mark in marks(only(ran.session.series), layout.MARK_LINE)]
    assert layout.LINE_MOVED in whats or layout.LINE_OVER_BURST in whats


@generational
def test_a_burst_too_large_to_count_is_frozen_in_the_next_idle_moment(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    """Its estimate spends the credit; what is there is then counted, and no longer walked."""
    if interpreter.version >= (3, 15, 0):
        pytest.skip("the interpreter tells how many there are")
    ran = run(
        interpreter,
        tmp_path,
        """
        import frostline, gc
        from frostline.policy import engine, following as rule
        heap = [[i] for i in range(30_000)]
        frostline.startup_complete()
        line = engine.keeper().line
        rule._COUNT_LIMIT = 0
        gc.set_threshold(0)
        keep = [[i] for i in range(100_000)]
        gc.collect(); assert line.exhausted and line.moves == 0 and line.estimated
        assert frostline.idle()
        assert not line.exhausted and not line.estimated and line.kept > 130_000
        assert not frostline.idle()
        """,
        FROSTLINE_POLICY=POLICY,
    )
    assert (ran.code, ran.errors) == (0, "")
