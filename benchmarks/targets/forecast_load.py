"""A server's heap under one kind of load, until it has had so many full passes: ``LOAD PASSES SECONDS``.

Each loop makes work, then waits a little, as a server does between requests: a program that does nothing
but allocate makes older passes every few milliseconds, which no server does.
"""

import gc
import json
import random
import sys
import threading
import time

load, wanted, limit = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
dice = random.Random(7)
begun = time.monotonic()
first = gc.get_stats()[2]["collections"]


def over():
    if time.monotonic() - begun > limit:
        return True
    return gc.get_stats()[2]["collections"] - first >= wanted


def rest():
    time.sleep(0.0002 + dice.random() * 0.0006)


def request(size):
    """Some objects that live as long as the request, in a cycle now and then."""
    made = [{"id": i, "parts": [i]} for i in range(size)]
    if size % 3 == 0:
        made.append(made)
    return made


def static():
    """A heap that stays, requests that come and go, and a log that grows by little."""
    kept = []
    while not over():
        for _ in range(10):
            kept.append(request(dice.randrange(20, 120))[0])
        if len(kept) > 40_000:
            del kept[:20_000]
        rest()


def grow():
    """A cache without a bound, thrown away whole now and then."""
    kept = []
    while not over():
        for _ in range(dice.randrange(200, 600)):
            kept.append([len(kept)])
        if len(kept) > 400_000:
            kept = []
        rest()


def churn():
    """Old objects are replaced by new ones of any age, and the heap grows a little."""
    heap = [[i] for i in range(30_000)]
    while not over():
        for _ in range(dice.randrange(500, 1500)):
            heap[dice.randrange(30_000)] = [1]
        heap.extend([[1] for _ in range(dice.randrange(100, 300))])
        rest()


def parse():
    """JSON comes in; a part of it is kept, the oldest goes."""
    kept = []
    while not over():
        text = json.dumps([{"a": [i, {"b": i}], "c": {}} for i in range(dice.randrange(20, 400))])
        kept.append(json.loads(text))
        if len(kept) > 300:
            del kept[dice.randrange(100)]
        rest()


def lru():
    """A cache with a bound: one in, one out, in order of age."""
    cache = {}
    number = 0
    while not over():
        for _ in range(dice.randrange(200, 600)):
            number += 1
            cache[number] = {"key": number, "value": [number]}
            if len(cache) > 40_000:
                del cache[next(iter(cache))]
        log.append(request(dice.randrange(100, 300)))
        if len(log) > 400:
            del log[:200]
        rest()


def threads():
    """Four threads, each with a share of the churn."""

    def work(seed):
        mine = random.Random(seed)
        heap = [[i] for i in range(8_000)]
        while not over():
            for _ in range(mine.randrange(100, 400)):
                heap[mine.randrange(8_000)] = [1]
            heap.extend([[1] for _ in range(mine.randrange(30, 90))])
            time.sleep(0.0005 + mine.random() * 0.002)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


log = []
ballast = [{"id": i, "next": [i]} for i in range(60_000)]
gc.collect()
{"static": static, "grow": grow, "churn": churn, "json": parse, "lru": lru, "threads": threads}[load]()
