"""JSON, the generated format documentation, and the command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from frostline.analysis import analyse
from frostline.commands.report import report as command
from frostline.format.describe import describe
from frostline.recording import read_session
from frostline.report import to_json
from tests.jsondoc import documented, keys
from tests.report.test_text import server
from tests.synthetic import MS, Process

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_every_key_of_the_json_is_documented(tmp_path: Path) -> None:
    data = json.loads(json.dumps(to_json(server(tmp_path))))
    assert data["schema"] == 1
    missing = keys(data) - documented("report")
    assert not missing, f"docs/json.md does not say what {sorted(missing)} are"


def test_the_json_says_what_the_text_says(tmp_path: Path) -> None:
    data = to_json(server(tmp_path))
    assert data["verdict"]["sentence"] == "the collector explains 3 of the 3 slow steps"
    assert (data["processes"][0]["held"]["count"], data["processes"][0]["held"]["waited"]) == (3, 3)
    (process,) = data["processes"]
    assert process["name"] == "EngineCore dp0 (pid 4711)"
    assert process["generations"][0]["count"] == 3
    assert [step["verdict"] for step in process["slow_steps"]] == ["the collector"] * 3


def test_docs_format_is_what_the_tables_say() -> None:
    """Regenerate it with ``python -m frostline.format.describe > docs/format.md``."""
    assert (DOCS / "format.md").read_text() == describe()


# --- the command ----------------------------------------------------------------------
def test_the_newest_session_is_reported_without_an_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    server(tmp_path / "frostline-20260101-000000")
    result = CliRunner().invoke(command, [])
    assert result.exit_code == 0, result.output
    assert result.output.startswith("The collector explains 3 of the 3 slow steps")


def test_json_of_two_sessions(tmp_path: Path) -> None:
    server(tmp_path / "a")
    server(tmp_path / "b")
    result = CliRunner().invoke(command, [str(tmp_path / "a"), str(tmp_path / "b"), "--json"])
    data = json.loads(result.stdout)
    assert [p["session"] for p in data["processes"]] == [0, 1]
    assert data["verdict"]["slow"] == 6
    assert data["processes"][1]["name"].endswith(", session 2)")


def test_bounds_of_slow(tmp_path: Path) -> None:
    server(tmp_path / "a")
    result = CliRunner().invoke(command, [str(tmp_path / "a"), "--long-ms", "100"])
    assert "none of the 103 steps recorded takes over 100 ms" in result.output


@pytest.mark.parametrize("arguments", [["--long-ms", "-1"], ["--long-factor", "0"], ["--nonsense"]])
def test_nonsense_is_a_usage_error(arguments: list[str]) -> None:
    assert CliRunner().invoke(command, arguments).exit_code == 2


def test_errors_go_to_stderr_with_their_slug(tmp_path: Path) -> None:
    program = "from frostline.commands.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "report", str(tmp_path / "none")], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert "[session-not-found]" in done.stderr and "Traceback" not in done.stderr


def test_several_series_of_one_pid_are_told_apart(tmp_path: Path) -> None:
    first = Process(pid=10)
    second = Process(pid=10, opened=first.opened + 1000 * MS)
    third = Process(pid=10, opened=first.opened + 2000 * MS, interpreter=1)
    for process in (first, second, third):
        process.add_pass(10, MS)
        process.add_identity("Server")
        process.write(tmp_path)
    names = [p.name for p in analyse(read_session(tmp_path)).processes]
    assert names == ["Server (pid 10)", "Server (pid 10, program 2)", "Server (pid 10, interpreter 1)"]


def test_a_forked_worker_is_not_named_as_its_master_is(tmp_path: Path) -> None:
    """R11, and the same name in ``status`` (A7)."""
    from frostline.format import MARK_FORKED
    from frostline.reach import overview

    argv = [("argv", "/usr/bin/python3"), ("argv", "/usr/bin/gunicorn"), ("argv", "app:app")]
    master, worker = Process(pid=10, text=argv), Process(pid=11, text=argv)
    worker.add_mark(MARK_FORKED, 0, a=10)
    for process in (master, worker):
        process.write(tmp_path)
    names = [p.name for p in analyse(read_session(tmp_path)).processes]
    assert names == ["gunicorn (pid 10)", "gunicorn child (pid 11)"]
    rows = overview.read(str(tmp_path)).rows
    assert [f"{row.name} (pid {row.pid})" for row in rows] == names


def test_a_freeze_of_the_programs_own_is_no_empty_cell_in_status(tmp_path: Path) -> None:
    """R8: nobody counted it; an empty cell would read as "not frozen"."""
    from frostline.format import MARK_FREEZE, MARK_THAW
    from frostline.reach import overview

    frozen, thawed = Process(pid=10), Process(pid=11)
    for process in (frozen, thawed):
        process.add_mark(MARK_FREEZE, MS, file="gc_utils.py", a=-1)
    thawed.add_mark(MARK_THAW, 2 * MS, a=-1)
    for process in (frozen, thawed):
        process.write(tmp_path)
    assert [row.freeze for row in overview.read(str(tmp_path)).rows] == [
        "by the program",
        "thawed, was by the program",
    ]
