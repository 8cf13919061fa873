"""A backlog of chunks merged in linear time (A13): the collector against the quadratic form.

- *Moved*: how many ids and characters are moved for a backlog of depth n, counted by an array and a text that
  count (the code that runs is the server's).
- *Time*: processor time of this thread for the same, the shortest of a few, with the collector off. Doubling
  the depth doubles it.
- *Goodput*: the front end's whole way, from the engine's messages on a ZeroMQ line to the events' bytes, for
  streams whose backlog has piled up: tokens per second of processor time.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
import time
from array import array
from collections.abc import Callable, Iterator
from itertools import pairwise
from random import Random
from typing import Any

import msgspec
import zmq.asyncio

from benchmarks.paper.doing import options
from benchmarks.paper.table import Finding, finish, others_of
from frostline.demo.app import _completion, _events
from frostline.demo.collector import Chunk, Collector, Quadratic
from frostline.demo.front_end import EngineClient, Stream
from frostline.demo.launch import Settings, open_socket
from frostline.demo.protocol import Output, Outputs, Sampled, Sampling
from frostline.demo.tokens import from_json
from frostline.experiment.ablation.machine import Busy

FORMS: dict[str, Callable[[], Collector]] = {"linear": Collector, "quadratic": Quadratic}
#: Depths of a backlog, each twice the one before.
DEPTHS = {"linear": (12_500, 25_000, 50_000, 100_000), "quadratic": (3_125, 6_250, 12_500)}
#: Doubling the depth costs at most so many times as much.
DOUBLING = 2.3
#: Goodput against the quadratic form, at the deepest of these backlogs.
BETTER = 1.3
BACKLOGS = (100, 1_000, 10_000)
STREAMS = 8


class _Moved:
    """How many elements were moved."""

    count = 0


class _Ids(array):  # type: ignore[type-arg]
    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        if isinstance(at, slice):
            _Moved.count += len(found)
            return _Ids("i", found)
        return found

    def __add__(self, other: Any) -> _Ids:
        _Moved.count += len(self) + len(other)
        return _Ids("i", super().__add__(other))

    def extend(self, other: Any) -> None:
        _Moved.count += len(other)
        super().extend(other)


class _Text(str):
    def __add__(self, other: str) -> _Text:
        _Moved.count += len(self) + len(other)
        return _Text(super().__add__(other))


def chunk(number: int, text: str) -> Chunk:
    return {
        "ids": from_json([number % 512]),
        "text": text,
        "samples": [Sampled(1, number % 512, -0.5, [])],
        "finish": None,
        "cached": 0,
    }


def moved(form: str, depth: int) -> int:
    """Elements that are moved for a backlog of a depth, until the reader has it.

    Raises:
        RuntimeError: what the reader got is not what was put in.
    """
    collector = FORMS[form]()
    _Moved.count = 0
    for number in range(depth):
        one = chunk(number, "on ")
        one["ids"], one["text"] = _Ids("i", one["ids"]), _Text("on ")
        collector.put(one)
    got = collector._take()
    if got is None or len(got["ids"]) != depth or len(got["samples"]) != depth:
        raise RuntimeError(f"a backlog of {depth} came out as {got}")
    text = got["text"] or ""
    return _Moved.count + (len(text) if form == "linear" else 0)  # joined once


def spent(form: str, depth: int, repeats: int) -> float:
    """Seconds of this thread's processor time for the same, the least of several."""
    chunks = [chunk(number, "on ") for number in range(depth)]
    best = float("inf")
    for _ in range(repeats):
        collector = FORMS[form]()
        begun = time.thread_time()
        for one in chunks:
            collector.put(one)
        collector._take()
        best = min(best, time.thread_time() - begun)
    return best


def differences(form: str) -> int:
    """Of depths 1 to 500 and 4,000 random sequences of puts and reads: how many differ from the unmerged."""
    random = Random(13)
    plans = [[False] * (depth - 1) + [True] for depth in range(1, 501)]
    for _ in range(4_000):
        lag = random.random()
        plans.append([random.random() > lag for _ in range(random.randrange(1, 40))] + [True])
    wrong = 0
    for plan in plans:
        collector, put, got = FORMS[form](), [], []
        for number, reads in enumerate(plan):
            put.append(chunk(number, random.choice(("", "a", "é", "雪", "or "))))
            collector.put(put[-1])
            if reads:
                taken = collector._take()
                assert taken is not None
                got.append(taken)
        wrong += _bytes(put) != _bytes(got)
    return wrong


def _bytes(chunks: list[Chunk]) -> bytes:
    text = "".join(one["text"] or "" for one in chunks).encode()
    samples = [sample for one in chunks for sample in one["samples"]]
    return text + b"".join(one["ids"].tobytes() for one in chunks) + msgspec.msgpack.encode(samples)


