"""Threads of ours in the host's process: no signal is theirs, and at a fork none is running.

A thread in a process that forks makes CPython 3.12+ warn at each fork, and what it held is held for
ever in the child. So each is stopped and waited for before a fork, until the kernel has forgotten it,
and started again behind it.
"""

import _signal  # type: ignore[import-not-found]
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: Seconds for which a fork, or the interpreter's exit, waits for a thread that does not come back:
#: it is inside the host's code (a logging handler that blocks). Waited for once per such stay.
PATIENCE = 1.0


def original(module: str, name: str) -> "Any":
    """The interpreter's own function, also where gevent has put one of its own in the place."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is not None:
        return monkey.get_original(module, name)
    return getattr(__import__(module), name)


class Worker:
    """A thread that is there only between forks.

    Args:
        run: the thread's work. It must return soon after ``wake`` once ``stopping`` is True.
        wake: makes ``run`` look at ``stopping``; must not block or raise.
        name: shown by ``threading`` where the host's code runs in the thread.
        in_children: called in a forked child, where the thread does not exist.
    """

    def __init__(
        self,
        run: "Callable[[], object]",
        wake: "Callable[[], object]",
        name: str,
        in_children: "Callable[[], object]",
    ) -> None:
        self.stopping = True
        self.wanted = False
        self.ident = 0
        self._native = 0
        self._run = run
        self._wake = wake
        self._name = name
        self._in_children = in_children
        #: Held by the thread while it runs; None while there is none.
        self._running: Any = None
        self._stuck = False

    def start(self) -> None:
        """Starts the thread, or lets a stopping one go on.

        Raises:
            RuntimeError: the system gives no thread.
        """
        _watch_forks()
        if _state.pid != os.getpid():
            _after_fork_in_child()  # forked by C code, which runs no at-fork function
        with _state.lock:
            self.wanted = True
            if self not in _state.workers:
                _state.workers.append(self)
            if _state.forking:
                return  # the fork starts it
            self.stopping = False
            if self._running is None:
                self._launch()

    def _launch(self) -> None:
        running = original("_thread", "allocate_lock")()
        running.acquire()
        mask = _signal.pthread_sigmask
        # A thread with unblocked signals takes the SIGTERM that a host waits for with sigwait.
        before = mask(_signal.SIG_BLOCK, _signal.valid_signals())
        try:
            original("_thread", "start_new_thread")(self._main, (running,))
        finally:
            mask(_signal.SIG_SETMASK, before)
        self._running = running

    def _main(self, running: "Any") -> None:
        self.ident = original("_thread", "get_ident")()
        self._native = original("_thread", "get_native_id")()
        _say_name(self._name)
        try:
            while True:
                try:
                    self._run()
                except BaseException:
                    pass  # a thread that ends by an error prints it into the host's output
                with _state.lock:
                    if not self.mine():
                        return  # the host's code has forked in here: this is the child's main thread
                    if self.stopping:
                        self._running = None
                        self._stuck = False
                        self.ident = 0
                        return
        finally:
            _forget_name()
            running.release()

    def stop(self) -> bool:
        """Stops the thread and waits until the kernel has forgotten it. False if it does not come back."""
        with _state.lock:
            self.wanted = False
            if self in _state.workers:
                _state.workers.remove(self)
        return self.pause()

    def pause(self) -> bool:
        """As ``stop``, to be started again."""
        with _state.lock:
            self.stopping = True
            running = self._running
            if running is not None and (self._stuck or self.mine()):
                return False
        if running is not None:
            self._wake()
            if not running.acquire(True, PATIENCE):
                self._stuck = True
                return False
            running.release()  # another thread may wait for it too
        _until_forgotten(self._native)
        return True

    def mine(self) -> bool:
        """Whether the caller runs in this thread. False in a child that the thread has forked."""
        return bool(self.ident == original("_thread", "get_ident")())

    def in_child(self) -> None:
        """After a fork the thread is gone, and with it whatever it held."""
        self._running = None
        self._stuck = False
        self.stopping = True
        self.ident = self._native = 0
        self._in_children()


class _State:
    def __init__(self) -> None:
        self.workers: list[Worker] = []
        self.renew()
        self.watched = False

    def renew(self) -> None:
        # Re-entrant, since a signal handler or a finalizer may start a thread of ours while we hold it.
        self.lock: Any = original("_thread", "RLock")()
        #: Forks under way, in any thread.
        self.forking = 0
        self.pid = os.getpid()


_state = _State()


def _until_forgotten(native: int) -> None:
    """A thread that has run its last bytecode is still counted by the kernel for some microseconds."""
    path = f"/proc/self/task/{native}"
    if not native or not os.path.exists(path):
        return
    nothing = original("_thread", "allocate_lock")()
    nothing.acquire()
    for _ in range(int(PATIENCE / 0.0002)):
        if not os.path.exists(path):
            return
        nothing.acquire(True, 0.0002)


def _before_fork() -> None:
    with _state.lock:
        _state.forking += 1
        workers = list(_state.workers)
    for worker in workers:
        worker.pause()


def _after_fork_in_parent() -> None:
    with _state.lock:
        _state.forking -= 1
        if _state.forking:
            return
        workers = list(_state.workers)
    for worker in workers:
        try:
            worker.start()
        except RuntimeError:
            pass  # no thread to be had just now: the next fork, or the host's next call, tries again


def _after_fork_in_child() -> None:
    _state.renew()
    for worker in list(_state.workers):
        worker.in_child()


def _watch_forks() -> None:
    if not _state.watched:
        _state.watched = True
        os.register_at_fork(
            before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
        )


def _say_name(name: str) -> None:
    """A name for the host's code that asks ``threading`` who it runs in; nothing where that is not loaded."""
    threading = sys.modules.get("threading")
    if threading is not None:
        try:
            threading.current_thread().name = name
        except Exception:
            pass


def _forget_name() -> None:
    """Before 3.12 ``threading`` keeps its entry for a thread that it did not start."""
    threading = sys.modules.get("threading")
    active = getattr(threading, "_active", None)
    if isinstance(active, dict):
        active.pop(original("_thread", "get_ident")(), None)
