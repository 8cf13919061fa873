"""What the prefix cache tells the outside: which blocks this engine holds now.

A router that listens sends a prompt to the engine that knows its beginning. The messages are msgpack, an edge
as JSON is: token ids leave as lists. An array there is refused before anything is encoded, and whatever fails
to encode ends the engine with its traceback. A publisher that only counted such failures would go on for
weeks with a router that is told nothing (A12).

The socket drops what a slow subscriber does not take; the number in each batch shows the gap.
"""

from __future__ import annotations

from typing import Any

import msgspec
import zmq

from frostline.demo.tokens import Tokens, encodable, to_json

#: Bytes that a Unix socket's path may have, less those of a rank behind it.
_PATH = 100


class BlockStored(msgspec.Struct, array_like=True, tag="stored"):
    key: int  # int64
    parent: int  # key of the block before it, 0 for the first
    tokens: list[int]


class BlockRemoved(msgspec.Struct, array_like=True, tag="removed"):
    key: int


class Batch(msgspec.Struct, array_like=True):
    """What changed in one step."""

    number: int  # from 0 on, without a gap
    engine: str  # its name
    events: list[BlockStored | BlockRemoved]


class EventEncoder:
    """Batches to bytes."""

    def __init__(self) -> None:
        self._encode = msgspec.msgpack.Encoder().encode

    def encode(self, batch: Batch) -> bytes:
        """
        Raises:
            TypeError: token ids are given as an array, or a field is of a type that msgpack does not know.
        """
        for event in batch.events:
            if isinstance(event, BlockStored):
                encodable(event.tokens)
        return self._encode(batch)


def check_address(text: str) -> str:
    """``text`` if events can be published there, or if it is empty: then none are.

    Raises:
        ValueError: it is no address that this server binds to; says what would be.
    """
    if not text:
        return ""
    kind, _, rest = text.partition("://")
    if kind == "ipc" and rest.startswith("/") and len(rest.encode()) <= _PATH:
        return text
    host, _, port = rest.rpartition(":")
    if kind == "tcp" and host and port.isdigit() and 0 < int(port) < 65_000:
        return text
    raise ValueError(f"{text!r} is no tcp://HOST:PORT and no ipc:///PATH of at most {_PATH} bytes")


def address_of(address: str, engine: int) -> str:
    """Where the engine of this number publishes: the first at ``address``, the others behind it."""
    if not engine:
        return address
    if address.startswith("ipc:"):
        return f"{address}-{engine}"
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) + engine}"


class Publisher:
    """Collects what one step changes and sends it as one batch. A listener of the block pool."""

    def __init__(self, context: zmq.Context[Any], address: str, engine: str) -> None:
        self._socket = context.socket(zmq.PUB)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.bind(address)
        self._encoder = EventEncoder()
        self._engine = engine
        self._number = 0
        self._events: list[BlockStored | BlockRemoved] = []

    def stored(self, key: int, parent: int, tokens: Tokens) -> None:
        self._events.append(BlockStored(key, parent, to_json(tokens)))

    def removed(self, key: int) -> None:
        self._events.append(BlockRemoved(key))

    def flush(self) -> None:
        """The step is over. Raises what the encoder raises: no event is lost in silence."""
        if self._events:
            self._socket.send(self._encoder.encode(Batch(self._number, self._engine, self._events)))
            self._number += 1
            self._events = []

    def close(self) -> None:
        self._socket.close()
