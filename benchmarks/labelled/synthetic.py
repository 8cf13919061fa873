"""Labelled stalls of servers that were never run: a simulation writes the records, and knows the causes.

A front end asks an engine core, which has ``ranks`` workers do each step in lockstep; there are bystanders
with steps and passes of their own. The simulation goes step by step, adds up what each takes, and puts in
faults; the same random number generator decides all of it. Passes of bystanders lie where they happen to.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.synthetic import MS, Process, write_run

from benchmarks.labelled.truth import Labelled, Stall
from frostline import format as fmt

CAUSES = (
    "automatic full pass", "explicit gc.collect()", "young pass", "pass in two parts",
    "another tool's callback", "slow, no pass", "slow, beside short passes of its own", "no requests",
)  # fmt: skip
COLLECTOR = frozenset(CAUSES[:4])
LABELS = {"front": "ask", "engine": "engine step", "worker": "execute"}
APART = (15, 40)
#: Of the passes of who feeds another, so many are looked at in the one that is fed.
GAPS = 0.25
#: ns of CLOCK_MONOTONIC at which a session begins: any will do.
OPENED = 10**13


@dataclass
class _Simulation:
    """One server while it is simulated; times in ns after OPENED."""

    chance: random.Random
    front: Process
    engine: Process
    workers: list[Process]
    bystanders: list[Process]
    now: int = 0
    stalls: list[Stall] = field(default_factory=list)

    def took(self, mean_ms: float, spread: float = 0.25) -> int:
        """A step's own time: log-normal, as they are."""
        return max(1000, int(mean_ms * MS * self.chance.lognormvariate(0, spread)))

    def step(self, fault: str, role: str, victim: str) -> None:
        length = int(self.chance.uniform(50, 250) * MS) if fault else 0
        if fault == "no requests":
            self.note(fault, self.now, length, 0, self.engine, "")
            self.now += length
            fault = ""
        rank = self.chance.randrange(len(self.workers))
        places = {"front": self.front, "engine": self.engine, "worker": self.workers[rank]}
        asked = self.now
        at = asked + self.took(0.4)
        at = self.stall("front", fault, role, at, length, places)
        stepped = at
        at += self.took(0.4)
        at = self.stall("engine", fault, role, at, length, places)
        ends = []
        for number, worker in enumerate(self.workers):
            begun = at + self.took(0.05)
            done = begun + self.took(3)
            if number == rank:
                done = self.stall("worker", fault, role, done - self.took(0.5), length, places)
            worker.add_span("execute", begun, done - begun)
            ends.append(done)
        at = max(ends) + self.took(0.2)
        self.engine.add_span("engine step", stepped, at - stepped)
        at += self.took(0.2)
        self.front.add_span("ask", asked, at - asked)
        if fault:
            culprit = places[role].pid if fault in COLLECTOR else 0
            if victim == "gap":
                fed = self.engine if role == "front" else self.workers[rank]
                self.note(f"{fault}, who is fed by it idles", asked, at - asked, culprit, fed, "")
            else:
                words = f"{fault}, another waits" if culprit and role != victim else fault
                self.note(words, asked, at - asked, culprit, places[victim], LABELS[victim])
        self.now = at + self.took(1)

    def note(self, cause: str, at: int, took: int, culprit: int, victim: Process, label: str) -> None:
        beside = 0
        if not culprit:
            beside = next((one.pid for one in self.bystanders if covers(one, OPENED + at, took)), 0)
        if beside:
            cause = "anything, beside a bystander's pass"
        coincides = (beside,) if beside else ()
        begin = OPENED + at
        self.stalls.append(Stall(cause, victim.pid, label, begin, begin + took, culprit, coincides))

    def stall(
        self, where: str, fault: str, role: str, at: int, length: int, places: dict[str, Process]
    ) -> int:
        """Puts the fault in, if it is of this process; returns when it is over."""
        if where != role or not fault:
            return at
        process = places[role]
        if fault == "automatic full pass":
            process.add_pass(at, length)
        elif fault == "explicit gc.collect()":
            process.add_pass(at, length, flags=fmt.PASS_FULL | fmt.PASS_EXPLICIT, count0=3)
        elif fault == "young pass":
            process.add_pass(at, length, generation=1, flags=0)
        elif fault == "pass in two parts":  # collected twice in a row, as some programs do
            half = length // 2
            process.add_pass(at, half, flags=fmt.PASS_FULL | fmt.PASS_EXPLICIT)
            process.add_pass(at + half + self.took(0.1), half, flags=fmt.PASS_FULL | fmt.PASS_EXPLICIT)
            at += 2 * MS
        elif fault == "another tool's callback":
            process.add_pass(at, 2 * MS, begin=at + 1, end=at + length)
        elif fault.endswith("passes of its own"):
            for number in range(5):
                process.add_pass(at + number * length // 6, length // 40, generation=0, flags=0)
        return at + length


def covers(process: Process, start: int, took: int) -> bool:
    stop = start + took
    both = sum(max(0, min(stop, one["stop"]) - max(start, one["start"])) for one in process.passes)
    return 2 * both >= took


def bystander(process: Process, chance: random.Random, length: int, duty: float, pass_ms: float) -> None:
    """Steps that nothing holds up but its own passes, which come at random."""
    at, due = 0, int(chance.expovariate(duty / (pass_ms * MS)))
    while at < length:
        took = int(3 * MS * chance.lognormvariate(0, 0.25))
        if at >= due:
            pause = int(pass_ms * MS * chance.uniform(0.6, 1.4))
            process.add_pass(at + took // 2, pause)
            took += pause
            due = at + took + int(chance.expovariate(duty / (pass_ms * MS)))
        process.add_span("other", at, took)
        at += took + MS


def simulate(seed: int, faults: int) -> tuple[list[Process], list[Stall]]:
    """One server: its processes, and its stalls. The same seed gives the same."""
    chance = random.Random(seed)
    pids = iter(range(1000, 1100))

    def process(role: str, rank: int = -1) -> Process:
        one = Process(pid=next(pids), opened=OPENED)
        one.add_identity(role, rank)
        return one

    front, engine = process("front"), process("engine")
    workers = [process("worker", rank) for rank in range(chance.choice((1, 2, 4)))]
    bystanders = [process(f"bystander {number}") for number in range(chance.choice((0, 1, 2, 3)))]
    # Long enough for the server, whatever its faults: those passes come first, and lie anywhere.
    length = int(faults * (40 * 8 + 260) * MS)
    for one in bystanders:
        bystander(one, chance, length, chance.uniform(0.02, 0.3), chance.uniform(60, 200))
    server = _Simulation(chance, front, engine, workers, bystanders)
    path = tuple(LABELS)
    for number in range(faults):
        for _ in range(chance.randint(*APART)):
            server.step("", "", "")
        fault = CAUSES[(number + seed) % len(CAUSES)]
        role = chance.choice(path)
        victim = chance.choice(path[: path.index(role) + 1])
        if fault in COLLECTOR and role != "worker" and chance.random() < GAPS:
            victim = "gap"
        server.step(fault, role, victim)
    for _ in range(20):
        server.step("", "", "")
    for one in (front, engine, *workers):
        for _ in range(200):  # young passes that nobody feels
            one.add_pass(chance.randrange(server.now), chance.randrange(MS), generation=0, flags=0)
    return [front, engine, *workers, *bystanders], server.stalls


def sessions(folder: Path, seed: int, many: int, faults: int) -> Iterator[Labelled]:
    """``many`` simulated servers of ``faults`` stalls each, written below ``folder``."""
    for number in range(many):
        place = folder / f"synthetic-{number}"
        place.mkdir(parents=True)
        processes, stalls = simulate(1000 * seed + number, faults)
        for one in processes:
            one.passes.sort(key=lambda record: record["start"])
            one.write(place)
        write_run(place, ["server"])
        yield Labelled("synthetic", place, tuple(stalls))
