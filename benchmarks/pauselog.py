"""Cost of the pause log's callback, as a ratio to an empty Python callback, interleaved in one run."""

from __future__ import annotations

from statistics import median

from benchmarks.common import Interpreter, Result, run_target

ROUNDS = 45
BOUND = 1.8


def measure(interpreter: Interpreter) -> list[Result]:
    rounds = run_target(interpreter.python, "callback_cost", str(ROUNDS), "pause_log")["rounds"]
    ratio = median(one / empty for one, empty in zip(rounds["log"], rounds["empty"], strict=True))
    empty, none = median(rounds["empty"]), median(rounds["none"])
    added = median(rounds["log"]) - empty
    how = (
        f"CPU time of gc.collect(0) on a frozen heap, none over the threshold, median of {ROUNDS} "
        f"interleaved rounds; none {none:.0f} ns, empty {empty:.0f} ns, {added:+.0f} ns to that"
    )
    what = "the pause log's callback against an empty one"
    return [Result(what, f"{ratio:.2f} x", f"{BOUND} x", ratio <= BOUND, how)]
