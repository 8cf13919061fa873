"""One name for a process (A7): in the process title, in its log lines, and in the report.

``format.naming`` makes it, here as in the report, from what the program said at ``install(role, rank)``.
"""

import os

import frostline
from frostline.format.naming import ranks as ranks
from frostline.policy.roles import role as role

TYPE_CHECKING = False
if TYPE_CHECKING:
    from logging import LogRecord

#: What the kernel keeps of a thread's name, in bytes.
_COMM = 15


def process_name() -> str:
    """This process's name as the report has it, such as ``EngineCore dp0 (pid 4711)``."""
    return f"{role()} (pid {os.getpid()})"


def set_title(prefix: str = "", separator: str = "") -> str:
    """Gives the process its name in ``ps`` and ``top``. Call it after ``install(role, rank)``.

    Args:
        prefix: the server's name, as in ``"VLLM::"``.
        separator: what stands in the place of blanks, as in ``"_"``; blanks if empty.

    Returns how it was done: ``"setproctitle"`` where the host has that package, else ``"comm"``: only
    the short name that the kernel keeps (15 bytes: the end of the role is cut, the rank is kept), which
    ``top`` and ``ps -o comm`` show; ``""`` where neither could be done.
    """
    words = role().split(" ")
    name = prefix + (separator or " ").join(words)
    try:
        from setproctitle import setproctitle  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        pass
    else:
        setproctitle(name)
        return "setproctitle"
    try:
        descriptor = os.open("/proc/self/comm", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        os.write(descriptor, _short(name, words[-1] if len(words) > 1 else ""))
    except OSError:
        return ""
    finally:
        os.close(descriptor)
    return "comm"


def _short(name: str, rank: str) -> bytes:
    """At most 15 bytes: what tells two processes apart, the rank, stands at the end."""
    whole = name.encode("utf-8", "replace")
    if len(whole) <= _COMM:
        return whole
    end = rank.encode("utf-8", "replace")[:_COMM]
    if not end:
        return whole[:_COMM]
    return (whole[: max(0, _COMM - 1 - len(end))] + b" " + end)[-_COMM:]


class NameFilter:
    """A ``logging`` filter that drops nothing and puts the process's name in ``%(processName)s``.

    ``handler.addFilter(frostline.NameFilter())``. On a handler and not on a logger: a logger's filter
    does not see what its children log.
    """

    __slots__ = ("_name", "_of")

    def __init__(self) -> None:
        self._of: object = None
        self._name = ""

    def filter(self, record: "LogRecord") -> bool:
        identity = (os.getpid(), frostline._identity)
        if self._of != identity:
            self._name = role()
            self._of = identity
        record.processName = self._name
        return True
