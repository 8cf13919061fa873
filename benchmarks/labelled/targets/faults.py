"""Makes one process stand still, on purpose, and writes down what it did.

Runs inside the process under test, with the standard library alone. What is written is what was done
and between which two moments, read here; neither Frostline nor ``gc.callbacks`` is asked for it.

A line of the log: ``{"cause", "role", "victim", "begin", "end", "collector"}``. ``victim`` is the role whose
step, or gap (``"gap of ..."``), is to be looked at: this process, or one that waits for it.
"""

import gc
import json
import mmap
import os
import queue
import select
import socket
import threading
import time
from time import monotonic_ns

MS = 1_000_000
#: References in one list of the ballast: few objects, which are long to walk.
ROW = 10_000
#: Of these the collector of the process that runs them is the cause.
COLLECTOR = ("automatic full pass", "explicit gc.collect()", "young pass")


class Ballast:
    """Lists that a full pass walks for about ``ms``, and that no young pass sees."""

    def __init__(self, ms: float) -> None:
        gc.collect()
        bare = took()
        self.rows: list = grown(400)
        gc.collect()
        each = max(1e-4, (took() - bare) / 400)
        self.rows.append(grown(max(0, min(6000, int(ms / each)) - 400)))
        gc.collect()
        gc.collect()
        self.each_ms = each
        self.ms = took()


def grown(rows: int) -> list:
    """Lists that refer to one tracked object over and over: 80 KB each."""
    one: list = []
    return [[one] * ROW for _ in range(rows)]


def took() -> float:
    """Milliseconds of processor time of a full pass now; the shorter of two."""
    times = []
    for _ in range(2):
        begun = time.thread_time_ns()
        gc.collect()
        times.append((time.thread_time_ns() - begun) / MS)
    return min(times)


