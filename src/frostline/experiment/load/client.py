"""Sends what the plan says and notes what became of it. One event loop, in a process of its own.

Nothing is kept for a request that the collector would track: numbers go into flat arrays, and the collector
of this process is frozen and off while it runs. Should it run all the same, that is noted.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import json
import os
import resource
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import numpy as np
import numpy.typing as npt

from frostline.experiment.load.plan import Rung
from frostline.reach import proc
from frostline.reach.hostfiles import schedstat

Int64 = npt.NDArray[np.int64]

OK, TIMEOUT, CUT, REFUSED, STATUS, BROKEN, UNCONNECTED, UNNAMED, TLS = range(9)
#: What a failure is called in the file (``word``).
WORDS = (
    "ok", "timeout", "cut", "connection refused", "http {code}", "broken off", "no connection: {reason}",
    "no connection: the name cannot be resolved", "no connection: TLS",
)  # fmt: skip
#: What keeps a client from connecting that has run out of files or of ports: no doing of the server's.
OWN_LIMITS = (errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.ENOBUFS)
#: Room to start in, once the loop runs and the arrays are there, ns.
ROOM = 100_000_000


@dataclass(frozen=True)
class Target:
    """What is asked.

    Attributes:
        method, url, body, headers: of the request; ``body`` is sent as it is.
        stream: whether the answer comes in server-sent events, as OpenAI's streaming completions do.
        deadline: seconds after its intended time at which a request has failed.
    """

    url: str
    method: str = "GET"
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    stream: bool = False
    deadline: float = 30.0


@dataclass
class Sent:
    """What became of each request of a plan, ns of CLOCK_MONOTONIC, -1 where there is none.

    Attributes:
        code: the HTTP status of an answer; of a connection that was not made, the system's error number.
        last_token: of a stream, the last event that carries a choice, with text or without.
        gap_of, gap: gaps between chunks with text, ns, and the request of each: ``gaps`` of them, and
            ``gaps_lost`` more that there was no room for.
        started: when the plan began. begun: when each rung did that was reached: by the plan, or once the
            requests of the rung before it had ended or reached their deadline.
        wall: what to add for the time of day.
        stopped: when Ctrl-C ended it; -1 where it ran to its end.
        passes, longest_pass: of the client's own collector while it ran, and the longest of them.
        frozen: objects of the client's heap that no pass would walk.
        ran, queued: ns for which the loop's thread was on a CPU, and waited for one; 0 where the kernel does
            not say.
    """

    intended: Int64
    sent: Int64
    first: Int64
    last_token: Int64
    last: Int64
    tokens: Int64
    status: Int64
    code: Int64
    measured: npt.NDArray[np.bool_]
    gap_of: Int64
    gap: Int64
    gaps: int = 0
    gaps_lost: int = 0
    open: int = 0
    done: int = 0
    deadline: int = 0
    stream: bool = False
    started: int = 0
    wall: int = 0
    stopped: int = -1
    passes: int = 0
    longest_pass: int = 0
    frozen: int = 0
    ran: int = 0
    queued: int = 0
    rungs: list[Rung] = field(default_factory=list)
    begun: list[int] = field(default_factory=list)


#: Gaps between chunks that are kept, at most; the rest is counted.
GAPS = 5_000_000


def unsendable(sent: Sent) -> npt.NDArray[np.bool_]:
    """Which requests the client itself could not send."""
    found: npt.NDArray[np.bool_] = (sent.status == UNCONNECTED) & np.isin(sent.code, OWN_LIMITS)
    return found


def word(status: int, code: int) -> str:
    """What became of a request, in words; ``code`` as ``Sent`` has it."""
    if status == UNCONNECTED:
        # None is given where each address of a name failed in another way.
        return WORDS[status].format(reason=os.strerror(code) if code else "several reasons")
    return WORDS[status].format(code=code)


def unconnected(error: aiohttp.ClientConnectorError) -> tuple[int, int]:
    """Why there was no connection: the status, and the system's number for it."""
    if isinstance(error, aiohttp.ClientSSLError):
        return TLS, 0
    if isinstance(error.os_error, socket.gaierror):
        return UNNAMED, 0
    if error.os_error.errno == errno.ECONNREFUSED:
        return REFUSED, 0
    return UNCONNECTED, error.os_error.errno or 0


