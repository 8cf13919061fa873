"""A process that does not outlive its parent (A9).

``PR_SET_PDEATHSIG`` fires when the *thread* that started the process ends, is lost at a change of the
user, and comes too late for a parent that had gone before. So a thread of ours waits on the parent
itself (a pidfd), and acts only when the kernel says in a second way that it is gone.
"""

import _signal  # type: ignore[import-not-found]
import os
import sys
import time

from frostline.embed.threads import Worker, original

#: Seconds between two looks where the kernel has no pidfd (before 5.3, or a sandbox).
_POLL = 0.5
#: Sent to the main thread during the grace; its handler does nothing.
_NUDGE = _signal.SIGRTMAX - 3
_NUDGE_EVERY = 0.25
_LONGEST_GRACE = 3600.0
_POLLIN = 1


class ParentWatch:
    """What ``die_with_parent`` returns.

    Attributes:
        parent: the process that is watched.
        grace: seconds between the signal and SIGKILL.
    """

    def __init__(self, parent: int, grace: float, signum: int) -> None:
        self.parent = parent
        self.grace = grace
        self.signum = signum
        self._pid = os.getpid()
        self._direct = os.getppid() == parent
        self._started = 0 if self._direct else _start_of(parent)
        #: Whether the parent had gone, or its number was another's, before we came.
        self._late = not self._direct and not 0 < self._started <= _start_of(self._pid)
        self._deadline = 0.0
        #: The main thread, once it has the handler that does nothing.
        self._main = 0
        self._pidfd = _Descriptor()
        self._bell = _Descriptor()
        self._rope = _Descriptor()
        self._worker = Worker(self._run, self._wake, "frostline parent watch", self.cancel)

    def cancel(self) -> None:
        """Stops watching: this process may outlive its parent again."""
        global _watch
        if _watch is self:
            _watch = None
        if self._pid == os.getpid():
            self._worker.stop()
            try:
                if self._main and _signal.getsignal(_NUDGE) is _nudged:
                    _signal.signal(_NUDGE, _signal.SIG_DFL)
            except ValueError:
                pass  # not the main thread: a handler that does nothing stays
        for descriptor in (self._pidfd, self._bell, self._rope):
            descriptor.close()

    def begin(self) -> None:
        self._open()
        try:
            if _signal.getsignal(_NUDGE) in (_signal.SIG_DFL, _nudged):
                _signal.signal(_NUDGE, _nudged)
                self._main = original("_thread", "get_ident")()
        except ValueError:
            pass  # not the main thread: the signal alone must do
        self._worker.start()

    def _open(self) -> None:
        """(Again) after a host that closes what it does not know, as daemons do."""
        if not (self._bell.ours() and self._rope.ours()):
            self._bell.close()
            self._rope.close()
            reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            self._bell.take(reading)
            self._rope.take(writing)
        if not self._pidfd.ours():
            try:
                self._pidfd.take(os.pidfd_open(self.parent))
            except (OSError, AttributeError):
                pass  # gone (which is looked for besides), or a kernel without: then we look now and then

    def gone(self) -> bool:
        """Whether the parent has ended. Never by its number alone, which another process may have by now."""
        if self._late:
            return True
        if self._direct:
            return os.getppid() != self.parent
        return _start_of(self.parent) != self._started

    def _wake(self) -> None:
        try:
            if self._rope.ours():
                os.write(self._rope.number, b"x")
        except OSError:
            pass

    # --- in the thread ---------------------------------------------------------------
    def _run(self) -> None:
        while not self._worker.stopping:
            if self._deadline or self.gone():
                self._end()
            else:
                self._wait(None)

    def _wait(self, seconds: "float | None") -> None:
        try:
            self._open()
        except OSError:
            seconds = _POLL if seconds is None else min(seconds, _POLL)  # no descriptor to be had
        poll = original("select", "poll")()
        if self._bell.ours():
            poll.register(self._bell.number, _POLLIN)
        if seconds is None and self._pidfd.ours():
            poll.register(self._pidfd.number, _POLLIN)
        elif seconds is None:
            seconds = _POLL
        events = poll.poll(None if seconds is None else int(seconds * 1000) + 1)
        for number, _ in events:
            if number == self._bell.number and self._bell.ours():
                try:
                    os.read(number, 64)
                except OSError:
                    pass
            elif number == self._pidfd.number and not self.gone():
                self._pidfd.forget()  # the number is another file's by now

    def _end(self) -> None:
        """The signal, then SIGKILL. A fork in between stops this thread; it goes on from the deadline."""
        now = time.monotonic()
        if not self._deadline:
            self._deadline = now + self.grace
            os.kill(self._pid, self.signum)
        elif now < self._deadline:
            self._wait(min(self._deadline - now, _NUDGE_EVERY))
            self._nudge()
        else:
            os.kill(self._pid, _signal.SIGKILL)
            os._exit(128 + _signal.SIGKILL)  # the first process of a container is not killed by itself

    def _nudge(self) -> None:
        """Makes the main thread look whether a handler of the host's is due.

        CPython does not see a signal that lands between the release of the GIL and the system call that
        it was released for, or in another thread than the main one, until that call returns: a server
        that waits for a minute sleeps on (seen in 1 of 8 runs on a loaded machine). The same signal
        again would be a second request to the host, which many take for "at once".
        """
        if self._main:
            try:
                _signal.pthread_kill(self._main, _NUDGE)
            except OSError:
                pass


