"""The open-loop client before servers that stall, and where it is itself late (C5): told by handshakes."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.reach.under_run import FROSTLINE, environment, wait_for

HERE = Path(__file__).parent
SECOND = 1_000_000_000


class Holding:
    """A server that answers when it is told to."""

    def __init__(self, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "holding.py"), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        self.url = f"http://127.0.0.1:{self._out.readline().strip()}/"

    def arrived(self, count: int) -> list[int]:
        """Waits for as many requests; when they came, ns."""
        return [int(self._out.readline()) for _ in range(count)]

    def go(self) -> None:
        """It answers from now on."""
        self._in.write("go\n")
        self._in.flush()

    def rest(self) -> list[int]:
        """Ends it; when the requests came that nobody has waited for."""
        return [int(line) for line in self._process.communicate(timeout=30)[0].splitlines()]


@pytest.fixture
def held(request: pytest.FixtureRequest) -> Iterator[Holding]:
    server = Holding(*getattr(request, "param", ()))
    yield server
    server.rest()


def client(tmp_path: Path, url: str, *arguments: str) -> subprocess.Popen[str]:
    """``frostline load`` with an even plan and no warm-up."""
    return subprocess.Popen(
        [*FROSTLINE, "load", url, "--even", "--warmup", "0", "-o", "out.jsonl", *arguments],
        env=environment(tmp_path),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def rows(tmp_path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    header, *found = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
    return header, found


def at(values: Sequence[int], q: float) -> float:
    """The nearest-rank quantile, ms."""
    return sorted(values)[math.ceil(q * len(values)) - 1] / 1e6


def until(time_ns: int) -> None:
    wait_for(lambda: time.monotonic_ns() > time_ns, "a time of the plan", 60)


def test_a_stall_is_in_the_response_of_all_that_waited_and_nothing_of_it_is_achieved(
    tmp_path: Path, held: Holding
) -> None:
    process = client(tmp_path, held.url, "--rate", "50", "--seconds", "1", "--json")
    first, *_ = held.arrived(50)  # all of the plan are sent, though none is answered
    until(first + SECOND)  # the measured time has ended: it began before the first came
    released = time.monotonic_ns()
    held.go()
    output, errors = process.communicate(timeout=60)
    assert process.returncode in (0, 1), errors  # 1: the client was late
    told = json.loads(output)
    (rung,), (_, requests) = told["rungs"], rows(tmp_path)
    assert all(row["status"] == "ok" and row["last"] >= released for row in requests)
    waited = [released - row["intended"] for row in requests]
    for name, q in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
        assert rung["response"][name] >= at(waited, q) - 0.001
    assert (rung["requests"], rung["offered"], rung["answered"], rung["achieved"]) == (50, 50, 0, 0)
    assert (rung["under_way_first"], rung["under_way_last"], rung["keeps_up"]) == (0, 50, False)
    assert rung["drain"] > 0 and not rung["failures"] and told["ceiling"]["rate"] is None
    assert (told["client"]["passes"], told["client"]["longest_pass_ms"]) == (0, 0)
    assert told["client"]["frozen"] > 1_000


def test_a_rate_begins_when_the_one_before_has_drained(tmp_path: Path, held: Holding) -> None:
    process = client(tmp_path, held.url, "--rate", "20", "--rate", "40", "--seconds", "1")
    first, *_ = held.arrived(20)
    # By the plan alone ten requests of the second rate would have come by then.
    until(first + SECOND + SECOND // 4)
    released = time.monotonic_ns()
    held.go()
    output, errors = process.communicate(timeout=60)
    assert process.returncode in (0, 1), errors
    later = held.rest()
    assert len(later) == 40 and min(later) >= released
    header, requests = rows(tmp_path)
    two = [[row for row in requests if row.get("rung", 0) == number] for number in (0, 1)]
    assert [len(one) for one in two] == [20, 40] and header["rates"] == [20, 40]
    ended = max(row["last"] for row in two[0])
    assert ended >= released and header["begun"][1] >= ended
    for one, begun, gap in zip(two, header["begun"], (50_000_000, 25_000_000), strict=True):
        planned = [begun + gap // 2 + number * gap for number in range(len(one))]
        assert [row["intended"] for row in one] == planned, "within a rate the plan stays as it is"
    assert "after its time; 40 a second began then" in output and "Ceiling: " in output


@pytest.mark.parametrize("held", [("20",)], indirect=True)
def test_a_rate_whose_answers_fail_is_no_ceiling(tmp_path: Path, held: Holding) -> None:
    held.go()
    process = client(tmp_path, held.url, "--rate", "20", "--rate", "40", "--seconds", "1", "--json",
                     "--limit-ms", "60000")  # fmt: skip
    output, errors = process.communicate(timeout=60)
    assert process.returncode in (0, 1), errors
    told = json.loads(output)
    slow, fast = told["rungs"]
    assert (slow["failures"], fast["failures"]) == ({}, {"http 500": 40})
    assert fast["response"]["p50"] >= 30_000, "each counts at its deadline"
    assert fast["answered"] == 0 and fast["keeps_up"] is False
    # Whether the slow one is kept up with is this machine's affair; the ceiling must follow from it.
    assert told["ceiling"] == {
        "limit_ms": 60_000,
        "rate": 20 if slow["valid"] and slow["keeps_up"] else None,
        "unclear": [20] if slow["valid"] and slow["keeps_up"] is None else [],
    }


def test_a_client_that_was_late_is_invalid_and_its_lateness_is_in_the_response(
    tmp_path: Path, held: Holding
) -> None:
    held.go()
    process = client(tmp_path, held.url, "--rate", "50", "--seconds", "5", "--json")
    held.arrived(1)
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    stopped = time.monotonic_ns()
    until(stopped + SECOND // 2)
    resumed = time.monotonic_ns()
    process.send_signal(signal.SIGCONT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 1, errors
    (rung,), (_, requests) = json.loads(output)["rungs"], rows(tmp_path)
    kept_back = [row for row in requests if stopped < row["intended"] < resumed]
    assert len(kept_back) > 10 and all(row["sent"] >= resumed for row in kept_back)
    assert not rung["valid"] and rung["late"] >= at([resumed - row["intended"] for row in kept_back], 0.5)
    # p99 of 250 is the third longest: one of those that were kept back, counted from its time in the plan.
    assert len(requests) == rung["requests"] == 250
    for name, q in (("p99", 0.99), ("max", 1.0)):
        response = at([row["last"] - row["intended"] for row in requests], q)
        assert rung["response"][name] == pytest.approx(response, abs=0.001)
    assert rung["response"]["max"] >= at([resumed - row["intended"] for row in kept_back], 1.0) - 0.001


def test_a_pass_of_the_clients_own_collector_is_counted(held: Holding) -> None:
    held.go()
    text = """
import gc, json, sys
from frostline.experiment.load.client import Target, run
from frostline.experiment.load.plan import ladder

before = len(gc.callbacks)
many = []
def shown(sent):
    gc.collect()
    many.append(1)
sent = run(Target(sys.argv[1]), ladder([20.0], 1.3, 0.0, 0, False), shown)
print(json.dumps([sent.passes, len(many), sent.longest_pass, gc.isenabled(), len(gc.callbacks) - before]))
"""
    done = subprocess.run([sys.executable, "-c", text, held.url], capture_output=True, text=True, timeout=60)
    passes, many, longest, enabled, left = json.loads(done.stdout)
    assert passes == many >= 1 and longest > 0 and enabled and left == 0, done.stderr
