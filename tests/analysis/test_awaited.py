"""What a policy waits for and nobody tells, and what ``follow`` costs beside passes: in the report."""

from __future__ import annotations

from pathlib import Path

import pytest

from frostline import format as fmt
from frostline.report import plain, report
from frostline.report.freezing import lines
from tests.analysis.test_verdict import analysed
from tests.synthetic import MS, Process

S = 1000 * MS
OURS = fmt.MARK_FLAG_OURS


@pytest.mark.parametrize(
    ("acts", "silent"),
    [
        ([fmt.LINE_AWAITS], True),
        ([fmt.LINE_AWAITS, fmt.LINE_DEADLINE], True),
        ([fmt.LINE_AWAITS, fmt.LINE_TOLD], False),
        ([], False),  # it knew of requests at its boundary, or the recording is older than these marks
    ],
)
def test_idle_without_idle_moments_is_said(tmp_path: Path, acts: list[int], silent: bool) -> None:
    process = Process(text=[("policy", "idle")])
    process.add_mark(fmt.MARK_BOUNDARY, 1 * S, a=1)
    for i, act in enumerate(acts):
        process.add_mark(fmt.MARK_LINE, 2 * S + i * S, a=act, flags=OURS)
    process.add_pass(9 * S, 90 * MS)
    analysis = analysed(tmp_path, process)
    said = [one.text for one in analysis.advice if one.text.startswith("policy idle knows of no idle moment")]
    assert len(said) == silent
    if silent:
        assert "frostline.request()" in said[0] and "frostline.idle()" in said[0]
    plain(report(analysis))


def test_one_worker_that_is_told_speaks_for_the_others(tmp_path: Path) -> None:
    processes = [Process(pid=4711 + i, text=[("policy", "idle")]) for i in range(2)]
    for process in processes:
        process.add_mark(fmt.MARK_LINE, 1 * S, a=fmt.LINE_AWAITS, flags=OURS)
        process.add_pass(9 * S, 90 * MS)
    processes[1].add_mark(fmt.MARK_LINE, 2 * S, a=fmt.LINE_TOLD, flags=OURS)
    analysis = analysed(tmp_path, *processes)
    assert not any("knows of no idle moment" in one.text for one in analysis.advice)


def test_what_follow_counts_is_no_pass_and_is_told_of(tmp_path: Path) -> None:
    process = Process(
        text=[("policy", "follow")], words={"line_own_ns": 54 * MS, "line_own_longest_ns": 9 * MS}
    )
    process.add_mark(fmt.MARK_FREEZE, 1 * S, a=400_000, flags=OURS)
    for i, (act, took) in enumerate(
        [(fmt.LINE_MEASURED, 12 * MS), (fmt.LINE_RESTORED, 20 * MS), (fmt.LINE_MOVED, 5 * MS)]
    ):
        process.add_mark(fmt.MARK_LINE, 2 * S + i * S, took, a=act, b=1_000, flags=OURS)
    (found,) = analysed(tmp_path, process).processes
    line = found.frozen.line
    assert (line.counts, line.counts_total, line.counts_longest) == (2, 32 * MS, 20 * MS)
    assert (line.own_total, line.own_longest) == (54 * MS, 9 * MS)
    said = "\n".join(lines(found))
    assert "own work in stops, behind the passes' own end: 54 ms of CPU in all, up to 9 ms" in said
    assert "counted what lives of the frozen objects 2 times" in said and "32 ms in all, up to 20 ms" in said


@pytest.mark.parametrize("own", [0, 40_000])
def test_where_next_to_nothing_was_counted_nothing_is_said(tmp_path: Path, own: int) -> None:
    process = Process(text=[("policy", "follow")], words={"line_own_ns": own, "line_own_longest_ns": own})
    process.add_mark(fmt.MARK_FREEZE, 1 * S, a=400_000, flags=OURS)
    (found,) = analysed(tmp_path, process).processes
    assert not any("count" in line for line in lines(found))
