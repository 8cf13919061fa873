"""A freeze asked for on a live event loop: its own time in the target by its mark, and passes made (C4).

Judged by the 9th decile of 50: a mark's time is wall time, and on a busy machine some are preempted.
"""

from __future__ import annotations

import subprocess
import time

import numpy as np

from benchmarks.common import TARGETS, Interpreter, Result, environment, session
from frostline import format as layout
from frostline.reach import control
from frostline.recording import read_session

TIMES = 50
MOST_MS = 0.2


def measure(interpreter: Interpreter) -> list[Result]:
    windows: dict[str, list[tuple[int, int]]] = {"frostline freeze": [], "startup_complete()": []}
    with session() as folder:
        target = subprocess.Popen(
            [interpreter.python, str(TARGETS / "live_loop.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(FROSTLINE_OUTPUT=str(folder), FROSTLINE_POLICY="freeze"),
            text=True,
        )
        assert target.stdin is not None and target.stdout is not None
        try:
            if target.stdout.readline() != "up\n":
                raise RuntimeError("the target did not come up")
            (path,) = (folder / "active").resolve().glob(f"{target.pid}-*.0000{layout.SUFFIX}")
            begun = time.monotonic_ns()
            control.send(str(path), layout.OP_PING, timeout=30.0)
            first = (time.monotonic_ns() - begun) / 1e6  # it imports what answers
            for _ in range(TIMES):
                for way, seen in windows.items():
                    control.send(str(path), layout.OP_THAW, timeout=30.0)
                    begun = time.monotonic_ns()
                    if way == "frostline freeze":
                        good = control.send(str(path), layout.OP_FREEZE, timeout=30.0).done
                    else:
                        target.stdin.write("boundary\n")
                        target.stdin.flush()
                        good = target.stdout.readline() == "-1\n"
                    if not good:
                        raise RuntimeError(f"{way} was not done")
                    seen.append((begun, time.monotonic_ns()))
        finally:
            target.communicate("\n", timeout=60)
        (series,) = read_session(folder).series
        splices = [mark for mark in series.marks if mark.kind == layout.MARK_FREEZE]
        starts = series.passes["start"]
    results = []
    for way, seen in windows.items():
        took = [
            (mark.stop - mark.time) / 1e6
            for begun, ended in seen
            for mark in splices
            if begun <= mark.time <= ended and mark.flags & layout.MARK_FLAG_SPLICE
        ]
        passes = sum(int(((starts >= begun) & (starts <= ended)).sum()) for begun, ended in seen)
        how = (
            f"{len(took)} marks, 50 requests open, 800,000 lists; median {np.median(took):.4f} ms, longest "
            f"{max(took):.3f} ms; "
            f"the first request of all, which imports, was answered after {first:.1f} ms"
        )
        decile = float(np.quantile(took, 0.9))
        measured = f"{decile:.3f} ms"
        good = len(took) == TIMES and decile <= MOST_MS
        results.append(Result(f"{way}, 9th decile by its mark", measured, f"{MOST_MS} ms", good, how))
        results.append(Result(f"{way}, passes it caused", str(passes), "0", passes == 0, how))
    return results
