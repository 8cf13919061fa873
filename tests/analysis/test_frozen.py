"""The story of the freeze: the boundary, extensions, walks of the whole heap, thaws, and since when."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from frostline import format as fmt
from frostline.analysis import Analysis, ProcessReport
from frostline.report import plain, report
from frostline.report.freezing import lines
from tests.analysis.test_verdict import analysed
from tests.synthetic import MS, Process

S = 1000 * MS
OURS = fmt.MARK_FLAG_OURS
SPLICE = OURS | fmt.MARK_FLAG_SPLICE


def only(folder: Path, process: Process) -> ProcessReport:
    (found,) = analysed(folder, process).processes
    return found


def boundary(process: Process, at: int, objects: int = 400_000, **values: Any) -> None:
    process.add_mark(fmt.MARK_BOUNDARY, at, a=1)
    process.add_pass(at + MS, 50 * MS, flags=fmt.PASS_FULL | fmt.PASS_FROSTLINE)
    process.add_mark(fmt.MARK_FREEZE, at + 60 * MS, a=objects, flags=OURS, **values)


def whole(process: Process, at: int, reclaimed: int = 0, took: int = 80 * MS, kept: int = 500_000) -> None:
    """A walk of the whole heap, as the engine marks it."""
    process.add_mark(fmt.MARK_THAW, at + MS, a=-1, flags=OURS)
    process.add_pass(
        at + 2 * MS, took - 10 * MS, flags=fmt.PASS_FULL | fmt.PASS_FROSTLINE, collected=reclaimed
    )
    process.add_mark(fmt.MARK_FREEZE, at + took - 5 * MS, a=kept, flags=OURS)
    process.add_mark(
        fmt.MARK_LINE, at, took, a=fmt.LINE_WHOLE_HEAP, b=reclaimed, c=0, d=kept, e=kept // 2, flags=OURS
    )


def move(process: Process, at: int, objects: int, kind: int = fmt.LINE_MOVED) -> None:
    process.add_mark(fmt.MARK_FREEZE, at + 1000, a=-1, flags=OURS)
    process.add_mark(fmt.MARK_LINE, at, 2000, a=kind, b=objects, flags=OURS)


def follow(folder: Path) -> Analysis:
    process = Process(text=[("policy", "follow")])
    boundary(process, 1 * S)
    process.add_pass(500 * MS, 90 * MS)
    for i in range(5):
        process.add_pass(2 * S + i * S, MS, count0=5_000)
        move(process, 2 * S + i * S + MS, 20_000)
    move(process, 7 * S, 90_000, fmt.LINE_OVER_BURST)
    whole(process, 8 * S, reclaimed=300)
    whole(process, 9 * S, reclaimed=60_000)
    process.add_mark(fmt.MARK_LINE, 9 * S + MS, a=fmt.LINE_GUARD, b=60_000, flags=OURS)
    process.add_mark(fmt.MARK_LINE, 10 * S, a=fmt.LINE_EXHAUSTED, b=-1, flags=OURS)
    process.add_mark(fmt.MARK_LINE, 11 * S, a=fmt.LINE_OVER_EXHAUSTED, b=120_000, flags=OURS)
    process.add_pass(11 * S, 9 * MS, count0=100_000)
    process.add_mark(fmt.MARK_THAW, 20 * S, a=-1, flags=OURS)
    process.add_pass(20 * S + MS, 99 * MS, flags=fmt.PASS_FULL | fmt.PASS_FROSTLINE)
    return analysed(folder, process)


def test_the_freeze_of_follow_is_the_boundarys_not_the_last_move(tmp_path: Path) -> None:
    analysis = follow(tmp_path)
    (process,) = analysis.processes
    start = process.start
    assert process.frozen_since == start + 1 * S + 60 * MS
    assert process.frozen_until == start + 20 * S
    assert len(process.frozen.spans) == 1
    why = [f.why for f in process.frozen.freezes]
    assert why == ["boundary", *["moved"] * 6, "whole heap", "whole heap"]
    assert process.frozen.first is process.frozen.freezes[0]
    # Up to the boundary, after it: every host's pass since counts, ours do not.
    assert [p.pause for p in process.while_frozen] == [MS] * 5 + [9 * MS]


def test_the_story_of_follow_in_a_few_lines(tmp_path: Path) -> None:
    analysis = follow(tmp_path)
    (process,) = analysis.processes
    told = "\n".join(lines(process))
    assert "the line moved 6 times and froze 190,000 more objects" in told
    assert "the credit was exhausted once;" in told
    assert "the guard fired once" in told
    assert "2 full passes walked over the budget: 1 many survivors at once (up to 90,000 objects)" in told
    assert "1 no credit (up to ~120,000 objects)" in told
    assert "Frostline walked the whole heap 2 times after the boundary, 160 ms in all, up to 80 ms" in told
    assert "reclaimed 60,300 objects: planned pauses, not the host's" in told
    text = plain(report(analysis))
    (row,) = [line for line in text if "at the boundary" in line and "python (pid" in line]
    assert "400,000 to 500,000" in row and "<=" in row
    # None of the moves is an event: they are told of in sum.
    assert sum("the line moved up" in line for line in text) == 0


def test_ours_are_counted_apart(tmp_path: Path) -> None:
    analysis = follow(tmp_path)
    (process,) = analysis.processes
    (full,) = process.generations
    assert (full.count, full.ours) == (11, 4)
    assert full.ours_total == (50 + 70 + 70 + 99) * MS
    assert process.serving_longest == 9 * MS
    # And in the head, beside the longest pause after start-up: whoever waited for one did wait.
    text = list(plain(report(analysis)))
    (line,) = [line for line in text[:12] if line.startswith("Frostline's own walks")]
    assert "after start-up: 2, 160 ms in all, up to 80 ms" in line and "waits" in line


def test_periodic_freezes_extend_the_boundarys(tmp_path: Path) -> None:
    process = Process()
    process.add_mark(fmt.MARK_POLICY, 0, a=process.name("periodic:60s"))
    process.add_mark(fmt.MARK_BOUNDARY, 1 * S, a=1)
    for i in range(4):
        process.add_mark(fmt.MARK_FREEZE, 2 * S + i * S, a=1000 * i, flags=OURS)
    process.add_pass(3500 * MS, MS)
    process.add_pass(10 * S, MS)
    found = only(tmp_path, process)
    assert [f.why for f in found.frozen.freezes] == ["boundary", *["periodic"] * 3]
    assert found.frozen_since == process.opened + 2 * S and len(found.while_frozen) == 2


def test_a_model_that_is_added_later_extends_it(tmp_path: Path) -> None:
    process = Process()
    boundary(process, 1 * S)
    process.add_mark(fmt.MARK_BOUNDARY, 5 * S, a=1)
    process.add_mark(fmt.MARK_FREEZE, 5 * S + MS, a=-1, b=4, flags=SPLICE)
    process.add_mark(fmt.MARK_FREEZE, 7 * S, a=-1, flags=SPLICE)
    process.add_pass(9 * S, MS)
    found = only(tmp_path, process)
    assert [(f.why, f.in_flight, f.garbage) for f in found.frozen.freezes] == [
        ("boundary", None, ""),
        ("boundary again", 3, "without a collect"),
        ("asked", None, "without a collect"),
    ]
    assert found.frozen_since == process.opened + 1 * S + 60 * MS
    assert any("frozen while serving: 3 requests in flight" in event.text for event in found.events)


def test_a_splice_that_an_idle_moment_put_right_is_no_doubt(tmp_path: Path) -> None:
    """Case 12."""
    process = Process()
    process.add_mark(fmt.MARK_BOUNDARY, 1 * S, a=1)
    process.add_mark(fmt.MARK_FREEZE, 1 * S + MS, a=-1, b=66, flags=SPLICE)
    process.add_pass(3 * S, MS)
    (doubt,) = [d for d in analysed(tmp_path, process).doubts if d.slug == "frozen-garbage"]
    assert "up to 65 requests in flight" in doubt.text and "cannot be counted without a thaw" in doubt.text
    right = Process(pid=12)
    right.marks, right.passes = [*process.marks], [*process.passes]
    right.opened = process.opened
    whole(right, 2 * S, reclaimed=128)
    (tmp_path / "b").mkdir()
    analysis = analysed(tmp_path / "b", right)
    assert not any(d.slug == "frozen-garbage" for d in analysis.doubts)
    (freeze, _) = analysis.processes[0].frozen.freezes
    assert (freeze.righted, freeze.reclaimed) == (right.opened + 2 * S, 128)


def test_a_short_freeze_before_it_does_not_count(tmp_path: Path) -> None:
    """Around a fork: gone at once, and no freeze of the heap that serves."""
    process = Process()
    process.add_mark(fmt.MARK_FREEZE, 1000 * MS, file="fork.py", a=-1)
    process.add_mark(fmt.MARK_THAW, 1020 * MS, file="fork.py", a=-1)
    boundary(process, 2 * S - 60 * MS)
    process.add_pass(60 * S, MS)
    found = only(tmp_path, process)
    assert found.frozen_since == process.opened + 2 * S and len(found.frozen.spans) == 2


def test_a_gap_in_between_is_not_frozen(tmp_path: Path) -> None:
    """An engine is closed and built anew: what ran in the gap walked everything."""
    process = Process()
    boundary(process, 1 * S)
    process.add_mark(fmt.MARK_THAW, 5 * S, a=-1, flags=OURS)
    process.add_pass(5500 * MS, 70 * MS)
    boundary(process, 6 * S)
    process.add_pass(8 * S, 2 * MS)
    found = only(tmp_path, process)
    assert found.frozen_since == process.opened + 1 * S + 60 * MS
    assert [p.pause for p in found.while_frozen] == [2 * MS]


def program(process: Process, at: int, **values: Any) -> None:
    process.add_mark(fmt.MARK_FREEZE, at, file="app.py", line=7, a=-1, **values)


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("none", "no full pass before it"),
        ("young", "2 young passes since the last full one"),
        # The collector may be off: then nothing but the count tells.
        ("more", "2,000 containers made since the last full pass"),
        ("just before", ""),
        ("not counted", ""),
    ],
)
def test_case_09_whether_the_program_collected_before_it_froze(
    tmp_path: Path, case: str, reason: str
) -> None:
    process = Process()
    process.add_state(0, (3, 0, 0))
    if case != "none":
        process.add_pass(1 * S, 50 * MS)
    if case == "young":
        process.add_pass(1200 * MS, MS, 0)
        process.add_pass(1300 * MS, MS, 1)
    program(process, 1500 * MS, c={"more": 2001, "not counted": 0}.get(case, 12))
    process.add_pass(5 * S, MS, 0)
    analysis = analysed(tmp_path, process)
    (freeze,) = analysis.processes[0].frozen.freezes
    assert (freeze.why, freeze.where, freeze.garbage) == ("program", "app.py:7", reason)
    doubts = [d.text for d in analysis.doubts if d.slug == "frozen-garbage"]
    assert len(doubts) == bool(reason)
    if reason:
        assert reason in doubts[0] and "app.py:7 froze without a collect before" in doubts[0]
        assert "cannot be counted without a thaw and a full pass" in doubts[0]


def test_case_09_after_a_thaw_a_full_pass_has_counted_it(tmp_path: Path) -> None:
    process = Process()
    program(process, 1 * S)
    process.add_mark(fmt.MARK_THAW, 2 * S, file="app.py", a=-1)
    process.add_pass(2100 * MS, MS, 1)
    process.add_pass(3 * S, 50 * MS, collected=2_000)
    (doubt,) = [d for d in analysed(tmp_path, process).doubts if d.slug == "frozen-garbage"]
    assert (
        "was frozen; it is among the 2,000 objects that the full pass after the thaw reclaimed" in doubt.text
    )


def test_case_10_engines_frozen_again_and_again_and_never_thawed(tmp_path: Path) -> None:
    process = Process()
    for i in range(3):
        boundary(process, (1 + i) * S, objects=100_000 * (i + 1))
    process.add_pass(9 * S, MS)
    found = only(tmp_path, process)
    (line,) = lines(found)
    assert line.startswith(
        "frozen 3 times and never thawed, and what is frozen grew from 100,000 to 300,000 objects"
    )
    assert "frostline.shutdown()" in line
    process.add_mark(fmt.MARK_THAW, 8 * S, a=-1, flags=OURS)
    (tmp_path / "b").mkdir()
    assert not [*lines(only(tmp_path / "b", process))]


def test_a_thaw_of_what_was_never_frozen_is_no_freeze(tmp_path: Path) -> None:
    """vLLM's workers call gc.unfreeze() at their end, frozen or not."""
    process = Process()
    process.add_pass(1 * S, MS)
    process.add_mark(fmt.MARK_THAW, 5 * S, a=-1)
    found = only(tmp_path, process)
    assert (found.frozen_since, found.frozen.spans, found.frozen.freezes) == (0, (), ())
    assert len(found.frozen.thaws) == 1


