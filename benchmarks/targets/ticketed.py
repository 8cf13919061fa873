"""An engine whose submissions are timed by a hook: as it was found in the field, or repaired (B5, case 03).

    ticketed.py found|repaired HEAP WARM-UP SECONDS SEED

Steps of 5 ms, as if on an accelerator. In each step every running request takes in the ticket that it
submitted DEPTH steps before, and submits the next one. The requests are a trace from SEED. Prints when the
measured window was (ns of CLOCK_MONOTONIC, how many requests and steps), and waits for its input to end, so
that it can be looked into. HEAP lists, linked out of order, stand for what a server has at the end of its
start-up.

The hook as found puts a closure onto the ticket whose bound method it holds: ticket, closure, cell, method,
ticket. Each finished ticket, and the outputs that it holds, then waits for the collector, where without it
nothing is ever left to collect. The repaired one wraps the ticket.
"""

import json
import random
import sys
import time
from collections import deque

STEP = 0.005
#: Steps that a ticket is under way for: an engine submits ahead of what it takes in.
DEPTH = 6
#: Likeliest tokens in a ticket's outputs.
CANDIDATES = 20
#: Requests a second, and the steps that each takes: about 16 run at a time.
RATE, STEPS = 2.0, (800, 2400)


class Ticket:
    """One submission, and what will come back for it."""

    def __init__(self, number):
        self.outputs = [[token, -0.1 * token] for token in range(CANDIDATES)]
        self.number = number

    def collect(self):
        return self.outputs


class Timed:
    """The repaired hook: it holds the ticket, and nothing holds it but who asked for it."""

    def __init__(self, ticket, times):
        self._ticket = ticket
        self._times = times

    def collect(self):
        begun = time.perf_counter_ns()
        outputs = self._ticket.collect()
        self._times[0] += time.perf_counter_ns() - begun
        return outputs

    def __getattr__(self, name):
        return getattr(self._ticket, name)


class Engine:
    def __init__(self, hook, trace):
        self.submit = hook(self.submit) if hook else self.submit
        self.trace = deque(trace)
        self.running = []
        self.number = 0

    def submit(self):
        self.number += 1
        return Ticket(self.number)

    def admit(self, now):
        while self.trace and self.trace[0][0] <= now:
            self.running.append([self.trace.popleft()[1], deque()])

    def _step(self):
        until = time.monotonic() + STEP
        for request in self.running:
            if len(request[1]) == DEPTH:
                request[1].popleft().collect()
            request[1].append(self.submit())
            request[0] -= 1
        if any(request[0] <= 0 for request in self.running):
            self.running = [request for request in self.running if request[0] > 0]
        time.sleep(max(0.0, until - time.monotonic()))


def found(submit):
    """The hook as it was found: what it puts onto the ticket holds the ticket."""
    times = [0]

    def submitted():
        ticket = submit()
        original = ticket.collect

        def timed():
            begun = time.perf_counter_ns()
            outputs = original()
            times[0] += time.perf_counter_ns() - begun
            return outputs

        ticket.collect = timed
        return ticket

    return submitted


def repaired(submit):
    times = [0]
    return lambda: Timed(submit(), times)


def trace(seed, seconds):
    chance = random.Random(seed)
    at, requests = -STEPS[1] * STEP, []  # those that run already when it begins
    while at < seconds:
        at += chance.expovariate(RATE)
        requests.append((at, chance.randint(*STEPS)))
    return requests


def heap(objects):
    chance = random.Random(0)
    kept = [[0]]
    for number in range(1, objects):
        kept.append([number, kept[chance.randrange(number)]])
    return kept


def main():
    name, objects, warm_up, seconds, seed = sys.argv[1:]
    kept = heap(int(objects))
    warm_up, seconds = float(warm_up), float(seconds)
    requests = trace(int(seed), warm_up + seconds)
    engine = Engine({"found": found, "repaired": repaired, "none": None}[name], requests)
    begun = time.monotonic()
    measured, steps, first = 0, 0, 0
    while (now := time.monotonic() - begun) < warm_up + seconds:
        if not measured and now >= warm_up:
            measured, first = time.monotonic_ns(), steps
        engine.admit(now)
        engine._step()
        steps += 1
    told = {"begin": measured, "end": time.monotonic_ns(), "steps": steps - first}
    print(json.dumps(told | {"requests": len(requests), "heap": len(kept)}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
