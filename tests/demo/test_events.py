"""The prefix cache's events: what a router learns, and that a failure to encode one is loud (A12)."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
import zmq

from frostline.demo.blocks import BLOCK_TOKENS, block_key
from frostline.demo.events import Batch, BlockRemoved, BlockStored, address_of
from tests.demo.serving import Server, until

ARRAY_EVENT = Path(__file__).parent / "inputs" / "array_event.py"


@pytest.fixture
def address() -> Iterator[str]:
    """Where engines publish: a path that is short enough for a Unix socket, whatever TMPDIR is."""
    folder = tempfile.mkdtemp(prefix="fd", dir="/tmp")
    yield f"ipc://{folder}/e"
    shutil.rmtree(folder)


@pytest.fixture
def listen() -> Iterator[Callable[[str], zmq.Socket[bytes]]]:
    """Subscribers."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    sockets: list[zmq.Socket[bytes]] = []

    def listen(address: str) -> zmq.Socket[bytes]:
        socket = context.socket(zmq.SUB)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.SUBSCRIBE, b"")
        socket.connect(address)
        sockets.append(socket)
        return socket

    yield listen
    for socket in sockets:
        socket.close()
    context.term()


def _batches(socket: zmq.Socket[bytes]) -> list[Batch]:
    """What has come."""
    found = []
    while socket.poll(0):
        found.append(msgspec.msgpack.decode(socket.recv(), type=Batch))
    return found


def test_a_router_learns_which_engine_knows_a_prompt(
    start: Callable[..., Server], listen: Callable[[str], zmq.Socket[bytes]], address: str
) -> None:
    server = start(options=("--kv-events", address, "--data-parallel", "2"))
    sockets = [listen(address_of(address, engine)) for engine in (0, 1)]
    server.wait_ready()
    asked = 0

    def ask() -> str:
        """A prompt that nobody has asked for."""
        nonlocal asked
        asked += 1
        prompt = f"{asked:03} a prompt that is long enough for three blocks of tokens"
        assert server.ask("/v1/completions", {"prompt": prompt, "max_tokens": 1})[0] == 200
        return prompt

    # A subscription takes effect when it does: ask until something comes.
    until(lambda: ask() and sockets[0].poll(100), "an event")
    prompt = ask()
    batches: list[Batch] = []

    def known() -> bool:
        batches.extend(_batches(sockets[0]))
        return any(
            isinstance(event, BlockStored) and bytes(event.tokens) == prompt[:BLOCK_TOKENS].encode()
            for batch in batches
            for event in batch.events
        )

    until(known, "the prompt's first block")
    numbers = [batch.number for batch in batches]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert {batch.engine for batch in batches} == {"EngineCore dp0"}  # alone in flight it goes there
    stored = [event for batch in batches for event in batch.events if isinstance(event, BlockStored)]
    assert len(stored) == sum(len(batch.events) for batch in batches)  # nothing was evicted
    for event in stored:
        assert event.key == block_key(event.parent, event.tokens)  # of a list, as of the engine's array
    # The chain of the prompt's blocks, from its beginning.
    parent = 0
    for first in range(0, len(prompt) - len(prompt) % BLOCK_TOKENS, BLOCK_TOKENS):
        tokens = list(prompt[first : first + BLOCK_TOKENS].encode())
        (event,) = [one for one in stored if (one.parent, one.tokens) == (parent, tokens)]
        parent = event.key
    # Of the other engine nothing but its warm-up, if the subscription was in time for that.
    of_the_other = [event for batch in _batches(sockets[1]) for event in batch.events]
    assert all(isinstance(one, BlockStored) and set(one.tokens) == {0} for one in of_the_other)


def test_a_router_learns_what_was_evicted(
    start: Callable[..., Server], listen: Callable[[str], zmq.Socket[bytes]], address: str
) -> None:
    server = start(options=("--kv-events", address))  # 1,895 blocks at this scale
    socket = listen(address)
    server.wait_ready()
    stored: set[int] = set()
    removed: list[int] = []
    for number in range(24):
        # Some 1,900 tokens each: together more than the pool holds.
        body = {"prompt": f"{number:03} " + "long " * 380, "max_tokens": 1}
        assert server.ask("/v1/completions", body)[0] == 200
        for batch in _batches(socket):
            for event in batch.events:
                if isinstance(event, BlockRemoved):
                    removed.append(event.key)
                else:
                    stored.add(event.key)
    assert removed and len(set(removed)) == len(removed)
    assert len(set(removed) & stored) > 100  # what was evicted is what it had said it holds


def test_an_array_in_an_event_ends_the_server_and_says_why(
    start: Callable[..., Server], address: str
) -> None:
    """An encoder whose failures are counted would serve on, with a router that is told nothing."""
    server = start(options=("--kv-events", address), program=ARRAY_EVENT)
    assert server.process.wait(60) == 1
    output = server.output()
    assert "TypeError: an event carries a list of token ids, not array" in output
    assert "APIServer: EngineCore dp0 ended with 1, so the server ends" in output