# --- who froze ------------------------------------------------------------------------------
def worker(policy: str, opened: int = 10**12) -> Process:
    """A forked worker of a pool: it keeps what it inherits, then its integration tells the boundary."""
    process = Process(pid=4712, opened=opened, text=[("policy", policy)])
    process.add_mark(fmt.MARK_FORKED, 0, a=4711)
    process.add_mark(fmt.MARK_FREEZE, MS, a=-1, flags=OURS)
    process.add_mark(fmt.MARK_BOUNDARY, 2 * MS, a=3)
    process.add_mark(fmt.MARK_FREEZE, 3 * MS, a=400_000, flags=OURS)
    process.add_pass(9 * S, MS)
    return process


@pytest.mark.parametrize("policy", ["freeze", "prefork", "follow"])
def test_what_a_worker_inherits_was_not_asked_for(tmp_path: Path, policy: str) -> None:
    analysis = analysed(tmp_path, worker(policy))
    assert [f.why for f in analysis.processes[0].frozen.freezes] == ["inherited", "boundary"]
    text = "\n".join(plain(report(analysis)))
    assert "as inherited, then at the boundary" in text and "as asked" not in text


def test_what_is_asked_of_a_worker_is_told_as_such(tmp_path: Path) -> None:
    """Freeze, thaw and freeze by command: each is an event, however many freezes there are."""
    process = worker("freeze")
    process.add_mark(fmt.MARK_THAW, 2 * S, a=-1, flags=OURS)
    process.add_mark(fmt.MARK_FREEZE, 3 * S, a=-1, b=1, flags=SPLICE)
    whole(process, 4 * S, 90)
    process.add_mark(fmt.MARK_THAW, 8 * S, a=-1, flags=OURS)
    found = only(tmp_path, process)
    assert [f.why for f in found.frozen.freezes] == ["inherited", "boundary", "asked", "whole heap"]
    shown = [(e.kind, e.time - found.start) for e in found.events if not e.minor]
    assert [at for kind, at in shown if kind == "freeze"] == [MS, 3 * MS, 3 * S]
    assert [at for kind, at in shown if kind == "thaw"] == [2 * S, 8 * S]


def test_what_prefork_freezes_before_a_fork_is_start_up(tmp_path: Path) -> None:
    process = Process(text=[("policy", "prefork")])
    whole(process, 1 * S)
    process.add_mark(fmt.MARK_FORK, 1100 * MS)
    process.add_mark(fmt.MARK_FREEZE, 2 * S, a=-1, flags=OURS)
    process.add_mark(fmt.MARK_FORK, 2010 * MS)
    process.add_mark(fmt.MARK_FREEZE, 3 * S, a=-1, b=3, flags=SPLICE)
    process.add_mark(fmt.MARK_FORK, 3001 * MS)
    process.add_mark(fmt.MARK_FREEZE, 4 * S, a=-1, b=3, flags=SPLICE)
    whole(process, 5 * S)
    process.add_pass(9 * S, MS)
    found = only(tmp_path, process)
    why = [f.why for f in found.frozen.freezes]
    assert why == ["before a fork"] * 3 + ["asked", "whole heap"]
    assert len(found.frozen.planned) == 1
