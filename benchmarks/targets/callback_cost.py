"""Runs in the interpreter under test: what a callback adds to a collection of an empty heap.

Prints one line of JSON: for each kind the nanoseconds a collection, a list of rounds.
"""

import _struct
import gc
import json
import mmap
import sys
import tempfile
import time

from frostline import format as layout
from frostline.probe.recorder import Recorder

#: A segment holds 8,160 passes: most rounds open none, and the mean of all tells what opening adds.
COLLECTIONS = 2_000
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 21


def empty(phase: str, info: "dict[str, int]") -> None:
    pass


def make_bare() -> "object":
    """The least that is a record: two clock reads and one pack into a mapping."""
    pack = _struct.Struct("<QQQqqqqQ").pack_into
    clock = time.monotonic_ns
    page = memoryview(mmap.mmap(-1, 64 * 1024))
    start = slot = 0

    def bare(phase: str, info: "dict[str, int]") -> None:
        nonlocal start, slot
        if phase == "start":
            start = clock()
        else:
            slot += 1
            pack(page, 64, start, clock(), 0, info["collected"], info["generation"], 0, 0, slot)

    return bare


def time_collections() -> int:
    collect = gc.collect
    begun = time.thread_time_ns()  # CPU time: others run on this machine
    for _ in range(COLLECTIONS):
        collect(0)
    return time.thread_time_ns() - begun


def main() -> None:
    folder = tempfile.mkdtemp()
    recorder = Recorder(folder)
    kinds = {
        "none": [],
        "empty": [empty],
        "bare": [make_bare()],
        "whole": [recorder.on_collection],
    }
    if "pause_log" in sys.argv:
        from frostline.embed.pauses import LONGEST_MS, PauseLog

        # No pass is over the threshold, as in a server that is well, so its thread would only wait.
        kinds = {"none": [], "empty": [empty], "log": [PauseLog(LONGEST_MS, None).callback]}
    gc.disable()
    gc.collect()
    gc.freeze()
    rounds: dict[str, list[float]] = {kind: [] for kind in kinds}
    names = list(kinds)
    for number in range(ROUNDS + 2):
        # The order turns round by round, so that no kind always follows the same other one.
        turned = names[number % len(names) :] + names[: number % len(names)]
        for kind in turned:
            gc.callbacks[:] = kinds[kind]
            took = time_collections()
            gc.callbacks.clear()
            if number >= 2:
                rounds[kind].append(took / COLLECTIONS)
    assert recorder.series is not None
    words = recorder.series.words
    print(
        json.dumps(
            {
                "rounds": rounds,
                "recorded": (ROUNDS + 2) * COLLECTIONS - words[layout.WORD["lost_passes"]],
                "off": words[layout.WORD["off_reason"]],
            }
        )
    )


main()
