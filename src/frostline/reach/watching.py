"""Reads the collector's own two numbers in every recorded process, and keeps what is worth it (D4).

A thread of the helper. The numbers change at passes of the older generations only, and what they are just
before a full pass is what is wanted. So each process is looked at rarely while its full pass is far, and
as often as its young passes come when it is near. All looks together take a fiftieth of a core at most.
"""

import contextlib
import os
import struct
import threading
import time
from typing import Any, NamedTuple

from frostline.format import counts as layout
from frostline.reach import proc, segments
from frostline.reach.counters import Counters, Memory, Refused, find

#: ns between two looks at one process.
SHORTEST, LONGEST = 1_000_000, 100_000_000
#: Until something is known of its passes.
_FIRST = 20_000_000
#: gen-1 passes before the full one from which on each young pass is waited for.
_NEAR = 2
#: ns between two looks while a pass runs, at most.
_INSIDE = 16_000_000
#: A fiftieth of a core; and ns that it may be ahead of that: near a full pass there is much to look at.
_SHARE, _AHEAD = 50, 2_000_000_000
#: Two files of this size are kept of one run: 600,000 readings.
LARGEST = 16 << 20
_BUFFER = 4096
#: ns after which what was read is written, at the latest.
_WRITE = 1_000_000_000
_TRIES = 3
#: Processes named that refuse it: the reason is the same for most.
_SAID = 4
_RECORD = struct.Struct(layout.RECORD)


class Wanted(NamedTuple):
    """A process that is recorded."""

    pid: int
    #: In its own pid namespace.
    number: int
    start_ticks: int
    #: Its first segment, whose header tells the version.
    segment: str


class _Watched:
    """One program of one process."""

    __slots__ = ("due", "each", "gap", "inside", "last", "memory", "tries", "wanted", "why")

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.memory: Memory | None = None
        self.tries = 0
        self.why = ""
        self.due = self.inside = 0
        self.last: Counters | None = None
        #: What a gen-1 pass leaves, and ns from one to the next; 0 while unknown.
        self.each = 0.0
        self.gap = 0.0

    def learn(self, now: Counters) -> bool:
        """Takes a reading in; True if it says something new."""
        last, self.last = self.last, now
        if last is None or last.state != now.state:
            if last is not None and last.total == now.total and now.counts[2] > last.counts[2]:
                passes = now.counts[2] - last.counts[2]
                if now.pending >= last.pending:
                    self.each = _mixed(self.each, (now.pending - last.pending) / passes)
                self.gap = _mixed(self.gap, (now.before - last.before) / passes)
            return True
        self.last = last  # the earlier of two readings of one state tells more
        return False


def _mixed(before: float, now: float) -> float:
    return (before + now) / 2 if before else now


def pause(now: Counters, each: float, gap: float) -> int:
    """ns until the next look.

    Args:
        now: the last reading.
        each: objects that a gen-1 pass leaves, 0 if unknown.
        gap: ns from one gen-1 pass to the next, 0 if unknown.
    """
    if not gap:
        return _FIRST
    by_count = now.thresholds[2] + 1 - now.counts[2]
    lacking = now.total // 4 - now.pending
    by_quarter = lacking / each if each > 0 else 0.0 if lacking <= 0 else float(_NEAR)
    left = max(by_count, by_quarter)
    wait = (left - _NEAR + 1) * gap / 3 if left > _NEAR else gap / (now.thresholds[1] + 2)
    return int(min(max(wait, SHORTEST), LONGEST))


