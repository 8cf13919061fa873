"""The pause log (C2): a WARNING for each pass at or over a threshold, written by a thread of ours.

The callback writes numbers into a ring that is there from the start. It takes no lock, logs nothing
and makes nothing that the collector tracks; the thread reads the ring and logs. It works with and
without a recording.
"""

import _thread
import atexit
import gc
import os
import time

from frostline.embed.threads import Worker, original

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from logging import Logger

#: Passes that may wait for the thread. A ring that is full loses the oldest, and the log says how many.
CAPACITY = 256
_FIELDS = 4
#: The longest threshold, an hour: what is over it is a mistake of the unit.
LONGEST_MS = 3_600_000.0
#: A line that comes later than this many seconds after the pass says so.
_LATE = 1.0


class PauseLog:
    """What ``frostline.pause_log`` returns. The counts are of this process.

    Attributes:
        threshold_ms: passes from here on are logged.
        passes: passes seen since the log was installed (in a forked child: since the fork).
        over: those of them at or over the threshold.
        lost: those that were over it and are not in the log, because the logging was slower.
        own: passes over it that ran in the log's own thread, inside a handler; they are not logged,
            or a handler that collects would log for ever.
    """

    def __init__(self, threshold_ms: float, logger: "Logger") -> None:
        self.threshold_ms = threshold_ms
        self.logger = logger
        self.lost = 0
        self.own = 0
        self._tail = 0
        self._own_told = 0
        self.worker = Worker(self._drain, self._wake, "frostline pause log", self._in_child)
        self._make()

    @property
    def passes(self) -> int:
        return self._counts()[0]

    @property
    def over(self) -> int:
        return self._counts()[1] + self.own

    @property
    def longest_ms(self) -> float:
        """The longest pass seen, over the threshold or not, in milliseconds."""
        return self._counts()[2] / 1e6

    def stop(self) -> None:
        """Takes the callback out, logs what is left and ends the thread. The counts stay readable."""
        global _installed
        if _installed is self:
            _installed = None
        if self.callback in gc.callbacks:
            gc.callbacks.remove(self.callback)
        self.worker.stop()

    def _make(self) -> None:
        """The callback and its ring; made anew in a forked child, whose wake-up lock is of unknown state."""
        clock = time.monotonic_ns
        get_ident = original("_thread", "get_ident")
        interrupt_main = _thread.interrupt_main
        wake = original("_thread", "allocate_lock")()
        wake.acquire()
        release = wake.release
        ring = memoryview(bytearray(CAPACITY * _FIELDS * 8)).cast("q")
        worker = self.worker
        threshold = int(self.threshold_ms * 1e6)
        start = passes = head = longest = 0
        log = self

        def on_pass(phase: str, info: "dict[str, int]") -> None:
            nonlocal start, passes, longest
            try:
                if phase == "start":
                    start = clock()
                elif start:
                    stop = clock()
                    took = stop - start
                    start = 0
                    passes += 1
                    if took > longest:
                        longest = took
                    if took >= threshold:
                        over(stop, took, info)
            except RecursionError:
                start = 0  # near the limit any call fails: the host sees what an empty callback shows
            except KeyboardInterrupt:
                start = 0
                interrupt_main()  # Ctrl-C arrived while we ran: the interpreter would swallow it here

        def over(stop: int, took: int, info: "dict[str, int]") -> None:
            nonlocal head
            if get_ident() == worker.ident:
                log.own += 1
                return
            at = head % CAPACITY * _FIELDS
            ring[at] = took
            ring[at + 1] = info["generation"]
            ring[at + 2] = info["collected"]
            ring[at + 3] = stop
            head += 1
            try:
                release()
            except RuntimeError:
                pass  # the thread has been woken already

        def counts() -> "tuple[int, int, int]":
            return passes, head, longest

        def set_threshold(nanoseconds: int) -> None:
            nonlocal threshold
            threshold = nanoseconds

        self._ring = ring
        self._wait: Callable[[], object] = wake.acquire
        self._release: Callable[[], None] = release
        self._counts: Callable[[], tuple[int, int, int]] = counts
        self._set_threshold: Callable[[int], None] = set_threshold
        self.callback: Callable[[str, dict[str, int]], None] = on_pass
        self.pid = os.getpid()

    def use(self, threshold_ms: float, logger: "Logger") -> None:
        """Changes what is logged and where."""
        self.threshold_ms = threshold_ms
        self.logger = logger
        self._set_threshold(int(threshold_ms * 1e6))

    def begin(self) -> None:
        """Puts the callback in and starts the thread, where they are not."""
        if self.pid != os.getpid():
            self._renew()  # forked by C code, which runs no at-fork function: found when the host calls us next
        if self.callback not in gc.callbacks:
            gc.callbacks.append(self.callback)
        self.worker.start()

    def _wake(self) -> None:
        try:
            self._release()
        except RuntimeError:
            pass

    def _in_child(self) -> None:
        """The child's own numbers and thread. What the parent has not logged yet, the parent logs."""
        if self.pid != os.getpid():
            self._renew()
        try:
            self.begin()
        except RuntimeError:
            pass  # no thread to be had: the passes are counted

    def _renew(self) -> None:
        old = self.callback
        self.lost = self.own = self._tail = self._own_told = 0
        self._make()
        if old in gc.callbacks:
            gc.callbacks[gc.callbacks.index(old)] = self.callback

    # --- in the thread ---------------------------------------------------------------
    def _drain(self) -> None:
        worker = self.worker
        while True:
            while self._tail < self._counts()[1]:
                self._log_next()
                if not worker.mine():
                    return  # a handler has forked, and we are the child
                if worker.stopping and _installed is self:
                    return  # a fork waits for us: the rest is logged behind it
            if worker.stopping:
                return
            self._wait()

    def _log_next(self) -> None:
        ring = self._ring
        at = self._tail % CAPACITY * _FIELDS
        took, generation, reclaimed, stop = ring[at], ring[at + 1], ring[at + 2], ring[at + 3]
        # The callback may have come round while we read: then the slot holds a younger pass, or half of one.
        gone = self._counts()[1] - CAPACITY + 1 - self._tail
        if gone > 0:
            self.lost += gone
            self._tail += gone
            self._say(
                "%d passes over %g ms are missing here: the logging was slower than they came",
                gone,
                self.threshold_ms,
            )
            return
        self._tail += 1
        late = (time.monotonic_ns() - stop) / 1e9
        self._say(
            "garbage collection of generation %d stopped %s for %.1f ms and reclaimed %d objects%s%s"
            " (gc.callbacks, start to stop, monotonic clock)",
            generation,
            self._who(),
            took / 1e6,
            reclaimed,
            f", {late:.1f} s ago" if late > _LATE else "",
            self._in_handlers(),
        )

    def _who(self) -> str:
        from frostline.embed import names

        return names.process_name()

    def _in_handlers(self) -> str:
        new = self.own - self._own_told
        self._own_told = self.own
        return f"; {new} more ran inside this log's own handlers" if new else ""

    def _say(self, message: str, *values: object) -> None:
        try:
            self.logger.warning(message, *values)
        except BaseException:
            pass  # a handler of the host's that raises: its line is lost, the next is tried


