"""``status`` shows what ``follow`` is doing: B, H, F, alpha and whether there is credit (D8)."""

from __future__ import annotations

import json
from pathlib import Path

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
