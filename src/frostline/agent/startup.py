"""Tells of each import when it begins and ends, with the collector's count (row B12).

Loaded only where it was asked for (``frostline startup``), and the only thing here that stands in for a
function of the import system: ``_load_unlocked``, which every first import of a module goes through on
CPython 3.10 to 3.15. It runs when the module has been found, so looking for it counts for the importer.

Each event is one line, written at once: nothing is kept, and a killed process has told all that it did.
"""

import _thread
import atexit
import gc
import os
import sys
import time

from frostline.agent.lines import Lines
from frostline.format import startup as layout
from frostline.probe.callback import is_ours

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from frostline.probe.recorder import Recorder

#: Of the time, at most one part in this many goes into counting what is tracked.
_SELDOM = 64
#: Whose frames the import system leaves out of tracebacks, and ``warnings`` out of its levels.
_AS_IMPORTLIB = "<frozen importlib._bootstrap>"


class Teller:
    """The file of one interpreter of one process; in a forked child a new one is opened."""

    __slots__ = ("_counts", "_depth", "_left", "_lines", "_not_before", "_recorder", "_thread")

    def __init__(self, recorder: "Recorder", counts: "Callable[[], tuple[int, int, int]]") -> None:
        self._recorder = recorder
        self._counts = counts
        self._lines = Lines()
        self._left = layout.MOST
        #: The thread that started us, and how many imports are open in it.
        self._thread = 0
        self._depth = 0
        self._not_before = 0
        self.open()

    def open(self) -> None:
        """Opens the file of the series that is being recorded; after a failure nothing is told."""
        self._lines.close()
        self._left = 0
        series = self._recorder.series
        if series is None:
            return
        self._thread = _thread.get_ident()
        self._depth = 0
        name = layout.file_name(series.pid, series.series, series.interpreter)
        head = f"{layout.MAGIC} {layout.VERSION} {series.pid} {series.series} {series.interpreter}"
        self._lines.open(f"{self._recorder.session}/{name}", f"{head} {self._thread}")
        self._left = layout.MOST

    def in_child(self) -> None:
        """After a fork: the parent's file is the parent's."""
        try:
            self.open()
        except Exception as error:
            self._failed(error)

    def tell(self, what: str, name: object = "") -> None:
        """Writes one event; what goes wrong ends the telling and nothing else."""
        # The byte reads 0 when recording has ended, and in a child that C code forked.
        if not self._left or not self._recorder.alive[0]:
            return
        try:
            counts, clock = self._counts, time.monotonic_ns
            while True:
                # A pass between the two would make a count of after it look as if it were from before.
                count = counts()[0]
                now = clock()
                if counts()[0] >= count:
                    break
            thread = _thread.get_ident()
            self._write(f"{what} {now} {thread} {count} {name}")
            if thread == self._thread:
                self._depth += 1 if what == "B" else -1
                if self._depth <= 0 and now >= self._not_before:
                    self._count()
        except Exception as error:
            self._failed(error)

    def finish(self) -> None:
        """At the interpreter's exit."""
        try:
            if self._left and self._recorder.alive[0]:
                self._count()
        except Exception as error:
            self._failed(error)

    def _count(self) -> None:
        """What is tracked, counted: the sum of what imports added is only an upper bound."""
        begun = time.thread_time_ns()  # what the thread waits for a CPU is no cost of counting
        # 3.12 has frozen some before any program runs; what was there at the attach is counted without them.
        frozen = max(0, gc.get_freeze_count() - self._recorder.frozen_at_attach)
        objects = len(gc.get_objects()) + frozen
        cost, now = time.thread_time_ns() - begun, time.monotonic_ns()
        self._not_before = now + _SELDOM * cost
        self._write(f"C {now} {_thread.get_ident()} {objects} ")

    def _write(self, line: str) -> None:
        self._left = self._left - 1 if self._lines.write(line.replace("\n", "?")) else 0

    def _failed(self, error: Exception) -> None:
        if not is_ours(error):
            raise error  # a signal handler of the host's raised while we ran: a time limit
        if not isinstance(error, RecursionError):
            self._left = 0


def start(recorder: "Recorder") -> None:
    """Begins to tell of imports. Where this interpreter has no such function, nothing is done."""
    bootstrap: "Any" = sys.modules.get("_frozen_importlib")
    real = getattr(bootstrap, "_load_unlocked", None)
    if real is None or not recorder.recording:
        return
    teller = Teller(recorder, gc.get_count)
    bootstrap._load_unlocked = _in_front_of(real, teller)
    os.register_at_fork(after_in_child=teller.in_child)
    atexit.register(teller.finish)


def _in_front_of(real: "Callable[[Any], Any]", teller: Teller) -> "Callable[[Any], Any]":
    tell = teller.tell

    def _load_unlocked(spec: "Any") -> "Any":
        tell("B", getattr(spec, "name", "?"))
        try:
            return real(spec)
        finally:
            tell("E")

    # What reads frames takes this one for the import system's, as the one that it stands for is.
    _load_unlocked.__code__ = _load_unlocked.__code__.replace(co_filename=_AS_IMPORTLIB)
    return _load_unlocked
