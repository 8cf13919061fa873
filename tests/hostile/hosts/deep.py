"""Collects at every depth up to the recursion limit: case 33."""

import gc
import sys
from collections import Counter

#: The interpreter's own function: what is measured is the callback, not the frames of a stand-in.
collect = getattr(gc.collect, "__wrapped__", gc.collect)
ignored: list = []
sys.unraisablehook = ignored.append


def empty(phase: str, info: dict) -> None:
    pass


def by_call(depth: int = 0) -> int:
    try:
        collect(0)
        return by_call(depth + 1)
    except RecursionError:
        return depth


def by_allocation(depth: int = 0) -> int:
    try:
        row: list = []
        row.append(row)
        return by_allocation(depth + 1)
    except RecursionError:
        return depth


if sys.argv[1] == "empty":
    gc.callbacks.append(empty)
gc.set_threshold(1, 1000, 1000)
for _ in range(30):
    by_call()
    by_allocation()
gc.set_threshold(700, 10, 10)
for _ in range(200):
    gc.collect(0)
print(sum(Counter(one.exc_type.__name__ for one in ignored).values()))
