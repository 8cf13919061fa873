"""Windows in which one thread of a process alone is hot (C6), from scheduler samples.

A pass of the collector looks like that from outside: its thread computes, every other waits. So does
any long stretch of Python or C that holds the GIL, and any program of one busy thread: what is found
is a *suspect*, never a pass.
"""

from bisect import bisect_left
from typing import NamedTuple

#: Length of the sliding window, ns; the hot thread's least and the others' most share of it.
WINDOW = 50_000_000
HOT = 0.8
COLD = 0.1
#: Before a suspect: how far back a thread's usual activity is looked at, ns, and what counts as active.
BEFORE = 300_000_000
ACTIVE = 0.02
#: A thread that waits for the GIL wakes after this long to ask for it (sys.getswitchinterval), ns.
GIL_WAIT = 5_000_000
_LIKE_GIL = 0.4
#: Who wakes more often than this many times as often does not wait for it: it has work of its own.
_MOST_TURNS = 2.0
#: A suspect that lasts longer than this is told in pieces, so that memory stays bounded, ns.
LONGEST = 60_000_000_000


class Waiter(NamedTuple):
    """A thread that did not run in a suspect, and by what it seems to have waited."""

    tid: int
    #: ``gil``: woke again and again for next to nothing, which it did not before; ``queue``: runnable,
    #: and without a CPU;
    #: ``still``: active before, and asleep all along.
    how: str
    #: Times it was given a CPU in the suspect.
    woke: int
    #: ns in the run queue.
    queued: int


class Suspect(NamedTuple):
    """One thread alone was hot from start to stop (monotonic ns)."""

    tid: int
    start: int
    stop: int
    #: The longest time between two looks at its thread near the edges: they may be off by it.
    blur: int
    #: Share of it that its thread was on a CPU.
    share: float
    waiters: tuple[Waiter, ...]

    @property
    def length(self) -> int:
        return self.stop - self.start


class Track:
    """Samples of one thread. Sums in ns, but for the times that it was given a CPU."""

    __slots__ = ("changed", "cpu", "queue", "slices", "time")

    def __init__(self) -> None:
        self.time: list[int] = []
        self.cpu: list[int] = []
        self.queue: list[int] = []
        self.slices: list[int] = []
        #: When it was last seen to have run.
        self.changed = 0

    def add(self, at: int, cpu: int, queue: int, slices: int) -> None:
        if self.cpu and (cpu != self.cpu[-1] or slices != self.slices[-1]):
            self.changed = at
        self.time.append(at)
        self.cpu.append(cpu)
        self.queue.append(queue)
        self.slices.append(slices)

    def at(self, values: list[int], when: int) -> float:
        """A sum at an instant, as a straight line between two samples."""
        time = self.time
        i = bisect_left(time, when)
        if i == 0:
            return values[0] if values else 0.0
        if i == len(time):
            return values[-1]
        part = (when - time[i - 1]) / (time[i] - time[i - 1])
        return values[i - 1] + part * (values[i] - values[i - 1])

    def ran(self, start: int, stop: int) -> float:
        """ns on a CPU from start to stop."""
        if stop <= start or self.changed <= start:
            return 0.0
        return self.at(self.cpu, stop) - self.at(self.cpu, start)

    def forget(self, before: int) -> None:
        """Drops samples older than an instant, all but the last of them."""
        i = bisect_left(self.time, before) - 1
        if i > 256:
            for values in (self.time, self.cpu, self.queue, self.slices):
                del values[:i]


