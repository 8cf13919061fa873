"""A simulated process: its clock, its steps, its passes and what else holds it up. Times are in ms."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

from tests.synthetic import Process

from benchmarks.labelled.blind.labels import MS
from frostline import format as fmt

PASSES = (
    "automatic full pass", "explicit pass", "long gen-1 pass", "burst of young passes",
    "full pass and less of slow work", "two explicit passes",
)  # fmt: skip
NO_PASSES = (
    "slow call", "slow call", "slow call with a short full pass in it", "slow work and less of a pass",
    "another tool's callback",
)  # fmt: skip
#: CPython 3.10 to 3.13.
VERSIONS = (0x030A0DF0, 0x030B07F0, 0x030C03F0, 0x030D00F0)


def spread(chance: random.Random, median: float, sigma: float) -> float:
    """A log-normal draw."""
    return median * math.exp(chance.gauss(0, sigma))


def long_pass(chance: random.Random, median: float = 95) -> float:
    return min(600.0, max(45.0, spread(chance, median, 0.55)))


class Member:
    """One process of a simulated session.

    Attributes:
        free: when it can begin the next thing.
        lines: what was done to it, as ``labels.label`` reads it.
        steps: its spans as it would know them itself.
    """

    def __init__(self, chance: random.Random, role: str, pid: int, opened: int, version: int) -> None:
        self.chance, self.role, self.free = chance, role, 0.0
        self.process = Process(pid=pid, opened=opened, hexversion=version, text=[("module", role)])
        self.process.add_mark(fmt.MARK_ATTACH, 0, b=300_001)
        self.process.add_identity(role)
        self.process.add_state(0, (90, 8, 2))
        self.others = 1 if chance.random() < 0.5 else 0
        if self.others:
            self.process.add_mark(fmt.MARK_OTHER_CALLBACK, 0, a=self.process.name("metrics.py:on_gc"))
        self.lines: list[dict[str, Any]] = []
        self.steps: list[tuple[str, int, int]] = []
        self._young = chance.uniform(2, 9)  # ms of work between two gen-0 passes
        self._until = self._young
        self._counts = [90, 8, 2]
        self._heap = long_pass(chance)

    # --- passes ----------------------------------------------------------------------
    def stop(self, at: float, generation: int, took: float, explicit: bool = False, tool: float = 0) -> float:
        """A pass; ``tool`` is how long another tool's callback takes at its end. When it is over."""
        values: dict[str, Any] = {"thread": 1, "tid": self.process.pid, "others": self.others}
        if generation == 0:
            values |= {"flags": 0, "collected": self.chance.randint(0, 40)}
        else:
            values |= {"collected": self.chance.randint(0, 300), "count0": self.chance.randint(701, 760)}
            values["count1"] = 11 if generation == 1 or not explicit else self.chance.randint(0, 10)
            values["count2"] = 11 if generation == 2 and not explicit else self.chance.randint(0, 9)
        if explicit:
            values |= {"flags": fmt.PASS_FULL | fmt.PASS_EXPLICIT, "count0": self.chance.randint(20, 650)}
        if self.others or tool:
            values["others"] = max(1, self.others)
            values["begin"] = _ns(at) + self.chance.randint(2_000, 20_000)
            values["end"] = _ns(at + took) + (_ns(tool) or self.chance.randint(2_000, 20_000))
        self.process.add_pass(_ns(at), _ns(took), generation, **values)
        self._counts[generation] += 1
        if explicit:
            self.process.add_mark(
                fmt.MARK_COLLECT, _ns(at) - 5_000, _ns(took) + 10_000, "app/cache.py", a=generation, c=1,
                line=71, function=self.process.name("evict"), thread=1, tid=self.process.pid,
            )  # fmt: skip
        return at + took + tool

    def work(self, at: float, ms: float) -> float:
        """Works for ``ms`` with the young passes that fall into it. When it is done."""
        while ms > self._until:
            at += self._until
            ms -= self._until
            self._until = self.chance.expovariate(1 / self._young)
            gen1 = (self._counts[0] + self._counts[1]) % 11 == 10
            at = self.stop(at, int(gen1), spread(self.chance, 1.4 if gen1 else 0.25, 0.5))
        self._until -= ms
        return at + ms

    # --- faults ----------------------------------------------------------------------
    def fault(self, at: float, cause: str, **more: Any) -> float:
        """One of PASSES or NO_PASSES, written down as what it is. When it is over."""
        end = self._make(at, cause)
        self.note(at, end, cause, cause in PASSES, **more)
        return end

    def note(self, at: float, end: float, cause: str, collector: bool, **more: Any) -> None:
        opened = self.process.opened
        self.lines.append(
            {"cause": cause, "role": self.role, "pid": self.process.pid, "begin": opened + _ns(at),
             "end": opened + _ns(end), "collector": collector, **more}
        )  # fmt: skip

    def _make(self, at: float, cause: str) -> float:
        chance = self.chance
        took = min(600.0, max(45.0, spread(chance, self._heap, 0.25)))  # a heap's passes are alike
        slow = long_pass(chance, 90)
        if cause == "automatic full pass":
            return self.stop(at, 2, took)
        if cause == "explicit pass":
            return self.stop(at, 2, took, explicit=True)
        if cause == "two explicit passes":
            middle = self.stop(at, 2, took, explicit=True)
            return self.stop(middle + 0.05, 2, took * chance.uniform(0.8, 1), explicit=True)
        if cause == "long gen-1 pass":
            return self.stop(at, 1, max(45.0, spread(chance, 65, 0.3)))
        if cause == "burst of young passes":
            end = at
            while end < at + slow:
                end = self.stop(end, 0, spread(chance, 1.6, 0.4)) + chance.uniform(0.1, 0.3)
            return end
        if cause == "full pass and less of slow work":
            return self.stop(at, 2, took) + took * chance.uniform(0.15, 0.45)
        if cause == "slow call with a short full pass in it":
            part = chance.uniform(0.2, 0.7) * slow
            return self.stop(at + part, 2, slow * chance.uniform(0.04, 0.12)) + slow - part
        if cause == "slow work and less of a pass":
            middle = at + slow
            return self.stop(middle, 2, slow * chance.uniform(0.25, 0.5))
        if cause == "another tool's callback":
            return self.stop(at, 2, chance.uniform(2, 8), tool=slow)
        return at + slow

    def step(self, name: str, begin: float, end: float) -> None:
        opened = self.process.opened
        self.process.add_span(name, _ns(begin), _ns(end) - _ns(begin))
        self.steps.append((name, opened + _ns(begin), opened + _ns(end)))

    def write(self, folder: Path, end: float) -> None:
        self.process.add_state(_ns(end), (self._counts[0], self._counts[1], self._counts[2]), closing=True)
        self.process.words |= {"state": fmt.STATE_CLOSED, "closed": self.process.opened + _ns(end)}
        self.process.passes.sort(key=lambda one: int(one["start"]))
        self.process.write(folder)

    def told(self) -> dict[str, Any]:
        return {"role": self.role, "pid": self.process.pid, "steps": self.steps}


def sidecar(member: Member, until: float, every: float) -> None:
    """Full passes by a clock of its own that nobody waits for, ``every`` ms in the mean."""
    at = member.chance.expovariate(1 / every)
    while at < until:
        end = member.stop(at, 2, long_pass(member.chance), explicit=member.chance.random() < 0.3)
        member.note(at, end, "full pass", True)
        at = end + member.chance.expovariate(1 / every)


def _ns(ms: float) -> int:
    return round(ms * MS)
