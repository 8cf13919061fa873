"""What keeps a policy going between boundaries: the line of ``follow``, the idle passes, steps, the clock.

Each keeper has a callback of its own in ``gc.callbacks``, behind the recorder's, from its boundary to
its stop. In it: integers, thresholds, and for ``follow`` the splice.
"""

import _thread
import gc
import sys
import time

from frostline import format as layout
from frostline import probe
from frostline.policy import engine, following, line, moments
from frostline.policy.grammar import Policy
from frostline.probe.callback import is_ours

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Callback = Callable[[str, dict[str, int]], None]

#: How often a forced walk that landed inside a pass is put off to the next look for signals.
MOST_TRIES = 1_000
#: Threshold 2 that no count reaches: no full pass starts by itself.
_NEVER = 2**31 - 1


def keeper(policy: Policy) -> "Keeper":
    """The keeper of a kind that has one."""
    if policy.kind == "follow":
        return Follow(policy)
    if policy.kind == "idle":
        return Idle(policy)
    if policy.kind == "sync":
        return Sync(policy)
    return Periodic(policy)


def refuse_other_collectors(kind: str) -> None:
    """Raises ValueError where the kind of policy cannot work on this interpreter."""
    if probe.INCREMENTAL:
        raise ValueError(
            f"policy {kind!r} needs the generational collector, and CPython 3.14.0 to 3.14.4 has the"
            " incremental one, where no full pass starts by itself; use freeze, or 3.14.5 or newer"
        )
    if probe.FREE_THREADED:
        raise ValueError(
            f"policy {kind!r} needs the generational collector, and a free-threaded build walks the whole"
            " heap in each pass; use freeze"
        )


class Keeper:
    """A keeper that does nothing; each kind replaces what it needs."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.callback: Callback | None = None
        self.active = False

    def begin(self, calm: bool) -> None:
        """The boundary has come, and there was no walk of the whole heap. ``calm``: there is time for one."""

    def stop(self) -> None:
        """Gives the host's thresholds back."""

    def due(self) -> bool:
        """Whether an idle moment is wanted. Cheap: asked after each request."""
        return False

    def idle(self) -> None:
        """An idle moment."""

    def step(self, number: int) -> bool:
        """The host has done a step; whether there was a pass."""
        return False

    def before_fork(self) -> None:
        """The host is about to fork."""

    def before_whole_heap(self) -> None:
        """A walk of the whole heap begins."""

    def ended_whole_heap(self) -> None:
        """However it ended, also if there was none."""

    def after_whole_heap(self, count: int, reclaimed: int, spent: int, begun: int) -> None:
        """It has ended: objects kept and reclaimed, CPU nanoseconds of the collect, when it began."""
        note_whole_heap(count, reclaimed, begun)

    def put_in(self) -> None:
        """The callback into the list, behind the recorder's, once."""
        if self.callback is None:
            return
        recorder = probe.recorder_of_this_process()
        if recorder is not None:
            recorder.policy_callback = self.callback
        if self.callback not in gc.callbacks:
            gc.callbacks.append(self.callback)

    def take_out(self) -> None:
        if self.callback is not None and self.callback in gc.callbacks:
            gc.callbacks.remove(self.callback)

    def set_third(self, third: int) -> None:
        first, second, now = gc.get_threshold()
        if now != third:
            engine.tune(first, second, third)


def note_whole_heap(count: int, reclaimed: int, begun: int) -> None:
    """The mark of a walk of the whole heap under a policy that has no line."""
    recorder = probe.recorder_of_this_process()
    if recorder is not None:
        recorder.mark(
            layout.MARK_LINE,
            layout.MARK_FLAG_OURS,
            layout.LINE_WHOLE_HEAP,
            reclaimed,
            0,
            count,
            0,
            begun=begun,
        )


def _failed(error: BaseException) -> bool:
    """What to do with an exception in a callback: True if the callback is to stop for good."""
    if isinstance(error, RecursionError):
        return False  # near the limit any call fails
    if isinstance(error, KeyboardInterrupt):
        _thread.interrupt_main()  # Ctrl-C arrived while we ran: the interpreter would swallow it here
        return False
    if isinstance(error, Exception) and is_ours(error):
        return True
    raise error  # a signal handler of the host's raised: it is the host's to see


