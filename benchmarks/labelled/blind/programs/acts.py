"""What the small servers here share: faults that write down when they began and ended, steps, and work.

Standard library only, and nothing of Frostline: a fault is known by the clock of the process that made
it. A line of JSON a fault goes to one file that all processes append to, whole lines at once.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import mmap
import os
import subprocess
import time
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

now = time.monotonic_ns
MS = 1_000_000


class Log:
    """The file of faults."""

    def __init__(self, path: str, role: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.role = role

    def fault(self, cause: str, begin: int, end: int, collector: bool, **more: Any) -> None:
        line = {"cause": cause, "role": self.role, "pid": os.getpid(), "begin": begin, "end": end}
        os.write(self._file, (json.dumps(line | {"collector": collector} | more) + "\n").encode())


class Steps:
    """What the program itself knows of its steps: label, begin, end. Numbers in an array: nothing tracked."""

    def __init__(self, path: str, role: str) -> None:
        self._path, self._role = f"{path}.steps-{role.replace(' ', '-')}", role
        self._labels: dict[str, int] = {}
        self._rows = array("q")

    def note(self, label: str, begin: int) -> None:
        self._rows.extend((self._labels.setdefault(label, len(self._labels)), begin, now()))

    def write(self) -> None:
        names = list(self._labels)
        rows = [
            (names[self._rows[i]], self._rows[i + 1], self._rows[i + 2]) for i in range(0, len(self._rows), 3)
        ]
        with Path(self._path).open("w") as file:
            json.dump({"pid": os.getpid(), "role": self._role, "steps": rows}, file)


def work(size: int = 1500) -> int:
    """About a millisecond of a program's own work, with objects that the collector tracks."""
    rows = [[i, [i]] for i in range(size)]
    return sum(row[0] for row in rows)


class Slow:
    """An object in a cycle whose finalizer takes its time."""

    def __init__(self, ms: float) -> None:
        self.me, self.ms = self, ms

    def __del__(self) -> None:
        time.sleep(self.ms / 1e3)


class Acts:
    """The faults. Each takes about ``ms`` but for passes, which take what the heap asks for."""

    def __init__(self, log: Log, scratch: str, ballast: int) -> None:
        self.log, self.scratch = log, scratch
        self.heap: list[Any] = [{"n": i, "row": [i]} for i in range(ballast // 2)]
        gc.collect()
        begin, many = now(), 2_000_000
        sum(itertools.repeat(1, many))
        self._per_ms = many * MS / (now() - begin)
        self._kept: list[list[int]] = []
        self._full = gc.get_stats()[2]["collections"]

    def do(self, cause: str, ms: float, **more: Any) -> None:
        """Makes one fault and writes it down."""
        begin, end = getattr(self, "_" + cause.replace(" ", "_"))(ms)
        collector = cause in ("explicit pass", "finalizer in a pass")
        self.log.fault(cause, begin, end, collector, **more)

    def breathe(self, size: int) -> None:
        """Keeps ``size`` more objects until a full pass comes by itself, which is written down."""
        begin = now()
        self._kept.append([])  # so that a chunk is one list of lists
        self._kept.extend([i] for i in range(size))
        end = now()
        full = gc.get_stats()[2]["collections"]
        if full != self._full:
            self._full = full
            self._kept = []
            self.log.fault("automatic pass", begin, end, True)

    @staticmethod
    def _timed(call: Any) -> tuple[int, int]:
        begin = now()
        call()
        return begin, now()

    def _explicit_pass(self, ms: float) -> tuple[int, int]:
        return self._timed(gc.collect)

    def _finalizer_in_a_pass(self, ms: float) -> tuple[int, int]:
        Slow(ms / 2)
        return self._timed(gc.collect)

    def _sleep(self, ms: float) -> tuple[int, int]:
        return self._timed(lambda: time.sleep(ms / 1e3))

    def _small_pass_in_a_sleep(self, ms: float) -> tuple[int, int]:
        def both() -> None:
            time.sleep(0.6 * ms / 1e3)
            gc.collect(1)
            time.sleep(0.4 * ms / 1e3)

        return self._timed(both)

    def _disk(self, ms: float) -> tuple[int, int]:
        begin, block = now(), b"x" * 65536
        with Path(self.scratch).open("wb") as file:
            while now() - begin < ms * MS:
                file.write(block)
                file.flush()
                os.fsync(file.fileno())
        return begin, now()

    def _C_call(self, ms: float) -> tuple[int, int]:
        many = int(self._per_ms * ms)
        return self._timed(lambda: sum(itertools.repeat(1, many)))

    def _child_process(self, ms: float) -> tuple[int, int]:
        return self._timed(lambda: subprocess.run(["sleep", str(ms / 1e3)], check=True))

    def _page_faults(self, ms: float) -> tuple[int, int]:
        begin = now()
        while now() - begin < ms * MS:
            with contextlib.closing(mmap.mmap(-1, 16 << 20)) as pages:
                for at in range(0, 16 << 20, mmap.PAGESIZE):
                    pages[at] = 1
                    if not at & 0xFFFFF and now() - begin >= ms * MS:
                        break
        return begin, now()

    def _stopped(self, ms: float) -> tuple[int, int]:
        """SIGSTOP by another process. The jump of the clock says when."""
        script = f"sleep 0.01; kill -STOP {os.getpid()}; sleep {ms / 1e3}; kill -CONT {os.getpid()}"
        with subprocess.Popen(["sh", "-c", script]) as child:
            last, jumps, until = now(), [(0, 0, 0)], now() + 3000 * MS
            while (child.poll() is None and now() < until) or len(jumps) < 2:
                moment = now()
                jumps.append((moment - last, last, moment))
                jumps = [max(jumps), (0, 0, 0)]
                last = moment
        return max(jumps)[1:]

    def _callback(self, ms: float) -> tuple[int, int]:
        """Another tool's gc callback is slow at the stop of a young pass."""
        seen: list[int] = []

        def slow(phase: str, info: dict[str, int]) -> None:
            if phase == "stop":
                seen.append(now())
                time.sleep(ms / 1e3)
                seen.append(now())

        gc.callbacks.append(slow)
        gc.collect(0)
        gc.callbacks.remove(slow)
        return seen[0], seen[-1]


def faults_of(plan: dict[str, Any], step: int, role: str) -> Iterator[tuple[str, float]]:
    """(cause, ms) of the faults that this role has at this step."""
    one = plan.get(str(step))
    if one and one["role"] == role:
        yield one["cause"], one["ms"]
