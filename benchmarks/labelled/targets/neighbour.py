"""Uses one processor up, when told to: ``CPU UNTIL`` a line, UNTIL in ns of CLOCK_MONOTONIC."""

import os
import sys
import time

print("ready", flush=True)
for words in sys.stdin:
    cpu, until = map(int, words.split())
    os.sched_setaffinity(0, {cpu})
    while time.monotonic_ns() < until:
        pass
