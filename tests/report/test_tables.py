"""The tables for people (B7): CSV and Parquet say the same, and every column is documented."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from frostline import format as fmt
from frostline.analysis import Analysis, analyse
from frostline.analysis.passes import KINDS, kind_codes, kind_of
from frostline.errors import FrostlineError
from frostline.recording import read_session
from frostline.report import tables, write_csv, write_parquet
from frostline.report.schema import TABLES
from tests.many import write_many
from tests.report.test_text import server
from tests.synthetic import MS, Process

try:  # the tables in CSV are tested without it
    from pyarrow import parquet
except ImportError:
    parquet = None
needs_parquet = pytest.mark.skipif(parquet is None, reason="no pyarrow for this interpreter")


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def busy(folder: Path) -> Analysis:
    """Of everything that a table can hold at least one, and one of what is unknown."""
    folder.mkdir()
    process = Process(pid=4711)
    process.words["closed"] = process.opened + 3_000 * MS
    process.add_identity("=EngineCore", 0)
    process.add_state(0, (3, 0, 0), frozen=375)
    for i in range(8):
        process.add_span("step", i * 10 * MS, 5 * MS)
    flags = (
        0,
        fmt.PASS_EXPLICIT,
        fmt.PASS_FROSTLINE,
        fmt.PASS_DISABLED,
        fmt.PASS_FROSTLINE | fmt.PASS_EXPLICIT,
    )
    for i, flag in enumerate(flags):
        line = {"trigger_file": process.name("/srv/app.py"), "trigger_line": 7 + i} if i % 2 else {}
        process.add_pass(1_000 * MS + i * 100 * MS, 30 * MS + i, flags=fmt.PASS_FULL | flag, tid=5, **line)
    process.add_pass(1_900 * MS, 12_345, generation=0, flags=0, count0=0)
    process.add_pass(1_950 * MS, 12_345, generation=1, candidates=400, duration=1e-5)
    process.add_span("step", 990 * MS, 200 * MS, flags=fmt.SPAN_FLAG_ERROR)
    process.add_span("GET /", 990 * MS, 900 * MS, kind=fmt.SPAN_ASYNC)
    process.add_mark(fmt.MARK_FREEZE, 2_000 * MS, file="/srv/app.py", line=9, a=1_000)
    process.add_mark(fmt.MARK_THAW, 2_500 * MS, a=1_000)
    process.add_state(3_000 * MS, (4, 1, 6), closing=True)
    process.write(folder)
    late = Process(pid=4712, opened=process.opened + 500 * MS)
    late.add_pass(100 * MS, 40 * MS, threshold0=-1)
    late.write(folder)
    return analyse(read_session(folder))


def test_tables(tmp_path: Path) -> None:
    analysis = server(tmp_path / "s")
    written = {path.name for path in write_csv(analysis, tmp_path / "csv" / "deep")}
    names = {"runs.csv", "gc_events.csv", "freezes.csv", "long_calls.csv", "steps_001-4711.csv"}
    names |= {"gaps.csv", "gap_buckets.csv", "gap_causes.csv"}
    assert written == {"README.md", *names}
    folder = tmp_path / "csv" / "deep"
    (run,) = rows(folder / "runs.csv")
    assert (run["run"], run["process"], run["passes"], run["spans"]) == (
        "001-4711",
        "EngineCore dp0 (pid 4711)",
        "3",
        "103",
    )
    passes = rows(folder / "gc_events.csv")
    assert [row["pause_ms"] for row in passes] == ["80.000000"] * 3
    assert {row["kind"] for row in passes} == {"automatic"}
    assert {row["trigger"] for row in passes} == {"/srv/app.py:0"}
    steps = rows(folder / "steps_001-4711.csv")
    assert len(steps) == 103
    assert sum(float(row["in_passes_ms"]) for row in steps) == pytest.approx(240)
    long = rows(folder / "long_calls.csv")
    assert [row["explained"] for row in long] == ["1"] * 3


def test_what_is_unknown_is_an_empty_cell_and_no_cell_is_a_formula(tmp_path: Path) -> None:
    write_csv(busy(tmp_path / "s"), tmp_path / "csv")
    first, late = rows(tmp_path / "csv/runs.csv")
    assert first["process"].startswith("'=EngineCore")
    assert (first["closed"], late["closed"], late["freeze_count_attach"]) == ("1", "0", "")
    assert (first["freeze_count_attach"], first["thresholds"]) == ("375", "700 10 10")
    passes = rows(tmp_path / "csv/gc_events.csv")
    exact = next(row for row in passes if row["generation"] == "1")
    assert (exact["walked"], exact["walked_exact"], exact["trigger"]) == ("400", "1", "")
    unknown = next(row for row in passes if row["run"] == "002-4712")
    assert (unknown["walked"], unknown["walked_exact"], unknown["threshold0"]) == ("", "", "-1")
    freeze, thaw = rows(tmp_path / "csv/freezes.csv")
    assert (freeze["what"], freeze["objects"], freeze["took_ms"]) == ("freeze", "1000", "")
    assert (thaw["what"], thaw["why"]) == ("thaw", "")
    errors = [row["error"] for row in rows(tmp_path / "csv/steps_001-4711.csv") if row["kind"] == "sync"]
    assert sorted(errors) == ["0"] * 8 + ["1"]


def test_the_kind_of_each_pass_is_the_same_one_by_one_and_in_one_go(tmp_path: Path) -> None:
    seen = set()
    for process in busy(tmp_path / "s").processes:
        codes = kind_codes(process.series, process.pauses).tolist()
        one_by_one = [kind_of(process.series, process.pauses, i) for i in range(len(codes))]
        assert [KINDS[code] for code in codes] == one_by_one
        seen |= set(one_by_one)
    assert seen == set(KINDS)


def documented(readme: str) -> dict[str, list[list[str]]]:
    """Table's file -> the names in the first column of its rows, in order."""
    found = {}
    for part in readme.split("\n## ")[1:]:
        cells = re.findall(r"^\| (`.*?`) \|", part, re.MULTILINE)
        found[part.split("\n", 1)[0]] = [re.findall(r"`([^`]+)`", cell) for cell in cells]
    return found


