"""Passes that land where a lock is held, and a stream that is busy: cases 25, 26, 28 and 55.

Waits without a time limit, as real programs do: whoever holds on to a lock in a callback hangs it.
"""

import gc
import io
import logging
import queue
import sys
import threading
import weakref


def metric_lock(tries: int) -> int:
    """25: the pass runs while the metric's lock is held."""
    done = 0
    for lock in (threading.Lock(), threading.RLock()):
        for _ in range(tries // 2):
            with lock:
                gc.collect(0)
                done += 1
    return done


def natural(tries: int) -> int:
    """26: allocations under a lock start the passes."""
    lock, alive = threading.Lock(), weakref.WeakSet()

    class Storage:
        pass

    kept = [Storage() for _ in range(800)]
    for one in kept:
        alive.add(one)
    before = gc.get_stats()[0]["collections"]
    gc.set_threshold(100, 10, 10)
    rows = 0
    for _ in range(tries):
        with lock:
            rows += len([[weakref.ref(one)] for one in alive])
    gc.set_threshold(700, 10, 10)
    assert gc.get_stats()[0]["collections"] - before > tries
    return rows


def queues(tries: int) -> int:
    """28: the pass runs while a queue's own lock is held, in four threads."""
    jobs: queue.Queue = queue.Queue()
    simple: queue.SimpleQueue = queue.SimpleQueue()

    def work() -> None:
        for number in range(tries // 4):
            with jobs.mutex:
                gc.collect(0)
            jobs.put(number)
            simple.put(number)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return jobs.qsize() + simple.qsize()


def streams(tries: int) -> int:
    """55: the pass runs inside a write to a stream, and inside a log call."""

    class Raw(io.RawIOBase):
        written = 0

        def writable(self) -> bool:
            return True

        def write(self, data: bytes) -> int:  # type: ignore[override]
            gc.collect(0)
            Raw.written += len(data)
            return len(data)

    out = io.TextIOWrapper(io.BufferedWriter(Raw()), write_through=True)
    log = logging.getLogger("host")
    log.addHandler(logging.StreamHandler(out))
    log.propagate = False
    for number in range(tries):
        print("line", number, file=out, flush=True)
        log.warning("line %d", number)
    return Raw.written


def finalizers(tries: int) -> int:
    """A finalizer that takes a lock, run by a pass in another thread than the lock's holder."""
    lock = threading.Lock()
    seen = []

    class Loop:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            if lock.acquire(blocking=False):
                seen.append(1)
                lock.release()

    def work() -> None:
        for _ in range(tries // 4):
            Loop()
            gc.collect(0)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    return int(len(seen) > 0)


sys.setswitchinterval(1e-5)
print(globals()[sys.argv[1]](int(sys.argv[2])))