def prepare(rungs: list[Rung], deadline: float, stream: bool = False) -> Sent:
    """Room for a plan's answers, before anything is sent. ``deadline`` in seconds."""
    offsets = np.concatenate([rung.offsets for rung in rungs])
    measured = np.concatenate([rung.offsets >= rung.measured for rung in rungs])
    count = len(offsets)

    def none() -> Int64:
        return np.full(count, -1, np.int64)

    return Sent(
        intended=offsets.copy(),
        sent=none(),
        first=none(),
        last_token=none(),
        last=none(),
        tokens=none(),
        status=np.full(count, CUT, np.int64),
        code=np.zeros(count, np.int64),
        measured=measured,
        gap_of=np.zeros(GAPS, np.int64),
        gap=np.zeros(GAPS, np.int64),
        deadline=round(deadline * 1e9),
        stream=stream,
        rungs=rungs,
    )


def run(target: Target, rungs: list[Rung], shown: Callable[[Sent], None] | None = None) -> Sent:
    """Runs the plan against the target. ``shown`` is called about twice a second.

    Ctrl-C ends it early: what was under way counts as cut, what was not sent is left out of the result's
    measured requests.
    """
    _many_files()
    sent = prepare(rungs, target.deadline, target.stream)
    gc.collect()
    gc.freeze()
    gc.disable()
    sent.frozen = gc.get_freeze_count()
    try:
        with _noted(sent), asyncio.Runner() if hasattr(asyncio, "Runner") else _Runner() as runner:
            runner.run(_run(target, sent, shown))
    except KeyboardInterrupt:
        sent.stopped = time.monotonic_ns()
        sent.measured &= sent.sent >= 0
    finally:
        gc.enable()
        gc.unfreeze()
    return sent


@contextlib.contextmanager
def _noted(sent: Sent) -> Iterator[None]:
    """Counts the passes of this process's own collector, and what it waited for a CPU: that would be in the
    times of some answers.
    """
    begun = 0
    ran, queued = _scheduled()

    def noted(phase: str, info: dict[str, int]) -> None:
        nonlocal begun
        if phase == "start":
            begun = time.monotonic_ns()
        else:
            sent.passes += 1
            sent.longest_pass = max(sent.longest_pass, time.monotonic_ns() - begun)

    gc.callbacks.append(noted)
    try:
        yield
    finally:
        gc.callbacks.remove(noted)
        now = _scheduled()
        sent.ran, sent.queued = now[0] - ran, now[1] - queued


def _scheduled() -> tuple[int, int]:
    """ns that this process's first thread, which runs the loop, was on a CPU and waited for one."""
    found = schedstat(proc.read(os.getpid(), "schedstat", 128))
    return (found[0], found[1]) if found is not None else (0, 0)


class _Runner:
    """``asyncio.Runner``, which 3.10 has not."""

    def __enter__(self) -> _Runner:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run(self, main: Any) -> Any:
        return asyncio.run(main)


