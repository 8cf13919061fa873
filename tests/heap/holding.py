"""Holders of one object, each looked at while it holds it and let go of again; see test_alive.py.

``run`` prints a JSON object a case: ``case`` and what ``alive.as_plain`` has; ``walked``: the same with
everything frozen, by a walk forward, and ``unwalked`` how many are found then without one; ``left``: how many
are alive once the holder has let go of them.
"""

import gc
import json
import sys
import threading

sys.path.insert(0, sys.argv[1])

from frostline.heap import alive


class Thing:
    pass


CASES = {}


def case(make):
    """``make`` builds the holder of one new Thing, and returns what lets go of it."""
    CASES[make.__name__] = make
    return make


def aside(work):
    """Runs ``work(wait)`` in a thread up to its ``wait()``; returns what lets it go on and end."""
    ready, go = threading.Event(), threading.Event()

    def wait():
        ready.set()
        go.wait()

    threads = [threading.Thread(target=work, args=(wait,))]
    threads[0].start()
    ready.wait()

    def end():
        go.set()
        threads.pop().join()  # from 3.14 on a thread knows the context that it ran in

    return end


def look(**more):
    found = alive.holders("holding:Thing", **more)
    return {**alive.as_plain(found)}


def one(name, make):
    release = make()
    told = {"case": name, **look()}
    gc.freeze()
    told["walked"] = look(frozen=True)
    told["unwalked"] = look()["count"]
    gc.unfreeze()
    release()
    gc.collect()
    told["left"] = look()["count"]
    return told


def run():
    gc.disable()
    # What the interpreter keeps the first time is not to be frozen with the first case.
    gc.collect()
    for name, make in CASES.items():
        print(json.dumps(one(name, make)), flush=True)
