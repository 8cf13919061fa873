"""Why a step was slow that no pass explains, as far as the host's counters show (B13).

A step lies in a window of samples that is a little longer than it. What a counter grew by over that
window is exact; how much of it fell into the step is bounded by it: at least what cannot have fallen
beside the step, at most all of it. The estimate takes off, for the time beside the step, the usual
rate of that process. The kernel adds a thread's CPU time up at its ticks (1 to 10 ms), and a wait
for a CPU when it is over.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from frostline.analysis.hostmodel import HostCause
from frostline.analysis.intervals import union
from frostline.analysis.model import LongStep
from frostline.analysis.verdict import milliseconds as ms
from frostline.format import host as layout
from frostline.recording.host import HostLog, HostProcess, Track
from frostline.recording.layout import Int64

COLUMN = {name: i for i, (name, _) in enumerate(layout.PROCESS_FIELDS)}
_CGROUP = {name: i for i, (name, _) in enumerate(layout.CGROUP_FIELDS)}
_GPU = {name: i for i, (name, _) in enumerate(layout.GPU_FIELDS)}
_HOST = {name: i for i, (name, _) in enumerate(layout.HOST_FIELDS)}
#: ns of a clock tick as /proc counts (USER_HZ is 100 on every Linux that CPython runs on).
TICK = 10_000_000
US = 1_000
#: A bound this tight needs no "~", ns.
_EXACT = 1_000_000
#: Beside a step there may lie at most this many times its length, and this much, ns.
_BESIDE, _BESIDE_LEAST = 3, 100_000_000
#: Major faults that are no chance, where nothing says how long they took.
_MANY_FAULTS = 5
_DISK_SLEEP = ord("D")
#: A clock under this share of its highest is a finding.
_SLOWED = 0.9
#: A thread that waits for the GIL wakes after this long to ask for it again (sys.getswitchinterval), ns.
GIL_WAIT = 5_000_000
_LIKE_GIL = 0.4


@dataclass(frozen=True)
class Part:
    """How much of a counter fell into the step, ns."""

    low: int
    high: int
    guess: int

    def words(self) -> str:
        """``180 ms`` where the bounds meet, else ``~180 ms``."""
        return f"{'' if self.high - self.low <= _EXACT else '~'}{ms(_round(self.guess))}"


def _round(ns: int) -> int:
    """To whole milliseconds: the counters know no more."""
    return max(1, round(ns / 1e6)) * 1_000_000 if ns else 0


@dataclass(frozen=True)
class Window:
    """The samples around a step: two instants, and the values there."""

    start: int
    stop: int
    before: Int64
    after: Int64

    @property
    def length(self) -> int:
        return self.stop - self.start

    def grew(self, column: int) -> int:
        return max(0, int(self.after[column] - self.before[column]))


def window_of(track: Track, start: int, stop: int) -> Window | None:
    """The tightest window of samples that holds [start, stop]; None where it is not all sampled.

    Where nothing changed between two samples, every instant between them is as good as a sample.
    """
    time = track.time
    i = int(np.searchsorted(time, start, "right")) - 1
    j = int(np.searchsorted(time, stop, "left"))
    if i < 0 or j >= len(time):
        return None
    first, last = int(time[i]), int(time[j])
    if i < j:
        first = start if track.flat[i] else first
        last = stop if track.flat[j - 1] else last
    return Window(first, last, track.values[i], track.values[j])


class Causes:
    """Judges the slow steps of one process."""

    def __init__(self, log: HostLog, process: HostProcess, steps: tuple[LongStep, ...]) -> None:
        self.log, self.process, self.track = log, process, process.track
        self._rates = self._usual(steps)

    def _usual(self, steps: tuple[LongStep, ...]) -> dict[int, float]:
        """Growth of each counter per ns, outside all slow steps; empty if there is no such time."""
        time = self.track.time
        if len(time) < 2:
            return {}
        start = np.array([step.start for step in steps], np.int64)
        stop = np.array([step.start + step.duration for step in steps], np.int64)
        quiet = union(start, stop).overlap(time[:-1], time[1:]) == 0
        length = int(np.diff(time)[quiet].sum())
        if length < 1_000_000_000:
            return {}
        grown = np.diff(self.track.values, axis=0)[quiet].sum(axis=0)
        return {column: max(0.0, int(grown[column]) / length) for column in range(len(grown))}

    def _part(self, window: Window, grew: int, duration: int, rate: float | None) -> Part:
        """``grew`` ns over the window, as part of the step."""
        beside = window.length - duration
        high = min(grew, duration)
        low = max(0, grew - beside)
        guess = grew * duration // max(1, window.length) if rate is None else int(grew - rate * beside)
        return Part(min(low, high), high, min(high, max(low, guess)))

    def judge(self, step: LongStep) -> HostCause:
        """The kind, and what it rests on."""
        if step.by_callback:
            text = f"another tool's gc callback took {ms(step.callbacks)} of its {ms(step.duration)}"
            return HostCause("callback", text, sure=True)
        parts = self.parts(step)
        if parts is None:
            return HostCause("unsampled", "the host was not sampled then")
        window, cpu, queue, asleep = parts
        found = _Found(self, step, window, cpu, queue, asleep, _in_main(step))
        kind, text, sure = found.kind()
        beside = window.length - step.duration
        if not sure and beside > max(_BESIDE * step.duration, _BESIDE_LEAST):
            kind = "too-coarse"
            text = f"the host samples around it are {ms(_round(window.length))} apart"
        return HostCause(
            kind=kind,
            text=text,
            window=window.length,
            cpu=cpu.guess,
            queue=queue.guess,
            asleep=asleep.guess,
            sure=sure and kind != "unclear",
            major_faults=window.grew(COLUMN["major_faults"]),
            voluntary=window.grew(COLUMN["voluntary"]),
            throttled=found.throttled()[0],
        )

    def parts(self, step: LongStep) -> tuple[Window, Part, Part, Part] | None:
        """The window around a step; and of the step: on a CPU, runnable without one, and neither.

        Of a thread that is not the main one the others' sum stands for it. None where it was not sampled.
        """
        duration, main = step.duration, _in_main(step)
        window = window_of(self.track, step.start, step.start + duration)
        if window is None:
            return None
        names = ("main_cpu_us", "main_queue_us") if main else ("others_cpu_us", "others_queue_us")
        grew = [min(window.length, US * window.grew(COLUMN[name])) for name in names]
        rates = [self._rates.get(COLUMN[name]) for name in names]
        rates = [None if rate is None else min(1.0, US * rate) for rate in rates]
        cpu = self._part(window, grew[0], duration, rates[0])
        queue = self._part(window, grew[1], duration, rates[1])
        rest = max(0, window.length - sum(grew))
        usual = None if rates[0] is None or rates[1] is None else max(0.0, 1.0 - rates[0] - rates[1])
        asleep = self._part(window, rest, duration, usual)
        return window, cpu, queue, asleep


def _in_main(step: LongStep) -> bool:
    """Where the thread was not told it is taken for the main one: most steps are."""
    return step.tid in (0, step.pid)


class _Found:
    """One step's signals, and the kind that they make."""

    def __init__(
        self, causes: Causes, step: LongStep, window: Window, cpu: Part, queue: Part, asleep: Part, main: bool
    ) -> None:
        self.causes, self.step, self.window = causes, step, window
        self.cpu, self.queue, self.asleep, self.main = cpu, queue, asleep, main
        self.who = "" if main else " (threads beside the main one together)"
        self.of = f"of its {ms(step.duration)}"

    def kind(self) -> tuple[str, str, bool]:
        """(kind, words, whether the bounds alone say it)."""
        half = self.step.excess / 2
        # The largest first: of two that take half each, the one that takes more.
        parts = sorted(
            (("queue", self.queue), ("cpu", self.cpu), ("asleep", self.asleep)),
            key=lambda pair: -pair[1].guess,
        )
        name, part = parts[0]
        if part.guess < half:
            text = ", ".join(
                f"{words} {value.words()}"
                for words, value in (
                    ("on a CPU", self.cpu),
                    ("in the run queue", self.queue),
                    ("asleep", self.asleep),
                )
                if value.guess >= _EXACT
            )
            return "unclear", f"{text}, {self.of}{self.who}", False
        sure = self.main and part.low >= half
        kind, text = {"queue": self._queued, "cpu": self._computed, "asleep": self._slept}[name]()
        return kind, text + self.who + self._slowed(), sure

    def _queued(self) -> tuple[str, str]:
        times, kept = self.throttled()
        text = f"waited {self.queue.words()} {self.of}"
        if times and 2 * kept >= self.queue.guess:
            return "throttled", f"{text} for CPU quota: its cgroup was throttled {_times(times)}"
        return "run-queue", f"{text} for a CPU (run queue){self._stolen()}"

    def throttled(self) -> tuple[int, int]:
        """(periods, ns) for which one of its cgroups was throttled in the window."""
        most = (0, 0)
        for index in self.causes.process.cgroups:
            _, track = self.causes.log.cgroups.get(index, ("", None))
            around = None if track is None else window_of(track, self.window.start, self.window.stop)
            if around is not None:
                grew = around.grew(_CGROUP["throttled"]), US * around.grew(_CGROUP["throttled_us"])
                most = max(most, grew, key=lambda one: one[1])
        return most

    def _computed(self) -> tuple[str, str]:
        ticks = self.window.grew(COLUMN["user_ticks"]), self.window.grew(COLUMN["system_ticks"])
        text = f"computed for {self.cpu.words()} {self.of}"
        if sum(ticks) >= 3 and ticks[1] >= 0.6 * sum(ticks):
            faults = self.window.grew(COLUMN["minor_faults"])
            note = f", {faults:,} page faults" if faults >= 100 else ""
            return "kernel", f"{text}, in the kernel{note}"
        return "on-cpu", f"{text} (Python or a long C call){self._stolen()}"

    def _slept(self) -> tuple[str, str]:
        slept, text = self.asleep.guess, f"slept {self.asleep.words()} {self.of}"
        faults = self.window.grew(COLUMN["major_faults"])
        disk, how = self._disk(slept)
        if faults and (disk or faults >= _MANY_FAULTS):
            return "major-faults", f"{text}: {faults:,} major page faults, which read from a disk"
        if disk:
            return "disk", f"{text} for a disk ({how})"
        others = self._others()
        switches = self.window.grew(COLUMN["voluntary"])
        if others >= slept / 2:
            text += f" while other threads of its process computed for ~{ms(_round(others))}"
            if self.main and switches >= _LIKE_GIL * self.window.length / GIL_WAIT:
                return "busy-thread", f"{text}, and woke {_times(switches)}, as who waits for the GIL does"
            return "busy-thread", f"{text}: consistent with the GIL or one of their locks"
        return "asleep", (
            f"{text}: a lock, a timer, the network or another process (it gave its CPU up {_times(switches)})"
        )

    def _disk(self, slept: int) -> tuple[bool, str]:
        """Whether a disk was what it slept for, and by what that is known."""
        ticks = TICK * self.window.grew(COLUMN["disk_ticks"])
        if 2 * ticks >= slept:
            return True, f"block I/O delay ~{ms(ticks)}"
        track, start = self.causes.track, self.step.start
        first = int(np.searchsorted(track.time, start, "left"))
        last = int(np.searchsorted(track.time, start + self.step.duration, "right"))
        states = track.values[first:last, COLUMN["state"]]
        waiting = int(np.count_nonzero(states == _DISK_SLEEP))
        if self.main and len(states) >= 2 and 2 * waiting >= len(states):
            return True, f"uninterruptible in {waiting} of {len(states)} looks"
        moved = self.window.grew(COLUMN["read_bytes"]) + self.window.grew(COLUMN["write_bytes"])
        host = self.causes.log.host
        around = None if host is None else window_of(host, self.window.start, self.window.stop)
        if moved and around is not None and 2 * US * around.grew(_HOST["io_some_us"]) >= slept:
            pressure = US * around.grew(_HOST["io_some_us"])
            return True, (
                f"it moved {moved / 1e6:,.1f} MB meanwhile, and ~{ms(_round(min(pressure, slept)))} "
                "of I/O pressure on this machine are consistent with that"
            )
        return False, ""

    def _others(self) -> int:
        """CPU time of the other threads in the step, ns."""
        if not self.main:
            grew = US * self.window.grew(COLUMN["main_cpu_us"])
        else:
            ticks = self.window.grew(COLUMN["user_ticks"]) + self.window.grew(COLUMN["system_ticks"])
            mine = US * self.window.grew(COLUMN["main_cpu_us"])
            # By ticks of the process, which are there of any number of threads; or by their own sum.
            grew = max(TICK * ticks - mine, US * self.window.grew(COLUMN["others_cpu_us"]))
        return min(self.step.duration, grew * self.step.duration // max(1, self.window.length))

    def _slowed(self) -> str:
        """GPUs that were kept slow around the step: sampled once a second, and perhaps not its own."""
        wide, found = 1_000_000_000, []
        for number, (_, track) in enumerate(self.causes.log.gpus):
            low = int(np.searchsorted(track.time, self.window.start - wide, "right")) - 1
            high = int(np.searchsorted(track.time, self.window.stop + wide, "right"))
            near = track.values[max(0, low) : high]
            why = gpu_reasons(int(np.bitwise_or.reduce(near[:, _GPU["throttle"]], initial=0)))
            clock = int(near[:, _GPU["sm_mhz"]].min(initial=1 << 40))
            most = int(track.values[:, _GPU["sm_mhz"]].max())
            if why and clock < _SLOWED * most:
                found.append(f"; GPU {number} ran at {clock:,} MHz of {most:,} around it ({why})")
        return "".join(found[:4])

    def _stolen(self) -> str:
        host = self.causes.log.host
        wide = 1_000_000_000
        around = None if host is None else window_of(host, self.window.start - wide, self.window.stop + wide)
        if around is None:
            return ""
        stolen = TICK * around.grew(_HOST["steal_ticks"])
        if stolen < 0.1 * around.length:
            return ""
        return f"; the hypervisor took {ms(stolen)} of CPU time in the {ms(_round(around.length))} around it"


def gpu_reasons(bits: int) -> str:
    """NVML's reasons for a lower clock, in words; empty for those that are no finding."""
    return ", ".join(text for bit, text in layout.THROTTLE if bits & bit)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"
