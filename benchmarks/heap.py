"""A look at the heap: 300,000 objects in 60,000 cycles, and a census of 3,000,000 tracked objects."""

from __future__ import annotations

from benchmarks.common import Interpreter, Result, run_target

MIB = 1 << 20


def measure(interpreter: Interpreter) -> list[Result]:
    cycles = run_target(interpreter.python, "heap", "cycles")
    how = f"{cycles['found']:,} objects; {cycles['count']:,} x {cycles['path']}"
    named = cycles["count"] == 60_000 and "timed (heap.py:" in cycles["path"]
    census = run_target(interpreter.python, "heap", "census")
    counted = f"{census['objects']:,} objects, with the way to the largest containers"
    right = census["lists"] >= 2_000_000 and census["dicts"] >= 1_000_000
    off = abs(census["estimate"] / census["lists"] - 1)
    return [
        Result(
            "cycles named, pass and look",
            f"{cycles['took']:.2f} s",
            "5 s",
            named and cycles["took"] <= 5,
            how,
        ),
        Result(
            "memory while it looks",
            f"{cycles['more'] / MIB:.0f} MiB",
            f"{cycles['garbage'] / MIB:.0f} MiB, the garbage's own",
            cycles["more"] <= cycles["garbage"],
            "peak resident memory less that with the garbage",
        ),
        Result("census", f"{census['took']:.2f} s", "4 s", right and census["took"] <= 4, counted),
        Result(
            "its memory",
            f"{census['more'] / MIB:.0f} MiB",
            "64 MiB",
            census["more"] <= 64 * MIB,
            "peak resident memory less that before",
        ),
        Result(
            "sampled census, error of the lists' count",
            f"{off:.2%}",
            "5 %",
            off <= 0.05 and census["every"] > 1,
            f"each {census['every']:,}th object in {census['bounded']:.2f} s, asked for 0.2 s",
        ),
    ]
