"""``follow``: the line of the freeze moves along as the heap grows, from a credit that bounds what can leak.

The rule and why the obvious one is ruinous: ``docs/policies.md``. This is its state and its arithmetic;
``following`` is what runs in the collector's "stop". A walk or a count of the whole heap is made outside
of it only.
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

    SetThreshold = Callable[[int, int, int], object]

#: After a whole-heap pass that reclaimed more than this part of what was frozen, alpha is halved.
_GUARD = 0.2
ALPHA = 0.5
#: Alpha is never halved below CPython's own quarter: with less, the whole heap is walked more often than
#: without us. (Without this floor, cyclic sessions that all die drove alpha to 1/64 and the forced walks
#: from 7 to 26, twice the objects that a stock collector walks.)
_LEAST_ALPHA = 0.25
#: A whole-heap pass that reclaimed less than this part of what was frozen gives alpha back.
_WELL_CHOSEN = 0.05
#: The exact F is counted at a safe point at most so often that its CPU time is 1 / SHARE of all time, and
#: half as often each time that nothing came of it, down to 1 / MOST_PATIENCE of that.
SHARE = 100
_MOST_PATIENCE = 64
#: Nanoseconds an object where the whole heap was never walked (a boundary that came late): 45 to 90 were
#: measured below a million objects.
NS_USUAL = 60.0
#: No gen-1 pass: the next full pass is the interpreter's to start.
NO_LOOK = 2**62


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
        #: F, objects frozen since, less the deaths that were counted.
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
        # --- when the next full pass is made
        #: Objects that the oldest generation may hold before it: counted, so what died is not in it.
        self.limit = policy.budget // 2
        #: Gen-1 passes since the last full one after which it is counted next.
        self.look = NO_LOOK
        #: What was in it last: by count, or what a full pass left. The least of the counts since, their number.
        self.counted = 0
        self.lowest = self.looks = 0
        #: Gen-1 passes between two counts at least: 1 where the budget is at stake, else doubled by each.
        self.stride = 1
        #: By how much the counts rose and fell. Nothing of ours makes them fall: those are deaths.
        self.rose = self.fell = 0
        #: Most of what gets old dies by reference count: full passes wait for that.
        self.patient = False
        #: What it takes to believe that, in budgets. Doubled each time that it was wrong.
        self.needed = 1
        #: Without credit: passes left to the interpreter without a count before, since the counts of before
        #: that had all found one due at once; and how many such the next one buys.
        self.unasked = self.sure = 0
        # --- when F is counted next
        #: Frozen since F was counted, and whether a safe point is wanted for it.
        self.since = 0
        self.wants = False
        self.not_before = 0
        self.patience = 1
        # --- what was done
        #: Full passes judged, moves of the line, whole-heap passes, times the guard fired, F counted.
        self.judged = self.moves = self.wholes = self.guards = self.measures = 0
        self.lost = 0
        #: CPU nanoseconds of the callback's own work at full passes: all, and the longest.
        self.spent_ns = self.longest_ns = 0
        #: The same for the counts of the oldest generation, and their number.
        self.look_ns = self.longest_look_ns = self.all_looks = 0
        #: Indexed by the signal as the last thing in "stop", when the credit is gone and ``major=force``.
        self.trip: "moments._Trip | None" = None
        self.asked = False
        #: Times that a forced walk was put off since it was asked for.
        self.tries = 0

    def credit(self) -> int:
        """What F may reach: alpha * H + B."""
        return int(self.alpha * self.kept) + self.budget

    def saw(self, old: int) -> bool:
        """A count of the oldest generation; whether it is the one after which the line waits."""
        if old < self.counted:
            self.fell += self.counted - old
        else:
            self.rose += old - self.counted
        enough = self.needed * self.budget
        if self.rose > 8 * enough:
            self.rose //= 2
            self.fell //= 2
        return not self.patient and not self.exhausted and self.fell >= enough and 2 * self.fell >= self.rose

    def forget(self) -> None:
        """What the counts have shown is no longer to be relied on."""
        self.rose = self.fell = 0

    def period(self) -> int:
        """P1: net allocations from one gen-1 pass to the next."""
        return (self.host[1] + 2) * (self.host[0] + 1)

    def limit_after(self, left: int) -> int:
        """The limit after a full pass that left so many objects unfrozen in the oldest generation.

        A patient line may let it grow to most of the credit: what lasts can be frozen then, since most of F
        has died, and will be counted if the sum says otherwise.
        """
        limit = left + min(self.budget // 2, max(self.budget - left, self.period()))
        return max(limit, 3 * self.credit() // 4) if self.patient else limit

    def limit_without(self, left: int) -> int:
        """The same where nothing is frozen: the host's own two conditions, but with deaths counted."""
        return left + max(left // 4, (self.host[2] + 1) * self.period())


def show_own(line: Line) -> None:
    """What its own work in stops has taken into the live words: the record's passes do not hold it."""
    recorder = probe.recorder_of_this_process()
    series = None if recorder is None else recorder.series
    if series is not None:
        words, word = series.words, layout.WORD
        words[word["line_own_ns"]] = line.spent_ns + line.look_ns
        words[word["line_own_longest_ns"]] = max(line.longest_ns, line.longest_look_ns)


def show(line: Line) -> None:
    """The state into the live words, for ``frostline status``. Plain stores."""
    recorder = probe.recorder_of_this_process()
    series = None if recorder is None else recorder.series
    if series is None:
        return
    words, word = series.words, layout.WORD
    words[word["line_budget"]] = line.budget
    words[word["line_kept"]] = line.kept
    words[word["line_frozen"]] = max(0, line.frozen)
    words[word["line_alpha"]] = int(line.alpha * 1000)
    words[word["line_limit"]] = line.limit
    state = layout.LINE_STATE_EXHAUSTED if line.exhausted else layout.LINE_STATE_FOLLOWS
    if line.patient and not line.exhausted:
        state = layout.LINE_STATE_WAITS
    words[word["line_state"]] = state if line.active and not line.broken else layout.LINE_STATE_NONE


def write(what: int, line: Line, objects: int, begun: int = 0) -> None:
    """A mark of what the line did and why, and the live words."""
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
        show(line)


def write_plain(what: int, objects: int) -> None:
    """The same where there is no line."""
    recorder = probe.recorder_of_this_process()
    if recorder is not None:
        recorder.mark(layout.MARK_LINE, layout.MARK_FLAG_OURS, what, objects)


def set_third(line: Line, third: int, set_threshold: "SetThreshold", quiet: bool = False) -> None:
    """Sets threshold 2 and leaves the others, which ``defer`` or the host may have changed.

    ``quiet``: without a mark. The plan of the next count moves it some times a second.
    """
    first, second, now = gc.get_threshold()
    line.ours = third
    if now == third:
        return
    set_threshold(first, second, third)
    recorder = None if quiet else probe.recorder_of_this_process()
    if recorder is not None:
        recorder.mark(layout.MARK_THRESHOLD, layout.MARK_FLAG_OURS, first, second, third)


def aim(line: Line, set_threshold: "SetThreshold", deferred: int = -1) -> None:
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
        budget = int(line.budget_ns / (line.ns_whole or NS_USUAL))
    raised = max(budget, 2 * period)
    if raised != line.budget:
        line.budget = raised
        if raised > budget:
            write(layout.LINE_BUDGET_RAISED, line, raised)
    line.limit = line.limit_without(0) if line.exhausted else line.limit_after(0)
    plan(line, 0, 0, set_threshold, quiet=False)


def plan(line: Line, old: int, passed: int, set_threshold: "SetThreshold", quiet: bool = True) -> None:
    """When the oldest generation, which holds ``old`` objects now, is to be counted next.

    It cannot reach the limit before ``room / P1`` gen-1 passes. A count takes about a tenth of the walk. Where
    the limit is over the budget anyway it is made half as often after each that found nothing (else the counts
    would cost what the walks did): before there is more than the credit allows to freeze, and without credit
    after as many gen-1 passes as the host's own threshold 2 asks for.
    Threshold 2 is set so that the interpreter makes its full pass right after that count if nobody stops it:
    a callback that another tool has taken out leaves a collector that works.
    """
    line.counted = old
    period = line.period()
    periods = max(1, (line.limit - old) // period)
    if line.limit <= line.budget:
        line.stride = 1
    elif passed:
        line.stride = min(2 * line.stride, 1 + line.credit() // period)
        most = line.host[2] + 1 if line.exhausted else (line.credit() - old) // period - 1
        periods = max(periods, min(line.stride, most))
    line.look = passed + periods
    set_third(line, line.look - 1, set_threshold, quiet)


def measure(line: Line) -> int:
    """F by count (10 to 30 ms a million objects): never in a callback.

    Restores the credit if it allows. Where at least half of what was frozen since the last count has died
    without us, walking it was in vain: then the line waits, see ``Line.patient``.
    """
    begun = time.monotonic_ns()
    spent = time.thread_time_ns()
    before = line.frozen
    frozen = max(0, gc.get_freeze_count() - line.start - line.kept)
    line.frozen += frozen - before  # what another thread's pass has frozen meanwhile stays counted
    since, line.since = line.since, 0
    line.wants = False
    line.measures += 1
    restored = line.exhausted and line.frozen <= line.credit() // 2
    enough = since >= min(line.needed * line.budget, 3 * line.credit() // 4)
    waits = enough and 2 * (before - frozen) >= since and not line.patient
    if restored:
        line.exhausted = False
    if waits:
        line.patient = True
    if (restored or waits) and not line.exhausted:
        line.limit = line.limit_after(0)
        if line.look != NO_LOOK:
            line.look = 0
    spent = time.thread_time_ns() - spent
    line.patience = 1 if restored or waits else min(2 * line.patience, _MOST_PATIENCE)
    line.not_before = time.monotonic_ns() + SHARE * line.patience * spent
    write(layout.LINE_RESTORED if restored else layout.LINE_MEASURED, line, line.frozen, begun)
    if waits:
        write(layout.LINE_WAITS, line, before - frozen)
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
