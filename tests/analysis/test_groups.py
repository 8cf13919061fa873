"""Steps compared with their like: what a step tells, which are over, and where their excess lies (B11)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frostline import format as fmt
from frostline.analysis import Analysis, analyse
from frostline.analysis.attributes import NO_BATCH, attributes_of, buckets, shown, sizes
from frostline.format import told
from frostline.recording import Series, read_session
from tests.synthetic import MS, Process

STAGE = {text: place << told.STAGE_SHIFT for place, text in enumerate(told.STAGES)}


def tell(stage: str = "", batch: int = -1) -> dict[str, int]:
    """Fields of a span that tells this."""
    flags = STAGE[stage] | (told.FLAG_BATCH if batch >= 0 else 0)
    return {"flags": flags, "value0": batch}


def step(process: Process, at: int, took: int, submit: int, stage: str = "decode", batch: int = 8) -> None:
    """An engine step, as vLLM's: the schedule in it tells, the step itself does not; times in us."""
    process.add_span("schedule", (at + 10) * 1000, 100_000, **tell(stage, batch))
    process.add_span("submit", (at + 200) * 1000, submit * 1000)
    process.add_span("engine step", at * 1000, took * 1000)


def analysed(folder: Path, process: Process) -> Analysis:
    folder.mkdir(exist_ok=True)
    process.write(folder)
    return analyse(read_session(folder))


def test_a_step_has_the_stage_and_batch_of_what_lies_in_it(tmp_path: Path) -> None:
    process = Process()
    at = 0
    for i in range(60):
        stage, batch = (("prefill", 1), ("decode", 8), ("decode", 9))[i % 3]
        step(process, at, 5000 + i % 3 * 1000, 2000, stage, batch)
        at += 10_000
    analysis = analysed(tmp_path, process)
    groups = {(g.label, g.stage, g.batch_low, g.batch_high): g for g in analysis.grouping.groups}
    assert groups["engine step", "prefill", 1, 1].count == 20
    assert groups["engine step", "decode", 8, 15].count == 40  # one row, two groups
    assert groups["engine step", "decode", 8, 15].compared == 40
    assert groups["engine step", "prefill", 1, 1].p50 == 5 * MS
    # What tells nothing itself has it from its step.
    assert groups["submit", "decode", 8, 15].count == 40
    assert groups["submit", "decode", 8, 15].compared == 0  # not outermost: nothing is counted twice


def test_the_last_one_in_it_that_tells_a_stage_counts(tmp_path: Path) -> None:
    """With a queue of batches vLLM schedules one and waits for another, which ``update`` is for."""
    process = Process()
    for i in range(40):
        at = i * 10 * MS
        process.add_span("schedule", at + 1, 1000, **tell("prefill", 1))
        process.add_span("update", at + 2 * MS, 1000, **tell("decode", 4))
        process.add_span("outputs", at + 3 * MS, 1000, **tell("", 2))
        process.add_span("engine step", at, 5 * MS)
    found = attributes_of(read_one(tmp_path, process))
    steps = found.label == found.texts.index("engine step")
    assert set(found.stage[steps]) == {told.DECODE} and set(found.batch[steps]) == {4}
    outputs = found.label == found.texts.index("outputs")
    assert set(found.batch[outputs]) == {2} and set(found.stage[outputs]) == {0}  # its own word stands


def read_one(folder: Path, process: Process) -> Series:
    process.write(folder)
    (series,) = read_session(folder).series
    return series


def test_steps_over_their_group_are_counted_and_their_excess_found(tmp_path: Path) -> None:
    """87 % of it inside submit, as in the issue that asked for this; a pass explains others."""
    process = Process()
    at = 0
    for i in range(1000):
        slow, paused = i % 50 == 7, i % 100 == 60
        # 4 ms more than the like: 3.48 ms of them inside submit.
        took, submit = (9000, 5480) if slow else (9000, 2000) if paused else (5000, 2000)
        step(process, at, took, submit)
        if paused:
            process.add_pass((at + 3000) * 1000, 4 * MS)
        at += 10_000
    analysis = analysed(tmp_path, process)
    (over,) = analysis.grouping.over
    assert (over.step, over.compared, over.over, over.explained, over.rest) == (
        "engine step",
        1000,
        30,
        10,
        20,
    )
    assert over.overlapped == 0
    assert over.excess == pytest.approx(20 * 4 * MS)
    assert over.part == "submit" and over.part_share == pytest.approx(0.87)
    parts = {part.part: part for part in analysis.grouping.parts}
    assert sum(part.total for part in parts.values()) == (970 * 5 + 30 * 9) * MS
    assert sum(part.share for part in parts.values()) == pytest.approx(1)
    assert sum(part.excess for part in parts.values()) == pytest.approx(over.excess, abs=3)
    assert parts["submit"].total == (980 * 2000 + 20 * 5480) * 1000
    assert parts["schedule"].excess == 0 and parts["schedule"].count == 1000
    # A step of 9 ms is over 1.2 x 5 ms and under the bound of a slow one: the verdict does not know it.
    assert analysis.verdict.slow == 0


