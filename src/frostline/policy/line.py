"""``follow``: the line of the freeze moves along as the heap grows, from a credit that bounds what can leak.

The rule and why the obvious one is ruinous: ``docs/policies.md``. What runs inside the collector's
"stop" is integer arithmetic, thresholds and ``gc.freeze()`` (a splice); a walk of the whole heap runs
outside of it only, in ``whole_heap``.
"""

import gc
import time

from frostline import format as layout
from frostline import probe
from frostline.policy import moments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from frostline.policy.grammar import Policy

#: A pass that reclaims more than this part of what it walked froze too early, or is doing its work.
_YIELD = 0.05
#: After a whole-heap pass that reclaimed more than this part of what was frozen, alpha is halved.
_GUARD = 0.2
ALPHA = 0.5
#: Alpha is never halved below CPython's own quarter: with less, the whole heap is walked more often than
#: without us. (Without this floor, cyclic sessions that all die drove alpha to 1/64 and the forced walks
#: from 7 to 26, twice the objects that a stock collector walks.)
_LEAST_ALPHA = 0.25
#: A whole-heap pass that reclaimed less than this part of what was frozen gives alpha back.
_WELL_CHOSEN = 0.05
#: Survivors are counted (before 3.15: a list of them all) after a pass of up to this many times the
#: budget's own CPU time; after a longer one they are estimated from that time.
_COUNT_LIMIT = 4
#: Nanoseconds an object until a pass has been measured. Low, so that an estimate is too high: the
#: credit is spent too early then, never too late.
_NS_AT_FIRST = 10


class Line:
    """The state of the rule, plain numbers: B, H, F, alpha and what goes with them."""

    def __init__(self, policy: "Policy", start: int) -> None:
        self.wanted_budget = policy.budget
        self.budget_ns = policy.budget_ns
        self.major = policy.major
        #: B, objects that a full pass may walk.
        self.budget = policy.budget
        #: H, objects that the last whole-heap pass kept.
        self.kept = 0
        #: F, objects frozen since, deaths not counted.
        self.frozen = 0
        self.alpha = ALPHA
        #: The interpreter's freeze count before we did anything.
        self.start = start
        #: Whether the boundary has come: before it nothing moves.
        self.active = False
        self.exhausted = False
        #: A whole-heap pass of ours is running: its passes are not judged.
        self.busy = False
        self.broken = False
        self.yielded = False
        #: The last survivors judged were too many to count: that the credit is gone is an estimate.
        self.estimated = False
        self.host = gc.get_threshold()
        self.ours = 0
        self.ns_fast = 0.0
        self.ns_whole = 0.0
        #: Full passes judged, moves of the line, whole-heap passes, times the guard fired.
        self.judged = self.moves = self.wholes = self.guards = 0
        self.lost = 0
        #: CPU nanoseconds of the callback's own work at full passes: all, and the longest.
        self.spent_ns = self.longest_ns = 0
        #: Indexed by the signal as the last thing in "stop", when the credit is gone and ``major=force``.
        self.trip: "moments._Trip | None" = None
        self.asked = False

    def credit(self) -> int:
        """What F may reach: alpha * H + B."""
        return int(self.alpha * self.kept) + self.budget

    def period(self) -> int:
        """P1: net allocations from one gen-1 pass to the next."""
        return (self.host[1] + 2) * (self.host[0] + 1)


def write(what: int, line: Line, objects: int, begun: int = 0) -> None:
    """A mark of what the line did and why."""
    recorder = probe.recorder_of_this_process()
    if recorder is not None:
        recorder.mark(
            layout.MARK_LINE,
            layout.MARK_FLAG_OURS,
            what,
            objects,
            line.frozen,
            line.kept,
            line.credit(),
            begun=begun,
        )


def write_plain(what: int, objects: int) -> None:
    """The same where there is no line."""
    recorder = probe.recorder_of_this_process()
    if recorder is not None:
        recorder.mark(layout.MARK_LINE, layout.MARK_FLAG_OURS, what, objects)


def set_third(line: Line, third: int, set_threshold: "Callable[[int, int, int], object]") -> None:
    """Sets threshold 2 and leaves the others, which ``defer`` or the host may have changed."""
    first, second, now = gc.get_threshold()
    line.ours = third
    if now == third:
        return
    set_threshold(first, second, third)
    recorder = probe.recorder_of_this_process()
    if recorder is not None:
        recorder.mark(layout.MARK_THRESHOLD, layout.MARK_FLAG_OURS, first, second, third)


