"""What the host signals say (B13): frozen dataclasses. Times in ns unless said."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HostCause:
    """What the host shows of one slow step that no pass explains.

    ``kind`` is one of KINDS. ``cpu``, ``queue`` and ``asleep`` are how the step's thread spent it, as
    estimated from the samples around it; each lies between the bounds that the counters leave.
    """

    kind: str
    text: str
    #: Length of the sampled window that the counters' differences are over.
    window: int = 0
    cpu: int = 0
    queue: int = 0
    asleep: int = 0
    #: The kind follows from the counters' bounds alone, whatever lay around the step.
    sure: bool = False
    major_faults: int = 0
    voluntary: int = 0
    throttled: int = 0


#: kind -> in few words, for sums.
KINDS = {
    "throttled": "waited for CPU quota (cgroup)",
    "run-queue": "waited for a CPU (run queue)",
    "on-cpu": "computed (Python or a long C call)",
    "kernel": "were in the kernel, on a CPU",
    "major-faults": "waited for pages from a disk (major faults)",
    "disk": "waited for a disk",
    "busy-thread": "slept while another thread of the process computed (the GIL, or a lock)",
    "asleep": "slept (a lock, a timer, the network or another process)",
    "callback": "were taken by another tool's gc callback",
    "look": "stood still while Frostline looked at the heap",
    "unclear": "cannot tell: no one thing takes half of it",
    "too-coarse": "cannot tell: the host was sampled too seldom",
    "unsampled": "cannot tell: the host was not sampled then",
}
#: Kinds that say nothing.
OPEN = frozenset(("unclear", "too-coarse", "unsampled"))

#: Kinds in which a thread was to run and did not: what it did meanwhile took longer, a pass as well.
DESCHEDULED = frozenset(("run-queue", "throttled"))


@dataclass(frozen=True)
class HostProcessReport:
    """One process over the time in which it was sampled."""

    #: Length of that time, and samples in it that differ from the one before.
    sampled: int
    samples: int
    fast: bool
    cpu: int
    queue: int
    main_cpu: int
    main_queue: int
    migrations: int
    voluntary: int
    involuntary: int
    minor_faults: int
    major_faults: int
    #: Bytes.
    read: int
    written: int
    resident: int
    resident_most: int
    #: Memory that is its alone, when last looked at; 0 if it was not.
    private_dirty: int
    threads: int
    #: Of its cgroups with a quota: periods throttled, and time kept from running, over all CPUs.
    throttled: int
    throttled_time: int
    #: (kind, slow steps, their excess) of those that no pass explains, the most excess first.
    slow: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True)
class Gpu:
    """One GPU, time-weighted over the samples, at one a second."""

    name: str
    sm_mhz_least: int
    sm_mhz_most: int
    power_mw: int
    power_mw_most: int
    busy_percent: int
    celsius_most: int
    #: (reason, share of the time).
    throttle: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class HostReport:
    """The machine over the time in which it was sampled. Shares of that time, or of all CPU time."""

    sampled: int
    rounds: int
    #: CPU time that the sampling took, over the time; None if it was not told.
    cost: float | None
    cpu_pressure: float
    io_pressure: float
    memory_pressure: float
    steal: float
    idle: float
    load_most: float
    gpus: tuple[Gpu, ...] = ()
