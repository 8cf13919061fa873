"""Simulated sessions of two kinds of server, from a seed: an engine with ranks, and a web of forked workers.

Each is a small simulation in time: who waits for whom follows from it, and faults, coincidences and
queues with it. Recordings are written by ``tests/synthetic.py``, from the format's tables alone.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence
from pathlib import Path

from tests.synthetic import write_run

from benchmarks.labelled.blind.clockwork import (
    NO_PASSES,
    PASSES,
    VERSIONS,
    Member,
    long_pass,
    sidecar,
    spread,
)
from benchmarks.labelled.blind.labels import CALLER, FED, LAST, Victim, label
from benchmarks.labelled.truth import Labelled, Stall, write_truth

#: Steps from one fault to the next.
APART = (45, 110)
#: ns of CLOCK_MONOTONIC at which a simulated machine's sessions begin.
BEGINNING = 3_600 * 10**9


class Simulated:
    """What both kinds share: members, faults by step, and the end."""

    def __init__(self, seed: int, number: int, faults: int, roles: Sequence[str]) -> None:
        self.chance = random.Random(f"{type(self).__name__} {seed} {number}")
        self.number = number
        version = self.chance.choice(VERSIONS)
        first = self.chance.randint(300, 30_000)
        self.members = {
            role: Member(self.chance, role, first + 7 * place, BEGINNING, version)
            for place, role in enumerate((*roles, "sidecar"))
        }
        self.plan: dict[int, tuple[str, str]] = {}
        step, asked = 150, []
        for place in range(faults):
            some = PASSES if place % 2 else NO_PASSES
            asked.append(some[place // 2 % len(some)])
        self.chance.shuffle(asked)
        for cause in asked:
            self.plan[step] = self.chance.choice(self.at_fault(cause)), cause
            step += self.chance.randint(*APART)
        self.steps = step + 60

    def at_fault(self, cause: str) -> Sequence[str]:
        """Roles that a fault may happen in."""
        raise NotImplementedError

    def victims(self) -> dict[str, Sequence[Victim]]:
        raise NotImplementedError

    def others(self, victim: Victim, name: str) -> set[str]:
        raise NotImplementedError

    def finish(self, folder: Path, end: float) -> Labelled:
        aside = self.members["sidecar"]
        sidecar(aside, end, self.chance.uniform(900, 2500))
        folder.mkdir(parents=True)
        stalls: list[Stall]
        lines = [line for member in self.members.values() for line in member.lines]
        told = [member.told() for member in self.members.values()]
        stalls, _ = label(lines, told, self.victims(), self.others, self.chance)
        for member in self.members.values():
            member.write(folder, end + 20)
        write_run(folder, ["serve", type(self).__name__.lower()])
        write_truth(folder / "truth.jsonl", stalls)
        return Labelled("blind simulated", folder, tuple(stalls))


class Engine(Simulated):
    """An engine core that broadcasts each step to workers in lockstep, and a front end that it feeds."""

    def __init__(self, seed: int, number: int, faults: int) -> None:
        self.workers = [f"rank {rank}" for rank in range(2 + number % 3)]
        super().__init__(seed, number, faults, ("front", "engine", *self.workers))
        self.forward = self.chance.uniform(5, 14)

    def at_fault(self, cause: str) -> Sequence[str]:
        return ("engine", "engine", "front", *self.workers)

    def victims(self) -> dict[str, Sequence[Victim]]:
        chance = self.chance
        engine = Victim("engine", "schedule and run")
        fed = Victim("front", "", FED, "output")
        found: dict[str, Sequence[Victim]] = {
            "front": (Victim("front", "output"),),
            "engine": (engine, engine, Victim(chance.choice(self.workers), "", FED, "execute"), fed),
            "nobody": (Victim("engine", "", beside="schedule and run"),),
        }
        for place, rank in enumerate(self.workers):
            peer = self.workers[place - 1]
            found[rank] = (
                Victim(rank, "execute"),
                Victim("engine", "schedule and run", CALLER),
                Victim("front", "", LAST, "output"),
                Victim(peer, "", ", a peer waits", "execute"),
            )
        return found

    def others(self, victim: Victim, name: str) -> set[str]:
        if victim.role == "front" and name:
            return {*self.members} - {"front"}
        if victim.role in self.workers and name:
            return {*self.members} - {victim.role}
        return {"sidecar"} if victim.role == "front" else {"sidecar", "front"}

    def run(self, folder: Path) -> Labelled:
        chance, members = self.chance, self.members
        engine, front = members["engine"], members["front"]
        now = 5.0
        for step in range(self.steps):
            role, cause = self.plan.get(step, ("", ""))
            if step % 400 == 399:  # all requests are done, and the next comes later
                idle = spread(chance, 500, 0.6)
                engine.note(now, now + idle, "no requests", False)
                engine.lines[-1]["role"] = "nobody"
                now += idle
            begin = now + spread(chance, 0.35, 0.3)
            now = engine.work(begin, spread(chance, 0.9, 0.35))
            if role == "engine":
                now = engine.fault(now, cause)
            ends = []
            for rank in self.workers:
                worker = members[rank]
                start = max(worker.free, now + spread(chance, 0.08, 0.3))
                end = worker.work(start, spread(chance, self.forward, 0.1))
                if rank == role:
                    end = worker.fault(end, cause)
                    end = worker.work(end, 0.2)
                elif role in self.workers and chance.random() < 0.15:
                    # A peer has a pass of its own meanwhile, over long before: nobody waits for it.
                    brief = chance.uniform(12, 18)
                    worker.note(end, worker.stop(end, 2, brief), "brief pass", True, minor=True)
                    end += brief
                worker.step("execute", start, end)
                worker.free = end
                ends.append(end)
            now = engine.work(max(ends) + spread(chance, 0.1, 0.3), spread(chance, 0.5, 0.35))
            engine.step("schedule and run", begin, now)
            start = max(front.free, now + spread(chance, 0.1, 0.3))
            end = front.work(start, spread(chance, 1.2, 0.4))
            if role == "front":
                end = front.fault(end, cause)
            front.step("output", start, end)
            front.free = end
        return self.finish(folder, now)


class Web(Simulated):
    """Forked workers, independent of each other, that all ask one cache process that serves one at a time.

    All of them have full passes, each by itself, so that much runs beside what it has no part in.
    """

    def __init__(self, seed: int, number: int, faults: int) -> None:
        self.workers = [f"web {place}" for place in range(3 + number % 3)]
        super().__init__(seed, number, faults, ("cache", *self.workers))
        self.think = self.chance.uniform(6, 20)

    def at_fault(self, cause: str) -> Sequence[str]:
        some = ("cache", "cache", "a worker", "a worker")
        return some if cause in PASSES else (*some, "database")

    def victims(self) -> dict[str, Sequence[Victim]]:
        return {
            "cache": (Victim("cache", "serve"), Victim("asker", "handle", CALLER)),
            **{role: (Victim(role, "handle"),) for role in self.workers},
        }

    def others(self, victim: Victim, name: str) -> set[str]:
        return {*self.members} - {victim.role} - ({"cache"} if name == "handle" else set())

    def run(self, folder: Path) -> Labelled:
        chance, cache = self.chance, self.members["cache"]
        queue: list[tuple[float, str, float]] = []
        for role in self.workers:
            self._begin(queue, role, 5.0, 0)
        for step in range(self.steps):
            asked, role, begin = heapq.heappop(queue)
            fault, cause = self.plan.get(step, ("", ""))
            worker = self.members[role]
            start = max(cache.free, asked + 0.03)
            now = cache.work(start, spread(chance, 0.6, 0.4))
            if fault == "cache":
                now = cache.fault(now, cause, asker=role)
            cache.step("serve", start, now)
            cache.free = now
            if fault == "database":  # a process that nobody records
                end = now + long_pass(chance, 110)
                worker.note(now, end, "slow database", False)
                now = end
            now = worker.work(now + 0.03, spread(chance, 1.5, 0.4))
            if fault == "a worker":
                now = worker.fault(now, cause)
                now = worker.work(now, 0.2)
            worker.step("handle", begin, now)
            self._begin(queue, role, now, step)
        return self.finish(folder, max(member.free for member in self.members.values()))

    def _begin(self, queue: list[tuple[float, str, float]], role: str, now: float, step: int) -> None:
        begin = now + self.chance.expovariate(1 / self.think) + 0.05
        asks = self.members[role].work(begin, spread(self.chance, 1.2, 0.4))
        self.members[role].free = asks
        heapq.heappush(queue, (asks, role, begin))