def _nudged(signum: int, frame: object) -> None:
    pass


class _Descriptor:
    """A descriptor whose number the host may have closed, and used for a file of its own."""

    __slots__ = ("_identity", "number")

    def __init__(self) -> None:
        self.number = -1
        self._identity: object = None

    def take(self, number: int) -> None:
        self.number = number
        self._identity = self._look()

    def _look(self) -> object:
        try:
            found = os.fstat(self.number)
        except OSError:
            return None
        return found.st_dev, found.st_ino, found.st_mode

    def ours(self) -> bool:
        return self.number >= 0 and self._identity is not None and self._look() == self._identity

    def forget(self) -> None:
        self.number = -1

    def close(self) -> None:
        if self.ours():
            os.close(self.number)
        self.forget()


def _start_of(pid: int) -> int:
    """When a process started, in clock ticks since boot; 0 where there is none, or only its remains."""
    try:
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        fields = os.read(descriptor, 4096).rpartition(b")")[2].split()
    except OSError:
        return 0
    finally:
        os.close(descriptor)
    return 0 if fields[0] in (b"Z", b"X") else int(fields[19])


def _parent() -> int:
    """Whose child this is: the process that asked for it, which is not the one that forked it under a fork server."""
    real = os.getppid()
    process = sys.modules.get("multiprocessing.process")
    told = process.parent_process() if process is not None else None
    if told is None or told.pid == real:
        return real
    if "multiprocessing.forkserver" in " ".join(getattr(sys, "orig_argv", ())):
        return int(told.pid)
    # Either that one has ended, and we were given to another; or this is a child that was forked by hand
    # in a child of multiprocessing, whose parent is the one it has.
    return real if _start_of(told.pid) else int(told.pid)


_watch: "ParentWatch | None" = None


def die_with_parent(
    parent: "int | None" = None, grace: float = 10.0, signum: int = _signal.SIGTERM
) -> "ParentWatch | None":
    """This process ends when its parent has: by a signal, and by SIGKILL where it does not go by that.

    To be called in each process that must not be left behind; a child that this one forks is not watched
    until it says so itself. Starts one thread, which takes no signal and is not there during a fork.
    Called again it changes what is watched and how.

    Args:
        parent: whose end counts: a pid that was handed down. If not given, the process that started this
            one: the caller of ``start()`` for a child of multiprocessing, also under a fork server; else
            the parent that the process has now. A parent that had ended before the call cannot be
            told from that one, unless its pid is given, or multiprocessing knows it.
        grace: seconds from the signal to SIGKILL.
        signum: the signal; SIGTERM if not given.

    Returns what undoes it, ``watch.cancel()``. None where there is no parent to be seen: process 1 of a
    container, or a parent outside it.

    Raises:
        ValueError: ``parent`` is no pid of another process, or ``grace`` no time from 0 to 3600 seconds.
        OSError, RuntimeError: the system gives no descriptor or no thread; nothing is watched then.
    """
    global _watch
    if isinstance(grace, bool) or not isinstance(grace, (int, float)) or not 0 <= grace <= _LONGEST_GRACE:
        raise ValueError(f"grace: seconds from 0 to 3600, as in 10 (given {grace!r})")
    if signum not in _signal.valid_signals():
        raise ValueError(f"signum: a signal, as signal.SIGTERM (given {signum!r})")
    if parent is None:
        parent = _parent()
        if parent == 0:
            return None
    elif isinstance(parent, bool) or not isinstance(parent, int) or parent < 1 or parent == os.getpid():
        raise ValueError(
            f"parent: the pid of another process, as os.getpid() says it there (given {parent!r})"
        )
    if _watch is not None:
        _watch.cancel()
    watch = ParentWatch(parent, float(grace), signum)
    try:
        watch.begin()
    except (OSError, RuntimeError):
        watch.cancel()
        raise
    _watch = watch
    return watch
