"""A freeze asked for on a live event loop: its own time in the target by its mark, and passes made (C4).

Judged by the longest of 50 (the bound is on the mark's own time). A mark's time is wall time: a splice
around which the kernel took the processor from the target's main thread (``nonvoluntary_ctxt_switches``
of the thread, from before it is asked for until it is answered) is not judged, but counted apart and named;
another one is asked for in its place.
"""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.common import TARGETS, Interpreter, Result, environment, session
from frostline import format as layout
from frostline.reach import control
from frostline.recording import Mark, read_session

TIMES = 50
MOST_MS = 0.2
#: So often it is asked for at the most; with fewer than TIMES that nothing interrupted nothing is claimed.
MOST_TIMES = 3 * TIMES


@dataclass(frozen=True)
class Window:
    """One splice: when it was asked for and answered, and how often the main thread lost the processor."""

    begun: int
    ended: int
    preempted: int


def measure(interpreter: Interpreter) -> list[Result]:
    windows: dict[str, list[Window]] = {"frostline freeze": [], "startup_complete()": []}
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
            for _ in range(MOST_TIMES):
                if all(len(uninterrupted(seen)) >= TIMES for seen in windows.values()):
                    break
                for way, seen in windows.items():
                    control.send(str(path), layout.OP_THAW, timeout=30.0)
                    before, begun = preempted(target.pid), time.monotonic_ns()
                    if way == "frostline freeze":
                        good = control.send(str(path), layout.OP_FREEZE, timeout=30.0).done
                    else:
                        target.stdin.write("boundary\n")
                        target.stdin.flush()
                        good = target.stdout.readline() == "-1\n"
                    if not good:
                        raise RuntimeError(f"{way} was not done")
                    ended = time.monotonic_ns()
                    seen.append(Window(begun, ended, preempted(target.pid) - before))
        finally:
            target.communicate("\n", timeout=60)
        (series,) = read_session(folder).series
        splices = [mark for mark in series.marks if mark.kind == layout.MARK_FREEZE]
        starts = series.passes["start"]
    results = []
    for way, seen in windows.items():
        results.append(judged(way, seen, splices, first))
        passes = sum(int(((starts >= w.begun) & (starts <= w.ended)).sum()) for w in seen)
        how = f"passes that began between the request and the answer, {len(seen)} times"
        results.append(Result(f"{way}, passes it caused", str(passes), "0", passes == 0, how))
    return results


def uninterrupted(seen: list[Window]) -> list[Window]:
    return [window for window in seen if not window.preempted]


def preempted(pid: int) -> int:
    """How often the kernel has taken the processor from a process's main thread so far."""
    for line in Path(f"/proc/{pid}/task/{pid}/status").read_text().splitlines():
        if line.startswith("nonvoluntary_ctxt_switches:"):
            return int(line.split()[1])
    raise RuntimeError("the kernel does not count context switches")


def judged(way: str, seen: list[Window], splices: list[Mark], first: float) -> Result:
    """The longest of those that nothing interrupted, and what became of the others."""
    alone: list[float] = []
    broken: list[float] = []
    for window in seen:
        for mark in splices:
            if window.begun <= mark.time <= window.ended and mark.flags & layout.MARK_FLAG_SPLICE:
                (broken if window.preempted else alone).append((mark.stop - mark.time) / 1e6)
    how = f"{len(alone)} marks of {len(seen)}, 50 requests open, 800,000 lists"
    if alone:
        how += f"; median {np.median(alone):.4f} ms, 9th decile {np.quantile(alone, 0.9):.4f} ms"
    if broken:
        lost = f"{len(broken)} around which the main thread was preempted"
        how += f"; not judged: {lost}, up to {max(broken):.3f} ms"
    else:
        how += "; the main thread was preempted around none"
    how += f"; the first request of all, which imports, was answered after {first:.1f} ms"
    what = f"{way}, longest by its mark"
    if len(alone) + len(broken) != len(seen):
        return Result(what, "no value", f"{MOST_MS} ms", False, f"marks are missing; {how}")
    if len(alone) < TIMES:
        return Result(what, f"cannot tell from {len(alone)}", f"{MOST_MS} ms", None, how)
    return Result(what, f"{max(alone):.3f} ms", f"{MOST_MS} ms", max(alone) <= MOST_MS, how)
