"""Groups and runs as text, JSON and tables; a real program, run twice, from span to report (B7, B11)."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from frostline.analysis import Analysis, analyse
from frostline.commands.report import report as command
from frostline.format import told
from frostline.recording import read_session
from frostline.report import plain, report, to_json, write_csv
from tests.analysis.test_groups import step
from tests.jsondoc import documented, keys
from tests.reach.under_run import FROSTLINE, wait_for_helper
from tests.synthetic import MS, Process


def engine(folder: Path) -> Analysis:
    folder.mkdir(exist_ok=True)
    process = Process()
    process.add_identity("EngineCore", 0)
    for i in range(200):
        slow = i % 50 == 7
        step(process, i * 10_000, 9000 if slow else 5000, 5480 if slow else 2000, batch=8 + i % 2)
    process.write(folder)
    return analyse(read_session(folder))


def test_the_text_has_groups_parts_and_what_is_not_blamed_on_the_collector(tmp_path: Path) -> None:
    text = "\n".join(plain(report(engine(tmp_path))))
    assert re.search(r"EngineCore dp0 \(pid 4711\)\s+engine step\s+decode\s+8-15\s+200 ", text)
    assert re.search(r"\n\s+submit\s+200\s+\S+\s+40\.7%\s+\S+\s+87%", text)
    assert (
        "EngineCore dp0 (pid 4711): 4 of 200 'engine step' (2.0%) took over 1.2 x their group's median, and "
        "passes of its own do not explain them. 87% of their excess of 16.0 ms is inside submit."
    ) in text
    assert "Runs:" not in text  # of one run there is nothing to compare


def test_a_session_that_tells_nothing_has_no_table_of_groups(tmp_path: Path) -> None:
    process = Process()
    for i in range(50):
        process.add_span("step", i * 10 * MS, 5 * MS)
    process.write(tmp_path)
    text = "\n".join(plain(report(analyse(read_session(tmp_path)))))
    assert "Groups:" not in text and "Time in a step" not in text and "1.2 x" not in text


def test_every_key_is_documented_and_every_column(tmp_path: Path) -> None:
    analysis = engine(tmp_path / "s")
    data = json.loads(json.dumps(to_json(analysis)))
    assert keys(data["grouping"], "grouping.") <= documented("report")
    folder = tmp_path / "csv"
    assert "groups.csv" in {path.name for path in write_csv(analysis, folder)}
    readme = (folder / "README.md").read_text()
    for name in ("groups.csv", "runs.csv", "steps_001-4711.csv"):
        for column in rows(folder / name)[0]:
            assert f"`{column}`" in readme, (name, column)
    steps = rows(folder / "steps_001-4711.csv")
    assert {(row["stage"], row["batch"]) for row in steps} == {("decode", "8"), ("decode", "9")}
    total = sum(float(row["self_ms"]) for row in steps)
    whole = sum(float(row["duration_ms"]) for row in steps if row["label"] == "engine step")
    assert abs(total - whole) < 0.001
    groups = {(row["label"], row["batch_low"]): row for row in rows(folder / "groups.csv")}
    assert groups["engine step", "8"]["over"] == "4" and groups["engine step", "8"]["compared"] == "200"
    (run,) = rows(folder / "runs.csv")
    assert (run["launch"], run["launch_offset"]) == ("1", "")


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_name_from_a_stranger_is_safe_in_text_and_cell(tmp_path: Path) -> None:
    process = Process()
    evil = process.name("=cmd()\x1b[31m")
    for i in range(30):
        process.add_span("task", i * 10 * MS, MS, flags=told.FLAG_GROUP, value1=evil)
    process.write(tmp_path)
    analysis = analyse(read_session(tmp_path))
    assert "\x1b" not in "\n".join(plain(report(analysis)))
    write_csv(analysis, tmp_path / "csv")
    assert {row["group"] for row in rows(tmp_path / "csv" / "groups.csv")} == {"'=cmd()\\x1b[31m"}


PROGRAM = """
import frostline

class Engine:
    def schedule(self, batch):
        with frostline.span("schedule", batch=batch) as told:
            told.stage = "prefill" if batch == 1 else "decode"

    def submit(self, batch):
        return sum(range(batch * 100))

engine = Engine()
frostline.wrap(engine, "submit", "submit")
for i in range(240):
    with frostline.span("engine step"):
        engine.schedule(1 << i % 3)
        engine.submit(1 << i % 3)
"""


def test_a_real_program_run_twice(tmp_path: Path) -> None:
    path = tmp_path / "engine.py"
    path.write_text(PROGRAM)
    for name in ("a", "b"):
        done = subprocess.run(
            [*FROSTLINE, "run", "-o", str(tmp_path / name), "--", sys.executable, str(path)],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        wait_for_helper(tmp_path / name)
    result = CliRunner().invoke(command, [str(tmp_path / "a"), str(tmp_path / "b")])
    assert result.exit_code == 0, result.output
    assert re.search(r"engine step\s+prefill\s+1\s+80 ", result.stdout)
    assert re.search(r"engine step\s+decode\s+4-7\s+80 ", result.stdout)
    assert (
        "Time in a step" in result.stdout and "Runs: steps against those of the other runs" in result.stdout
    )
    assert "of two runs it cannot be concluded which one is off" in " ".join(result.stdout.split())
    data = json.loads(
        CliRunner().invoke(command, [str(tmp_path / "a"), str(tmp_path / "b"), "--json"]).stdout
    )
    assert [run["session"] for run in data["grouping"]["runs"]] == [0, 1]
    assert [one["groups"] for one in data["grouping"]["offsets"]] == [3, 3]
    assert [one["count"] for one in data["grouping"]["offsets"]] == [24, 24]
    for part in ("schedule", "submit", ""):
        assert sum(one["count"] for one in data["grouping"]["parts"] if one["part"] == part) == 480
    assert keys(data["grouping"], "grouping.") <= documented("report")