class Solo:
    """Finds the suspects of one process as its samples come."""

    def __init__(self) -> None:
        self.threads: dict[int, Track] = {}
        self._ends: list[int] = []
        #: The open one: thread, begin of its first window, end of its last.
        self._open: tuple[int, int, int] | None = None
        #: Closed, and waiting for what comes after them.
        self._closed: list[tuple[int, int, int]] = []
        self._gone: dict[int, Track] = {}

    def sample(self, tid: int, at: int, cpu: int, queue: int, slices: int) -> None:
        """What /proc/PID/task/TID/schedstat said at an instant."""
        track = self.threads.get(tid)
        if track is None:
            track = self.threads[tid] = Track()
        track.add(at, cpu, queue, slices)

    def ended(self, tid: int) -> None:
        """The thread has gone; what it did stays in the windows that it was in."""
        track = self.threads.pop(tid, None)
        if track is not None and track.time:
            self._gone[tid] = track

    def tick(self, at: int) -> list[Suspect]:
        """A round of samples is over; returns the suspects that are now known whole."""
        self._ends.append(at)
        # A thread that sleeps is looked at less often: of the time since its last look nothing is known.
        known = min((track.time[-1] for track in self.threads.values() if track.time), default=at)
        found: list[Suspect] = []
        done = 0
        for end in self._ends:
            if end > known:
                break
            done += 1
            self._judge(end)
            found += self._told(end)
        del self._ends[:done]
        self._forget(known)
        return found

    def finish(self) -> list[Suspect]:
        """The last ones, with what is known of their ends."""
        if self._open is not None:
            self._closed.append(self._open)
            self._open = None
        return self._told(1 << 62)

    def _all(self) -> list[tuple[int, Track]]:
        return [*self.threads.items(), *self._gone.items()]

    def _judge(self, end: int) -> None:
        start = end - WINDOW
        hot = 0
        for tid, track in self._all():
            ran = track.ran(start, end)
            if ran >= HOT * WINDOW:
                if hot or track.time[0] > start:
                    hot = -1
                    break
                hot = tid
            elif ran > COLD * WINDOW:
                hot = -1
                break
        open_ = self._open
        if open_ is not None and (hot != open_[0] or end - open_[1] > LONGEST):
            self._closed.append(open_)
            open_ = self._open = None
        if hot > 0:
            self._open = (hot, start if open_ is None else open_[1], end)

    def _told(self, now: int) -> list[Suspect]:
        ready = [one for one in self._closed if one[2] + WINDOW <= now]
        self._closed = [one for one in self._closed if one[2] + WINDOW > now]
        return [self._suspect(*one) for one in ready]

    def _suspect(self, tid: int, first: int, last: int) -> Suspect:
        start = first + self._into(tid, first, first + WINDOW, first - WINDOW, first)
        stop = last - self._into(tid, last - WINDOW, last, last, last + WINDOW)
        stop = max(stop, start + 1)
        track = self.threads.get(tid) or self._gone.get(tid) or Track()
        near = [
            b - a
            for a, b in zip(track.time, track.time[1:], strict=False)
            if abs(a - start) < WINDOW or abs(b - stop) < WINDOW
        ]
        waiters = [self._waiter(other, of, start, stop) for other, of in self._all() if other != tid]
        return Suspect(
            tid=tid,
            start=start,
            stop=stop,
            blur=max(near, default=WINDOW),
            share=min(1.0, track.ran(start, stop) / (stop - start)),
            waiters=tuple(one for one in waiters if one is not None),
        )

    def _into(self, tid: int, low: int, high: int, outside_low: int, outside_high: int) -> int:
        """How far from its outer edge a window at the rim is not yet the suspect, ns.

        Its thread ran at its usual rate p up to the edge and all the time after it, so of a window of
        length w it ran p*x + (w - x); the others ran at their usual rate q for x, and then no more.
        Each gives an x; the later one counts.
        """
        length = high - low
        outside = max(1, outside_high - outside_low)
        hot = self.threads.get(tid) or self._gone.get(tid) or Track()
        usual = hot.ran(outside_low, outside_high) / outside
        x = 0.0
        if usual < 0.7:
            x = (length - hot.ran(low, high)) / (1 - usual)
        others = [track for other, track in self._all() if other != tid]
        busy = sum(track.ran(outside_low, outside_high) for track in others) / outside
        if busy > 0.2:
            x = max(x, sum(track.ran(low, high) for track in others) / busy)
        return int(min(max(x, 0.0), length / 2))

    def _waiter(self, tid: int, track: Track, start: int, stop: int) -> "Waiter | None":
        if not track.time or track.time[-1] < start:
            return None
        woke = round(track.at(track.slices, stop) - track.at(track.slices, start))
        queued = int(track.at(track.queue, stop) - track.at(track.queue, start))
        turns = (stop - start) / GIL_WAIT
        how = ""
        if 2 * queued >= stop - start:
            how = "queue"
        elif max(2.0, _LIKE_GIL * turns) <= woke <= 2 + _MOST_TURNS * turns and not self._by_a_clock(
            track, start, woke / (stop - start)
        ):
            how = "gil"
        elif track.ran(start - BEFORE, start) >= ACTIVE * BEFORE:
            how = "still"
        return Waiter(tid, how, woke, queued) if how else None

    @staticmethod
    def _by_a_clock(track: Track, start: int, rate: float) -> bool:
        """It woke about as often before, for as little: a loop with a timer of its own (seen: those of gloo
        and ZeroMQ, in C++, which never ask for the GIL)."""
        low = max(start - BEFORE, track.time[0])
        if start <= low:
            return False
        woke = track.at(track.slices, start) - track.at(track.slices, low)
        idle = track.ran(low, start) < ACTIVE * (start - low)
        return idle and woke / (start - low) >= rate / 2

    def _forget(self, known: int) -> None:
        needed = min([known, *(one[1] for one in self._closed), *((self._open or (0, known))[1:2])])
        before = needed - BEFORE - 2 * WINDOW
        for track in self.threads.values():
            track.forget(before)
        for tid in [tid for tid, track in self._gone.items() if track.time[-1] < before]:
            del self._gone[tid]