class Follow(Keeper):
    """The credit rule of ``line``."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self.line = line.Line(policy, engine.frozen_at_start())
        self.callback = following.make_callback(
            self.line, engine.real("freeze"), engine.real("set_threshold"), _failed, engine.froze
        )

    def begin(self, calm: bool) -> None:
        """The boundary was a splice. A supervisor's: count what it froze, a few per cent of one full pass,
        since without H there is no credit. With requests in flight there is no time even for that: no
        credit until an idle moment.
        """
        now = self.line
        if moments.in_flight():
            now.exhausted = True
        else:
            now.kept = engine.frozen_since_start()
            now.frozen = 0
        self._activate()
        if now.exhausted:
            line.write(layout.LINE_EXHAUSTED, now, -1)
        else:
            line.show(now)

    def _activate(self) -> None:
        now = self.line
        if not now.active:
            now.host = gc.get_threshold()
            now.ours = -1
        now.active = True
        if now.major == "force" and now.trip is None and moments.install(self._forced):
            now.trip = moments.TRIP
        line.aim(now, engine.real("set_threshold"), deferred())
        moments.at_safe_points(self.at_safe_point)
        self.put_in()

    def stop(self) -> None:
        now = self.line
        if now.active:
            now.active = False
            line.set_third(now, now.host[2], engine.real("set_threshold"))
        now.kept = now.frozen = now.since = 0
        now.exhausted = now.patient = now.wants = False
        now.needed = 1
        now.forget()
        moments.at_safe_points(None)
        line.show(now)

    def step(self, number: int) -> bool:
        self.at_safe_point()
        return False

    def at_safe_point(self) -> None:
        """Counts F where that is wanted and its time has come. Cheap where it is not: called after each request."""
        now = self.line
        if now.wants and now.active and not now.busy and time.monotonic_ns() >= now.not_before:
            line.measure(now)

    def due(self) -> bool:
        now = self.line
        return now.active and now.major != "never" and (now.exhausted or 2 * now.frozen > now.credit())

    def idle(self) -> None:
        # After an estimate the many survivors are still there, to be walked by every full pass: freeze them.
        if self.line.estimated or line.measure(self.line) * 2 > self.line.credit() or self.line.exhausted:
            engine.whole_heap()
        else:
            line.aim(self.line, engine.real("set_threshold"), deferred())

    def _forced(self) -> object:
        now = self.line
        if now.active and now.exhausted and engine.whole_heap() is None and now.tries < MOST_TRIES:
            # Another tool's callback stands behind ours: the interpreter looks for signals in it, inside the
            # pass. It looks again after that callback's next call or jump, and at last after its end.
            now.tries += 1
            return moments.AGAIN
        return None

    def before_whole_heap(self) -> None:
        self.line.busy = True

    def after_whole_heap(self, count: int, reclaimed: int, spent: int, begun: int) -> None:
        now = self.line
        now.ns_whole = spent / max(count + reclaimed, 1)
        now.wholes += 1
        line.guard(now, reclaimed)
        frozen = now.frozen
        now.kept = count
        line.write(layout.LINE_WHOLE_HEAP, now, reclaimed, begun)
        now.frozen -= frozen  # what another thread's pass has frozen meanwhile stays counted
        now.exhausted = now.yielded = now.estimated = now.wants = False
        now.since = 0
        now.forget()
        self._activate()
        line.show(now)

    def ended_whole_heap(self) -> None:
        self.line.busy = False


def deferred() -> int:
    """The host's threshold 0 while a ``defer`` region is open, else -1."""
    regions = sys.modules.get("frostline.policy.regions")
    return -1 if regions is None else int(regions.host_threshold())


