"""Collector-tracked objects that the recorder retains: none."""

from __future__ import annotations

from benchmarks.common import Interpreter, Result, run_target, session

PASSES = SPANS = 1_000_000


def measure(interpreter: Interpreter) -> list[Result]:
    with session() as folder:
        answer = run_target(
            interpreter.python, "retained", str(PASSES), str(SPANS), FROSTLINE_OUTPUT=str(folder)
        )
    more = sum(answer["more"].values())
    how = f"gc.get_objects() by type before and after {PASSES:,} passes and {SPANS:,} spans"
    how += f": {answer['more'] or 'the same'}"
    drift = answer["drift"]
    return [
        Result("tracked objects retained", str(more), "0", more <= 0 and not answer["off"], how),
        Result(
            "net tracked allocations of 300 spans",
            str(drift),
            "0",
            drift <= 0,
            "gc.get_count() before and after",
        ),
    ]
