"""A command that is ended with whoever runs it, also where that one is killed (``ablate``, ``try``; A9).

``PR_SET_PDEATHSIG`` would reach one process only, and fires when the *thread* ends that started it. So a
process of its own waits on a pipe whose other end nobody else has: when that ends without a word, it ends
the command as its starter would have, what has left its process group included.

No moment is left out. The command is started through a launcher, which tells the watcher its pid before
it becomes the command; where the starter has been killed by then, the watcher waits for that word.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from frostline.reach import proc
from frostline.reach.environment import PREFIX, package_root

#: What the two processes say they are. The watcher's command line must not hold the command's: people
#: pkill by that.
TITLE = "frostline-leash"
_BOOTSTRAP = "import sys; sys.path.append(sys.argv[2]); from frostline.reach.leash import main; main()"
_WATCH, _LAUNCH = "watch", "launch"
#: Seconds between two looks at who is left.
_EVERY = 0.05
#: ms between two looks at a group whose leader has ended by itself.
_SELDOM = 1000


@contextlib.contextmanager
def leashed(
    command: Sequence[str], patience: float, cpus: str = "", **options: Any
) -> "Iterator[subprocess.Popen[bytes]]":
    """The command, as the leader of a process group of its own. Its end is the caller's to see to.

    Args:
        patience: seconds from SIGTERM to SIGKILL, where we are killed.
        cpus: that it is pinned to, as ``taskset -c`` has them; empty for none.
        options: of ``subprocess.Popen``.

    Raises:
        OSError: one of the processes cannot be started.
    """
    life_read, life = os.pipe()
    told_read, told = os.pipe()
    open_ones = {life_read, life, told_read, told}

    def close(*numbers: int) -> None:
        for number in numbers:
            os.close(number)
            open_ones.discard(number)

    try:
        watcher = subprocess.Popen(
            [*_ourselves(_WATCH), str(life_read), str(told_read), f"{patience:g}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
            pass_fds=(life_read, told_read),
        )
        try:
            close(life_read, told_read)
            process = subprocess.Popen(
                [*_ourselves(_LAUNCH), str(told), cpus, *command],
                start_new_session=True,
                pass_fds=(told,),
                **options,
            )
            close(told)
            try:
                yield process
            finally:
                with contextlib.suppress(OSError):  # somebody has killed it
                    os.write(life, b"x")
        finally:
            close(*open_ones)
            watcher.wait()
    finally:
        close(*open_ones)


def _ourselves(what: str) -> list[str]:
    """An interpreter that runs nobody's start-up hooks."""
    return [sys.executable, "-I", "-S", "-c", _BOOTSTRAP, TITLE, package_root(), what]


def main() -> None:
    """Entry of the two processes."""
    what, *rest = sys.argv[3:]
    if what == _LAUNCH:
        _launch(int(rest[0]), rest[1], rest[2:])
    else:
        _watch(int(rest[0]), int(rest[1]), float(rest[2]))


def _launch(told: int, cpus: str, command: list[str]) -> None:
    """Says who it is, and becomes the command, with the environment that it was given."""
    if cpus:
        os.sched_setaffinity(0, _numbers(cpus))
    os.write(told, b"%d\n" % os.getpid())
    os.close(told)
    # Python ignores these at its start, and an ignored signal stays ignored over exec.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    # Not os.environ: in the C locale the interpreter has added LC_CTYPE to it.
    with open("/proc/self/environ", "rb") as file:
        entries = [entry.partition(b"=") for entry in file.read().split(b"\0") if b"=" in entry]
    try:
        os.execve(command[0], command, {name: value for name, _, value in entries})
    except OSError as error:
        sys.stderr.write(f"frostline: {command[0]}: {error.strerror}\n")
        sys.stderr.flush()
        os._exit(127)


def _numbers(cpus: str) -> set[int]:
    found: set[int] = set()
    for part in cpus.split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def _watch(life: int, told: int, patience: float) -> None:
    """Waits until the starter says that all is over, or has gone without a word."""
    word = os.read(told, 32)
    if not word:
        return  # there is no command: it could not be started
    leader = int(word)
    if _said_so(life, leader):
        return
    others = descendants(leader)
    if _ended(leader):
        _signal(-leader, signal.SIGTERM)
    else:
        _signal(leader, signal.SIGTERM)
    until = time.monotonic() + patience
    while time.monotonic() < until and not _ended(leader):
        time.sleep(_EVERY)
        others |= descendants(leader)
    _signal(-leader, signal.SIGKILL)
    kill(others)


def _said_so(life: int, leader: int) -> bool:
    """Whether there is nothing to end: the starter has said so, or all of it has gone by itself."""
    poll = select.poll()
    poll.register(life, select.POLLIN)
    end = -1
    with contextlib.suppress(OSError):  # it has ended already, or the kernel has no pidfd
        end = os.pidfd_open(leader)
        poll.register(end, select.POLLIN)
    while True:
        for number, _ in poll.poll(None if end >= 0 else _SELDOM):
            if number == life:
                return bool(os.read(life, 1))
            poll.unregister(end)
            os.close(end)
            end = -1
        # While any of the group is left its number is nobody else's; then it may be.
        if end < 0 and _ended(leader) and not _signal(-leader, 0):
            return True


def _ended(pid: int) -> bool:
    now = proc.stat(pid)
    return now is None or not now.alive


def descendants(root: int) -> dict[int, int]:
    """pid -> start, of what descends from a process now, whatever group it is in."""
    parents: dict[int, list[tuple[int, int]]] = {}
    for pid in proc.everyone():
        now = proc.stat(pid)
        if now is not None:
            parents.setdefault(now.parent, []).append((pid, now.start_ticks))
    found: dict[int, int] = {}
    waiting = [root]
    while waiting:
        for pid, ticks in parents.get(waiting.pop(), []):
            if pid not in found:
                found[pid] = ticks
                waiting.append(pid)
    return found


def started_in(session: str) -> dict[int, int]:
    """pid -> start, of the programs that ``frostline run -o SESSION`` started, whoever their parents are now.

    Told by the environment that they inherited: one that was given another, or has written its title over
    it, is not found.
    """
    found = {}
    for pid in proc.everyone():
        theirs = proc.environment(pid)
        now = proc.stat(pid)
        if theirs and now is not None and theirs.get(PREFIX + "OUTPUT") == session:
            found[pid] = now.start_ticks
    return found


def kill(processes: dict[int, int]) -> None:
    """SIGKILL to those of ``descendants`` that are still the same: a number may be another's by now."""
    for pid, ticks in processes.items():
        now = proc.stat(pid)
        if now is not None and now.start_ticks == ticks:
            _signal(pid, signal.SIGKILL)


def _signal(pid: int, number: int) -> bool:
    """Whether there was anybody to send it to; a negative pid is a group."""
    try:
        os.kill(pid, number)
    except OSError:
        return False
    return True
