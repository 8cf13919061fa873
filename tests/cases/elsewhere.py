"""A target whose slow steps are not the collector's, one of each kind; it measures itself as well.

Arguments: a folder on a disk, and the folder of a cgroup of version 1 or 2 that it is in, or nothing.
Prints a line of JSON: label -> [wall ns, CPU ns of this thread, ns in the run queue, CPU ns of the process].
"""

from __future__ import annotations

import gc
import glob
import json
import mmap
import os
import random
import subprocess
import sys
import threading
import time

import frostline

STEP = 0.3
measured: dict[str, list[int]] = {}


def queued() -> int:
    with open(f"/proc/self/task/{os.getpid()}/schedstat") as file:
        return int(file.read().split()[1])


def now() -> tuple[int, ...]:
    return time.monotonic_ns(), time.thread_time_ns(), queued(), time.process_time_ns()


class timed:
    """A step, measured from inside."""

    def __init__(self, label: str) -> None:
        self.label = label

    def __enter__(self) -> None:
        self.span = frostline.span(self.label)
        self.span.__enter__()
        self.before = now()

    def __exit__(self, *error: object) -> None:
        measured[self.label] = [b - a for a, b in zip(self.before, now(), strict=True)]
        self.span.__exit__(None, None, None)


def usual() -> None:
    """Short steps around the long ones."""
    for _ in range(8):
        with frostline.span("step"):
            time.sleep(0.002)
        time.sleep(0.02)


def wait_until_sampled() -> None:
    """Until the helper looks at us often: it begins when it has seen a span."""
    folder = os.environ["FROSTLINE_OUTPUT"]
    mine = f'"pid":{os.getpid()},'
    until = time.monotonic() + 60
    while time.monotonic() < until:
        usual()
        for path in glob.glob(os.path.join(glob.escape(folder), "host-*.jsonl")):
            with open(path) as file:
                if any(mine in line and '"fast":true' in line for line in file):
                    return
    raise SystemExit("the helper never looked at us")


def lock() -> None:
    held = threading.Lock()
    held.acquire()
    threading.Timer(STEP, held.release).start()
    with timed("lock"):
        held.acquire()


def thread() -> None:
    """Waits for the result of another thread that computes."""
    asked, done = threading.Event(), threading.Event()

    def work() -> None:
        asked.wait()
        until = time.monotonic() + STEP
        while time.monotonic() < until:
            sum(range(20_000))
        done.set()

    worker = threading.Thread(target=work)
    worker.start()
    with timed("thread"):
        asked.set()
        done.wait()
    worker.join()


def disk(folder: str) -> None:
    block = os.urandom(1 << 20)
    with open(os.path.join(folder, "written"), "wb", buffering=0) as file, timed("disk"):
        until = time.monotonic() + STEP
        while time.monotonic() < until:
            file.write(block)
            os.fsync(file.fileno())


def faults(folder: str) -> None:
    """Reads pages of a file that is not in memory."""
    path = os.path.join(folder, "cold")
    size = 64 << 20
    with open(path, "wb") as file:
        for _ in range(size >> 20):
            file.write(os.urandom(1 << 20))
        file.flush()
        os.fsync(file.fileno())
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
        mapped.madvise(mmap.MADV_RANDOM)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        pages = list(range(0, size, 4096))
        random.Random(1).shuffle(pages)
        with timed("faults"):
            until = time.monotonic() + STEP
            for page in pages:
                mapped[page]
                if time.monotonic() > until:
                    break
        mapped.close()


def c_call() -> None:
    many = 2_000_000
    while True:  # as many as take long enough on this machine
        began = time.thread_time()
        with timed("c-call"):
            sum(range(many))
        if time.thread_time() - began > 0.15:
            return
        many *= 2


def kernel() -> None:
    """CPU time in the kernel: random bytes are made there."""
    with timed("kernel"):
        until = time.monotonic() + STEP
        while time.monotonic() < until:
            os.urandom(1 << 24)


def neighbour() -> None:
    """Computes on a CPU that three others want."""
    before = os.sched_getaffinity(0)
    cpu = min(before)
    os.sched_setaffinity(0, {cpu})
    busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(3)]
    try:
        time.sleep(0.1)
        with timed("neighbour"):
            began = time.thread_time()
            while time.thread_time() - began < 0.12:
                sum(range(20_000))
    finally:
        for one in busy:
            one.kill()
            one.wait()
        os.sched_setaffinity(0, before)


def callback() -> None:
    def slow_tool(phase: str, info: dict[str, int]) -> None:
        time.sleep(0.12)

    gc.callbacks.append(slow_tool)
    gc.collect()  # the tool is noticed
    with timed("callback"):
        gc.collect()
    gc.callbacks.remove(slow_tool)


def throttled(cgroup: str) -> None:
    """Computes with a tenth of a CPU."""
    name, low, high = "cpu.cfs_quota_us", "10000", "400000"
    if not os.path.exists(os.path.join(cgroup, name)):
        name, low, high = "cpu.max", "10000 100000", "400000 100000"
    path = os.path.join(cgroup, name)

    def write(value: str) -> None:
        with open(path, "w") as file:
            file.write(value)

    write(low)
    try:
        with timed("throttled"):
            began = time.thread_time()
            while time.thread_time() - began < 0.04:
                sum(range(20_000))
    finally:
        write(high)


def main(folder: str, cgroup: str = "") -> None:
    gc.disable()
    wait_until_sampled()
    steps = [lock, thread, lambda: disk(folder), lambda: faults(folder), c_call, kernel, neighbour, callback]
    if cgroup:
        steps.append(lambda: throttled(cgroup))
    for step in steps:
        step()
        usual()
    time.sleep(1.2)  # the last samples
    print(json.dumps(measured))


if __name__ == "__main__":
    main(*sys.argv[1:])