def test_the_readme_says_of_every_column_what_it_is(tmp_path: Path) -> None:
    write_csv(busy(tmp_path / "s"), tmp_path / "csv")
    said = documented((tmp_path / "csv/README.md").read_text())
    files = [path for path in (tmp_path / "csv").iterdir() if path.suffix == ".csv"]
    assert len(files) == 5
    for path in files:
        name = re.sub(r"_\d{3}-\d+\.", "_<run>.", path.name)
        with path.open(newline="") as file:
            assert [[column] for column in next(csv.reader(file))] == said[name], name
    for schema in TABLES:
        assert all(len(column.about) > 3 for column in schema.columns)


def test_tables_that_cannot_be_written_are_an_error(tmp_path: Path) -> None:
    analysis = server(tmp_path / "s")
    (tmp_path / "file").write_text("")
    with pytest.raises(FrostlineError) as caught:
        write_csv(analysis, tmp_path / "file" / "x")
    assert caught.value.slug == "csv-unwritable"


# --- Parquet --------------------------------------------------------------------------
def as_csv(kind: str, value: Any) -> str:
    """A value of a Parquet file as its CSV shows it."""
    if value is None:
        return ""
    if kind == "flag":
        return str(int(value))
    digits = {"instant": 9, "length": 6, "share": 6}.get(kind)
    return str(value) if digits is None else f"{value:.{digits}f}"


def idle(folder: Path) -> Analysis:
    from tests.report.test_idle_report import session

    return session(folder)


@needs_parquet
@pytest.mark.parametrize("session", [busy, idle])
def test_parquet_holds_what_the_csv_does_with_types_and_whole_nanoseconds(
    tmp_path: Path, session: Callable[[Path], Analysis]
) -> None:
    analysis = session(tmp_path / "s")
    write_csv(analysis, tmp_path / "csv")
    written = write_parquet(analysis, tmp_path / "parquet")
    said = documented((tmp_path / "parquet/README.md").read_text())
    schemas = {schema.file: schema for schema in TABLES}
    compared = 0
    for path in written:
        if path.suffix != ".parquet":
            continue
        table = parquet.read_table(path)
        name = re.sub(r"_\d{3}-\d+$", "_<run>", path.stem)
        assert table.column_names == [n for names in said[f"{name}.parquet"] for n in names]
        expected = rows(tmp_path / "csv" / f"{path.stem}.csv")
        found = table.to_pylist()
        assert len(found) == len(expected)
        for column in schemas[name].columns:
            kind = {
                "text": "dictionary<values=string, indices=int32, ordered=0>",
                "int": "int64",
                "flag": "bool",
            }
            assert str(table.schema.field(column.name).type) == kind.get(column.kind, "double")
            shown = [as_csv(column.kind, row[column.name]) for row in found]
            assert shown == [row[column.name] for row in expected], (path.name, column.name)
            compared += len(shown)
            if column.kind in ("instant", "length"):
                assert str(table.schema.field(column.in_ns).type) == "int64"
                unit = 10**9 if column.kind == "instant" else 10**6
                exact = [None if not cell else int(Decimal(cell) * unit) for cell in shown]
                assert [row[column.in_ns] for row in found] == exact
        about = table.schema.metadata
        assert int(about[b"frostline.start_monotonic_ns"]) == analysis.start
    assert compared > 300


@needs_parquet
def test_many_steps_are_written_in_pieces(tmp_path: Path) -> None:
    write_many(tmp_path / "s", tables.PIECE + 20_000)
    analysis = analyse(read_session(tmp_path / "s"))
    write_parquet(analysis, tmp_path / "parquet")
    (path,) = (tmp_path / "parquet").glob("steps_*")
    file = parquet.ParquetFile(path)
    spans = analysis.processes[0].series.spans
    assert file.metadata.num_rows == len(spans["start"]) > tables.PIECE
    assert file.metadata.num_row_groups == 2
    start = file.read(["start_ns"]).column(0).to_numpy()
    assert (start == spans["start"] - analysis.start).all()


@needs_parquet
def test_a_folder_that_cannot_be_written_to_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FrostlineError) as caught:
        write_parquet(server(tmp_path / "s"), tmp_path / "file" / "x")
    assert caught.value.slug == "parquet-unwritable"


@pytest.mark.parametrize("there", [True, False] if parquet else [False])
def test_the_command_writes_them_or_names_the_extra(tmp_path: Path, there: bool) -> None:
    server(tmp_path / "s")
    hidden = "" if there else "sys.modules['pyarrow'] = None; "
    program = f"import sys; {hidden}from frostline.commands.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "report", str(tmp_path / "s"), "--parquet", str(tmp_path / "out")],
        capture_output=True,
        text=True,
    )
    if there:
        assert done.returncode == 0 and f"files in {tmp_path}" in done.stderr, done.stderr
        assert (tmp_path / "out/gc_events.parquet").exists()
    else:
        assert done.returncode == 1
        assert 'pip install "frostline[parquet]"' in done.stderr and "[missing-extra]" in done.stderr
