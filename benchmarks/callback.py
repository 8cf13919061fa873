"""Cost of the callback, as a ratio to an empty Python callback, interleaved in one run."""

from __future__ import annotations

from statistics import mean, median

from benchmarks.common import Interpreter, Result, run_target

ROUNDS = 45


def measure(interpreter: Interpreter) -> list[Result]:
    answer = run_target(interpreter.python, "callback_cost", str(ROUNDS))
    rounds = answer["rounds"]
    on_3_14 = (3, 14) <= interpreter.version < (3, 15)
    bounds = {"whole": 3.0 if on_3_14 else 2.3, "bare": 2.4 if on_3_14 else 1.9}
    names = {"whole": "the whole callback", "bare": "a bare record"}
    results = []
    for kind, bound in bounds.items():
        ratio = median(one / empty for one, empty in zip(rounds[kind], rounds["empty"], strict=True))
        added = median(rounds[kind]) - median(rounds["empty"])
        none, empty = median(rounds["none"]), median(rounds["empty"])
        how = (
            f"CPU time of gc.collect(0) on a frozen heap, median of {ROUNDS} interleaved rounds; none "
            f"{none:.0f} ns, empty {empty:.0f} ns, {added:+.0f} ns to that; "
            f"mean {mean(rounds[kind]) - median(rounds[kind]):+.0f} ns, segments opened included"
        )
        what = f"{names[kind]} against an empty one"
        results.append(Result(what, f"{ratio:.2f} x", f"{bound} x", ratio <= bound, how))
    if answer["off"]:
        results.append(
            Result("the recorder stays on", f"off, reason {answer['off']}", "on", False, "live words")
        )
    return results
