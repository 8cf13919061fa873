"""The open-loop client (C5, D7): the plan's laws, and every end of a request on a real server."""

from __future__ import annotations

import csv
import json
import math
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frostline.errors import FrostlineError
from frostline.experiment.load.plan import NS, from_trace, ladder
from frostline.recording.requests import read_requests
from tests.reach.under_run import FROSTLINE, environment

HERE = Path(__file__).parent


@pytest.fixture
def url() -> Iterator[str]:
    server = subprocess.Popen(
        [sys.executable, str(HERE / "server.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
    server.communicate(timeout=30)


def load(tmp_path: Path, *arguments: str) -> tuple[dict[str, object], list[dict[str, object]]]:
    """The one rung's summary, and every request."""
    out = tmp_path / "requests.jsonl"
    done = subprocess.run(
        [*FROSTLINE, "load", *arguments, "--json", "-o", str(out), "--warmup", "0.2", "--seconds", "1"],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode in (0, 1), done.stderr
    told = json.loads(done.stdout)
    (rung,) = told["rungs"]
    assert told["client"]["ran_ms"] > 0 and told["client"]["queued_ms"] >= 0
    header, *rows = map(json.loads, out.read_text().splitlines())
    assert header["frostline_requests"] == 1 and header["clock"] == "monotonic"
    return rung, rows


@given(st.floats(0.5, 5_000), st.floats(0.1, 5), st.floats(0, 2), st.integers(0, 2**31), st.booleans())
def test_a_plan_is_fixed_by_its_seed(
    rate: float, seconds: float, warmup: float, seed: int, poisson: bool
) -> None:
    try:
        first = ladder([rate, 2 * rate], seconds, warmup, seed, poisson)
    except FrostlineError as error:
        assert error.slug == "load-plan" and rate * (seconds + warmup) < 20
        return
    again = ladder([rate, 2 * rate], seconds, warmup, seed, poisson)
    stop = 0
    for one, other in zip(first, again, strict=True):
        assert np.array_equal(one.offsets, other.offsets)
        assert one.start == stop and (np.diff(one.offsets) >= 0).all()
        assert not len(one.offsets) or (one.start <= one.offsets[0] and one.offsets[-1] < one.stop)
        stop = one.stop


def test_a_poisson_plan_has_its_rate_and_its_spread() -> None:
    (rung,) = ladder([1_000.0], 100.0, 0.0, 7)
    gaps = np.diff(rung.offsets) / NS
    assert abs(len(rung.offsets) - 100_000) < 5 * 100_000**0.5
    assert gaps.mean() == pytest.approx(0.001, rel=0.02) and gaps.std() == pytest.approx(0.001, rel=0.02)


def test_a_trace_is_sent_as_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text('3.5\n1.0\n{"timestamp": 2.25}\n')
    (rung,) = from_trace(path)
    assert rung.offsets.tolist() == [0, 1_250_000_000, 2_500_000_000]
    # Three requests with two gaps of 1.25 s between them, and one behind them.
    assert (rung.stop, rung.rate) == (3_750_000_000, 0.8)
    for text in ("one\n", "1\nnan\n", "inf\n", '{"time": 1}\n'):
        path.write_text(text)
        with pytest.raises(FrostlineError, match="is no trace"):
            from_trace(path)
    path.write_text("7\n")
    (rung,) = from_trace(path)
    assert (rung.offsets.tolist(), rung.stop, rung.rate) == ([0], NS, 1)


def test_answers_are_counted_from_the_plan(tmp_path: Path, url: str) -> None:
    rung, rows = load(tmp_path, f"{url}/ok", "--rate", "50", "--even")
    measured = [row for row in rows if row.get("measured", True)]
    assert len(rows) == 60 and rung["requests"] == len(measured) == 50 and not rung["failures"]
    for row in rows:
        assert row["status"] == "ok"
        assert row["intended"] <= row["sent"] <= row["first"] <= row["last"]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("path", "word"), [("/error", "http 500"), ("/drop", "broken off"), ("/never", "timeout")]
)
def test_failures_count_at_their_deadline(tmp_path: Path, url: str, path: str, word: str) -> None:
    rung, rows = load(tmp_path, f"{url}{path}", "--rate", "20", "--even", "--deadline", "0.5")
    assert rung["failures"] == {word: 20} and rung["achieved"] == rung["answered"] == 0
    assert rung["response"]["p50"] >= 500  # type: ignore[index]
    assert {row["status"] for row in rows} == {word}


def test_why_there_is_no_connection_is_said(tmp_path: Path) -> None:
    rung, _ = load(tmp_path, "http://127.0.0.1:9/", "--rate", "10", "--even", "--deadline", "0.5")
    assert rung["failures"] == {"connection refused": 10}
    rung, rows = load(tmp_path, "http://255.255.255.255:9/", "--rate", "10", "--even", "--deadline", "0.5")
    assert rung["failures"] == {"no connection: Network is unreachable": 10} and rung["own"] == 0
    assert {row["status"] for row in rows} == {"no connection: Network is unreachable"}
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"https://127.0.0.1:{server.getsockname()[1]}/"
        process = shown(tmp_path, url, "--rate", "5", "--even", "--seconds", "1", "--warmup", "0", "--json")
        for _ in range(5):
            one = server.accept()[0]
            one.recv(65_536)
            one.sendall(b"this is no TLS\r\n")
            one.close()
        output, errors = process.communicate(timeout=60)
    assert json.loads(output)["rungs"][0]["failures"] == {"no connection: TLS": 5}, errors


def test_a_client_that_has_run_out_of_files_is_no_verdict_on_the_server(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as server:  # which answers nobody
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        plan = ["--rate", "200", "--even", "--seconds", "1", "--warmup", "0", "--deadline", "2"]
        files = ["-o", "out.jsonl", "--csv", "out.csv"]
        limited = ["/bin/sh", "-c", 'ulimit -n 64 && exec "$@"', "sh", *FROSTLINE, "load", url, *plan, *files]

        def told(*more: str) -> str:
            done = subprocess.run(
                [*limited, *more],
                env=environment(tmp_path),
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=60,
            )
            assert done.returncode == 1, done.stderr
            return done.stdout

        (rung,) = json.loads(told("--json"))["rungs"]
        lost = rung["failures"]["no connection: Too many open files"]
        assert rung["own"] == lost > 100 and lost + rung["failures"]["timeout"] == 200 and not rung["valid"]
        output = " ".join(told().split())
    assert "of 200 requests could not be sent for want of files or ports where the client runs" in output
    # Whoever lays that file beside a recording is told the same.
    assert read_requests(tmp_path / "out.jsonl")[0].own == lost
    lines = [row["status"] for row in of_csv(tmp_path / "out.csv")]
    assert lines.count("timeout") + lines.count("no connection: Too many open files") == 200


@pytest.mark.parametrize("api", ["chat", "completions"])
def test_streams_count_text_only(tmp_path: Path, url: str, api: str) -> None:
    rung, rows = load(tmp_path, url, "--api", api, "--rate", "20", "--even")
    assert not rung["failures"]
    for row in rows:
        assert row["tokens"] == 3 and len(row["gaps"]) == 2  # type: ignore[arg-type]
        # No event behind the last text has a choice.
        assert row["first"] + sum(row["gaps"]) == row["last_token"] <= row["last"]  # type: ignore[operator, arg-type]


def test_times_of_a_stream_are_those_of_its_events(tmp_path: Path, url: str) -> None:
    rung, rows = load(tmp_path, url, "--api", "chat", "--rate", "20", "--even")
    measured: list[Any] = [row for row in rows if row.get("measured", True)]
    first = sorted(row["first"] - row["intended"] for row in measured)
    between = sorted((row["last_token"] - row["first"]) / 2 for row in measured)  # three tokens
    gaps = sorted(gap for row in measured for gap in row["gaps"])
    for name, values in (("ttft", first), ("tpot", between), ("itl", gaps)):
        told: Any = rung[name]
        for q in (0.5, 0.99, 1.0):
            exact = values[math.ceil(q * len(values)) - 1] / 1e6
            assert told["max" if q == 1.0 else f"p{100 * q:g}"] == pytest.approx(exact, abs=0.001)


def test_a_usage_count_is_believed_and_a_broken_stream_is_a_failure(tmp_path: Path, url: str) -> None:
    body = tmp_path / "body"
    body.write_text(json.dumps({"messages": [], "stream": True, "usage": True, "end": True}))
    _, rows = load(tmp_path, url, "--api", "chat", "--body", str(body), "--rate", "10", "--even")
    assert {row["tokens"] for row in rows} == {7}
    # The answer's end is an event without text, and one of its tokens.
    assert all(row["first"] + sum(row["gaps"]) < row["last_token"] < row["last"] for row in rows)  # type: ignore[operator, arg-type]
    rung, _ = load(tmp_path, f"{url}/broken", "--api", "chat", "--rate", "10", "--even", "--deadline", "1")
    assert rung["failures"] == {"broken off": 10}


@pytest.mark.parametrize(
    ("arguments", "slug"),
    [
        (("http://x",), "load-plan"),
        (("http://x", "--trace", __file__, "--seconds", "9"), "load-plan"),
        (("ftp://x", "--rate", "1"), "load-url"),
        (("http://x", "--rate", "1", "--header", "nothing"), "load-header"),
        (("http://x", "--rate", "1", "--api", "chat", "--body", __file__), "load-body"),
        (("http://x", "--rate", "1e6", "--seconds", "1e5"), "load-plan"),
        (("http://", "--rate", "1"), "load-url"),
        (("http://127.0.0.1:99999/", "--rate", "1"), "load-url"),
        (("http://127.0.0.1:9/", "--rate", "1", "-o", "no folder/x"), "load-unwritable"),
        (("http://127.0.0.1:9/", "--rate", "1", "--hdr", "no folder/x"), "load-unwritable"),
        (("http://127.0.0.1:9/", "--rate", "1", "--csv", "no folder/x"), "load-unwritable"),
    ],
)
def test_nonsense_is_refused_with_what_to_do(tmp_path: Path, arguments: tuple[str, ...], slug: str) -> None:
    done = subprocess.run(
        [*FROSTLINE, "load", *arguments],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode in (1, 2) and f"[{slug}]" in done.stderr


def shown(tmp_path: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*FROSTLINE, "load", *arguments],
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )


COLUMNS = (
    "rung", "measured", "intended", "sent", "first", "last_token", "last", "deadline", "status", "tokens",
    "gaps",
)  # fmt: skip


def of_csv(path: Path) -> list[dict[str, Any]]:
    """The rows of the table as our own format has them, with every key."""
    with path.open(newline="") as file:
        lines = csv.DictReader(file)
        rows = list(lines)
    assert tuple(lines.fieldnames or ()) == COLUMNS
    found = []
    for row in rows:
        status, gaps = row.pop("status"), [int(gap) for gap in row.pop("gaps").split()]
        numbers = {name: int(cell) if cell else None for name, cell in row.items()}
        found.append(numbers | {"measured": row["measured"] == "1", "status": status, "gaps": gaps or None})
    return found


def test_a_trace_is_sent_and_all_files_say_the_same_of_it(tmp_path: Path, url: str) -> None:
    times = [0, 100, 300, 310, 311, 600]  # ms
    (tmp_path / "trace").write_text("".join(f"{time / 1e3}\n" for time in times))
    parquet = pytest.importorskip("pyarrow.parquet") if sys.version_info < (3, 15) else None
    files = ["-o", "out.jsonl", "--csv", "out.csv", "--hdr", "out.hgrm"]
    files += ["--parquet", "out.parquet"] if parquet else []
    process = shown(tmp_path, url, "--api", "chat", "--trace", "trace", *files)
    output, errors = process.communicate(timeout=60)
    assert process.returncode in (0, 1) and "Ceiling" not in output, errors
    header, *rows = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
    assert [row["intended"] - header["begun"][0] for row in rows] == [time * 1_000_000 for time in times]
    assert all(row["tokens"] == 3 and len(row["gaps"]) == 2 for row in rows)
    expected = [
        {"rung": 0, "measured": True, "deadline": row["intended"] + header["deadline"], **row} for row in rows
    ]
    assert of_csv(tmp_path / "out.csv") == expected
    if parquet:
        table = parquet.read_table(tmp_path / "out.parquet")
        assert table.to_pylist() == expected and tuple(table.column_names) == COLUMNS
        assert json.loads(table.schema.metadata[b"frostline.requests"]) == header
    assert re.search(r"TotalCount +=  +6.000", (tmp_path / "out.hgrm").read_text())
    assert (tmp_path / "out.hlog").read_text().count("HISTF") == 1


def test_failures_are_in_the_tables_too(tmp_path: Path, url: str) -> None:
    table = tmp_path / "table.csv"
    load(tmp_path, f"{url}/never", "--rate", "20", "--even", "--deadline", "0.3", "--csv", str(table))
    rows = of_csv(table)
    assert len(rows) == 24 and {row["status"] for row in rows} == {"timeout"}
    assert {row[name] for row in rows for name in ("last", "last_token", "first", "tokens", "gaps")} == {None}
    assert [row["measured"] for row in rows] == [False] * 4 + [True] * 20
    assert all(row["deadline"] == row["intended"] + 300_000_000 for row in rows)


@pytest.mark.parametrize(("module", "option"), [("pyarrow", "--parquet"), ("hdrh", "--hdr")])
def test_a_file_names_its_extra_before_anything_is_sent(tmp_path: Path, module: str, option: str) -> None:
    program = f"import sys; sys.modules['{module}'] = None; from frostline.commands.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "load", "http://127.0.0.1:9/", "--rate", "1", option, "x"],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 1 and "[missing-extra]" in done.stderr and not (tmp_path / "x").exists()


def test_a_run_without_an_answer_says_so(tmp_path: Path) -> None:
    process = shown(
        tmp_path, "http://127.0.0.1:9/", "--rate", "20", "--seconds", "0.5", "--warmup", "0",
        "--deadline", "0.5", "-o", "a b.jsonl",
    )  # fmt: skip
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 1, errors
    assert output.lstrip().startswith("Nothing was answered")
    assert "nan" not in output and "frostline report --requests 'a b.jsonl'" in output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_is_one_of_the_time_that_it_had(tmp_path: Path, number: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        process = shown(
            tmp_path, f"http://127.0.0.1:{server.getsockname()[1]}/", "--rate", "50", "--even",
            "--seconds", "600", "--warmup", "0", "-o", "out.jsonl",
        )  # fmt: skip
        taken = [server.accept()[0] for _ in range(5)]
        for one in taken:
            one.recv(65_536)
            one.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
            while one.recv(65_536):  # until the client, which has read it all, closes
                pass
            one.close()
        under_way, _ = server.accept()
        under_way.recv(65_536)
        process.send_signal(number)
        output, errors = process.communicate(timeout=60)
    assert "Interrupted after" in output and "of 600.0 s" in output, errors
    assert "counted as long as they had lasted" in output
    # The five answers of the second or so that there was, not of the ten minutes that were planned.
    achieved = float(output.partition("late p99\n")[2].split()[2])
    assert achieved > 0.1


def test_a_full_disk_costs_the_file_and_not_the_result(tmp_path: Path, url: str) -> None:
    plan = ["--rate", "20", "--even", "--seconds", "1", "--warmup", "0"]
    process = shown(tmp_path, f"{url}/ok", *plan, "--json", "-o", "/dev/full")
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 1 and "No space left on device" in errors
    assert json.loads(output)["rungs"][0]["requests"] == 20
