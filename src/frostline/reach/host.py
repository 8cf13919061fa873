"""Samples host signals beside the steps (B13), from outside the target.

Processes that time steps are looked at up to 20 times a second, all others once. The sampling
watches its own CPU time and looks less often where it would take more than SHARE of a CPU.
"""

import os
import resource
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from frostline.reach import segments
from frostline.reach.hostfiles import (
    File,
    Hierarchy,
    Machine,
    Pressure,
    Stat,
    after,
    has_quota,
    hierarchies,
    schedstat,
    throttling,
)
from frostline.reach.hostlog import Log, Rows
from frostline.reach.tree import Process

if TYPE_CHECKING:
    from frostline.reach.gpu import Gpus

#: Time between two looks at processes that time steps, and at everything; ns.
FAST = 50_000_000
SLOW = 1_000_000_000
#: Share of one CPU that each of the two may take.
SHARE = 0.005
#: Threads that are looked at each time; of a process with more, the others once a second.
FEW_THREADS = 24
#: Threads looked at in one process, and files kept open in all.
MOST_THREADS = 512
_KEPT = 800
#: Private memory is looked at this seldom, ns, and only while that is quick: it holds the target's
#: memory lock.
_PRIVATE = 60_000_000_000
_QUICK = 3_000_000
#: Quotas and cgroups may change: looked at again after this long, ns.
_CGROUPS = 30_000_000_000
_COST = 60_000_000_000


class Thread:
    """One thread that is not the main one."""

    __slots__ = ("cpu", "file", "queue")

    def __init__(self) -> None:
        self.file: File | None = None
        self.cpu = self.queue = 0


class Watched:
    """One process that is looked at."""

    kept = 0

    def __init__(self, index: int, process: Process, now: int) -> None:
        self.index = index
        self.pid, self.number, self.start = process.pid, process.number, process.start_ticks
        self.fast = False
        self.cgroups: list[int] = []
        self.cgroups_at = 0
        base = f"/proc/{self.pid}"
        self._stat = File(f"{base}/stat")
        self._main = File(f"{base}/task/{self.pid}/schedstat")
        self._io = File(f"{base}/io")
        # Where the kernel shows it, one file has switches and migrations; status has the switches alone.
        self._switches = File(f"{base}/task/{self.pid}/sched")
        self._status = b"nr_switches" not in self._switches.read()
        if self._status:
            self._switches.close()
            self._switches = File(f"{base}/task/{self.pid}/status")
        self._threads: dict[int, Thread] = {}
        self._gone = [0, 0]
        self._others = [0, 0]
        self._private = 0
        self._private_at = now - _PRIVATE + SLOW  # first when it has become something
        self._private_period = _PRIVATE

    def look(self, now: int, everything: bool) -> "list[int] | None":
        """The values of PROCESS_FIELDS; None if it has gone."""
        try:
            stat = Stat(self._stat.read())
        except (ValueError, IndexError):
            return None
        if stat.start != self.start:
            return None
        cpu, queue, slices = schedstat(self._main.read(128)) or (0, 0, 0)
        text = self._switches.read(8192)
        if self._status:
            switches = after(text, b"\nvoluntary_ctxt_switches"), after(text, b"nonvoluntary_ctxt_switches")
            migrations = 0
        else:
            switches = after(text, b"nr_voluntary_switches"), after(text, b"nr_involuntary_switches")
            migrations = after(text, b"nr_migrations")
        if everything or 1 < stat.threads <= FEW_THREADS:
            self._look_at_others(stat.threads)
        if everything and now - self._private_at >= self._private_period:
            self._look_at_private(now)
        io = self._io.read(512)
        return [
            cpu // 1000,
            queue // 1000,
            slices,
            self._others[0] // 1000,
            self._others[1] // 1000,
            *switches,
            migrations,
            stat.user,
            stat.system,
            stat.minor,
            stat.major,
            after(io, b"\nread_bytes:"),
            after(io, b"\nwrite_bytes:"),
            stat.disk,
            stat.resident_kib,
            stat.threads,
            stat.state,
            stat.processor,
            self._private,
        ]

    def _look_at_others(self, count: int) -> None:
        """Adds up the other threads; what ended ones had taken stays in the sum."""
        folder = f"/proc/{self.pid}/task"
        if count != len(self._threads) + 1:
            try:
                there = {int(name) for name in os.listdir(folder)[: MOST_THREADS + 1]}
            except OSError:
                return
            for tid in [tid for tid in self._threads if tid not in there]:
                self._forget(tid)
            for tid in there - self._threads.keys() - {self.pid}:
                self._threads[tid] = Thread()
        for tid, thread in self._threads.items():
            if thread.file is None and Watched.kept < _KEPT:
                thread.file = File(f"{folder}/{tid}/schedstat")
                Watched.kept += 1
            file = thread.file or File(f"{folder}/{tid}/schedstat")
            found = schedstat(file.read(128))
            if found is not None:
                thread.cpu, thread.queue = found[0], found[1]
            if thread.file is None:
                file.close()
        self._others[0] = self._gone[0] + sum(thread.cpu for thread in self._threads.values())
        self._others[1] = self._gone[1] + sum(thread.queue for thread in self._threads.values())

    def _forget(self, tid: int) -> None:
        thread = self._threads.pop(tid)
        self._gone[0] += thread.cpu
        self._gone[1] += thread.queue
        if thread.file is not None:
            thread.file.close()
            Watched.kept -= 1

    def _look_at_private(self, now: int) -> None:
        began = time.monotonic_ns()
        file = File(f"/proc/{self.pid}/smaps_rollup")
        text = file.read(8192)
        file.close()
        took = time.monotonic_ns() - began
        self._private = after(text, b"Private_Dirty:")
        self._private_at = now
        if took > _QUICK:
            self._private_period = max(_PRIVATE, took * 20_000)

    def close(self) -> None:
        for file in (self._stat, self._main, self._io, self._switches):
            file.close()
        for tid in list(self._threads):
            self._forget(tid)


