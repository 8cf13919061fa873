"""A front end that has fallen behind catches up in one piece, and says the same (A13)."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable

import psutil
import pytest

from tests.demo.serving import DEADLINE, Server, events, until

LONG = {"prompt": "how far behind?", "max_tokens": 400, "seed": 11, "logprobs": 3, "return_token_ids": True}
#: Seconds of the worker's CPU time: what dozens of steps take at the least, and not all of them.
WORK = 0.05


def _streamed(server: Server, path: str, body: dict[str, object]) -> bytes:
    """The whole stream, of which the front end missed a part: it stood still while the engine went on."""
    processes = server.wait_ready()["processes"]
    worker = psutil.Process(next(pid for role, _, pid, *_ in processes if role == "Worker"))
    front = psutil.Process(server.process.pid)

    def spent() -> float:
        times = worker.cpu_times()
        return times.user + times.system

    connection = http.client.HTTPConnection(server.url().removeprefix("http://"), timeout=DEADLINE)
    try:
        connection.request("POST", path, json.dumps(body | {"stream": True}))
        response = connection.getresponse()
        assert response.status == 200
        first = response.readline()  # the engine is at it
        front.suspend()
        try:
            begun = spent()
            until(lambda: spent() > begun + WORK, "steps that the front end does not see")
        finally:
            front.resume()
        return first + response.read()
    finally:
        connection.close()


@pytest.mark.parametrize("merge", ["off", "linear", "quadratic"])
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
def test_a_backlog_says_the_same(start: Callable[..., Server], merge: str, path: str) -> None:
    server = start(options=("--merge", merge))
    body: dict[str, object] = dict(LONG)
    if "chat" in path:
        body |= {"messages": [{"role": "user", "content": body.pop("prompt")}]}
        body |= {"logprobs": True, "top_logprobs": 3}
    chunks = [chunk["choices"][0] for chunk in events(_streamed(server, path, body))]
    whole = json.loads(server.ask(path, body)[1])["choices"][0]

    def text(choice: dict[str, object]) -> str:
        part = choice.get("delta") or choice.get("message")
        said: object = part["content"] if isinstance(part, dict) else choice["text"]
        return str(said)

    def logprobs(choice: dict[str, object]) -> list[object]:
        table = choice["logprobs"]
        assert isinstance(table, dict)
        if "content" in table:
            return list(table["content"])
        return [*zip(table["tokens"], table["token_logprobs"], table["top_logprobs"], strict=True)]

    assert "".join(map(text, chunks)).encode() == text(whole).encode()
    assert [one for chunk in chunks for one in chunk["token_ids"]] == whole["token_ids"]
    assert [one for chunk in chunks for one in logprobs(chunk)] == logprobs(whole)
    assert [chunk["finish_reason"] for chunk in chunks] == [None] * (len(chunks) - 1) + ["length"]
    if merge == "off":
        assert len(chunks) == LONG["max_tokens"]
    else:
        assert len(chunks) < int(str(LONG["max_tokens"])) - 10  # what had piled up came as one
