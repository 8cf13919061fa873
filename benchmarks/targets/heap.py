"""A heap to look into: ``cycles`` makes 60,000 cycles of five objects, ``census`` 3,000,000 tracked
objects."""

import gc
import json
import resource
import sys
import time


class Ticket:
    def collect(self):
        return 42


def hook():
    ticket = Ticket()
    original = ticket.collect

    def timed():
        return original()

    ticket.collect = timed


def resident():
    with open("/proc/self/statm") as file:  # noqa: PTH123 - pathlib would be loaded by it
        return int(file.read().split()[1]) * resource.getpagesize()


def peak():
    with open("/proc/self/status") as file:  # noqa: PTH123
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))


def cycles():
    from frostline.heap.cycles import as_plain, cycles_of
    from frostline.heap.saved import let_go, saved_pass

    hook()
    let_go(saved_pass())  # imports what it needs
    gc.disable()
    before = resident()
    for _ in range(60_000):
        hook()
    garbage = resident() - before
    begun = time.monotonic()
    saved = saved_pass()
    told = as_plain(cycles_of(saved))
    took = time.monotonic() - begun
    more = peak() - before - garbage
    let_go(saved)
    first = told["kinds"][0]
    return {"took": took, "more": more, "garbage": garbage, "found": told["found"], "path": first["path"],
            "count": first["count"]}  # fmt: skip


def census():
    from frostline.heap import census as heap

    heap.take(paths=True)
    kept = [[i] if i % 2 else {i: []} for i in range(2_000_000)]
    before = resident()
    begun = time.monotonic()
    found = heap.take(paths=True)
    took = time.monotonic() - begun
    more = peak() - before
    bounded = time.monotonic()
    sampled = heap.take(budget=0.2, paths=False)
    bounded = time.monotonic() - bounded
    rows = {row.name: row.count for row in found.rows}
    estimate = {row.name: row.count for row in sampled.rows}
    sampling = {"bounded": bounded, "every": sampled.every, "estimate": estimate["list"]}
    counted = {"objects": sum(found.objects), "lists": rows["list"], "dicts": rows["dict"]}
    return {"took": took, "more": more, "kept": len(kept), **sampling, **counted}


print(json.dumps({"cycles": cycles, "census": census}[sys.argv[1]]()))