async def _drained(merge: str, depth: int) -> float:
    """Seconds of this thread's processor time to say a backlog of ``depth`` on each of the streams."""
    plain: zmq.Context[Any] = zmq.Context()
    line = open_socket(zmq.asyncio.Context.shadow(plain.underlying), "inproc://engine", bind=True)
    engine = open_socket(plain, "inproc://engine", bind=False)
    client = EngineClient([line], Settings(merge=merge))
    client.status = "ready"
    streams = [client.submit(from_json([1]), depth, Sampling(1.0, 0, 0)) for _ in range(STREAMS)]
    for number in range(depth):
        finish = "length" if number == depth - 1 else None
        token = 256 + number % 256
        # A step of an engine: one token for each. All lie on the line before anybody reads.
        step = [Output(Sampled(one.number, token, -0.5, []), finish, 0) for one in streams]
        engine.send(msgspec.msgpack.encode(Outputs(step)))

    async def answer(stream: Stream) -> int:
        return sum([len(event) async for event in _events(stream, _completion, False, False)])

    listening = asyncio.create_task(client.run())
    begun = time.thread_time()
    said = await asyncio.gather(*map(answer, streams))
    taken = time.thread_time() - begun
    listening.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await listening
    line.close()
    engine.close()
    plain.term()
    if min(said) < depth:
        raise RuntimeError(f"streams of {depth} tokens ended after {min(said)} bytes")
    return taken


def goodput(depth: int, repeats: int) -> dict[str, float]:
    """Tokens per second of processor time by how chunks are merged; the forms take turns."""
    best = dict.fromkeys(("off", "quadratic", "linear"), float("inf"))
    for _ in range(repeats):
        for merge in best:
            best[merge] = min(best[merge], asyncio.run(_drained(merge, depth)))
    return {merge: STREAMS * depth / taken for merge, taken in best.items()}


@contextlib.contextmanager
def _collector_off() -> Iterator[None]:
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def _tell(text: str) -> None:
    print(f"a13: {text}", file=sys.stderr, flush=True)


def main(arguments: list[str]) -> int:
    given = options("a13", arguments)
    small, repeats = (20, 2) if given.quick else (1, 7)
    busy = Busy()
    with _collector_off():
        _tell("1 of 4, what is said; about 60 s left")
        wrong = {form: differences(form) for form in FORMS}
        _tell("2 of 4, what is moved; about 55 s left")
        counts = {form: {n: moved(form, n) for n in (500, 1_000, 2_000)} for form in FORMS}
        _tell("3 of 4, processor time; about 50 s left")
        times = {
            form: {depth // small: spent(form, depth // small, repeats) for depth in depths}
            for form, depths in DEPTHS.items()
        }
        _tell("4 of 4, goodput; about 30 s left")
        good = {depth // small: goodput(depth // small, min(repeats, 5)) for depth in BACKLOGS}
    more = {"others": busy.others(), "moved": counts, "times": times, "goodput": good}
    findings = judge(wrong, counts, times, good)
    title = "a backlog of chunks merged in linear time"
    return finish("a13", title, given.folder, findings, others_of([more]), given.quick, more)


def judge(
    wrong: dict[str, int],
    counts: dict[str, dict[int, int]],
    times: dict[str, dict[int, float]],
    good: dict[int, dict[str, float]],
) -> list[Finding]:
    """The figures."""
    timed = "thread_time of put and take, the shortest of several, collector off"
    findings = [
        Finding(
            "what the reader gets against the unmerged stream",
            "byte-identical, depths 1 to 500, 4,000 random sequences",
            "no difference",
            f"{wrong['linear']} of 4,500 differ (quadratic form: {wrong['quadratic']})",
            "text, ids and samples joined, compared as bytes",
            wrong["linear"] == 0,
            clock=False,
        )
    ]
    for form, exact in (("linear", True), ("quadratic", False)):
        depths = list(counts[form])
        text = ", ".join(f"{counts[form][depth]:,} at {depth:,}" for depth in depths)
        ratios = [counts[form][b] / counts[form][a] for a, b in pairwise(depths)]
        findings.append(
            Finding(
                f"elements moved, {form}",
                "linear" if exact else "quadratic",
                f"doubling: at most {DOUBLING}" if exact else "doubling: over 3, else nothing is shown",
                f"{text}; x {', '.join(f'{ratio:.2f}' for ratio in ratios)}",
                "ids and characters moved, by an array and a text that count",
                max(ratios) <= DOUBLING if exact else min(ratios) > 3,
                clock=False,
            )
        )
    for form, bound in (("linear", f"doubling: at most {DOUBLING}"), ("quadratic", "")):
        depths = list(times[form])
        text = ", ".join(f"{times[form][depth] * 1e3:.1f} ms at {depth:,}" for depth in depths)
        ratios = [times[form][b] / times[form][a] for a, b in pairwise(depths)]
        seen = f"{text}; x {', '.join(f'{ratio:.2f}' for ratio in ratios)}"
        findings.append(
            Finding(f"time, {form}", "", bound, seen, timed, max(ratios) <= DOUBLING if bound else None)
        )
    deepest = max(good)
    for depth, by in good.items():
        ratio = by["linear"] / by["quadratic"]
        text = ", ".join(f"{merge} {rate:,.0f}" for merge, rate in by.items())
        findings.append(
            Finding(
                f"goodput, backlog of {depth:,} on each of {STREAMS} streams",
                "57,735 over 42,970 tokens/s: x 1.34" if depth == deepest else "",
                f"linear over quadratic: at least {BETTER}" if depth == deepest else "",
                f"{text} tokens/s; x {ratio:.2f}",
                "tokens per second of thread_time, from ZeroMQ to the events' bytes, best of several",
                ratio >= BETTER if depth == deepest else None,
            )
        )
    return findings


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