def test_an_overlap_that_is_too_little_is_told_and_explains_nothing(tmp_path: Path) -> None:
    process = Process()
    for i in range(100):
        process.add_span("step", i * 10 * MS, (9 if i % 20 == 3 else 5) * MS)
        if i % 20 == 3:
            process.add_pass(i * 10 * MS + MS, MS)
    (over,) = analysed(tmp_path, process).grouping.over
    assert (over.over, over.explained, over.overlapped, over.rest) == (5, 0, 5, 5)
    assert over.part == "" and over.part_share is None


def test_sizes_that_differ_are_not_compared(tmp_path: Path) -> None:
    """A step of 64 takes longer than one of 8: no outlier, wherever that is told."""
    told_, silent = Process(pid=1), Process(pid=2)
    for i in range(200):
        batch, took = (64, 9) if i % 10 == 0 else (8, 5)
        told_.add_span("step", i * 10 * MS, took * MS, **tell("decode", batch))
        silent.add_span("step", i * 10 * MS, took * MS)
    told_.write(tmp_path)
    silent.write(tmp_path)
    grouping = analyse(read_session(tmp_path)).grouping
    assert [(one.pid, one.rest) for one in grouping.over] == [(2, 20)]


def test_a_span_of_a_whole_life_is_no_step(tmp_path: Path) -> None:
    process = Process()
    for i in range(50):
        process.add_span("step", i * 10 * MS, (9 if i == 30 else 5) * MS)
    process.add_span("serve", 0, 600 * MS)
    analysis = analysed(tmp_path, process)
    assert [(one.step, one.rest) for one in analysis.grouping.over] == [("step", 1)]
    assert analysis.grouping.parts == ()


def test_threads_whose_spans_cross_are_said_to(tmp_path: Path) -> None:
    process = Process()
    for i in range(40):
        process.add_span("greenlet", i * 10 * MS, 15 * MS)
    analysis = analysed(tmp_path, process)
    assert analysis.grouping.crossing == (analysis.processes[0].name,)
    assert [g.compared for g in analysis.grouping.groups] == [40]


def test_names_group_tasks_and_routes(tmp_path: Path) -> None:
    process = Process()
    for i in range(60):
        name = process.name("app.add" if i % 3 else "app.report")
        took = (5 if i % 3 else 50) * MS
        process.add_span("task", i * 100 * MS, took, flags=told.FLAG_GROUP, value1=name)
        request = process.name("GET /items/{item}")
        process.add_span(
            "request",
            i * 100 * MS,
            took,
            flags=told.FLAG_GROUP,
            value1=request,
            kind=fmt.SPAN_ASYNC,
            thread=2,
        )
    groups = {(g.label, g.name): g for g in analysed(tmp_path, process).grouping.groups}
    assert {key: g.count for key, g in groups.items()} == {
        ("task", "app.add"): 40,
        ("task", "app.report"): 20,
        ("request", "GET /items/{item}"): 60,
    }
    assert groups["task", "app.report"].over == 0
    assert groups["request", "GET /items/{item}"].compared == 0  # others ran in between


def test_a_damaged_batch_or_name_is_read_as_far_as_it_makes_sense(tmp_path: Path) -> None:
    process = Process()
    for i in range(30):
        flags = told.FLAG_BATCH | told.FLAG_GROUP | told.STAGE_MASK
        process.add_span("step", i * MS, 1000, flags=flags, value0=-5 + i % 2 * 2**62, value1=2**40 + i % 2)
    grouping = analysed(tmp_path, process).grouping
    assert sum(g.count for g in grouping.groups) == 30
    assert {g.stage for g in grouping.groups} == {""}
    assert all("lost" in g.name for g in grouping.groups)


@given(st.lists(st.integers(-1, 2**31 - 1), min_size=1, max_size=50))
def test_every_size_is_in_its_bucket_and_every_bucket_in_one_row(batches: list[int]) -> None:
    batch = np.array(batches, np.int32)
    for size, bucket in zip(batches, buckets(batch).tolist(), strict=True):
        low, high = sizes(bucket)
        assert low <= size <= high
        assert high - low <= max(0, size / 8)
        row_low, row_high = shown(bucket)
        assert row_low <= low and high <= row_high
        assert (bucket == NO_BATCH) == (size < 0)
