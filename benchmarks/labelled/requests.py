"""Simulated servers whose work is requests: coroutines of a front end, many in flight at once.

An engine core takes steps; each request needs some of them, and waits for all that holds a step up. The
front end passes on what the engine has, unless it stands still itself. Or it has several engine cores,
each with requests of its own. A stall counts if a request was in flight in nearly all of it; the one that
overlaps it most is looked at.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.synthetic import MS, Process, write_run

from benchmarks.labelled.synthetic import OPENED, bystander, covers
from benchmarks.labelled.truth import Labelled, Stall
from frostline import format as fmt

#: cause -> whose collector it is ("" for nobody's).
CAUSES = {
    "requests: pass of the engine core": "engine",
    "requests: the engine core stands still, no pass": "",
    "requests: pass of the front end": "front",
    "requests: the front end stands still, no pass": "",
}
#: ns: a step of the engine core, and the time from one fault to the next.
STEP, APART = 8 * MS, (2_500 * MS, 6_000 * MS)


@dataclass
class _Server:
    """What was decided: when requests come and how long they are, and when who stands still."""

    arrivals: list[tuple[int, int]]
    engine: list[tuple[int, int]]
    front: list[tuple[int, int]]
    spans: list[tuple[int, int]] = field(default_factory=list)

    def passed_on(self, at: int) -> int:
        """When the front end gets to do what is due at this moment."""
        return next((stop for start, stop in self.front if start <= at < stop), at)

    def run(self, chance: random.Random, length: int) -> Iterator[tuple[int, int]]:
        """The engine's steps; the requests' spans are kept."""
        now, waiting, running = 0, iter(self.arrivals), list[list[int]]()
        coming = next(waiting, None)
        stalls = iter(self.engine)
        stall = next(stalls, None)
        while now < length:
            while coming is not None and (begun := self.passed_on(coming[0])) <= now:
                running.append([begun, coming[1]])
                coming = next(waiting, None)
            start = now
            now += int(STEP * chance.lognormvariate(0, 0.2))
            if stall is not None and stall[0] <= now:
                # The step in which it comes is so much longer.
                now = max(now, stall[0]) + stall[1] - stall[0]
                stall = next(stalls, None)
            if running:
                yield start, now
            for one in running:
                one[1] -= 1
            over = [one for one in running if one[1] == 0]
            running = [one for one in running if one[1] > 0]
            self.spans += [(begun, self.passed_on(now) + MS // 2) for begun, _ in over]
            now += MS // 4


def simulate(seed: int, faults: int) -> tuple[list[Process], list[Stall]]:
    """One server: its processes, and its stalls. The same seed gives the same."""
    chance = random.Random(seed)
    front, engine = Process(pid=1000, opened=OPENED), Process(pid=1001, opened=OPENED)
    front.add_identity("APIServer")
    engine.add_identity("EngineCore")
    others = [Process(pid=1002 + n, opened=OPENED) for n in range(chance.choice((0, 1, 2)))]
    made: list[tuple[str, int, int]] = []
    at = 3_000 * MS
    for number in range(faults):
        at += chance.randrange(*APART)
        took = int(chance.uniform(600, 1_500) * MS)
        made.append((list(CAUSES)[(number + seed) % len(CAUSES)], at, at + took))
        at += took
    length = at + 4_000 * MS
    arrivals, come = [], 0
    while come < length:
        come += int(chance.expovariate(chance.choice((15, 25)) / 1e9))
        arrivals.append((come, chance.randint(10, 30)))
    standing = {
        who: [(start, stop) for cause, start, stop in made if f"{who_words} " in f"{cause} "]
        for who, who_words in (("engine", "engine core"), ("front", "front end"))
    }
    server = _Server(arrivals, standing["engine"], standing["front"])
    for start, stop in server.run(chance, length):
        engine.add_span("engine step", start, stop - start)
    for start, stop in sorted(server.spans):
        front.add_span("request", start, stop - start, kind=fmt.SPAN_ASYNC, thread=1)
    for other in others:
        bystander(other, chance, length, chance.uniform(0.05, 0.3), chance.uniform(200, 900))
    stalls = []
    for cause, start, stop in made:
        culprit = {"engine": engine.pid, "front": front.pid, "": 0}[CAUSES[cause]]
        if culprit:
            (engine if culprit == engine.pid else front).add_pass(start, stop - start)
        held = (min(b, stop) - max(a, start) for a, b in server.spans)
        if max(held, default=0) < 0.9 * (stop - start):
            continue
        beside = () if culprit else tuple(o.pid for o in others if covers(o, OPENED + start, stop - start))
        words = "requests: anything, beside a bystander's pass" if beside else cause
        stalls.append(Stall(words, front.pid, "request", OPENED + start, OPENED + stop, culprit, beside))
    return [front, engine, *others], stalls


def routed(seed: int, faults: int) -> tuple[list[Process], list[Stall]]:
    """One front end before several engine cores: each request waits for one of them, the others go on."""
    chance = random.Random(seed)
    front = Process(pid=1000, opened=OPENED)
    front.add_identity("APIServer")
    engines = [Process(pid=1001 + n, opened=OPENED) for n in range(chance.choice((2, 3, 4)))]
    others = [Process(pid=1101 + n, opened=OPENED) for n in range(chance.choice((0, 1)))]
    made: list[tuple[int, bool, int, int]] = []
    at = 3_000 * MS
    for _ in range(faults):
        at += chance.randrange(*APART)
        took = int(chance.uniform(600, 1_500) * MS)
        made.append((chance.randrange(len(engines)), chance.random() < 0.5, at, at + took))
        at += took
    length = at + 4_000 * MS
    spans: dict[int, list[tuple[int, int]]] = {}
    for number, engine in enumerate(engines):
        engine.add_identity("EngineCore", number)
        arrivals, come = [], 0
        while come < length:
            come += int(chance.expovariate(15 / 1e9))
            arrivals.append((come, chance.randint(10, 30)))
        server = _Server(arrivals, [(a, b) for who, _, a, b in made if who == number], [])
        for start, stop in server.run(chance, length):
            engine.add_span("engine step", start, stop - start)
        spans[number] = server.spans
    for start, stop in sorted(span for each in spans.values() for span in each):
        front.add_span("request", start, stop - start, kind=fmt.SPAN_ASYNC, thread=1)
    for other in others:
        bystander(other, chance, length, chance.uniform(0.05, 0.3), chance.uniform(200, 900))
    stalls = []
    for who, collector, start, stop in made:
        engine = engines[who]
        if collector:
            engine.add_pass(start, stop - start)
        # One that was in flight on this engine; it ended soon after.
        if max((min(b, stop) - max(a, start) for a, b in spans[who]), default=0) < 0.9 * (stop - start):
            continue
        words = "routed requests: " + (
            "pass of one engine core" if collector else "one stands still, no pass"
        )
        beside = () if collector else tuple(o.pid for o in others if covers(o, OPENED + start, stop - start))
        begin, end = OPENED + start, OPENED + stop
        stalls.append(Stall(words, front.pid, "request", begin, end, engine.pid if collector else 0, beside))
    return [front, *engines, *others], stalls


def sessions(folder: Path, seed: int, many: int, faults: int) -> Iterator[Labelled]:
    """``many`` simulated servers of ``faults`` stalls each, written below ``folder``."""
    for number in range(many):
        place = folder / f"requests-{number}"
        place.mkdir(parents=True)
        processes, stalls = (routed if number % 2 else simulate)(1000 * seed + number, faults)
        for one in processes:
            one.passes.sort(key=lambda record: record["start"])
            one.write(place)
        write_run(place, ["server"])
        yield Labelled("synthetic requests", place, tuple(stalls))
