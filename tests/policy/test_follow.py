"""``follow``: its invariants I1 to I4 by counts, on seven loads, two heap sizes, every interpreter (D8)."""

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
from tests.interpreters import SOURCE, Interpreter, found
from tests.probe.target import run
from tests.probe.test_recorder import marks, only

LOADS = Path(__file__).parent / "loads.py"
THRESHOLDS = "200/10/10"
POLICY = f"follow,thresholds={THRESHOLDS},budget=6000"
FORCED = POLICY + ",major=force"
SMALL, LARGE = 60_000, 120_000
SESSIONS = 3_000
#: So many that most of them outlive a full pass.
LIVE = 3_600
REASONS = (
    layout.LINE_OVER_BURST, layout.LINE_OVER_GARBAGE, layout.LINE_OVER_YIELD, layout.LINE_OVER_EXHAUSTED,
    layout.LINE_EXHAUSTED,
)  # fmt: skip

every_load = pytest.mark.parametrize("load", ["grow", "short", "long", "lru", "swap", "stream", "untold"])
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


@generational
@pytest.mark.parametrize("load", ["stream", "untold", "ripple"])
def test_objects_that_live_for_seconds_and_die_by_themselves_start_no_passes(
    interpreter: Interpreter, load: str
) -> None:
    """The bounds on a real front end, by counts: at most a tenth walked, the longest near the budget.

    Once the line has seen that what it froze has died it waits, or without credit it goes by what is there:
    a run four times as long makes no pass more.
    """
    executable = interpreter.executable
    once = counted(executable, load, f"once:{THRESHOLDS}", SMALL, 4)
    found = counted(executable, load, POLICY, SMALL, 4)
    line = found["line"]
    assert found["walked"] <= once["walked"] / 10
    assert found["longest"] <= line["budget"] + line["period"]
    assert load == "ripple" or line["budget"] + line["period"] < once["longest"]
    assert found["passes"] == counted(executable, load, POLICY, SMALL)["passes"] <= once["passes"] / 5
    # Its counts of the oldest generation, a tenth of a walk each, stay about as rare as the passes were.
    assert line["all_looks"] <= 2 * once["passes"]
    assert (line["patient"], line["exhausted"]) == ((False, True) if load == "untold" else (True, False))
    assert (line["measures"] > 0) == (load == "stream")


@generational
def test_a_line_that_waits_in_vain_walks_once_for_it_and_says_so(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    """Deaths by themselves, and then growth: the long pass carries its reason (I2), I1 holds."""
    ran = run(
        interpreter,
        tmp_path,
        f"""
        import runpy, sys
        sys.argv = ["loads.py", "turn", {POLICY!r}, "120000", "3000"]
        runpy.run_path({str(LOADS)!r}, run_name="__main__")
        """,
        FROSTLINE_POLICY=POLICY,
    )
    assert (ran.code, ran.errors) == (0, "")
    found = json.loads(ran.output)
    line = found["line"]
    assert found["i1"] <= 1 and found["over"] >= 1 and not line["patient"]
    assert found["longest"] <= line["alpha"] * line["kept"] + line["budget"] + line["period"]
    whats = [mark.values[0] for mark in marks(only(ran.session.series), layout.MARK_LINE)]
    at = whats.index(layout.LINE_OVER_WAITED)
    assert whats.index(layout.LINE_MEASURED) < whats.index(layout.LINE_WAITS) < at


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
@pytest.mark.parametrize("load", ["grow", "long"])
def test_where_survivors_are_too_many_to_count_they_are_estimated_too_high(
    interpreter: Interpreter, load: str
) -> None:
    """The credit is spent too early then, never too late. 3.15 says how many there are."""
    done = subprocess.run(
        [
            interpreter.executable,
            "-c",
            "import runpy, sys; from frostline.policy import following; following._COUNT_LIMIT = 0;"
            f"sys.argv = ['loads.py', {load!r}, {POLICY!r}, '{SMALL}', '{SESSIONS}'];"
            f"runpy.run_path({str(LOADS)!r}, run_name='__main__')",
        ],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["i1"] <= 1 and not found["line"]["broken"]
    assert found["after"]["garbage"] == 0
