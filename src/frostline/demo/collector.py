"""Where the chunks of one stream wait for a reader who lags, as one chunk (A13).

A queue hands over one chunk at a time: a front end that has fallen behind then pays for a wake-up, an
encoding and a write for every token that waits. Here a stream holds at most one chunk, and what comes behind
an unread one merges into it. Nothing is held back: with a reader who keeps up nothing ever merges.

How it merges decides. To build the sum anew for each chunk copies all that waits each time: a backlog of n
costs n * n / 2, in the event loop, so that the deeper it is the slower it drains (`Quadratic`, kept as the
control). Here what waits is extended, and the text is joined once, by the reader: each token is moved a fixed
number of times, however many wait. That a `+=` of strings grows in place is a favour of CPython's to a
string that nothing else refers to; it is not relied on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, TypedDict

from frostline.demo.protocol import Sampled
from frostline.demo.tokens import Tokens, stored


class Chunk(TypedDict):
    """What one step, or several, add to a stream: in order and together they are the answer."""

    ids: Tokens
    text: str | None  # None: none of it is complete yet
    samples: list[Sampled]
    finish: str | None
    cached: int


class Waiting(TypedDict):
    """A chunk that waits. Only `enter` makes one, since its parts must belong to nobody else."""

    ids: Tokens
    parts: list[str]
    samples: list[Sampled]
    finish: str | None
    cached: int


def enter(chunk: Chunk) -> Waiting:
    """The entry. What will be extended is copied, always: the producer may still use his own.

    Raises:
        TypeError: the chunk's text is no text, or its ids are a list.
    """
    text, ids, samples = _checked(chunk)
    return {
        "ids": ids[:],
        "parts": [] if text is None else [text],
        "samples": samples[:],
        "finish": chunk["finish"],
        "cached": chunk["cached"],
    }


def merge(into: Waiting, new: Chunk) -> None:
    """Put ``new`` behind what waits.

    Raises:
        TypeError: as `enter`; what waits is as it was.
        KeyError: ``into`` never went through `enter`, and its parts may be somebody's.
    """
    parts = into["parts"]
    text, ids, samples = _checked(new)  # all that can be refused, before anything is changed
    if text is not None:
        parts.append(text)
    into["ids"].extend(ids)
    into["samples"].extend(samples)
    into["finish"] = new["finish"] or into["finish"]
    into["cached"] = new["cached"]


def leave(waiting: Waiting) -> Chunk:
    """The chunk that the reader gets, with its text joined."""
    return {
        "ids": waiting["ids"],
        "text": "".join(waiting["parts"]),
        "samples": waiting["samples"],
        "finish": waiting["finish"],
        "cached": waiting["cached"],
    }


def _checked(chunk: Chunk) -> tuple[str | None, Tokens, list[Sampled]]:
    text, samples = chunk.get("text"), chunk["samples"]
    if text is not None and not isinstance(text, str):
        raise TypeError(f"a chunk's text is str or None, not {type(text).__name__}")
    if not isinstance(samples, list):
        raise TypeError(f"a chunk's samples are a list, not {type(samples).__name__}")
    return text, stored(chunk["ids"]), samples


class Waits(Protocol):
    """Where chunks wait. Used in one event loop."""

    def put(self, chunk: Chunk) -> None: ...

    def end(self) -> None:
        """No more will come."""

    async def get(self) -> Chunk | None:
        """The next chunk; None when the last was taken."""


class Unmerged:
    """One chunk after the other, as they came."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Chunk | None] = asyncio.Queue()

    def put(self, chunk: Chunk) -> None:
        self._queue.put_nowait(chunk)

    def end(self) -> None:
        self._queue.put_nowait(None)

    async def get(self) -> Chunk | None:
        return await self._queue.get()


class Collector:
    """At most one chunk waits."""

    def __init__(self) -> None:
        self._waiting: Waiting | None = None
        self._ended = False
        self._some = asyncio.Event()

    def put(self, chunk: Chunk) -> None:
        """
        Raises:
            TypeError: as `merge`; what waits is as it was, and will be read.
        """
        if self._waiting is None:
            self._waiting = enter(chunk)
        else:
            merge(self._waiting, chunk)
        self._some.set()

    def end(self) -> None:
        self._ended = True
        self._some.set()

    async def get(self) -> Chunk | None:
        await self._some.wait()
        chunk = self._take()
        if chunk is not None and not self._ended:
            self._some.clear()
        return chunk

    def _take(self) -> Chunk | None:
        waiting, self._waiting = self._waiting, None
        return None if waiting is None else leave(waiting)


class Quadratic(Collector):
    """The control: the same, with the sum built anew for each chunk."""

    def __init__(self) -> None:
        super().__init__()
        self._sum: Chunk | None = None

    def put(self, chunk: Chunk) -> None:
        old = self._sum
        if old is None:
            self._sum = chunk
        else:
            self._sum = {
                "ids": old["ids"] + chunk["ids"],
                "text": (old["text"] or "") + (chunk["text"] or ""),
                "samples": [*old["samples"], *chunk["samples"]],
                "finish": chunk["finish"] or old["finish"],
                "cached": chunk["cached"],
            }
        self._some.set()

    def _take(self) -> Chunk | None:
        chunk, self._sum = self._sum, None
        return chunk


#: By the name of the setting.
MERGES: dict[str, Callable[[], Waits]] = {
    "off": Unmerged,
    "linear": Collector,
    "quadratic": Quadratic,
}
