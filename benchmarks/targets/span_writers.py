"""Four threads write spans whose fields follow from each other, while passes land inside the writes.

Prints the spans written a thread and the passes started by the interpreter.
"""

import gc
import json
import sys
import threading
import time

from frostline import probe

SPANS = int(sys.argv[1])
recorder = probe.recorder_of_this_process()
assert recorder is not None
write = recorder.record_span
labels = [recorder.name_id(f"writer {number}") for number in range(4)]
barrier = threading.Barrier(4)
passes = 0


class Number(int):
    """An argument that is asked for its value inside the write: a pass lands exactly there."""

    def __index__(self) -> int:
        row: list = []
        row.append(row)
        return int(self)


def work(number: int) -> None:
    label = labels[number]
    barrier.wait()
    for n in range(SPANS):
        begin = n * 1_000_003 + number
        # flags and both values are functions of begin: a torn record cannot agree with itself
        inside = Number(begin) if n % 8 == 0 else begin
        write(inside, begin * 2 + 1, label, 1, begin & 0xFFFF, begin ^ 0x5A5A5A5A5A, -begin, begin * 3)
        if n % 50 == 0:
            gc.collect(0)


def count(phase: str, info: "dict[str, int]") -> None:
    global passes
    passes += phase == "stop"


sys.setswitchinterval(1e-6)
gc.set_threshold(1, 1000, 1000)
gc.callbacks.append(count)
threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
gc.callbacks.remove(count)
gc.set_threshold(700, 10, 10)
sys.setswitchinterval(0.005)
print(json.dumps({"spans": SPANS * 4, "passes": passes, "at": time.monotonic_ns()}))