def aim(line: Line, set_threshold: "Callable[[int, int, int], object]", deferred: int = -1) -> None:
    """Rule 1's end: the budget for the thresholds in force, and threshold 2 for the budget.

    ``deferred`` is the host's threshold 0 while a ``defer`` region has put it to 0, else -1.
    """
    first, second, third = gc.get_threshold()
    if deferred >= 0:
        first = deferred
    line.host = (first, second, line.host[2] if third == line.ours else third)
    period = line.period()
    budget = line.wanted_budget
    if line.budget_ns:
        budget = int(line.budget_ns / max(line.ns_whole, 1.0))
    raised = max(budget, 2 * period)
    if raised != line.budget:
        line.budget = raised
        if raised > budget:
            write(layout.LINE_BUDGET_RAISED, line, raised)
    set_third(line, max(0, (line.budget // 2) // period - 1), set_threshold)


def make_callback(
    line: Line,
    freeze: "Callable[[], object]",
    set_threshold: "Callable[[int, int, int], object]",
    failed: "Callable[[BaseException], bool]",
    froze: "Callable[[], object]",
) -> "Callable[[str, dict[str, int]], None]":
    """The collector's callback. ``froze`` tells the engine that something of ours is frozen."""
    clock = time.monotonic_ns
    cpu = time.thread_time_ns
    objects = gc.get_objects
    counts = gc.get_count
    thresholds = gc.get_threshold
    signum = moments.SIGNUM
    begun = 0

    def on_pass(phase: str, info: "dict[str, int]") -> None:
        nonlocal begun
        if info["generation"] != 2 or line.busy or line.broken or not line.active:
            return
        try:
            if phase == "start":
                begun = cpu()
            elif begun:
                now = cpu()
                judge(now - begun, info)
                begun = 0
                own = cpu() - now
                line.spent_ns += own
                if own > line.longest_ns:
                    line.longest_ns = own
                if line.asked:
                    line.asked = False
                    if line.trip is not None:
                        line.trip[signum]  # nothing may follow after which signals are looked for
        except RecursionError:
            begun = 0
            line.lost += 1  # near the limit any call fails: this pass is not judged
        except BaseException as error:
            begun = 0
            if failed(error):
                give_up()

    def give_up() -> None:
        """What cannot happen has: the host gets its threshold back, and the record says so."""
        line.broken = True
        try:
            first, second, _ = thresholds()
            set_threshold(first, second, line.host[2])
            write_plain(layout.LINE_SWITCHED_OFF, line.judged)
        except Exception:
            pass

    def count(info: "dict[str, int]", took: int) -> int:
        """Survivors of the pass, by count where that is cheap enough, else too many rather than too few."""
        walked = info.get("candidates", -1)
        if walked >= 0:
            # What other threads have allocated since the pass began would be frozen with the rest.
            return walked - info["collected"] + max(0, counts()[0])
        fast = line.ns_fast or _NS_AT_FIRST
        if took <= _COUNT_LIMIT * line.budget * max(line.ns_whole, 100.0):
            survivors = len(objects())
            walked = survivors + info["collected"]
            if walked > 10_000 and (not line.ns_fast or took < line.ns_fast * walked):
                line.ns_fast = max(took / walked, 1.0)
            return survivors
        line.estimated = True
        return int(took / fast) + max(0, counts()[0])

    def judge(took: int, info: "dict[str, int]") -> None:
        at = clock()
        line.judged += 1
        first, second, now = thresholds()
        if first and (now != line.ours or (first, second) != line.host[:2]):
            line.ours = -1  # the host has set thresholds of its own: they are the ones to work with
            aim(line, set_threshold)
        if line.exhausted:
            tell(took, info, at)
            line.asked = True
            return
        line.estimated = False
        survivors = count(info, took)
        collected = info["collected"]
        walked = survivors + collected
        over = walked > line.budget + line.period()
        yielded, before = collected > _YIELD * walked, line.yielded
        line.yielded = yielded
        if survivors <= line.budget // 2:
            if over:
                write(layout.LINE_OVER_GARBAGE, line, walked, at)
            set_third(line, third(), set_threshold)
        elif yielded or before:
            if over:
                write(layout.LINE_OVER_YIELD, line, walked, at)
                set_third(line, line.host[2], set_threshold)
        elif line.frozen + survivors > line.credit():
            line.exhausted = True
            write(layout.LINE_EXHAUSTED, line, survivors, at)
            set_third(line, line.host[2], set_threshold)
            line.asked = True
        else:
            freeze()
            froze()
            line.frozen += survivors
            line.moves += 1
            recorder = probe.recorder_of_this_process()
            if recorder is not None:
                recorder.mark(layout.MARK_FREEZE, layout.MARK_FLAG_OURS, -1)
            write(layout.LINE_OVER_BURST if over else layout.LINE_MOVED, line, survivors, at)
            set_third(line, third(), set_threshold)

    def tell(took: int, info: "dict[str, int]", at: int) -> None:
        """Without credit nothing depends on the survivors, so nobody counts them: a pass that may have
        walked too much is marked, with what it walked by the time it took.
        """
        walked = info.get("candidates", -1)
        most = walked if walked >= 0 else int(took / (line.ns_fast or _NS_AT_FIRST))
        if most > line.budget + line.period():
            guess = walked if walked >= 0 else int(took / max(line.ns_whole, 1.0))
            write(layout.LINE_OVER_EXHAUSTED, line, guess, at)

    def third() -> int:
        return max(0, (line.budget // 2) // line.period() - 1)

    return on_pass


def measure(line: Line) -> int:
    """F by count (10 to 30 ms a million objects): never in a callback. Restores the credit if it allows."""
    begun = time.monotonic_ns()
    line.frozen = max(0, gc.get_freeze_count() - line.start - line.kept)
    if line.exhausted and line.frozen <= line.credit() // 2:
        line.exhausted = False
        write(layout.LINE_RESTORED, line, line.frozen, begun)
    return line.frozen


def guard(line: Line, reclaimed: int) -> None:
    """Rule 4, after a whole-heap pass: was what we froze alive?"""
    if line.frozen <= line.budget:
        return  # too little to tell
    if reclaimed > _GUARD * line.frozen:
        line.guards += 1
        line.alpha = max(line.alpha / 2, _LEAST_ALPHA)
        write(layout.LINE_GUARD, line, reclaimed)
    elif reclaimed < _WELL_CHOSEN * line.frozen:
        line.alpha = ALPHA