class Faults:
    """The faults of one process, by the number of its step.

    Args:
        plan: step -> {"cause", "ms", "victim"}.
        log: path that lines are appended to, each by one write.
        control: a line to whoever can stop this process from outside, if there is one.
        scratch: a file on a disk.
    """

    def __init__(
        self, role: str, plan: dict, log: str, control: "socket.socket | None", scratch: str, ms: float
    ) -> None:
        self.role, self.plan, self.control, self.scratch = role, plan, control, scratch
        self._log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._spare: list = []
        self._ballast = Ballast(ms) if ms else None
        self._jobs: queue.SimpleQueue = queue.SimpleQueue()
        self._held = threading.Lock()
        threading.Thread(target=self._other_thread, daemon=True).start()
        begun = time.thread_time_ns()
        sum(range(500_000))
        self._sum_ms = 500_000 * MS / (time.thread_time_ns() - begun)  # numbers summed in a millisecond

    def before(self, step: int) -> None:
        """Outside the step: what only a young pass will walk is built while the collector is off."""
        fault = self.plan.get(str(step))
        if fault and fault["cause"] == "young pass":
            gc.disable()
            each = self._ballast.each_ms if self._ballast else 0.02
            self._spare = grown(int(fault["ms"] / each))

    def inside(self, step: int) -> None:
        """In the step."""
        fault = self.plan.get(str(step))
        if fault is None or fault["cause"] == "no requests":
            return
        begin, end = KINDS[fault["cause"]](self, fault["ms"])
        self.write(fault["cause"], fault["victim"], begin, end)

    def between(self, step: int) -> None:
        """After the step."""
        self._spare = []
        fault = self.plan.get(str(step))
        if fault and fault["cause"] == "no requests":
            begin = monotonic_ns()
            time.sleep(fault["ms"] / 1e3)
            self.write(fault["cause"], fault["victim"], begin, monotonic_ns())

    def write(self, cause: str, victim: str, begin: int, end: int) -> None:
        line = {
            "cause": cause,
            "role": self.role,
            "victim": victim,
            "begin": begin,
            "end": end,
            "collector": cause in COLLECTOR,
        }
        os.write(self._log, (json.dumps(line) + "\n").encode())

    # --- the collector ---------------------------------------------------------------
    def automatic(self, ms: float) -> tuple[int, int]:
        """Objects that stay, until the interpreter's own rules start a full pass."""
        before = gc.get_threshold()
        gc.set_threshold(100, 2, 2)
        full = gc.get_stats()[2]["collections"]
        keep: list = []
        begin = end = monotonic_ns()
        while gc.get_stats()[2]["collections"] == full and len(keep) < 5_000_000:
            begin = monotonic_ns()
            keep += [[] for _ in range(50)]
            end = monotonic_ns()
        gc.set_threshold(*before)
        return begin, end

    def explicit(self, ms: float) -> tuple[int, int]:
        begin = monotonic_ns()
        gc.collect()
        return begin, monotonic_ns()

    def young(self, ms: float) -> tuple[int, int]:
        begin = monotonic_ns()
        gc.enable()
        keep = [[] for _ in range(2_000)]
        end = monotonic_ns()
        del keep
        return begin, end

    # --- anything else ---------------------------------------------------------------
    def callback(self, ms: float) -> tuple[int, int]:
        """Another tool's callback, slow at the end of a pass that is nothing itself."""

        def slow(phase: str, info: dict) -> None:
            if phase == "stop":
                time.sleep(ms / 1e3)

        gc.callbacks.append(slow)
        try:
            begin = monotonic_ns()
            gc.collect(0)
            return begin, monotonic_ns()
        finally:
            gc.callbacks.remove(slow)

    def lock(self, ms: float) -> tuple[int, int]:
        taken = threading.Event()
        self._jobs.put((self._hold, (ms, taken)))
        taken.wait()
        begin = monotonic_ns()
        with self._held:
            return begin, monotonic_ns()

    def disk(self, ms: float) -> tuple[int, int]:
        begin = monotonic_ns()
        block = os.urandom(1 << 20)
        file = os.open(self.scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        while monotonic_ns() - begin < ms * MS:
            os.write(file, block)
            os.fsync(file)
        os.close(file)
        return begin, monotonic_ns()

    def sleep(self, ms: float) -> tuple[int, int]:
        begin = monotonic_ns()
        time.sleep(ms / 1e3)
        return begin, monotonic_ns()

    def call(self, ms: float) -> tuple[int, int]:
        """A blocking call: a reply that does not come in time."""
        begin = monotonic_ns()
        select.select([], [], [], ms / 1e3)
        return begin, monotonic_ns()

    def faulted(self, ms: float) -> tuple[int, int]:
        """Pages given back and touched again."""
        memory = mmap.mmap(-1, 16 << 20)
        begin = monotonic_ns()
        while monotonic_ns() - begin < ms * MS:
            memory.madvise(mmap.MADV_DONTNEED)
            for at in range(0, len(memory), mmap.PAGESIZE):
                memory[at] = 1
        end = monotonic_ns()
        memory.close()
        return begin, end

    def c_call(self, ms: float) -> tuple[int, int]:
        begin = monotonic_ns()
        sum(range(int(ms * self._sum_ms)))
        return begin, monotonic_ns()

    def c_call_elsewhere(self, ms: float) -> tuple[int, int]:
        """In another thread, which keeps the interpreter for itself as long as it is in C."""
        done = threading.Event()
        begin = monotonic_ns()
        self._jobs.put((self._sum, (ms, done)))
        while not done.is_set():
            time.sleep(0.001)
        return begin, monotonic_ns()

    def stopped(self, ms: float) -> tuple[int, int]:
        """Taken off the processor altogether, as a control group out of its quota is."""
        return self._from_outside("stop", ms)

    def neighbour(self, ms: float) -> tuple[int, int]:
        """Others on the only processor that this thread may use."""
        may = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(may)})
        try:
            self._from_outside("neighbour", 1.5 * ms, min(may))
            begin = monotonic_ns()
            used = time.thread_time_ns()
            while time.thread_time_ns() - used < ms * MS / 6:
                pass
            return begin, monotonic_ns()
        finally:
            os.sched_setaffinity(0, may)

    def _from_outside(self, what: str, ms: float, cpu: int = 0) -> tuple[int, int]:
        assert self.control is not None
        self.control.send(json.dumps([what, os.getpid(), ms, cpu]).encode())
        while not select.select([self.control], [], [], 0)[0]:
            pass
        begin, end = json.loads(self.control.recv(200))
        return begin, end

    def _other_thread(self) -> None:
        while True:
            what, arguments = self._jobs.get()
            what(*arguments)

    def _hold(self, ms: float, taken: threading.Event) -> None:
        with self._held:
            taken.set()
            time.sleep(ms / 1e3)

    def _sum(self, ms: float, done: threading.Event) -> None:
        sum(range(int(ms * self._sum_ms)))
        done.set()


#: What each cause does; keys as in the plan.
KINDS = {
    "automatic full pass": Faults.automatic,
    "explicit gc.collect()": Faults.explicit,
    "young pass": Faults.young,
    "another tool's callback": Faults.callback,
    "lock": Faults.lock,
    "disk": Faults.disk,
    "sleep": Faults.sleep,
    "blocking call": Faults.call,
    "page faults": Faults.faulted,
    "long C call": Faults.c_call,
    "C call in another thread": Faults.c_call_elsewhere,
    "off the processor": Faults.stopped,
    "neighbour on the core": Faults.neighbour,
}
