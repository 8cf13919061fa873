"""Treats ``gc.callbacks`` as its own: clears it, replaces entries, in and out of a pass."""

import gc
import sys

mode = sys.argv[1]
seen = []


def mine(phase: str, info: dict) -> None:
    seen.append(phase)
    if phase == mode:
        gc.callbacks.clear()


def other(phase: str, info: dict) -> None:
    seen.append("other " + phase)


gc.collect(0)
if mode == "clear":
    gc.callbacks.clear()
elif mode == "replace":
    gc.callbacks[:] = [other]
elif mode == "first":
    gc.callbacks.insert(0, mine)
elif mode == "wrap":
    gc.callbacks[:] = [lambda phase, info, inner=inner: inner(phase, info) for inner in gc.callbacks]
elif mode == "churn":
    for _ in range(300):
        gc.callbacks.append(other)
        gc.collect(0)
        gc.callbacks.remove(other)
else:
    gc.callbacks.insert(0, mine)
gc.collect(0)
for _ in range(200):
    gc.collect(0)
found = gc.collect()
loop: list = []
loop.append(loop)
del loop
print(len(seen), seen[:6], gc.collect())