class Cgroup:
    """One cgroup that limits CPU time."""

    def __init__(self, index: int, folder: str, version: int) -> None:
        self.index, self.folder, self.version = index, folder, version

    def look(self) -> list[int]:
        """The values of CGROUP_FIELDS. Not kept open: its file system is to be unmounted by whoever likes."""
        file = File(f"{self.folder}/cpu.stat")
        text = file.read()
        file.close()
        return throttling(text)


class Sampler:
    """Everything that is sampled, and when."""

    def __init__(self, folder: str, stamp: tuple[int, int], gpus: bool = True) -> None:
        self.log = Log(folder, stamp)
        self.watched: dict[tuple[int, int], Watched] = {}
        self.cgroups: dict[str, Cgroup] = {}
        self._count = 0
        self._hierarchies: list[Hierarchy] = hierarchies()
        self._pressure, self._machine = Pressure(), Machine()
        self._host = [0] * 11
        self._gpus: Gpus | None = None
        self._want_gpus = gpus
        self._told_gpus = 0
        self._next = self._next_slow = self._began = time.monotonic_ns()
        self._cost = 0.0
        self._spent = self._rounds = 0
        self._cost_told = self._next
        self._looked_for_spans: dict[int, int] = {}
        _more_files()

    # --- who --------------------------------------------------------------------------
    def update(self, members: Iterable[Process]) -> None:
        """Takes notice of who is there and who has gone. Called a few times a second."""
        now = time.monotonic_ns()
        there = set()
        for process in members:
            key = (process.pid, process.start_ticks)
            there.add(key)
            watched = self.watched.get(key)
            if watched is None:
                watched = self.watched[key] = Watched(self._count, process, now)
                self._count += 1
                self._introduce(watched, now)
                self._next_slow = self._next = now  # at once: what is short-lived is seen once at least
            if not watched.fast and process.recorded and self._has_spans(process, watched, now):
                watched.fast = True
                self._introduce(watched, now)
        for key in [key for key in self.watched if key not in there]:
            self._end(key)

    def _introduce(self, watched: Watched, now: int) -> None:
        # Who starts a process may put it into its cgroup a moment later: looked at again soon.
        young = not watched.cgroups_at
        watched.cgroups = self._cgroups_of(watched.pid)
        watched.cgroups_at = now - _CGROUPS + SLOW if young else now
        self.log.event(
            f"process {watched.index}",
            {
                "process": watched.index,
                "pid": watched.number,
                "start_ticks": watched.start,
                "fast": watched.fast,
                "cgroups": watched.cgroups,
            },
        )

    def _end(self, key: tuple[int, int]) -> None:
        watched = self.watched.pop(key)
        watched.close()
        self._looked_for_spans.pop(watched.index, None)
        self.log.forget(f"process {watched.index}")
        self.log.event("", {"end": watched.index}, keep=False)

    def _has_spans(self, process: Process, watched: Watched, now: int) -> bool:
        """Whether its first segment holds a span: looked at once a second until it does."""
        if now < self._looked_for_spans.get(watched.index, 0):
            return False
        self._looked_for_spans[watched.index] = now + SLOW
        return bool(process.mailbox) and segments.has_spans(process.mailbox)

    def _cgroups_of(self, pid: int) -> list[int]:
        if not self._hierarchies:
            return []
        file = File(f"/proc/{pid}/cgroup")
        text = file.read(1 << 16).decode("utf-8", "replace")
        file.close()
        found = []
        for hierarchy in self._hierarchies:
            for folder in hierarchy.folders(text):
                if folder not in self.cgroups:
                    if not has_quota(folder):
                        continue
                    cgroup = self.cgroups[folder] = Cgroup(len(self.cgroups), folder, hierarchy.version)
                    value = {"cgroup": cgroup.index, "path": folder, "version": cgroup.version}
                    self.log.event(f"cgroup {cgroup.index}", value)
                found.append(self.cgroups[folder].index)
        return found

    # --- when -------------------------------------------------------------------------
    def wait(self) -> float:
        """Seconds until the next look."""
        return max(0.0, (self._next - time.monotonic_ns()) / 1e9)

    def sample(self) -> None:
        """One look, and when the next one is due."""
        began, now = time.thread_time_ns(), time.monotonic_ns()
        everything = now >= self._next_slow or self.log.fresh
        processes: Rows = []
        for key, watched in list(self.watched.items()):
            if everything or watched.fast:
                values = watched.look(now, everything)
                if values is None:
                    self._end(key)
                else:
                    processes.append((watched.index, values))
        cgroups = [(one.index, one.look()) for one in self.cgroups.values()]
        self._host[:5] = self._pressure.read()
        if everything:
            self._host[5:] = self._machine.read()
            self._again(now)
        gpus = self._gpu_rows(now) if everything else []
        self.log.round(now, everything, [processes, cgroups, [(0, list(self._host))], gpus])
        self._plan(now, everything, time.thread_time_ns() - began)

    def _again(self, now: int) -> None:
        """Cgroups and quotas may have changed."""
        for watched in self.watched.values():
            if now - watched.cgroups_at >= _CGROUPS:
                watched.cgroups_at = now
                if watched.cgroups != self._cgroups_of(watched.pid):
                    self._introduce(watched, now)

    def _gpu_rows(self, now: int) -> Rows:
        if self._gpus is None:
            # Not at the start, where every millisecond delays the first look at the tree.
            if self._want_gpus and now - self._began >= SLOW:
                from frostline.reach.gpu import Gpus

                self._gpus = Gpus()
            return []
        values = self._gpus.values
        for index in range(self._told_gpus, len(values)):
            name = self._gpus.names[index] if index < len(self._gpus.names) else "GPU"
            self.log.event(f"gpu {index}", {"gpu": index, "name": name})
        self._told_gpus = max(self._told_gpus, len(values))
        return list(enumerate(values))

    def _plan(self, now: int, everything: bool, cost: int) -> None:
        self._spent += cost
        self._rounds += 1
        if everything:
            self._next_slow = now + max(SLOW, int(cost / SHARE))
        else:
            self._cost += 0.1 * (cost - self._cost) if self._cost else cost
        fast = any(watched.fast for watched in self.watched.values())
        period = max(FAST, int(self._cost / SHARE))
        self._next = min(self._next_slow, now + period) if fast else self._next_slow
        if now - self._cost_told >= _COST:
            self._tell_cost(now)

    def _tell_cost(self, now: int) -> None:
        self._cost_told = now
        self.log.event("cost", {"cost": self._spent, "rounds": self._rounds})

    def finish(self) -> None:
        """The last words."""
        if self._rounds:
            self._tell_cost(time.monotonic_ns())
        self.log.close()
        if self._gpus is not None:
            self._gpus.stop()
        for watched in self.watched.values():
            watched.close()
        self._pressure.close()
        self._machine.close()


def _more_files() -> None:
    """As many open files as we may have: a few for each thread that is watched."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if hard != resource.RLIM_INFINITY else 1 << 16
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, 1 << 16), hard))
        except (OSError, ValueError):
            return
