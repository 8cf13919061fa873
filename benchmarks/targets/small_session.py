"""Records a little of everything: spans, passes of each generation, marks, names, a forked child."""

import gc
import os

import frostline
from frostline import probe

recorder = probe.recorder_of_this_process()
assert recorder is not None
frostline.install(role="server", rank=1)
labels = [recorder.name_id(text) for text in ("step", "schedule")]
keep = [[number] for number in range(3000)]
pid = os.fork()
real_collect = getattr(gc.collect, "__wrapped__", gc.collect)
for number in range(500):
    collect = gc.collect if number % 10 == 9 else real_collect
    with frostline.span("request"):
        collect(2 if number % 100 == 99 else number % 3 == 2)
    recorder.record_span(number * 10**6, number * 10**6 + 9 * 10**5, labels[number % 2], 1, 0, -1, number, 0)
gc.freeze()
gc.unfreeze()
gc.set_threshold(900, 10, 10)
if pid:
    os.waitpid(pid, 0)
    print("{}")