class Idle(Keeper):
    """Full passes in idle moments only. CPython's two conditions decide when one is due; past the
    deadline its own threshold comes back, so that the next pass that it would have made is made.
    """

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self.host = gc.get_threshold()
        #: Objects after the last full pass, by count.
        self.total = 0
        self.since = 0
        self.overdue = False
        #: Nobody has told of a request or an idle moment so far, and a mark says so.
        self.awaits = False
        self.callback = self._make_callback(policy.deadline)

    def begin(self, calm: bool) -> None:
        if not self.active:
            self.host = gc.get_threshold()
        self.active = True
        if calm:
            self.idle()
        self.set_third(_NEVER)
        self.put_in()
        if moments.counted() < 0:
            self.awaits = True
            line.write_plain(layout.LINE_AWAITS, 0)
            moments.at_safe_points(self._was_told)

    def _was_told(self) -> None:
        self.awaits = False
        moments.at_safe_points(None)
        line.write_plain(layout.LINE_TOLD, 0)

    def stop(self) -> None:
        if self.awaits:
            self.awaits = False
            moments.at_safe_points(None)
        if self.active:
            self.active = False
            self.set_third(self.host[2])

    def due(self) -> bool:
        if not self.active:
            return False
        passes = gc.get_count()[2]
        # Survivors are not known; at most all that was allocated since is one.
        return passes > self.host[2] and passes * (self.host[1] + 2) * (self.host[0] + 1) >= self.total // 4

    def idle(self) -> None:
        if self.awaits:
            self._was_told()
        if engine.collect(2) >= 0:
            self.total = len(gc.get_objects())

    def _make_callback(self, deadline: int) -> "Callback":
        clock = time.monotonic_ns
        due, set_third = self.due, self.set_third

        def on_pass(phase: str, info: "dict[str, int]") -> None:
            if phase == "start" or info["generation"] == 0:
                return
            try:
                thresholds = gc.get_threshold()
                if thresholds[2] != _NEVER and not self.overdue:
                    self.host = thresholds  # the host has set its own since: they say when one is due
                    set_third(_NEVER)
                if info["generation"] == 2:
                    self.since = 0
                    if self.overdue:
                        self.overdue = False
                        set_third(_NEVER)
                elif not self.since:
                    if due():
                        self.since = clock()
                elif not self.overdue and clock() - self.since > deadline:
                    self.overdue = True
                    set_third(self.host[2])
                    line.write_plain(layout.LINE_DEADLINE, clock() - self.since)
            except BaseException as error:
                if _failed(error):
                    self.active = False
                    set_third(self.host[2])

        return on_pass


class Sync(Keeper):
    """Full passes at the same step on every rank, none in between."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self.host = gc.get_threshold()
        self.steps = 0

    def step(self, number: int) -> bool:
        if not self.active:
            self.active = True
            self.host = gc.get_threshold()
            self.set_third(_NEVER)
        self.steps = number if number >= 0 else self.steps + 1
        return self.steps % self.policy.every == 0 and engine.collect(2) >= 0

    def stop(self) -> None:
        if self.active:
            self.active = False
            self.set_third(self.host[2])


class Periodic(Keeper):
    """Collect and freeze every so often, at a safe point of the main thread: for benchmarks (C8)."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self.next = 0
        self.callback = self._make_callback(policy.every)

    def begin(self, calm: bool) -> None:
        self.active = moments.install(self._at_safe_point)
        if not self.active:
            line.write_plain(layout.LINE_SWITCHED_OFF, 0)
            return
        self.next = time.monotonic_ns() + self.policy.every
        self.put_in()

    def stop(self) -> None:
        self.active = False

    def _at_safe_point(self) -> None:
        if self.active and (engine.collect(2) < 0 or engine.freeze_and_count() < 0):
            self.next = 0  # inside another tool's callback: at the next pass then

    def _make_callback(self, every: int) -> "Callback":
        clock = time.monotonic_ns
        trip, signum = moments.TRIP, moments.SIGNUM

        def on_pass(phase: str, info: "dict[str, int]") -> None:
            try:
                if phase == "start" or not self.active:
                    return
                now = clock()
                if now < self.next:
                    return
                self.next = now + every
                trip[signum]
            except BaseException as error:
                if _failed(error):
                    self.active = False

        return on_pass