def _many_files() -> None:
    """An open loop opens as many connections as the server leaves waiting."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def _run(target: Target, sent: Sent, shown: Callable[[Sent], None] | None) -> None:
    # One timer for a request, by the plan and not by aiohttp's, which counts from sending.
    timeout = aiohttp.ClientTimeout(total=None)
    connector = aiohttp.TCPConnector(limit=0, ttl_dns_cache=3600)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector, auto_decompress=False) as session:
        plan = sent.intended.tolist()
        sent.wall = time.time_ns() - time.monotonic_ns()
        base = sent.started = time.monotonic_ns() + ROOM
        sent.intended += base
        tasks: set[asyncio.Task[None]] = set()
        watcher = asyncio.create_task(_show(sent, shown)) if shown is not None else None
        first = 0
        for rung in sent.rungs:
            if tasks:
                # What a rate left behind is not to be the next one's burden. It is bounded: each request
                # ends at its deadline.
                await asyncio.wait(set(tasks))
            base += _begin(sent, rung, first, base)
            past = first + len(rung.offsets)
            for number in range(first, past):
                at = plan[number] + base
                ahead = (at - time.monotonic_ns()) / 1e9
                if ahead > 0:
                    await asyncio.sleep(ahead)
                elif number % 64 == 0:
                    await asyncio.sleep(0)  # behind the plan: answers must be read all the same
                task = asyncio.create_task(_one(session, target, sent, number, at))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            first = past
        if tasks:
            await asyncio.wait(set(tasks))
        if watcher is not None:
            watcher.cancel()


def _begin(sent: Sent, rung: Rung, first: int, base: int) -> int:
    """Begins a rung: by how much it, and all that is not sent yet, is later than planned, ns.

    Args:
        first: its first request.
        base: where the plan lies by now.
    """
    planned = base + rung.start
    now = time.monotonic_ns()
    late = now + ROOM - planned if sent.begun and now > planned else 0
    sent.intended[first:] += late
    sent.begun.append(planned + late)
    return late


async def _show(sent: Sent, shown: Callable[[Sent], None]) -> None:
    while True:
        await asyncio.sleep(0.5)
        shown(sent)


async def _one(
    session: aiohttp.ClientSession, target: Target, sent: Sent, number: int, intended: int
) -> None:
    sent.open += 1
    left = (intended + sent.deadline - time.monotonic_ns()) / 1e9
    try:
        # wait_for cancels at the deadline; the request counts at its deadline, not at when we saw it.
        sent.status[number] = await asyncio.wait_for(_ask(session, target, sent, number), max(left, 0.001))
    except (asyncio.TimeoutError, TimeoutError):
        sent.status[number] = TIMEOUT
    except aiohttp.ClientConnectorError as error:
        sent.status[number], sent.code[number] = unconnected(error)
    except (aiohttp.ClientError, OSError, ValueError):
        sent.status[number] = BROKEN
    finally:
        if sent.last[number] < 0 and sent.status[number] != TIMEOUT:
            sent.last[number] = time.monotonic_ns()
        sent.open -= 1
        sent.done += 1


async def _ask(session: aiohttp.ClientSession, target: Target, sent: Sent, number: int) -> int:
    sent.sent[number] = time.monotonic_ns()
    async with session.request(
        target.method, target.url, data=target.body or None, headers=target.headers
    ) as answer:
        sent.code[number] = answer.status
        if target.stream and answer.status == 200:
            await _events(answer, sent, number)
        else:
            async for chunk in answer.content.iter_any():
                if sent.first[number] < 0 and chunk:
                    sent.first[number] = time.monotonic_ns()
        sent.last[number] = time.monotonic_ns()
        return OK if answer.status < 400 else STATUS


async def _events(answer: aiohttp.ClientResponse, sent: Sent, number: int) -> None:
    """Server-sent events: the first with text, the gaps between those with text, and how many there are.

    Tokens are the events with text: servers send one a token unless they lag and merge; where the last event
    brings a usage count, that counts.
    """
    count = 0
    usage = -1
    before = -1
    ended = False
    async for line in answer.content:
        if not line.startswith(b"data:"):
            continue
        if line[5:].strip() == b"[DONE]":
            ended = True
            continue
        now = time.monotonic_ns()
        choice, text, total = _told_by(line[5:])
        usage = total if total >= 0 else usage
        if choice:
            sent.last_token[number] = now
        if not text:
            continue
        count += 1
        if before < 0:
            sent.first[number] = now
        elif sent.gaps < GAPS:
            sent.gap_of[sent.gaps] = number
            sent.gap[sent.gaps] = now - before
            sent.gaps += 1
        else:
            sent.gaps_lost += 1
        before = now
    if not ended:
        raise ValueError("the stream broke off")
    sent.tokens[number] = usage if usage >= 0 else count


def _told_by(data: bytes) -> tuple[bool, bool, int]:
    """Whether an event carries a choice, and text, and the tokens of the whole answer where it says so; else
    -1. A token may be without text: the answer's end, or a part of a character."""
    event = json.loads(data)
    try:
        if event.get("error"):  # some send a null in each
            raise ValueError("the stream carries an error")
        total = (event.get("usage") or {}).get("completion_tokens", -1)
        total = total if isinstance(total, int) else -1
        choices = event.get("choices") or ()
        for choice in choices:
            delta = choice.get("delta") or {}
            if choice.get("text") or delta.get("content") or delta.get("reasoning_content"):
                return True, True, total
    except (TypeError, AttributeError) as error:  # JSON, and not of the shape of an answer
        raise ValueError("the stream carries an event that is none") from error
    return bool(choices), False, total


__all__ = ["Sent", "Target", "prepare", "run"]
