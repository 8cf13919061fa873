"""Forks through C, so that no at-fork function runs, and goes on in Python in the child."""

import ctypes
import gc
import os
import sys

libc = ctypes.PyDLL(None)
span = None
if "frostline" in sys.modules:
    from frostline import probe

    recorder = probe.recorder_of_this_process()
    label = recorder.name_id("child")
    span = recorder.record_span


def collect(many: int) -> None:
    for _ in range(many):
        gc.collect(0)


collect(10)
spans_first = "spans" in sys.argv
pid = libc.fork()
if pid == 0:
    if spans_first and span is not None:
        for number in range(7):
            span(number, number + 1, label, 1, 0, -1, -1, 0)
    collect(100)
    os._exit(5)
_, status = os.waitpid(pid, 0)
collect(20)
print(os.waitstatus_to_exitcode(status))
with open("child", "w") as file:
    file.write(str(pid))
