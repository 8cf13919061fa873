"""What an integration adds to a request, under a policy that waits for idle moments."""

from __future__ import annotations

from statistics import median

from benchmarks.common import Interpreter, Result, run_target

ROUNDS = 21
#: What is measured, and how many empty calls of a Python function it may cost.
KINDS = {
    "function": ("a request that is a call (gunicorn sync, gthread)", 20),
    "coroutine": ("a request that is a coroutine (uvicorn)", 20),
    "middleware": ("a request through the ASGI middleware", 20),
    "task": ("a task from a queue (Celery, pools)", 50),
}


def measure(interpreter: Interpreter) -> list[Result]:
    rounds = run_target(interpreter.python, "request_cost", str(ROUNDS))["rounds"]
    results = []
    call = median(plain for plain, _ in rounds["function"])
    for kind, (what, bound) in KINDS.items():
        added = median(told - plain for plain, told in rounds[kind])
        calls = added / call
        how = (
            f"policy follow, CPU time, median of {ROUNDS} interleaved rounds of 20,000; {added:+.0f} ns, "
            f"an empty call in a loop is {call:.0f} ns"
        )
        results.append(Result(what, f"{calls:.0f} empty calls", f"{bound}", calls <= bound, how))
    return results
