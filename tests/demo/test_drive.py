"""The load client: an open loop that hides nothing."""

from __future__ import annotations

import dataclasses
import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from frostline.commands.demo import drive
from frostline.demo.drive import LATE_BOUND_MS, Load, Summary, describe, plan, summarise
from tests.demo.serving import Server


def test_the_plan_is_made_by_the_seed_alone() -> None:
    load = Load(rate=50, seconds=20, warm_up=2, seed=3)
    first, again = plan(load, 1_000), plan(load, 1_000)
    assert first == again
    assert first != plan(dataclasses.replace(load, seed=4), 1_000)
    times = [request.intended for request in first]
    assert times == sorted(times)
    assert times[0] >= 1_000 and times[-1] < 1_000 + 22 * 10**9
    assert 900 < len(first) < 1_300  # 1,100 meant; Poisson's deviation is 33
    assert [request.measured for request in first] == [
        request.intended >= 1_000 + 2 * 10**9 for request in first
    ]


def test_response_counts_from_the_intended_time_and_errors_at_their_deadline() -> None:
    requests = plan(Load(rate=100, seconds=1, warm_up=0), 0)
    for request in requests:
        request.sent = request.intended + 1_000_000
        request.first = request.last = request.intended + 5_000_000
        request.status = "ok"
    requests[0].status, requests[0].last = "timeout", requests[0].intended + 10 * 10**9
    summary = summarise(requests)
    assert (summary.errors, summary.response_p50, summary.response_max) == (1, 5.0, 10_000.0)
    assert summary.valid and "INVALID" not in describe(summary)


def test_a_late_client_makes_the_run_invalid() -> None:
    requests = plan(Load(rate=100, seconds=1, warm_up=0), 0)
    for request in requests:
        request.sent = request.intended + int((LATE_BOUND_MS + 1) * 1e6)
        request.first = request.last = request.sent
        request.status = "ok"
    summary = summarise(requests)
    assert not summary.valid
    assert "INVALID" in describe(summary)


def _drive(url: str, output: Path, *options: str) -> Summary:
    command = [sys.executable, "-m", "frostline.demo", "drive", url, "--output", str(output), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return Summary(**json.loads(output.read_text())["summary"])


def test_a_run_against_the_server(server: Server, tmp_path: Path) -> None:
    summary = _drive(
        server.url(), tmp_path / "run.json", "--rate", "10", "--seconds", "3", "--warm-up", "0.5"
    )
    whole = json.loads((tmp_path / "run.json").read_text())
    rows = [dict(zip(whole["columns"], row, strict=True)) for row in whole["requests"]]
    assert summary.errors == 0 and summary.requests == sum(row["measured"] for row in rows) > 10
    for row in rows:
        assert row["intended"] <= row["sent"] <= row["first"] <= row["last"]
        assert 16 <= row["chunks"] <= 48


def test_a_server_that_is_not_there_is_an_error_for_every_request(tmp_path: Path) -> None:
    summary = _drive("http://127.0.0.1:9", tmp_path / "run.json", "--rate", "20", "--seconds", "1")
    assert summary.errors == summary.requests > 5
    assert summary.response_p50 == pytest.approx(10_000)


def test_a_tethered_client_gives_up_with_its_standard_input(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "frostline.demo", "drive", "http://127.0.0.1:9", "--seconds", "200"]
    client = subprocess.Popen([*command, "--tethered"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert client.stdin is not None
    client.stdin.close()
    assert client.wait(60) != 0


def test_what_is_no_url_is_refused_and_asks_nobody() -> None:
    told = CliRunner().invoke(drive, ["127.0.0.1:8000"])  # its host would be the default one, at port 80
    assert told.exit_code == 2 and "for example http://127.0.0.1:8000" in told.output


def test_a_port_that_is_taken_is_named_with_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "frostline.commands.main", "demo", "serve", "--port", port]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and f"cannot listen on 127.0.0.1:{port}" in done.stderr
    assert "[demo-server]" in done.stderr and "Another --port" in done.stderr