class Watch:
    """The thread and its files. Started by the first process that can be read; ended by ``stop``."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._wanted: list[Wanted] = []
        self._watched: dict[Wanted, _Watched] = {}
        # Taken by the thread with a time limit, which costs less than an event; given back to wake it.
        self._wake = threading.Lock()
        self._wake.acquire()
        self._new = self._ending = False
        self._thread: threading.Thread | None = None
        self._buffer = bytearray()
        self._written = 0
        self._paths: list[str] = []
        self._size = 0
        self.readings = 0
        #: pid -> why it cannot be read.
        self.refused: dict[int, str] = {}

    def follow(self, wanted: list[Wanted]) -> None:
        """Whom to read from now on. From the helper's own thread."""
        if wanted == self._wanted:
            return
        self._wanted = wanted
        if self._thread is None and wanted:
            self._thread = threading.Thread(target=self._run, name="counters", daemon=True)
            self._thread.start()
        self._new = True
        self._rouse()

    def as_json(self) -> dict[str, Any]:
        """The entry in helper-*.json."""
        refused = [
            f"the collector's counters of pid {p} cannot be read: {why}" for p, why in self.refused.items()
        ]
        return {"readings": self.readings, "refused": refused[:_SAID]}

    def stop(self) -> None:
        """Writes what is left."""
        self._ending = True
        self._rouse()
        if self._thread is not None:
            self._thread.join(1.0)

    def _rouse(self) -> None:
        with contextlib.suppress(RuntimeError):  # it is awake
            self._wake.release()

    # --- in the thread ----------------------------------------------------------------
    def _run(self) -> None:
        try:
            begun = time.monotonic_ns()
            while not self._ending:
                due = self._round()
                now = time.monotonic_ns()
                over = _SHARE * time.thread_time_ns() - (now - begun) - _AHEAD
                self._wake.acquire(timeout=max(due - now, over, SHORTEST) / 1e9)
        except Exception as error:
            # Nobody depends on it: forecasts rest on the record alone then.
            self.refused[0] = f"the reader failed: {type(error).__name__}: {error}"
        self._flush()
        for one in self._watched.values():
            if one.memory is not None:
                one.memory.close()

    def _round(self) -> int:
        """Looks at everyone who is due; returns when the next is, monotonic ns."""
        if self._new:
            self._new = False
            self._renew()
        now = time.monotonic_ns()
        for one in self._watched.values():
            if one.due <= now:
                self._look(one, now)
        if self._buffer and (len(self._buffer) >= _BUFFER or now - self._written > _WRITE):
            self._flush()
        return min((one.due for one in self._watched.values()), default=now + LONGEST)

    def _renew(self) -> None:
        wanted = set(self._wanted)
        for gone in [one for one in self._watched if one not in wanted]:
            memory = self._watched.pop(gone).memory
            if memory is not None:
                memory.close()
        for new in wanted - self._watched.keys():
            self._watched[new] = _Watched(new)

    def _look(self, one: _Watched, now: int) -> None:
        one.due = now + LONGEST
        try:
            if one.memory is None:
                if one.tries >= _TRIES:
                    one.due = now + (1 << 62)
                    about = proc.stat(one.wanted.pid)
                    if about is not None and about.alive:  # not one that has just ended
                        self.refused[one.wanted.number] = one.why
                    return
                one.tries += 1
                header = segments.read_header(one.wanted.segment)
                if header is None:
                    raise Refused("its recording cannot be read")
                one.memory = find(one.wanted.pid, header.hexversion, header.build)
                one.last = None
            found = one.memory.read()
        except Refused as error:
            one.why = str(error)
            if one.memory is not None:
                one.memory.close()
                one.memory = None
            return
        one.tries = 0
        if found is None:  # inside a pass: a young one is short, a full one may be long
            one.inside = min(2 * one.inside or SHORTEST, _INSIDE)
            one.due = now + one.inside
            return
        one.inside = 0
        if one.learn(found):
            self._keep(one.wanted, found)
        one.due = time.monotonic_ns() + pause(found, one.each, one.gap)

    # --- the file ---------------------------------------------------------------------
    def _keep(self, wanted: Wanted, found: Counters) -> None:
        self.readings += 1
        self._buffer += _RECORD.pack(
            found.before,
            found.after,
            wanted.start_ticks,
            wanted.number,
            *found.counts,
            found.total,
            found.pending,
        )

    def _flush(self) -> None:
        """A full disk costs readings, nothing else."""
        self._written = time.monotonic_ns()
        data = bytes(self._buffer)
        self._buffer.clear()
        if not data:
            return
        with contextlib.suppress(OSError):
            if not self._paths or self._size > LARGEST:
                self._next_file()
            self._append(data)

    def _append(self, data: bytes, new: int = 0) -> None:
        """Opened for each write: nothing is kept open, and the file system can be unmounted."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | new
        descriptor = os.open(self._paths[-1], flags, 0o600)
        try:
            self._size += os.write(descriptor, data)
        finally:
            os.close(descriptor)

    def _next_file(self) -> None:
        """Only the last two stay: a server may run for months."""
        name = f"{layout.PREFIX}{os.getpid()}-{time.monotonic_ns()}{layout.SUFFIX}"
        self._paths.append(os.path.join(self._session, name))
        self._size = 0
        self._append(layout.MAGIC, os.O_CREAT | os.O_EXCL)
        while len(self._paths) > 2:
            with contextlib.suppress(OSError):
                os.unlink(self._paths.pop(0))
