"""Four threads write spans while passes land inside the writes: nothing lost or torn. What telling costs."""

from __future__ import annotations

from statistics import median

import numpy as np

from benchmarks.common import Interpreter, Result, run_target, session
from benchmarks.records import all_records, segments
from frostline import format as layout

SPANS = 60_000
ROUNDS = 31
#: A span that tells stage and batch size, against one that does not: a look at four attributes.
MOST_TOLD = 1.6


def measure(interpreter: Interpreter) -> list[Result]:
    with session() as folder:
        answer = run_target(interpreter.python, "span_writers", str(SPANS), FROSTLINE_OUTPUT=str(folder))
        parts = segments(folder)
        spans, _, damaged = all_records(parts, layout.REGION_SPANS)
        passes, _, damaged_passes = all_records(parts, layout.REGION_PASSES)
    words = parts[0].words
    begin = spans["start"].astype(np.int64)
    sound = (
        (spans["stop"].astype(np.int64) == begin * 2 + 1)
        & (spans["flags"] == (begin & 0xFFFF))
        & (spans["value0"] == (begin ^ 0x5A5A5A5A5A))
        & (spans["value1"] == -begin)
        & (spans["task"].astype(np.int64) == begin * 3)
        & (spans["kind"] == 1)
    )
    torn = int(np.count_nonzero(~sound)) + damaged
    lost = answer["spans"] - len(np.unique(begin))
    torn_passes = int(np.count_nonzero(passes["start"] > passes["stop"])) + damaged_passes
    lost_passes = max(0, answer["passes"] - len(passes))
    how = (
        f"{answer['spans']:,} spans of 4 threads, switch interval 1 us, {answer['passes']:,} passes "
        f"at threshold 1, many inside the write; each field follows from another"
    )
    said = words["lost_spans"] + words["lost_passes"]
    return [
        Result("spans lost", str(lost), "0", lost == 0, how),
        Result("spans torn", str(torn), "0", torn == 0, how),
        Result("passes lost", f"{lost_passes} (said: {said})", "0", lost_passes == said == 0, how),
        Result("passes torn", str(torn_passes), "0", torn_passes == 0, how),
        *_told(interpreter),
    ]


def _told(interpreter: Interpreter) -> list[Result]:
    with session() as folder:
        answer = run_target(interpreter.python, "told_cost", str(ROUNDS), FROSTLINE_OUTPUT=str(folder))
    rounds = answer["rounds"]
    bare, span, told = (median(rounds[kind]) for kind in ("bare", "span", "told"))
    ratio = median(one / other for one, other in zip(rounds["told"], rounds["span"], strict=True))
    how = (
        f"CPU time of a call, median of {ROUNDS} interleaved rounds, vLLM's schedule of 64 requests: bare "
        f"{bare:.0f} ns, with a span {span:.0f} ns, with one that tells {told:.0f} ns"
    )
    kept = f"gc.get_objects() before and after {answer['calls']:,} calls, the collector off"
    return [
        Result(
            "a span that tells", f"{ratio:.2f} x one that does not", f"{MOST_TOLD} x", ratio <= MOST_TOLD, how
        ),
        # The lists of rounds themselves, and segments that were opened.
        Result("tracked objects kept by them", str(answer["kept"]), "40", answer["kept"] <= 40, kept),
    ]
