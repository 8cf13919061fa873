"""What the server answers."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from frostline.demo.heap import TRACKED
from tests.demo.serving import Server, events

PROMPT = {"prompt": "how deep is the frost line?", "max_tokens": 24, "seed": 7}


def _text(server: Server, body: object) -> str:
    status, answer = server.ask("/v1/completions", body)
    assert status == 200, answer
    text: str = json.loads(answer)["choices"][0]["text"]
    return text


def test_a_seed_decides_the_tokens_streamed_or_not(server: Server) -> None:
    whole = _text(server, PROMPT)
    assert whole == _text(server, PROMPT)  # also from the prefix cache now
    assert whole != _text(server, PROMPT | {"seed": 8})
    status, body = server.ask("/v1/completions", PROMPT | {"stream": True})
    assert status == 200
    chunks = events(body)
    assert len(chunks) == 24
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == whole
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None] * 23 + ["length"]


def test_another_server_gives_the_same_tokens(server: Server, start: Callable[..., Server]) -> None:
    other = start(workers=2)
    other.wait_ready()
    assert _text(other, PROMPT) == _text(server, PROMPT)


def test_usage_counts_the_prefix_cache(server: Server) -> None:
    body = {"prompt": "a prompt of its own, long enough for several blocks of tokens" * 2, "max_tokens": 2}
    length = len(str(body["prompt"]))
    for cached in (0, (length - 1) // 16 * 16):
        usage = json.loads(server.ask("/v1/completions", body)[1])["usage"]
        assert usage["prompt_tokens"] == length
        assert usage["completion_tokens"] == 2
        assert usage["prompt_tokens_details"]["cached_tokens"] == cached


def test_chat_streams_deltas_with_the_candidates_asked_for(server: Server) -> None:
    body = {
        "messages": [{"role": "user", "content": "hello"}],
        "max_tokens": 5,
        "logprobs": True,
        "top_logprobs": 20,
    }
    whole = json.loads(server.ask("/v1/chat/completions", body)[1])["choices"][0]
    chunks = [
        chunk["choices"][0]
        for chunk in events(server.ask("/v1/chat/completions", body | {"stream": True})[1])
    ]
    assert "".join(chunk["delta"]["content"] for chunk in chunks) == whole["message"]["content"]
    assert [entry for chunk in chunks for entry in chunk["logprobs"]["content"]] == whole["logprobs"][
        "content"
    ]
    for entry in whole["logprobs"]["content"]:
        best = entry["top_logprobs"]
        assert len(best) == 20
        assert [one["logprob"] for one in best] == sorted((one["logprob"] for one in best), reverse=True)
        assert all(bytes(one["bytes"]).decode() == one["token"] for one in best)


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        {},
        {"prompt": ""},
        {"prompt": "x", "max_tokens": 0},
        {"prompt": "x" * 2048, "max_tokens": 1},
        {"prompt": "x", "logprobs": 21},
        {"prompt": "x", "temperature": -1},
        {"prompt": ["x"]},
    ],
)
def test_nonsense_is_refused_and_harms_nobody(server: Server, body: object) -> None:
    status, answer = server.ask("/v1/completions", body)
    assert status == 400
    assert json.loads(answer)["error"]["message"]
    assert server.wait_ready()["status"] == "ready"


def test_health_names_every_process_with_its_heap(server: Server) -> None:
    processes = server.wait_ready()["processes"]
    assert [role for role, *_ in processes] == ["APIServer", "EngineCore", "Worker"]
    family = {one.pid for one in server.family()}
    for _, _, pid, tracked, frozen in processes:
        assert pid in family
        assert tracked > 10_000
        assert frozen is None  # nothing asked for a policy


def test_not_ready_before_every_process_is(start: Callable[..., Server]) -> None:
    # Large enough that health can be asked while the heaps grow.
    server = start(scale=0.3, workers=2)
    statuses = []
    while not statuses or statuses[-1] != 200:
        status, body = server.ask("/health")
        statuses.append(status)
        if status == 503:
            assert json.loads(body)["status"] == "starting"
            assert server.ask("/v1/completions", PROMPT)[0] in (200, 503)
    assert set(statuses) == {503, 200}
    processes = server.wait_ready()["processes"]
    assert [role for role, *_ in processes].count("Worker") == 2
    for role, _, _, tracked, _ in processes:
        assert tracked == pytest.approx(0.3 * TRACKED[role], rel=0.02)  # the heaps of A2, to scale
    assert list(server.temporary.iterdir()) == []  # the sockets' names went once all were connected


def test_every_process_is_frozen_before_ready(start: Callable[..., Server]) -> None:
    server = start(policy="freeze")
    for _, _, _, tracked, frozen in server.wait_ready()["processes"]:
        assert frozen == pytest.approx(tracked, rel=0.1)
    assert _text(server, PROMPT)
