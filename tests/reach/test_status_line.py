"""``status`` shows what ``follow`` is doing: B, H, F, alpha and whether there is credit (D8)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from frostline.reach import overview
from tests.interpreters import Interpreter, found
from tests.policy.test_follow import POLICY, generational
from tests.probe.target import run


@generational
def test_the_live_words_say_what_the_line_is_doing(interpreter: Interpreter, tmp_path: Path) -> None:
    ran = run(
        interpreter,
        tmp_path,
        """
        import frostline, json
        from frostline.policy import engine
        heap = [[i] for i in range(30_000)]
        frostline.startup_complete()
        line = engine.keeper().line
        while not line.exhausted:
            heap += [[i] for i in range(4000)]
        print(json.dumps([line.budget, line.kept, line.frozen, line.alpha]))
        """,
        FROSTLINE_POLICY=POLICY,
    )
    assert (ran.code, ran.errors) == (0, "")
    (row,) = overview.read(str(tmp_path / "session")).rows
    assert row.line is not None and row.line.exhausted and row.line.state == "credit exhausted"
    assert row.line.own_ms >= row.line.own_longest_ms > 0
    assert [row.line.budget, row.line.kept, row.line.frozen, row.line.alpha] == json.loads(ran.output)


def test_no_line_where_nobody_follows(tmp_path: Path) -> None:
    ran = run(
        found()[0], tmp_path, "import frostline; frostline.startup_complete()", FROSTLINE_POLICY="freeze"
    )
    assert ran.code == 0
    assert overview.read(str(tmp_path / "session")).rows[0].line is None


@pytest.mark.parametrize(
    ("policy", "then", "said"),
    [
        ("sync:5", "", "frostline.step() has not been called"),
        ("sync:5", "frostline.step()", ""),
        ("sync:5,thresholds=500/10/10", "", "frostline.step() has not been called"),
        ("idle", "frostline.startup_complete()", "no end of a request and no idle moment"),
        ("idle", "frostline.startup_complete()\nfrostline.request().__enter__()", "no end of a request"),
        ("idle", "with frostline.request(): pass\nfrostline.startup_complete()", ""),
        ("idle", "frostline.startup_complete()\nwith frostline.request(): pass", ""),
        ("idle", "frostline.startup_complete()\nfrostline.idle()", ""),
        ("idle", "", ""),  # its boundary has not come: that is said elsewhere
        ("freeze", "frostline.startup_complete()", ""),
    ],
)
def test_a_policy_that_waits_for_what_nobody_tells_says_so(
    tmp_path: Path, policy: str, then: str, said: str
) -> None:
    text = f"import frostline, gc\n{then}\nassert gc.get_threshold()[2] > 0"
    ran = run(found()[0], tmp_path, text, FROSTLINE_POLICY=policy)
    assert (ran.code, ran.errors) == (0, "")
    session = overview.read(str(tmp_path / "session"))
    lines = [note for note in session.notes if note.startswith("policy ")]
    assert len(lines) == bool(said) and all(said in line and policy in line for line in lines)
    assert bool(session.rows[0].awaits) is bool(said)


def test_those_who_are_told_are_told_apart(tmp_path: Path) -> None:
    ran = run(
        found()[0],
        tmp_path,
        """
        import os, frostline
        if os.fork():
            frostline.step()
            if os.fork() == 0:
                os._exit(0)   # of one that steps: it knows what it waits for
            os.wait()
            os.wait()
        """,
        FROSTLINE_POLICY="sync:3",
    )
    assert ran.code == 0
    session = overview.read(str(tmp_path / "session"))
    assert sorted(row.awaits for row in session.rows) == ["", "", "steps"]
    (line,) = [note for note in session.notes if note.startswith("policy ")]
    assert "(in 2 others it has)" in line
