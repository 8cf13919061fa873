"""A small load client with an open loop: the plan is made before the run, and nothing moves it.

Arrivals are a Poisson process from a seed, as absolute times. The response time of
a request is counted from the time it was *meant* to be sent, so that a stall
of the server counts for every request that it delayed; a client that measures from
the time of sending hides that (coordinated omission). An error or a timeout
counts at its deadline and never disappears from a quantile.

It runs in a process of its own whose collector is frozen and off: the pauses it
sees are the server's.
"""

from __future__ import annotations

import asyncio
import gc
import json
import math
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

#: A run is invalid when the client itself was later than this (p99 of sent - intended).
LATE_BOUND_MS = 50.0
_SECOND = 1_000_000_000
_WORDS = ("the", "frost", "line", "is", "how", "deep", "the", "ground", "is", "frozen", "below", "it")


@dataclass
class Load:
    """What is sent."""

    rate: float = 12.0  # requests a second
    seconds: float = 30.0  # measured, after the warm-up
    warm_up: float = 2.0
    seed: int = 0
    tokens: int = 32  # mean length of an answer
    prompt: int = 192  # bytes, most of them one of a few shared prefixes
    logprobs: int = 20  # likeliest tokens asked for with every token, as evaluations do
    timeout: float = 10.0


@dataclass
class Request:
    """One request: planned, then observed. Times in ns of CLOCK_MONOTONIC."""

    intended: int
    path: str
    body: bytes
    measured: bool
    sent: int = 0
    first: int = 0
    last: int = 0
    chunks: int = 0
    status: str = "not sent"


@dataclass(frozen=True)
class Summary:
    """Of the measured requests; times in milliseconds, response = last - intended."""

    requests: int
    errors: int
    tokens: int  # pieces of text that came: one a token, unless the server merges
    response_p50: float
    response_p90: float
    response_p99: float
    response_max: float
    first_p50: float
    first_p99: float
    late_p99: float
    valid: bool


def plan(load: Load, start: int) -> list[Request]:
    """The whole run, from the seed alone."""
    random = Random(load.seed)
    prefixes = [
        " ".join(random.choice(_WORDS) for _ in range(load.prompt))[: load.prompt * 3 // 4] for _ in range(4)
    ]
    requests: list[Request] = []
    at = 0.0
    while True:
        at += random.expovariate(load.rate)
        if at >= load.warm_up + load.seconds:
            return requests
        rest = " ".join(random.choice(_WORDS) for _ in range(load.prompt))[: load.prompt // 4]
        prompt = random.choice(prefixes) + rest
        body: dict[str, object] = {
            "max_tokens": random.randint(load.tokens // 2, load.tokens * 3 // 2),
            "seed": random.randrange(1 << 30),
            "stream": True,
        }
        if random.random() < 0.5:
            path = "/v1/completions"
            body |= {"prompt": prompt, "logprobs": load.logprobs}
        else:
            path = "/v1/chat/completions"
            body |= {"messages": [{"role": "user", "content": prompt}]}
            body |= {"logprobs": load.logprobs > 0, "top_logprobs": load.logprobs}
        intended = start + int(at * _SECOND)
        requests.append(Request(intended, path, json.dumps(body).encode(), at >= load.warm_up))


async def _send(request: Request, host: str, port: int) -> None:
    """Send one request and read its stream to the end."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(
            f"POST {request.path} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(request.body)}\r\nConnection: close\r\n\r\n".encode()
        )
        writer.write(request.body)
        status = await reader.readline()
        if b" 200 " not in status:
            request.status = status.decode(errors="replace").strip() or "closed without an answer"
            return
        while line := await reader.readline():
            if not line.startswith(b"data: "):
                continue  # headers, chunk sizes, blank lines
            if line.startswith(b"data: [DONE]"):
                request.status = "ok"
                return
            now = time.monotonic_ns()
            request.first = request.first or now
            request.last = now
            request.chunks += 1
        request.status = "stream ended early"
    finally:
        writer.close()


async def _one(request: Request, host: str, port: int, timeout: float) -> None:
    await asyncio.sleep((request.intended - time.monotonic_ns()) / _SECOND)
    request.sent = time.monotonic_ns()
    deadline = request.intended + int(timeout * _SECOND)
    try:
        await asyncio.wait_for(_send(request, host, port), (deadline - request.sent) / _SECOND)
    except (asyncio.TimeoutError, TimeoutError):
        request.status = "timeout"
    except OSError as problem:
        request.status = f"{type(problem).__name__}: {problem}"
    if request.status != "ok":
        request.last = deadline
        request.first = request.first or deadline


async def _run(requests: list[Request], host: str, port: int, timeout: float, tethered: bool) -> None:
    everything = asyncio.gather(*(_one(request, host, port, timeout) for request in requests))
    if tethered:
        loop = asyncio.get_running_loop()
        loop.add_reader(0, lambda: os.read(0, 4096) or everything.cancel())
    await everything


def _quantile(values: list[int], share: float) -> float:
    """Nearest rank, in milliseconds."""
    ordered = sorted(values)
    return round(ordered[max(0, math.ceil(share * len(ordered)) - 1)] / 1e6, 2) if ordered else math.nan


def summarise(requests: list[Request]) -> Summary:
    measured = [request for request in requests if request.measured]
    response = [request.last - request.intended for request in measured]
    first = [request.first - request.intended for request in measured]
    late = _quantile([request.sent - request.intended for request in measured], 0.99)
    return Summary(
        requests=len(measured),
        errors=sum(request.status != "ok" for request in measured),
        tokens=sum(request.chunks for request in measured),
        response_p50=_quantile(response, 0.5),
        response_p90=_quantile(response, 0.9),
        response_p99=_quantile(response, 0.99),
        response_max=_quantile(response, 1.0),
        first_p50=_quantile(first, 0.5),
        first_p99=_quantile(first, 0.99),
        late_p99=late,
        valid=bool(measured) and late <= LATE_BOUND_MS,
    )


def drive(url: str, load: Load, output: Path | None = None, tethered: bool = False) -> Summary:
    """Carry out one run. Call it in a process that does nothing else.

    Args:
        output: file for the load, the summary and every request.
        tethered: give up when the standard input ends: whoever started this is gone.
    """
    address = urlsplit(url)
    host, port = address.hostname or "127.0.0.1", address.port or 80
    start = time.monotonic_ns() + _SECOND // 2
    requests = plan(load, start)
    gc.collect()
    gc.freeze()
    gc.disable()
    asyncio.run(_run(requests, host, port, load.timeout, tethered))
    summary = summarise(requests)
    if output is not None:
        columns = ["intended", "sent", "first", "last", "chunks", "status", "measured"]
        rows = [[getattr(request, column) for column in columns] for request in requests]
        whole = {"url": url, "load": asdict(load), "start": start, "summary": asdict(summary),
                 "columns": columns, "requests": rows}  # fmt: skip
        output.write_text(json.dumps(whole))
    return summary


def describe(summary: Summary) -> str:
    """The summary as one or two lines of text."""
    text = (
        f"{summary.requests} requests, {summary.errors} errors, {summary.tokens} pieces of text; response "
        f"from the intended time: p50 {summary.response_p50:.0f} ms, p90 {summary.response_p90:.0f} ms, "
        f"p99 {summary.response_p99:.0f} ms, longest {summary.response_max:.0f} ms"
    )
    if not summary.valid:
        text += (
            f"\nINVALID: the client was late itself (p99 of sent - intended {summary.late_p99:.0f} ms, bound "
            f"{LATE_BOUND_MS:.0f} ms): it was the bottleneck, lower --rate or use a quieter machine"
        )
    return text
