"""Requests of a load client in the report: text, JSON, CSV, the page, and the command."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from frostline.analysis import Analysis
from frostline.analysis.requests import with_requests
from frostline.recording.requests import CLOSED, write_own
from frostline.report import plain, report, to_json, write_csv
from frostline.report.html import to_html
from tests.analysis.test_requests import OPENED, PLACES, process, slow_at
from tests.analysis.test_verdict import analysed
from tests.commands.test_main import frostline
from tests.jsondoc import documented, keys
from tests.report.test_html import Page, unpack
from tests.report.test_text import EVIL
from tests.requests import S, run_of, vllm_result
from tests.synthetic import MS


@pytest.fixture
def session(tmp_path: Path) -> Analysis:
    stops = [(S + i * 100 * MS + MS, 90 * MS) for i in PLACES]
    (tmp_path / "s").mkdir()
    return analysed(tmp_path / "s", process(11, "EngineCore", stops), process(12, "APIServer", []))


def test_the_text_calls_no_run_valid_that_the_client_could_not_send_whole(session: Analysis) -> None:
    run = run_of([OPENED + S + i * 100 * MS for i in range(50)], [10 * MS] * 50, own=7)
    text = "\n".join(plain(report(with_requests(session, [run]))))
    assert "INVALID: 7 failed for want of files or ports where the client ran; sent late by" in text
    assert "valid:" not in text.replace("INVALID:", "")


def test_the_text_says_what_was_measured_and_what_is_consistent(session: Analysis) -> None:
    lines = list(plain(report(with_requests(session, [slow_at(PLACES)]))))
    text = "\n".join(lines)
    assert "  Requests in bench.json: 200; p99 of the response 100 ms, 10 ms without the 5 that" in text
    at = lines.index("Requests of bench.json")
    assert lines[at + 1].split() == (
        [
            "ms",
            "count",
            "p50",
            "p99",
            "p99.9",
            "max",
            "slow",
            "touched",
            "p99",
            "of",
            "these",
            "p99",
            "of",
            "the",
            "rest",
        ]
    )
    assert lines[at + 2].split() == [
        "response",
        "200",
        "10.0",
        "100.0",
        "100.0",
        "100.0",
        "5",
        "5",
        "100.0",
        "10.0",
    ]
    assert lines[at + 3].split() == ["service", "200", "10.0", "100.0", "100.0", "100.0"]
    assert "frostline format; open loop; valid: sent late by 0 ms (p99), bound 10 ms" in lines[at + 4]
    at = lines.index("Passes in the requests of bench.json")
    row = re.split(r"\s{2,}", lines[at + 2].strip())
    assert row[:7] == ["response: 5 slow", "EngineCore (pid 11)", "450.0", "5", "10.0", "5", "100.0%"]
    assert row[-1] == "yes" and "no proof" in text


def test_failures_and_closed_loops_are_named(session: Analysis) -> None:
    at = [OPENED + S + i * 100 * MS for i in range(50)]
    failing = run_of(at, [10 * MS] * 48 + [-1, -1], status={48: "timeout", 49: "503"}, name="a.json")
    closed = run_of(at, [10 * MS] * 50, loop=CLOSED, name="b.json", warm_up=3, unsent=2)
    text = "\n".join(plain(report(with_requests(session, [failing, closed]))))
    row = next(line for line in text.split("Requests of a.json")[1].splitlines() if "response" in line)
    assert row.split()[1:6] == ["50", "10.0", "failure", "failure", "failure"]
    assert "2 failed, and none is left out" in text
    second = text.split("Requests of b.json")[1]
    assert "metered, full" in second and "3 of the warm-up left out; 2 never sent left out" in second
    assert "[requests-closed-loop]" in text


def test_every_key_of_the_json_is_documented(session: Analysis) -> None:
    analysis = with_requests(session, [slow_at(PLACES), run_of([OPENED + S], [-1], status={0: "x"})])
    data = json.loads(json.dumps(to_json(analysis)))
    assert not keys(data) - documented("report")
    assert {key for key in documented("report") if key.startswith("requests")} <= keys(data)
    first, second = data["requests"]
    assert first["measures"][0]["shares"][0]["consistent"] == 5 and first["measures"][1]["touched"] is None
    assert second["measures"][0]["p99"] is None and second["failed"] == 1


def test_one_row_a_request(session: Analysis, tmp_path: Path) -> None:
    at = [OPENED + S + i * 100 * MS for i in range(18)]
    odd = run_of(
        at, [100 * MS] * 16 + [-1, 100 * MS], late=MS, first=[30 * MS] * 18, tokens=8,
        status={16: EVIL}, deadline=5 * S, name="=cmd",
    )  # fmt: skip
    write_csv(with_requests(session, [odd]), tmp_path / "csv")
    assert "requests.csv" in (tmp_path / "csv" / "README.md").read_text()
    with (tmp_path / "csv" / "requests.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    header = list(rows[0])
    readme = (tmp_path / "csv" / "README.md").read_text().split("## requests.csv")[1]
    assert all(f"`{name}`" in readme for name in header)
    first, failed, last = rows[0], rows[16], rows[17]
    assert first["file"] == "'=cmd" and first["status"] == "ok" and "\x1b" not in failed["status"]
    zero = session.start - OPENED
    assert float(first["intended_s"]) == pytest.approx((S - zero) / 1e9)
    assert (first["response_ms"], first["service_ms"], first["ttft_ms"]) == (
        "100.000000",
        "99.000000",
        "30.000000",
    )
    assert (first["tpot_ms"], first["touched"], first["run"]) == ("10.000000", "0", "")
    assert (failed["response_ms"], failed["tpot_ms"]) == ("5000.000000", "")
    assert (last["in_passes_ms"], last["touched"], last["run"]) == ("90.000000", "1", "001-11")


def test_the_page_draws_the_response_with_the_touched_in_red(session: Analysis) -> None:
    page = Page(to_html(with_requests(session, [slow_at(PLACES)])))
    figure = page.drawn[0]
    assert figure["title"] == "Requests of bench.json" and figure["kind"] == "steps"
    assert unpack(figure["touched"]).sum() == 5 and len(unpack(figure["start"])) == 200
    assert unpack(figure["length"]).max() == 100.0
    assert "Passes in the requests of bench.json" in page.texts["h2"]


def test_the_command_reads_several_files(session: Analysis, tmp_path: Path) -> None:
    at = [OPENED + S + i * 100 * MS for i in range(20)]
    write_own(
        tmp_path / "ours.jsonl",
        {"seed": 1},
        [{"intended": t, "sent": t, "last": t + 5 * MS, "status": "ok"} for t in at],
    )
    result = vllm_result(
        [{"start": t / 1e9, "queued": 0, "ttft": 0.01, "itl": [0.02], "error": ""} for t in at]
    )
    (tmp_path / "vllm.json").write_text(json.dumps(result))
    done = frostline(tmp_path, "report", "s", "--requests", "ours.jsonl", "--requests", "vllm.json", "--json")
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert [one["format"] for one in data["requests"]] == ["frostline", "vllm"]
    assert [one["count"] for one in data["requests"]] == [20, 20]
    (tmp_path / "none.json").write_text("{}")
    done = frostline(tmp_path, "report", "s", "--requests", "none.json")
    assert done.returncode == 2 and "[not-requests]" in done.stderr and "Traceback" not in done.stderr
    result["start_times"] = [t / 1e9 - 900 for t in at]
    (tmp_path / "old.json").write_text(json.dumps(result))
    done = frostline(tmp_path, "report", "s", "--requests", "old.json")
    assert done.returncode == 1 and "[requests-elsewhere]" in done.stderr
