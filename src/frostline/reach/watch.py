"""Samples what the threads of processes do, from /proc alone: any language, nothing in the target (C6)."""

import os
import time
from array import array
from bisect import bisect_left
from typing import NamedTuple

from frostline.errors import FrostlineError
from frostline.reach import proc
from frostline.reach.asking import descendants
from frostline.reach.hostfiles import File, schedstat
from frostline.reach.solo import Solo, Suspect

#: A thread that has not run for this long is looked at this seldom, ns.
IDLE = 50_000_000
#: Threads and children may have come: looked for this often, ns.
_THREADS = 100_000_000
_CHILDREN = 1_000_000_000
#: Share of one CPU that the watching may take: beyond it, it looks less often.
SHARE = 0.10
#: Upper bounds of the buckets of lateness, ms.
LATE = (1, 2, 5, 10, 20, 50)


#: What is kept of the main thread for the end: one look in so many ns, and so many of them (some 2 hours).
_KEPT = 25_000_000
_MOST = 300_000


class History:
    """What a main thread had of a CPU, all along but thinned: why a pass was no suspect."""

    def __init__(self) -> None:
        self._time, self._cpu, self._queue = array("q"), array("q"), array("q")

    def __len__(self) -> int:
        return len(self._time)

    def add(self, at: int, cpu: int, queue: int) -> None:
        if self._time and at - self._time[-1] < _KEPT:
            return
        if len(self._time) >= _MOST:
            for values in (self._time, self._cpu, self._queue):
                del values[: _MOST // 2]
        self._time.append(at)
        self._cpu.append(cpu)
        self._queue.append(queue)

    def shares(self, start: int, stop: int) -> tuple[float, float] | None:
        """(on a CPU, runnable without one) of the looks around a time, at most one at either end too many;
        None where there are none."""
        low = max(0, bisect_left(self._time, start) - 1)
        high = min(bisect_left(self._time, stop), len(self._time) - 1)
        if high <= low or self._time[low] > start or self._time[high] < stop:
            return None
        of = self._time[high] - self._time[low]
        on, queued = self._cpu[high] - self._cpu[low], self._queue[high] - self._queue[low]
        return min(1.0, on / of), min(1.0, queued / of)


class Found(NamedTuple):
    """A suspect, and whose it is."""

    pid: int
    process: str
    thread: str
    is_main: bool
    suspect: Suspect
    #: Names of the threads in ``suspect.waiters``.
    waiters: tuple[str, ...]


class Cost(NamedTuple):
    """What the watching cost, and how late it was."""

    #: CPU time over the time watched.
    share: float
    rounds: int
    #: ns between two rounds: as asked for, as used at the end.
    asked: int
    used: int
    #: Rounds by lateness: one count for each bound of LATE, and those beyond.
    late: tuple[int, ...]
    latest: int


class _Thread:
    __slots__ = ("file", "looked", "name", "ran", "sums")

    def __init__(self, pid: int, tid: int) -> None:
        self.file = File(f"/proc/{pid}/task/{tid}/schedstat")
        self.name = proc.read(pid, f"task/{tid}/comm", 64).decode("utf-8", "replace").strip()
        self.sums = (-1, -1, -1)
        self.ran = self.looked = 0


class _Process:
    """One process that is watched."""

    def __init__(self, pid: int, name: str) -> None:
        self.pid, self.name = pid, name
        about = proc.stat(pid)
        self.start_ticks = about.start_ticks if about is not None else 0
        self.threads: dict[int, _Thread] = {}
        self.solo = Solo()
        self.main = History()
        self._listed = 0

    def list_threads(self, now: int) -> bool:
        """Takes notice of threads; False if the process has gone."""
        self._listed = now
        try:
            there = {int(name) for name in os.listdir(f"/proc/{self.pid}/task")}
        except OSError:
            return False
        about = proc.stat(self.pid)
        if about is None or not about.alive or about.start_ticks != self.start_ticks:
            return False
        for tid in [tid for tid in self.threads if tid not in there]:
            self.threads.pop(tid).file.close()
            self.solo.ended(tid)
        for tid in there - self.threads.keys():
            self.threads[tid] = _Thread(self.pid, tid)
        return True

    def look(self, now: int) -> "list[Suspect] | None":
        """One round; None if the process has gone."""
        if now - self._listed >= _THREADS and not self.list_threads(now):
            return None
        for tid, thread in self.threads.items():
            idle = now - thread.ran > 2 * IDLE
            if idle and now - thread.looked < IDLE:
                continue
            sums = schedstat(thread.file.read(128))
            if sums is None:
                continue
            at = time.monotonic_ns()
            if sums != thread.sums:
                # Nothing is known to have happened up to here: it begins to run now, not since the last look.
                if idle and thread.looked and thread.sums[0] >= 0 and sums[0] - thread.sums[0] < IDLE // 2:
                    ran = min(sums[0] - thread.sums[0], at - thread.looked - 1)
                    self.solo.sample(tid, at - ran - 1, *thread.sums)
                thread.sums, thread.ran = sums, now
            thread.looked = now
            self.solo.sample(tid, at, *sums)
            if tid == self.pid:
                self.main.add(at, sums[0], sums[1])
        return self.solo.tick(now)

    def close(self) -> None:
        for thread in self.threads.values():
            thread.file.close()


class Watch:
    """Watches processes until they have ended."""

    def __init__(self, pids: dict[int, str], tree: bool, interval: int) -> None:
        """Args:
        pids: what is watched, with its name.
        tree: their descendants too, also those that come later.
        interval: ns between two rounds, at least.

        Raises:
            FrostlineError: ``no-process`` or ``no-schedstat``.
        """
        self.tree = tree
        self._roots = dict(pids)
        self._asked = self._used = interval
        self.processes: dict[int, _Process] = {}
        self.names: dict[int, str] = {}
        #: Of every process that was watched, also of those that have ended.
        self.mains: dict[int, History] = {}
        now = time.monotonic_ns()
        for pid, name in pids.items():
            self._admit(pid, name, now)
        if not self.processes:
            raise FrostlineError(
                "no-process",
                f"there is no process {', '.join(map(str, pids))}" if pids else "no process of it lives",
                "Name one that runs.",
            )
        first = next(iter(self.processes))
        if schedstat(proc.read(first, "schedstat", 128)) is None:
            raise FrostlineError(
                "no-schedstat",
                f"/proc/{first}/schedstat cannot be read: this kernel does not say when a thread runs",
                "Use a kernel with CONFIG_SCHED_INFO.",
            )
        if tree:
            self._children(now)
        self._children_at = self._next = self.start = time.monotonic_ns()
        self._spent, self._average = 0, 0.0
        self._rounds, self._late = 0, [0] * (len(LATE) + 1)
        self._latest = 0

    def _admit(self, pid: int, name: str, now: int) -> None:
        process = _Process(pid, name)
        if process.list_threads(now):
            self.processes[pid] = process
            self.names[pid] = name
            self.mains[pid] = process.main

    def _children(self, now: int) -> None:
        self._children_at = now
        own = os.getpid()
        for root in self._roots:
            for pid in descendants(root):
                if pid not in self.processes and pid != own:
                    self._admit(pid, proc.title(pid), now)

    def wait(self) -> float:
        """Seconds until the next round."""
        return max(0.0, (self._next - time.monotonic_ns()) / 1e9)

    def round(self) -> list[Found]:
        """One round over all processes; returns the suspects that are now known."""
        began, now = time.thread_time_ns(), time.monotonic_ns()
        late = now - self._next
        self._late[next((i for i, most in enumerate(LATE) if late < most * 1e6), len(LATE))] += 1
        self._latest = max(self._latest, late)
        found: list[Found] = []
        for pid, process in list(self.processes.items()):
            suspects = process.look(now)
            if suspects is None:
                suspects = process.solo.finish()
                process.close()
                del self.processes[pid]
            found += [self._named(process, suspect) for suspect in suspects]
        if self.tree and now - self._children_at >= _CHILDREN:
            self._children(now)
        cost = time.thread_time_ns() - began
        self._spent += cost
        self._rounds += 1
        self._average += 0.02 * (cost - self._average) if self._average else cost
        self._used = max(self._asked, int(self._average / SHARE))
        # A round that was late is not made up for: two looks at once say nothing new.
        self._next = max(self._next + self._used, now + self._used // 2)
        return found

    def finish(self) -> list[Found]:
        """The end: what was still open."""
        return [
            self._named(process, suspect)
            for process in self.processes.values()
            for suspect in process.solo.finish()
        ]

    def _named(self, process: _Process, suspect: Suspect) -> Found:
        def name(tid: int) -> str:
            thread = process.threads.get(tid)
            return f"{thread.name if thread is not None else 'ended'} ({tid})"

        return Found(
            pid=process.pid,
            process=process.name,
            thread=name(suspect.tid),
            is_main=suspect.tid == process.pid,
            suspect=suspect,
            waiters=tuple(name(one.tid) for one in suspect.waiters),
        )

    def cost(self) -> Cost:
        """So far."""
        watched = max(1, time.monotonic_ns() - self.start)
        return Cost(
            self._spent / watched, self._rounds, self._asked, self._used, tuple(self._late), self._latest
        )
