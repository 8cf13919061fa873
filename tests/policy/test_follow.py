"""``follow``: its invariants I1 to I4 by counts, on five loads, two heap sizes and every interpreter (D8)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from frostline import format as layout
from tests.interpreters import SOURCE, Interpreter, every_interpreter, found
from tests.probe.target import run
from tests.probe.test_recorder import marks, only

LOADS = Path(__file__).parent / "loads.py"
THRESHOLDS = "200/10/10"
POLICY = f"follow,thresholds={THRESHOLDS},budget=6000"
FORCED = POLICY + ",major=force"
SMALL, LARGE = 60_000, 120_000
SESSIONS = 3_000
#: So many that most of them outlive a full pass.
LIVE = 5_000
REASONS = (
    layout.LINE_OVER_BURST, layout.LINE_OVER_GARBAGE, layout.LINE_OVER_YIELD, layout.LINE_OVER_EXHAUSTED,
    layout.LINE_EXHAUSTED,
)  # fmt: skip

every_load = pytest.mark.parametrize("load", ["grow", "short", "long", "lru", "swap"])
generational = pytest.mark.parametrize(
    "interpreter", [i for i in found() if not (3, 14, 0) <= i.version < (3, 14, 5)], ids=str
)


@cache
def counted(
    executable: str, load: str, rule: str, heap: int, scale: int = 1, sessions: int = SESSIONS
) -> Any:
    """What a load counted under a rule."""
    done = subprocess.run(
        [executable, str(LOADS), load, rule, str(heap), str(sessions), str(scale)],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@generational
@every_load
@pytest.mark.parametrize("heap", [SMALL, LARGE])
def test_invariants(interpreter: Interpreter, load: str, heap: int) -> None:
    executable = interpreter.executable
    once = counted(executable, load, f"once:{THRESHOLDS}", heap)
    for rule in (POLICY, FORCED):
        found = counted(executable, load, rule, heap)
        line = found["line"]
        assert (line["broken"], line["lost"]) == (False, 0)
        assert found["i1"] <= 1, "I1: more is frozen than H, alpha and B allow"
        assert found["after"]["garbage"] == found["after"]["frozen"] == 0, "I3"
        assert found["thawed"][0] <= 0 and found["thawed"][1] == list(map(int, THRESHOLDS.split("/")))
        bound = line["budget"] + line["period"]
        # I4: what full passes walk is what freezing once would have walked, and short walks besides.
        assert found["longest"] <= once["longest"] + bound
        assert found["walked"] <= once["walked"] + line["judged"] * bound
    # Garbage is bounded by what may be frozen and what freezing once would have left.
    found = counted(executable, load, POLICY, heap)
    line = found["line"]
    credit = line["alpha"] * line["kept"] + line["budget"]
    assert found["garbage"] <= credit + once["garbage"] + bound


@generational
def test_on_growth_each_full_pass_stays_near_the_budget(interpreter: Interpreter) -> None:
    once = counted(interpreter.executable, "grow", f"once:{THRESHOLDS}", LARGE)
    found = counted(interpreter.executable, "grow", POLICY, LARGE)
    line = found["line"]
    grown = LARGE * 9 // 16
    assert line["moves"] >= 3
    assert found["longest"] <= line["budget"] + line["period"] < once["longest"] / 2
    assert found["walked"] <= 2 * grown
    assert found["over"] == 0


@generational
def test_forced_never_walks_over_the_budget_on_cyclic_sessions(interpreter: Interpreter) -> None:
    """Case of ``follow.md``: live cyclic sessions, each replaced, never idle."""
    found = counted(interpreter.executable, "long", FORCED, SMALL)
    assert found["line"]["wholes"] >= 3
    assert found["line"]["alpha"] == 0.25 and found["line"]["guards"] >= 1
    assert found["longest"] <= found["line"]["budget"] + found["line"]["period"]


def test_garbage_held_is_flat_over_ten_times_the_run_and_the_obvious_rule_is_not() -> None:
    for rule in (POLICY, FORCED):
        short = counted(sys.executable, "long", rule, SMALL, 1, LIVE)
        long = counted(sys.executable, "long", rule, SMALL, 10, LIVE)
        assert long["i1"] <= 1
        assert long["garbage"] <= 1.1 * short["garbage"]
    ruinous = [
        counted(sys.executable, "long", f"obvious:{THRESHOLDS}", SMALL, scale, LIVE) for scale in (1, 10)
    ]
    assert ruinous[1]["garbage"] > 8 * ruinous[0]["garbage"] > 8 * short["garbage"]


@pytest.mark.slow
@generational
@every_load
@pytest.mark.parametrize("heap", [400_000, 800_000])
@pytest.mark.skipif("FROSTLINE_SLOW" not in os.environ, reason="set FROSTLINE_SLOW: minutes, a gigabyte")
def test_invariants_at_full_size(interpreter: Interpreter, load: str, heap: int) -> None:
    for rule in ("follow", "follow,major=force"):
        found = counted(interpreter.executable, load, rule, heap, 1, 30_000)
        assert found["i1"] <= 1
        assert found["after"]["garbage"] == found["after"]["frozen"] == 0


@generational
def test_each_pass_over_the_budget_has_its_reason_in_the_record(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    """I2."""
    ran = run(
        interpreter,
        tmp_path,
        f"""
        import runpy, sys
        sys.argv = ["loads.py", "long", {POLICY!r}, "60000", "3000"]
        runpy.run_path({str(LOADS)!r}, run_name="__main__")
        """,
        FROSTLINE_POLICY=POLICY,
    )
    assert (ran.code, ran.errors) == (0, "")
    found = json.loads(ran.output)
    series = only(ran.session.series)
    lines = marks(series, layout.MARK_LINE)
    whats = [mark.values[0] for mark in lines]
    assert (
        sum(what in REASONS and mark.values[1] > 0 for what, mark in zip(whats, lines, strict=True))
        >= found["over"]
        > 0
    )
    moves = [mark for mark in lines if mark.values[0] in (layout.LINE_MOVED, layout.LINE_OVER_BURST)]
    assert len(moves) == found["line"]["moves"] >= 1
    # Each move is a freeze of ours, and F grows by what moved.
    assert moves[-1].values[2] == sum(mark.values[1] for mark in moves)
    assert layout.LINE_EXHAUSTED in whats and layout.LINE_WHOLE_HEAP in whats
    # Our own callback is no other tool's.
    names = [series.name(mark.values[0]) for mark in marks(series, layout.MARK_OTHER_CALLBACK)]
    assert not any("frostline" in name for name in names)


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
        """,
        FROSTLINE_POLICY=POLICY,
    )
    # What the interpreter itself says of a callback that it cannot even enter is not ours to stop.
    assert ran.code == 0, ran.errors
    assert "AttributeError" not in ran.errors and "TypeError" not in ran.errors


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
