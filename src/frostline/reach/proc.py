"""What /proc says about one process. Every reader returns a value, never raises."""

import os
import re
from typing import NamedTuple

#: The command lines of interpreters: python3, python3.12, python3.13t, python, pypy3 ...
_INTERPRETER = re.compile(r"^(python|pypy|graalpy|micropython|ipython)[0-9.]*[a-z]?$")


class Stat(NamedTuple):
    """The fields of /proc/PID/stat that we use."""

    state: str
    parent: int
    start_ticks: int
    #: Address of the stack's bottom. Random for each exec, inherited by fork: with the
    #: start it tells two programs of one pid apart, which no other field does.
    image: int
    #: Wait status, readable in a zombie; 0 before.
    exit_code: int

    @property
    def alive(self) -> bool:
        return self.state not in "ZXx"


def read(pid: int, name: str, limit: int = 1 << 20) -> bytes:
    """A file of /proc/PID, empty if it cannot be read."""
    return _read(pid, name, limit) or b""


def _read(pid: int, name: str, limit: int) -> "bytes | None":
    try:
        descriptor = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        parts = []
        while limit > 0:
            part = os.read(descriptor, min(limit, 1 << 16))
            if not part:
                break
            parts.append(part)
            limit -= len(part)
        return b"".join(parts)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def stat(pid: int) -> "Stat | None":
    """State, parent and start of a process; None if there is none."""
    text = read(pid, "stat")
    # The command's name may hold spaces and parentheses: the last ')' ends it.
    fields = text[text.rfind(b")") + 2 :].split()
    if len(fields) < 26:
        return None
    # The list begins at field 3.
    exit_code = int(fields[49]) if len(fields) > 49 else 0
    return Stat(fields[0].decode(), int(fields[1]), int(fields[19]), int(fields[25]), exit_code)


def arguments(pid: int) -> list[str]:
    """The command line, or the title that the process gave itself."""
    text = read(pid, "cmdline", 1 << 16)
    if not text:
        return []
    return [part.decode("utf-8", "replace") for part in text.rstrip(b"\0").split(b"\0")]


def environment(pid: int) -> "dict[str, str] | None":
    """The environment at the program's start; None if it cannot be read, or was written over.

    A process that sets its title writes over it (setproctitle does), so read it early.
    """
    text = _read(pid, "environ", 1 << 22)
    if text is None:
        return None
    found = {}
    for part in text.split(b"\0"):
        name, equals, value = part.partition(b"=")
        if equals:
            found[name.decode("utf-8", "replace")] = value.decode("utf-8", "surrogateescape")
    return None if text and not found else found


def executable(pid: int) -> str:
    """Path of the program, empty if it may not be read (another user's)."""
    try:
        return os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)")
    except OSError:
        return ""


def owner(pid: int) -> int:
    """User id that owns the process's files in /proc, -1 if it has gone."""
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return -1


def user(pid: int) -> int:
    """The user it acts as, -1 if it has gone. (``/proc``'s owner is root for one that may not be dumped.)"""
    for line in read(pid, "status", 1 << 14).splitlines():
        if line.startswith(b"Uid:"):
            return int(line.split()[2])
    return -1


def own_pid_numbers(pid: int) -> list[int]:
    """The process's number in each pid namespace, ours first, its own last."""
    for line in read(pid, "status", 1 << 14).splitlines():
        if line.startswith(b"NSpid:"):
            return [int(word) for word in line.split()[1:]]
    return [pid]


def title(pid: int) -> str:
    """The 15-character name of the main thread (what `setproctitle` and prctl set)."""
    return read(pid, "comm", 64).decode("utf-8", "replace").strip()


def mapped(pid: int) -> str:
    """/proc/PID/maps. It holds the target's memory lock while it is read: once a program."""
    return read(pid, "maps", 8 << 20).decode("utf-8", "replace")


def everyone() -> set[int]:
    """The pids that exist."""
    return {int(name) for name in os.listdir("/proc") if name.isdigit()}


def is_interpreter(path: str) -> bool:
    """Whether a program's name is a Python's."""
    return bool(_INTERPRETER.match(path.rpartition("/")[2]))


def working_folder() -> str:
    """Where we are; empty if that folder has been removed."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def boot_id() -> str:
    """The kernel's boot: start ticks and monotonic times compare within one boot only."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def pid_namespace() -> int:
    """Inode of our pid namespace, 0 if unreadable."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0
