"""What the machine was, and what else it did: stands beside each result, since both can make one."""

from __future__ import annotations

import os
import platform
import resource
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from frostline import __version__


def facts() -> dict[str, Any]:
    """What does not change from run to run. No host name: results are shown around."""
    return {
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)),
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or "not told",
        "kernel": platform.release(),
        "machine": platform.machine(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "python": platform.python_version(),
        "frostline": __version__,
    }


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def load_average() -> float:
    """Of the last minute."""
    return round(os.getloadavg()[0], 2)


def memory_mib(pid: int) -> float:
    """PSS of a process and of all below it: what is shared counts once. 0 where the machine does not say."""
    import psutil  # type: ignore[import-untyped]

    try:
        root = psutil.Process(pid)
        tree = [root.pid, *(child.pid for child in root.children(recursive=True))]
    except psutil.Error:
        return 0.0
    total = 0
    for one in tree:
        lines = _read(f"/proc/{one}/smaps_rollup").splitlines()
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return round(total / 1024, 1)


def used(pids: Iterable[int]) -> float:
    """Seconds of CPU time that these processes have used, and all that they have waited for."""
    return sum(sum(_times(pid)) for pid in pids)


def waited_for(pid: int) -> float:
    """Seconds of CPU time of what a process, which may be a zombie, has waited for."""
    _, waited = _times(pid)
    return waited


def _times(pid: int) -> tuple[float, float]:
    """Its own, and that of what it has waited for; 0 of one that has gone."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    if len(fields) < 15:
        return 0.0, 0.0
    user, system, theirs, their_system = (int(field) / os.sysconf("SC_CLK_TCK") for field in fields[11:15])
    return user + system, theirs + their_system


class Busy:
    """Cores that programs other than ours use, from now on."""

    def __init__(self) -> None:
        self._begun, self._busy, self._ours = time.monotonic(), _busy(), _ours()

    def add(self, seconds: float) -> None:
        """What ours have used that nobody has waited for: the system does not count it as ours."""
        self._ours -= seconds

    def others(self) -> float | None:
        """On average since the start; None where the machine does not say. Call it when what was started
        here has ended, and was waited for, or added.
        """
        busy = _busy()
        if busy is None or self._busy is None:
            return None
        theirs = busy - self._busy - (_ours() - self._ours)
        return round(max(0.0, theirs) / max(1e-6, time.monotonic() - self._begun), 3)


def _busy() -> float | None:
    """Seconds of CPU time that all have used; guests are in user."""
    try:
        user, nice, system, _, _, irq, softirq, steal = map(int, _read("/proc/stat").split()[1:9])
    except ValueError:
        return None
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _ours() -> float:
    """Of this process and of all that it has waited for, and they for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
