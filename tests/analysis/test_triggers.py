"""Why a full pass started, and when the next one comes: against the interpreter itself (D4, case 04)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from frostline import format as fmt
from frostline.analysis import analyse
from frostline.analysis.passes import pauses_of
from frostline.analysis.triggers import INCREMENT, QUARTER, THRESHOLD, WHOLE, reason
from frostline.recording import read_session
from tests.cases.test_cases import incremental
from tests.interpreters import Interpreter, every_interpreter
from tests.report.test_real import folder, run
from tests.synthetic import MS, Process

__all__ = ["folder"]


@every_interpreter
def test_case_04_every_pass_waited_for_the_quarter_rule_and_the_next_is_known(
    folder: Path, interpreter: Interpreter
) -> None:
    analysis = run(
        folder,
        interpreter,
        """
        import gc
        gc.set_threshold(100, 5, 5)
        gc.collect()
        keep = []
        for n in range(150_000):
            keep.append([n])
        """,
    )
    if incremental(interpreter):
        pytest.skip("no full pass starts by itself")
    (process,) = analysis.processes
    automatic = [one for one in process.full_passes if one.kind == "automatic"]
    # The heap is small at first, and there threshold 2 is what binds.
    assert len(automatic) >= 8 and [one.why for one in automatic[-6:]] == [QUARTER] * 6
    forecast = process.forecast
    assert forecast is not None and forecast.rule == QUARTER and forecast.seconds is not None
    assert forecast.error is not None and forecast.error <= 0.05 and forecast.tried >= 6
    # What stood in free lists at attach (3.10 to 3.12: some thousand objects) is not known.
    assert forecast.right >= forecast.came - 1 and forecast.called < 2 * forecast.right


@every_interpreter
def test_objects_that_live_and_die_at_random_are_forecast_too(folder: Path, interpreter: Interpreter) -> None:
    analysis = run(
        folder,
        interpreter,
        """
        import gc, random
        dice = random.Random(7)
        gc.set_threshold(200, 4, 3)
        heap = [[i] for i in range(30_000)]
        for step in range(400_000):
            heap[dice.randrange(30_000)] = [step]     # each replaces one of any age
            if step % 3 == 0:
                heap.append([step])
        """,
    )
    if incremental(interpreter):
        pytest.skip("no full pass starts by itself")
    forecast = analysis.processes[0].forecast
    assert forecast is not None and forecast.came >= 5
    # To a gen-1 pass of eight or so: which of two neighbours it is, the counts cannot say.
    assert 2 * forecast.right >= forecast.came
    assert forecast.error is not None and forecast.error <= 0.15


@every_interpreter
def test_with_a_frozen_heap_threshold_two_is_what_binds(folder: Path, interpreter: Interpreter) -> None:
    analysis = run(
        folder,
        interpreter,
        """
        import gc
        gc.set_threshold(100, 5, 20)
        heap = [[i] for i in range(50_000)]
        gc.collect()
        gc.freeze()
        gc.collect()                                 # sets the interpreter's long-lived total to about 0
        for n in range(60_000):
            [[n] for _ in range(3)]
            heap.append([n])
            if n % 40 == 0:
                del heap[-39:]
        """,
    )
    if incremental(interpreter):
        pytest.skip("no full pass starts by itself")
    whys = [one.why for one in analysis.processes[0].full_passes if one.kind == "automatic"]
    assert whys.count(THRESHOLD) >= 2


def synthetic(tmp_path: Path, hexversion: int, build: int = 0, **values: int) -> str:
    process = Process(hexversion=hexversion, build=build)
    process.add_pass(10 * MS, MS, **values)  # type: ignore[arg-type]
    process.write(tmp_path)
    (series,) = read_session(tmp_path).series
    return reason(series, pauses_of(series), 0)


@pytest.mark.parametrize(
    ("hexversion", "build", "values", "why"),
    [
        (0x030B07F0, 0, {"generation": 2, "count2": 11}, THRESHOLD),
        (0x030B07F0, 0, {"generation": 2, "count2": 12}, QUARTER),
        (0x030B07F0, 0, {"generation": 2, "count0": 3, "flags": fmt.PASS_FULL | fmt.PASS_EXPLICIT}, ""),
        (0x030B07F0, 0, {"generation": 1, "count1": 11}, "threshold 1"),
        (0x030E02F0, 0, {"generation": 1, "count0": 2_001, "threshold0": 2_000, "threshold2": 0}, INCREMENT),
        (0x030D05F0, fmt.BUILD_FREE_THREADED, {"generation": 0}, WHOLE),
    ],
)
def test_the_rule_is_read_from_the_counts_at_the_start(
    tmp_path: Path, hexversion: int, build: int, values: dict[str, int], why: str
) -> None:
    assert synthetic(tmp_path, hexversion, build, **values) == why


def test_the_rate_of_a_process_that_idles_is_not_that_of_its_last_pass(tmp_path: Path) -> None:
    """One pass in the last minute, of what was allocated in five: an engine core that makes no garbage."""
    process = Process()
    process.add_state(0, (0, 0, 0))
    at = 0
    for generation in (2, *([0] * 11 + [1]) * 3, 2):
        at += 10 * MS
        process.add_pass(at, MS, generation, count0=701, count1=11, count2=11)
    for generation in ([0] * 10 + [1]) * 2:
        at += 10 * MS
        process.add_pass(at, MS, generation, count0=701, count1=11)
    process.add_pass(at + 300_000 * MS, MS, 0, count0=701)
    process.write(tmp_path)
    (one,) = analyse(read_session(tmp_path)).processes
    assert one.forecast is not None and one.forecast.seconds is not None
    # 701 allocations in 300 s: the rate, whatever the number of allocations is.
    assert one.forecast.seconds == pytest.approx(one.forecast.allocations / 701 * 300, rel=0.01)


def test_nothing_is_forecast_where_the_counts_cannot_say(tmp_path: Path) -> None:
    process = Process()
    for i in range(5):  # no state of the start, no full pass: total is not known
        process.add_pass(i * 10 * MS, MS, generation=1, count0=700, count1=11)
    process.write(tmp_path)
    (one,) = analyse(read_session(tmp_path)).processes
    assert one.forecast is None
    assert np.all(one.series.passes["generation"] == 1)
