"""Four threads write spans while passes land inside the writes: nothing lost, nothing torn."""

from __future__ import annotations

import numpy as np

from benchmarks.common import Interpreter, Result, run_target, session
from benchmarks.records import all_records, segments
from frostline import format as layout

SPANS = 60_000


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
    ]
