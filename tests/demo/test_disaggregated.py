"""Prefill and decode apart: the same answers, every process frozen, and the twin that forgot it (A6, A8)."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from frostline.analysis import analyse
from frostline.recording import read_session
from tests.demo.serving import Server, events, until
from tests.demo.test_server import PROMPT
from tests.reach.under_run import wait_for_helper

APART = ("--disaggregated",)
INPUTS = Path(__file__).parent / "inputs"
NAMES = ["APIServer", "EngineCore prefill", "Worker prefill-tp0", "EngineCore decode", "Worker decode-tp0"]


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("apart"), options=APART, policy="freeze")
    server.wait_ready()
    yield server
    server.close()


def _choice(server: Server, body: dict[str, object]) -> dict[str, Any]:
    status, answer = server.ask("/v1/completions", body)
    assert status == 200, answer
    choice: dict[str, Any] = json.loads(answer)["choices"][0]
    return choice


@pytest.mark.parametrize(
    "body",
    [
        PROMPT,
        PROMPT | {"max_tokens": 1},
        PROMPT | {"max_tokens": 2, "logprobs": 5},
        {"prompt": "a prompt of more than one step " * 40, "max_tokens": 20, "seed": 1},
        {"prompt": "sixteen tokens..", "max_tokens": 40, "seed": 2},
        {"prompt": "x", "max_tokens": 3},
    ],
)
def test_the_answer_is_the_one_of_a_single_engine(
    apart: Server, server: Server, body: dict[str, object]
) -> None:
    """Keys and values that were handed over are as good as those computed in place."""
    alone = _choice(server, body)
    for _ in range(2):  # the second time from the prefix caches of both sides
        assert _choice(apart, body) == alone
    chunks = events(apart.ask("/v1/completions", body | {"stream": True})[1])
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == alone["text"]
    assert len(chunks) == body["max_tokens"]  # in order, and none twice


def test_usage_counts_the_prefill_sides_prefix_cache(apart: Server) -> None:
    body = {"prompt": "a prompt of its own for the two that are apart, of some blocks" * 2, "max_tokens": 3}
    length = len(str(body["prompt"]))
    for cached in (0, (length - 1) // 16 * 16):
        usage = json.loads(apart.ask("/v1/completions", body)[1])["usage"]
        assert usage["prompt_tokens_details"]["cached_tokens"] == cached


def test_both_sides_and_their_workers_are_frozen_before_ready(apart: Server) -> None:
    health = apart.wait_ready()
    assert [name.partition(" (")[0] for name in health["names"]] == NAMES
    for _, _, _, tracked, frozen in health["processes"]:
        assert frozen == pytest.approx(tracked, rel=0.1)


def _leave_early(server: Server, body: dict[str, object]) -> None:
    """A client that goes away after the first piece of text."""
    at = urlsplit(server.url())
    assert at.hostname is not None and at.port is not None
    text = json.dumps(body | {"stream": True}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text)}\r\n\r\n".encode()
    with socket.create_connection((at.hostname, at.port)) as line:
        line.sendall(head + text)
        seen = b""
        while b"data: " not in seen:
            more = line.recv(4096)
            assert more, seen
            seen += more


def test_an_abort_reaches_the_side_that_has_the_request(start: Callable[..., Server], tmp_path: Path) -> None:
    """It goes the way of the request, through the prefill side, and cannot overtake it."""
    session = tmp_path / "rec"
    server = start(options=APART, record=session)
    processes = server.wait_ready()["processes"]
    long = {"prompt": "to be left", "max_tokens": 1500, "seed": 5}
    for _ in range(3):
        _leave_early(server, long)
    assert _choice(server, PROMPT)["finish_reason"] == "length"
    server.process.terminate()
    assert server.process.wait(30) == 0
    wait_for_helper(session)
    steps = {one.pid: one for one in analyse(read_session(session)).processes}
    decode = next(pid for role, rank, pid, *_ in processes if (role, rank) == ("EngineCore", "decode"))
    (label,) = [one for one in steps[decode].labels if one.label == "engine step"]
    # Without the aborts the three would have taken 4,500 tokens' steps, at least 1,500 together.
    assert 20 < label.count < 1_000


@pytest.mark.parametrize("rank", ["prefill", "decode"])
def test_the_death_of_one_side_ends_the_server(start: Callable[..., Server], rank: str) -> None:
    server = start(options=APART)
    pid = next(pid for role, one, pid, *_ in server.wait_ready()["processes"] if one == rank)
    server.family()
    psutil.Process(pid).kill()
    assert server.process.wait(30) == 1
    until(server.gone, f"every process of {server.family()} gone", 30)
    assert f"EngineCore {rank} ended with -9" in server.output()


def test_the_twin_answers_as_well_and_is_not_frozen(start: Callable[..., Server], server: Server) -> None:
    """What makes the trap one: but for the freeze count nothing tells the twin from the real one."""
    twin = start(options=APART, policy="freeze", program=INPUTS / "broken.py")
    processes = twin.wait_ready()["processes"]
    assert _choice(twin, PROMPT) == _choice(server, PROMPT)
    frozen = {rank: frozen for role, rank, _, _, frozen in processes if role == "EngineCore"}
    tracked = {rank: tracked for role, rank, _, tracked, _ in processes if role == "EngineCore"}
    assert frozen["prefill"] == pytest.approx(tracked["prefill"], rel=0.1)
    assert frozen["decode"] < tracked["decode"] / 10
    assert len(processes) == len(NAMES) - 1  # nor was its worker asked
