"""The README's first minute: its program, its commands and what it shows of their output."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests.reach.under_run import FROSTLINE, environment, wait_for_helper
from tests.typed import lines

README = (Path(__file__).resolve().parents[1] / "README.md").read_text()
MINUTE = README.partition("## The first minute\n")[2].partition("\n## ")[0]
(PROGRAM,) = re.findall(r"^```python\n(.*?)^```", MINUTE, re.DOTALL | re.MULTILINE)
#: What the reports print, as the README shows it.
STOCK, FROZEN = re.findall(r"^```text\n(.*?)^```", MINUTE, re.DOTALL | re.MULTILINE)
RUN, REPORT, AGAIN = lines(MINUTE)[:3]


def typed(tmp_path: Path, line: str) -> str:
    """Runs a line of the README and returns what it printed."""
    tool, *arguments = shlex.split(line, comments=True)
    assert tool == "frostline"
    done = subprocess.run(
        [*FROSTLINE, *(sys.executable if word == "python" else word for word in arguments)],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.replace(sys.executable, "python")


def plain(text: str) -> list[str]:
    """The lines without their numbers, and without what is plural."""
    return [
        re.sub(r"\b(\w+?)s?\b", r"\1", re.sub(r"[\d,.]+", "#", line)).strip() for line in text.splitlines()
    ]


def test_the_first_minute_is_as_it_says(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(PROGRAM)
    sessions: set[Path] = set()
    stock = 0
    for command, shown in ((RUN, STOCK), (AGAIN, FROZEN)):
        assert typed(tmp_path, command) == "ready\n"
        (session,) = set(tmp_path.glob("frostline-*")) - sessions
        sessions.add(session)
        wait_for_helper(session)
        printed = typed(tmp_path, REPORT)
        if command == RUN:
            # How many steps are slow, and whether thresholds would help besides, is the machine's affair.
            assert plain(printed)[0] == plain(shown)[0]
            assert (
                re.search(r"^Next: frostline run --policy freeze\S* (.+)$", printed, re.MULTILINE)[1] in AGAIN
            )
        (process,) = json.loads(typed(tmp_path, f"{REPORT} --json"))["processes"]
        assert bool(process["frozen"]["since"]) == (command == AGAIN)
        if command == RUN:
            stock = process["held"]["total"]
        else:
            assert (process["held"] or {"total": 0})["total"] < stock / 2
