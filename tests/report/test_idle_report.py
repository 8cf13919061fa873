"""Gaps of ranks as the report prints, writes and draws them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np

from frostline.analysis import Analysis
from frostline.analysis.ranks import CONSISTENT, SUPPLY, UNEXPLAINED
from frostline.report import plain, report, to_json, write_csv
from frostline.report.html.figures import figures
from tests.analysis.test_idle import analysed, collecting, front_end, in_stalls, rank
from tests.jsondoc import documented, keys
from tests.report.test_html import unpack
from tests.report.test_tables import rows
from tests.report.test_text import on_a_terminal
from tests.synthetic import MS

#: Explained, for want of requests, unexplained.
GAPS = [(2_000, 300), (5_000, 3_010), (12_000, 400), (17_000, 60)]


def session(folder: Path) -> Analysis:
    engine = collecting(1, in_stalls([GAPS[0], GAPS[2]]), collected=3)
    requests = [(at, 1_000) for at in (*range(0, 5_000, 1_000), *range(8_000, 20_000, 1_000))]
    return analysed(folder, front_end(9, requests), engine, rank(2, GAPS))


def test_the_text_names_process_generation_share_and_chance(tmp_path: Path) -> None:
    text = "\n".join(plain(report(session(tmp_path))))
    start = text.index("Gaps between the steps of each rank")
    section = text[start : text.index("Full passes", start)]
    cells = [re.split(r"  +", line.strip()) for line in section.splitlines()]
    buckets = [row for row in cells if re.match(r"(Worker dp0|\d+-\d+$|over \d+$|all$)", row[0])][:5]
    assert [row[1:4] if row[0].startswith("Worker") else row[:3] for row in buckets] == [
        ["50-100", "1", "61.0"],
        ["100-400", "1", "301.0"],
        ["400-700", "1", "401.0"],
        ["over 700", "1", "3,011.0"],
        ["all", "4", "3,774.0"],
    ]
    assert "Whose passes the gaps are consistent with" in section
    row = next(line for line in section.splitlines() if "EngineCore dp0 (pid 1)" in line and "2: 2" in line)
    assert re.search(r"\b2\s+702\.0\s+670\.0\s+92%\s+0\.\d%\s+consistent\s+2: 2\s", row), row
    assert "supply gap: no request was in flight" in section and "unexplained" in section
    assert "caused" not in text


def test_every_key_of_it_is_documented(tmp_path: Path) -> None:
    data = json.loads(json.dumps(to_json(session(tmp_path))))
    assert keys(data) - documented("report") == set()
    (one,) = data["ranks"]
    assert (one["supply"], one["explained"], one["unexplained"]) == (1, 2, 1)
    assert [gap["kind"] for gap in one["longest"]] == [SUPPLY, CONSISTENT, CONSISTENT, UNEXPLAINED]
    assert one["consistent"][0]["process"] == "EngineCore dp0 (pid 1)"


def test_tables(tmp_path: Path) -> None:
    written = {path.name for path in write_csv(session(tmp_path / "s"), tmp_path / "csv")}
    names = {"gaps.csv", "gap_buckets.csv", "gap_causes.csv"}
    assert names <= written
    gaps = rows(tmp_path / "csv" / "gaps.csv")
    assert [row["kind"] for row in gaps] == [
        "consistent with a pass", "supply", "consistent with a pass", "unexplained",
    ]  # fmt: skip
    assert [row["with"] for row in gaps] == ["EngineCore dp0 (pid 1)", "", "EngineCore dp0 (pid 1)", ""]
    assert [row["generations"] for row in gaps] == ["2", "", "2", ""]
    assert {row["run"] for row in gaps} == {"002-2"}
    buckets = rows(tmp_path / "csv" / "gap_buckets.csv")
    assert [
        (row["low_ms"], row["high_ms"], row["count"], row["explained"], row["supply"]) for row in buckets
    ] == [
        ("50.000000", "100.000000", "1", "0", "0"),
        ("100.000000", "400.000000", "1", "1", "0"),
        ("400.000000", "700.000000", "1", "1", "0"),
        ("700.000000", "", "1", "0", "1"),
    ]
    (cause,) = rows(tmp_path / "csv" / "gap_causes.csv")
    assert (cause["passes_of"], cause["its_own"], cause["claimed"], cause["gen2"]) == (
        "EngineCore dp0 (pid 1)", "0", "1", "2",
    )  # fmt: skip
    readme = (tmp_path / "csv" / "README.md").read_text()
    for name in names:
        assert f"## {name}" in readme
        for column in rows(tmp_path / "csv" / name)[0]:
            assert f"`{column}`" in readme, (name, column)


def test_the_timeline_draws_them(tmp_path: Path) -> None:
    analysis = session(tmp_path)
    lanes = {lane["name"]: lane for lane in figures(analysis)[0]["lanes"]}
    assert lanes["EngineCore dp0 (pid 1)"]["gaps"] is None
    drawn = lanes["Worker dp0 (pid 2)"]["gaps"]
    assert unpack(drawn["kind"]).tolist() == [CONSISTENT, SUPPLY, CONSISTENT, UNEXPLAINED]
    assert np.allclose(unpack(drawn["length"]), [301, 3_011, 401, 61])
    assert np.allclose(unpack(drawn["start"]) * MS, analysis.ranks[0].start - analysis.start, atol=1_000)


def test_on_80_columns_whose_passes_they_are_stays(tmp_path: Path) -> None:
    lines = re.sub(r"\x1b\[[0-9;]*m", "", on_a_terminal(session(tmp_path), 80)).splitlines()
    text = " ".join(" ".join(lines).split())
    at = text.index("Gaps between the steps of each rank")
    section = text[at : text.index("Full passes", at)]
    assert "92%" in section and "consistent" in section and "EngineCore dp0" in section
    start = next(i for i, line in enumerate(lines) if "Gaps between the steps" in line)
    stop = next(i for i, line in enumerate(lines) if line.startswith("Full passes"))
    assert max(len(line.rstrip()) for line in lines[start:stop]) <= 80