_installed: "PauseLog | None" = None


def pause_log(threshold_ms: "float | str", logger: "Logger | str | None" = None) -> PauseLog:
    """Logs a WARNING for each pass of the collector at or over a threshold. Opt-in; starts one thread.

    Installing twice installs once: the second call changes threshold and logger. In a forked child the
    log goes on, with counts of its own; a spawned one is told by ``frostline.apply``, or calls this.

    Args:
        threshold_ms: milliseconds, over 0.
        logger: a logger or its name; ``"frostline"`` if not given.

    Raises:
        ValueError: the threshold is no number of milliseconds over 0 and up to an hour.
    """
    global _installed
    from frostline.embed.flags import milliseconds

    try:
        threshold = milliseconds(threshold_ms)
    except ValueError as error:
        raise ValueError(f"a threshold of the pause log: {error}") from None
    if not threshold:
        raise ValueError("a threshold of the pause log: over 0, as in 100; to stop the log call its stop()")
    import logging

    where = logging.getLogger(logger or "frostline") if logger is None or isinstance(logger, str) else logger
    if _installed is None:
        _installed = PauseLog(threshold, where)
        _at_exit()
    else:
        _installed.use(threshold, where)
    try:
        _installed.begin()
    except RuntimeError as error:
        where.warning("no pause log: %s", error)
    return _installed


_exit_watched = False


def _at_exit() -> None:
    global _exit_watched
    if not _exit_watched:
        _exit_watched = True
        atexit.register(_close)


def _close() -> None:
    if _installed is not None:
        _installed.stop()
