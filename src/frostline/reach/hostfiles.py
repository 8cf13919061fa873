"""Files of /proc and of cgroups as the host sampler reads them: kept open, one system call a look."""

import os
import re

_NUMBER = re.compile(rb"-?\d+")
_PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024
#: Fields of /proc/PID/stat, counted from the state.
_MINOR, _MAJOR, _USER, _SYSTEM, _THREADS, _START, _RESIDENT, _PROCESSOR, _DISK = (
    7, 9, 11, 12, 17, 19, 21, 36, 39,
)  # fmt: skip


class File:
    """A file that is read again and again. What cannot be opened or has gone reads as empty."""

    __slots__ = ("descriptor",)

    def __init__(self, path: str) -> None:
        try:
            self.descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self.descriptor = -1

    def read(self, size: int = 4096) -> bytes:
        if self.descriptor < 0:
            return b""
        try:
            return os.pread(self.descriptor, size, 0)
        except OSError:
            return b""

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def after(text: bytes, name: bytes) -> int:
    """The first number after a word of a file, 0 if the word is not there."""
    at = text.find(name)
    found = _NUMBER.search(text, at + len(name)) if at >= 0 else None
    return int(found[0]) if found else 0


def schedstat(text: bytes) -> "tuple[int, int, int] | None":
    """(on a CPU ns, runnable without one ns, times given one) of /proc/PID/task/TID/schedstat."""
    parts = text.split()
    return (int(parts[0]), int(parts[1]), int(parts[2])) if len(parts) >= 3 else None


class Stat:
    """What the sampler uses of /proc/PID/stat."""

    __slots__ = (
        "disk", "major", "minor", "processor", "resident_kib", "start", "state", "system", "threads", "user",
    )  # fmt: skip

    def __init__(self, text: bytes) -> None:
        """Raises ValueError or IndexError for what is no stat file (the process has gone)."""
        fields = text[text.rindex(b")") + 2 :].split()
        self.state = fields[0][0]
        self.minor, self.major = int(fields[_MINOR]), int(fields[_MAJOR])
        self.user, self.system = int(fields[_USER]), int(fields[_SYSTEM])
        self.threads, self.start = int(fields[_THREADS]), int(fields[_START])
        self.resident_kib = int(fields[_RESIDENT]) * _PAGE_KIB
        self.processor = int(fields[_PROCESSOR])
        self.disk = int(fields[_DISK]) if len(fields) > _DISK else 0


class Pressure:
    """/proc/pressure/*: microseconds, summed up when read. Not there, or switched off: zeros."""

    def __init__(self) -> None:
        self._files = [File(f"/proc/pressure/{name}") for name in ("cpu", "io", "memory")]

    def read(self) -> list[int]:
        """cpu some, io some, io full, memory some, memory full."""
        cpu, io, memory = (file.read(512) for file in self._files)
        return [self._total(cpu, 0), *(self._total(text, line) for text in (io, memory) for line in (0, 1))]

    def _total(self, text: bytes, line: int) -> int:
        lines = text.split(b"\n")
        return after(lines[line], b"total=") if len(lines) > line else 0

    def close(self) -> None:
        for file in self._files:
            file.close()


class Machine:
    """All CPUs together, and the load average: the two lines of /proc/stat and /proc/loadavg."""

    def __init__(self) -> None:
        self._stat, self._load = File("/proc/stat"), File("/proc/loadavg")

    def read(self) -> list[int]:
        """user, system, idle, iowait, steal in ticks; load of one minute in thousandths."""
        fields = [int(part) for part in self._stat.read(1024).split(b"\n", 1)[0].split()[1:9]]
        user, nice, system, idle, iowait, irq, soft, steal = [*fields, *[0] * (8 - len(fields))]
        load = self._load.read(128).split(b" ", 1)[0]
        thousandths = int(float(load) * 1000) if load else 0
        return [user + nice, system + irq + soft, idle, iowait, steal, thousandths]

    def close(self) -> None:
        self._stat.close()
        self._load.close()


# --- cgroups --------------------------------------------------------------------------
class Hierarchy:
    """Where the hierarchy with the CPU quota is mounted."""

    def __init__(self, version: int, root: str, folder: str) -> None:
        self.version = version
        self._root, self._folder = root.rstrip("/"), folder.rstrip("/")

    def folders(self, pid_cgroups: str) -> list[str]:
        """The folders of a process's cgroup and those above it, as far as they are mounted.

        Args:
            pid_cgroups: the text of /proc/PID/cgroup.
        """
        for line in pid_cgroups.splitlines():
            number, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            mine = number == "0" and not controllers if self.version == 2 else "cpu" in controllers.split(",")
            if mine:
                break
        else:
            return []
        # Mounted from below (a container's own): what stands above it is not to be seen.
        inside = path[len(self._root) :] if self._root and path.startswith(self._root + "/") else path
        if path == self._root:
            inside = ""
        parts = [part for part in inside.split("/") if part and part != ".."]
        return [
            folder
            for depth in range(len(parts), -1, -1)
            if os.path.isfile(os.path.join(folder := "/".join([self._folder, *parts[:depth]]), "cpu.stat"))
        ]


def hierarchies(mountinfo: "str | None" = None) -> list[Hierarchy]:
    """The mounted hierarchies that have CPU quotas: version 1's, or version 2.

    Args:
        mountinfo: the text of /proc/self/mountinfo; None to read it.
    """
    if mountinfo is None:
        file = File("/proc/self/mountinfo")
        mountinfo = file.read(1 << 20).decode("utf-8", "replace")
        file.close()
    found = []
    for line in mountinfo.splitlines():
        fields = line.split(" ")
        if " - " not in line or len(fields) < 6:
            continue
        kind, _, options = line.split(" - ", 1)[1].partition(" ")
        controllers = options.rsplit(" ", 1)[-1].split(",")
        if kind == "cgroup2" or (kind == "cgroup" and "cpu" in controllers):
            found.append(Hierarchy(2 if kind == "cgroup2" else 1, fields[3], fields[4]))
    return found


def has_quota(folder: str) -> bool:
    """Whether a cgroup limits CPU time: only then can it throttle."""
    for name in ("cpu.max", "cpu.cfs_quota_us"):
        file = File(os.path.join(folder, name))
        first = file.read(64).split()
        file.close()
        if first:
            return first[0] not in (b"max", b"-1")
    return False


def throttling(text: bytes) -> list[int]:
    """periods, throttled periods and throttled microseconds of a cpu.stat of either version."""
    usec = after(text, b"throttled_usec")
    return [
        after(text, b"nr_periods"),
        after(text, b"nr_throttled"),
        usec or after(text, b"throttled_time") // 1000,
    ]
