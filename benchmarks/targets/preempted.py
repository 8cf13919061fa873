"""Passes of a heap on one CPU that others use too. Prints [start, stop, CPU time] of each pass, ns."""

import gc
import json
import os
import sys
import time

import frostline

os.sched_setaffinity(0, {int(sys.argv[1])})
heap = [[number] for number in range(300_000)]
frostline.startup_complete()
end = time.monotonic() + float(sys.argv[2])
rows = []
number = 0
while time.monotonic() < end:
    number += 1
    with frostline.span("step"):
        made = [[one] for one in range(2000)]
        if number % 3 == 0:
            time.sleep(0.0005)
    if number % 40 == 0:
        begun, used = time.monotonic_ns(), time.thread_time_ns()
        gc.collect()
        rows.append((begun, time.monotonic_ns(), time.thread_time_ns() - used))
print(json.dumps(rows), file=sys.stderr, flush=True)
