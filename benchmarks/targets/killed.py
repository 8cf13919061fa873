"""Writes spans and passes at full speed until it is killed; says in a shared page how many are done.

Words of the page: spans done, passes done, when the loop began.
"""

import gc
import mmap
import sys
import time

page = memoryview(mmap.mmap(int(sys.argv[1]), 4096)).cast("Q")

from frostline import probe  # noqa: E402

recorder = probe.recorder_of_this_process()
assert recorder is not None
write = recorder.record_span
label = recorder.name_id("step")
collect = getattr(gc.collect, "__wrapped__", gc.collect)
gc.disable()
begun = page[2] = time.monotonic_ns()
sys.stdout.write("ready\n")
sys.stdout.flush()
spans = passes = 0
while True:
    for _ in range(20):
        write(begun + spans, begun + spans * 2, label, 1, spans & 0xFFFF, -1, -1, 0)
        spans += 1
        page[0] = spans
    collect(0)
    passes += 1
    page[1] = passes
