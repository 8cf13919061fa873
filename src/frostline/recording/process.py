"""Whether the process that wrote a recording still lives: by pid, start and pid namespace."""

from __future__ import annotations

from pathlib import Path


def is_dead(pid: int, start_ticks: int, pid_namespace: int) -> bool:
    """Whether the process is certainly gone. In doubt (another pid namespace) it is not."""
    return _lives(pid, start_ticks, pid_namespace) is False


def is_alive(pid: int, start_ticks: int, pid_namespace: int) -> bool:
    """Whether the process certainly lives."""
    return _lives(pid, start_ticks, pid_namespace) is True


def _lives(pid: int, start_ticks: int, pid_namespace: int) -> bool | None:
    if not start_ticks or not pid_namespace or pid_namespace != _own_namespace():
        return None
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False
    except OSError:
        return None
    fields = text.rpartition(b")")[2].split()
    if len(fields) < 20:
        return None
    # A zombie has run its last instruction; a pid with another start time is another process.
    return fields[0] not in (b"Z", b"X") and int(fields[19]) == start_ticks


def _own_namespace() -> int:
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0
