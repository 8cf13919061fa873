"""Does one thing N times. For callgrind: instructions an event are the difference of two Ns."""

import gc
import json
import sys
import time

mode, many = sys.argv[1], int(sys.argv[2])


class Engine:
    def step(self) -> None:
        pass


def loop() -> None:
    rows: dict = {}
    for number in range(many):
        rows[number % 97] = [number, str(number)]


def call() -> None:
    engine = Engine()
    for _ in range(many):
        engine.step()


def wrapped() -> None:
    import frostline

    engine = Engine()
    frostline.wrap(engine, "step")
    for _ in range(many):
        engine.step()


def passes() -> None:
    collect = getattr(gc.collect, "__wrapped__", gc.collect)
    gc.freeze()
    for _ in range(many):
        collect(0)


def marks() -> None:
    from frostline import probe

    recorder = probe.recorder_of_this_process()
    assert recorder is not None
    for _ in range(many):
        recorder.mark(8)


gc.disable()
begun = time.process_time_ns()
globals()[mode]()
print(json.dumps({"cpu_ns": time.process_time_ns() - begun}))
