"""The callback of ``follow``: what happens in the collector's "stop".

After a gen-1 pass, some times between full ones, the oldest generation is counted: the next full pass is
made when it has really grown. (The interpreter counts what was promoted and never what died, so objects
that live for seconds and die by reference count alone start one full pass after the other.) After a full
pass its survivors are frozen, or not. All of it is integers, thresholds, a count and ``gc.freeze()``, a splice.
"""

import gc
import time

from frostline import format as layout
from frostline import probe
from frostline.policy import moments
from frostline.policy.line import (
    NO_LOOK,
    NS_USUAL,
    Line,
    aim,
    plan,
    set_third,
    show,
    show_own,
    write,
    write_plain,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from frostline.policy.line import SetThreshold

#: A pass that reclaims more than this part of what it walked froze too early, or is doing its work.
_YIELD = 0.05
#: Survivors are counted (before 3.15: a list of them all) after a pass of up to this many times the
#: budget's own CPU time; after a longer one they are estimated from that time.
_COUNT_LIMIT = 4
#: Nanoseconds an object until a pass has been measured. Low, so that an estimate is too high: the
#: credit is spent too early then, never too late.
_NS_AT_FIRST = 10
#: Counts of the oldest generation, none of which was under half the budget, that tell of something lasting
#: in it: then the walk is made when it holds little else.
_LASTING = 8
#: At most so many passes without credit are left to the interpreter, where each count has found one due.
_MOST_UNASKED = 7


def make_callback(
    line: Line,
    freeze: "Callable[[], object]",
    set_threshold: "SetThreshold",
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
        generation = info["generation"]
        if not generation or line.busy or line.broken or not line.active:
            return
        try:
            if phase == "start":
                if generation == 2:
                    begun = cpu()
            elif generation == 1:
                passed = counts()[2]
                if passed >= line.look:
                    look(passed)
            elif begun:
                now = cpu()
                judge(now - begun, info)
                begun = 0
                own = cpu() - now
                line.spent_ns += own
                if own > line.longest_ns:
                    line.longest_ns = own
                show_own(line)
                if line.asked:
                    line.asked = False
                    line.tries = 0
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
            show(line)
        except Exception:
            pass

    def host_changed() -> bool:
        """The host has set thresholds of its own since: they are the ones to work with."""
        first, second, now = thresholds()
        if not first or (now == line.ours and (first, second) == line.host[:2]):
            return False
        line.ours = -1
        aim(line, set_threshold)
        return True

    def look(passed: int) -> None:
        """Counts the oldest generation: is a full pass due?"""
        if host_changed():
            return
        before = cpu()
        old = len(objects(generation=2))
        if line.saw(old):
            line.patient = True
            line.limit = line.limit_after(0)
            write(layout.LINE_WAITS, line, line.fell)
        line.lowest = min(line.lowest, old) if line.looks else old
        line.looks += 1
        # The pass itself comes with the next young one, whose objects are walked and kept with the rest. Over
        # the budget anyway, the next count would come late rather than early.
        due = old + line.host[0] >= line.limit or (
            line.limit > line.budget and old + line.period() > line.limit
        )
        if line.patient and not line.exhausted and line.looks >= _LASTING:
            due = due or line.budget // 2 <= line.lowest >= old - line.budget // 4
        if due:
            line.look, line.counted = NO_LOOK, old
            set_third(line, 0, set_threshold, quiet=True)
        else:
            plan(line, old, passed, set_threshold)
        own = cpu() - before
        line.all_looks += 1
        line.look_ns += own
        if own > line.longest_look_ns:
            line.longest_look_ns = own
        show_own(line)

    def count(info: "dict[str, int]", took: int) -> int:
        """Survivors of the pass, by count where that is cheap enough, else too many rather than too few."""
        walked = info.get("candidates", -1)
        if walked >= 0:
            # What other threads have allocated since the pass began would be frozen with the rest.
            return walked - info["collected"] + max(0, counts()[0])
        fast = line.ns_fast or _NS_AT_FIRST
        known = (
            line.look == NO_LOOK and line.counted >= 0
        )  # how many there were right before: few enough to count
        if known or took <= _COUNT_LIMIT * line.budget * max(line.ns_whole, 100.0):
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
        host_changed()
        looks, line.looks, line.stride = line.looks, 0, 1
        if line.exhausted:
            left = tell(took, info, at)
            line.wants = line.asked = True
            if looks:
                line.unasked = line.sure = min(2 * line.sure + 1, _MOST_UNASKED) if looks == 1 else 0
            elif not line.unasked:
                left = len(objects())  # the next one is asked for again
            line.limit = line.limit_without(left)
            plan(line, left, 0, set_threshold)
            if line.unasked:
                line.unasked -= 1
                line.look, line.counted = NO_LOOK, -1
                set_third(line, line.host[2], set_threshold, quiet=True)
            return
        line.estimated = False
        survivors = count(info, took)
        collected = info["collected"]
        walked = survivors + collected
        over = walked > line.budget + line.period()
        yielded, before = collected > _YIELD * walked, line.yielded
        line.yielded = yielded
        waited = line.patient and walked + line.period() > line.limit
        if waited:  # for deaths that did not come
            line.patient = False
            line.needed = min(2 * line.needed, 64)
            line.forget()
        left = survivors
        if survivors <= line.budget // 2:
            if over:
                write(layout.LINE_OVER_GARBAGE, line, walked, at)
            line.limit = line.limit_after(left)
        elif yielded or before:
            if over:
                write(layout.LINE_OVER_YIELD, line, walked, at)
            line.limit = line.limit_without(left) if over else line.limit_after(left)
        elif line.frozen + survivors > line.credit():
            line.exhausted = line.wants = line.asked = True
            if waited and over:
                write(layout.LINE_OVER_WAITED, line, survivors, at)
            write(layout.LINE_EXHAUSTED, line, survivors, at)
            line.limit = line.limit_without(left)
        else:
            freeze()
            froze()
            left = 0
            line.frozen += survivors
            line.since += survivors
            line.moves += 1
            line.wants = line.wants or 2 * line.since >= line.credit()
            line.limit = line.limit_after(left)
            recorder = probe.recorder_of_this_process()
            if recorder is not None:
                recorder.mark(layout.MARK_FREEZE, layout.MARK_FLAG_OURS, -1)
            what = layout.LINE_OVER_WAITED if waited else layout.LINE_OVER_BURST
            write(what if over else layout.LINE_MOVED, line, survivors, at)
        plan(line, left, 0, set_threshold)

    def tell(took: int, info: "dict[str, int]", at: int) -> int:
        """Without credit nothing depends on the survivors, so nobody counts them: a pass that may have
        walked too much is marked, with what it walked by the time it took. What it left, about.
        """
        walked = info.get("candidates", -1)
        guess = walked if walked >= 0 else int(took / (line.ns_whole or NS_USUAL))
        most = walked if walked >= 0 else int(took / (line.ns_fast or _NS_AT_FIRST))
        if most > line.budget + line.period():
            write(layout.LINE_OVER_EXHAUSTED, line, guess, at)
        if walked < 0 and line.look == NO_LOOK and line.counted >= 0:
            guess = line.counted  # right before the pass
        return max(0, guess - info["collected"])

    return on_pass
