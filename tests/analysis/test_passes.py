"""Passes: pauses and what of them was the pass, why each ran, what it walked."""

from __future__ import annotations

from pathlib import Path

import pytest

from frostline import format as fmt
from frostline.analysis import Analysis, ProcessReport, analyse
from frostline.recording import read_session
from tests.synthetic import MS, Process, write_helper


def analysed(folder: Path, *processes: Process) -> Analysis:
    for process in processes:
        process.write(folder)
    return analyse(read_session(folder))


def only(folder: Path, process: Process) -> ProcessReport:
    (found,) = analysed(folder, process).processes
    return found


def test_statistics_by_generation(tmp_path: Path) -> None:
    process = Process(words={})
    for took in range(1, 101):
        process.add_pass(took * 200 * MS, took * MS, 2, collected=2, candidates=100)
    process.add_pass(25_000 * MS, 1 * MS, 0)
    process.add_mark(fmt.MARK_CLOSE, 40_000 * MS)
    report = only(tmp_path, process)
    young, full = report.generations
    assert (young.generation, full.generation) == (0, 2)
    assert (full.count, full.p50, full.p99, full.longest) == (100, 50 * MS, 99 * MS, 100 * MS)
    assert full.total == sum(range(1, 101)) * MS
    assert full.share == pytest.approx(full.total / (40_000 * MS))
    assert (full.walked.value, full.walked.exact) == (10_000, True)
    assert (full.reclaimed, full.yield_) == (200, 0.02)


def test_other_callbacks_are_in_the_pause_and_not_in_the_pass(tmp_path: Path) -> None:
    """Case 53: ours is first; another tool's callback sleeps before and after."""
    process = Process()
    process.add_mark(fmt.MARK_OTHER_CALLBACK, 0, a=process.name("apm.on_gc"))
    process.add_pass(10 * MS, 25 * MS, 2, begin=30 * MS, end=55 * MS, others=1)
    report = only(tmp_path, process)
    (full,) = report.generations
    assert full.total == 45 * MS  # 10 to 55: what the process felt
    assert full.passes_alone == 5 * MS  # 30 to 35
    assert full.others == 40 * MS  # 10 to 30, and 35 to 55
    assert report.other_callbacks == ("apm.on_gc",)
    doubts = {doubt.slug for doubt in analysed(tmp_path).doubts}
    assert "other-callbacks" in doubts


def test_the_interpreters_own_duration_is_preferred(tmp_path: Path) -> None:
    process = Process()
    process.add_pass(10 * MS, 25 * MS, 2, duration=0.020, candidates=7)
    (full,) = only(tmp_path, process).generations
    assert (full.total, full.passes_alone) == (25 * MS, 20 * MS)


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"count0": 701}, "automatic"),
        ({"count0": 700}, "explicit, caller unseen"),
        ({"count0": 701, "threshold0": 0}, "explicit, caller unseen"),
        ({"count0": 701, "flags": fmt.PASS_FULL | fmt.PASS_DISABLED}, "explicit, caller unseen"),
        ({"count0": 701, "flags": fmt.PASS_FULL | fmt.PASS_EXPLICIT}, "explicit"),
        ({"count0": 1, "flags": fmt.PASS_FULL | fmt.PASS_FROSTLINE}, "Frostline"),
        ({"count0": 1, "flags": 0}, "unknown"),
    ],
)
def test_why_a_pass_ran(tmp_path: Path, fields: dict[str, int], kind: str) -> None:
    process = Process()
    process.add_pass(10 * MS, MS, 2, **fields)
    (full,) = only(tmp_path, process).full_passes
    assert full.kind == kind


def test_the_trigger_is_named(tmp_path: Path) -> None:
    process = Process()
    process.add_pass(
        10 * MS,
        MS,
        2,
        trigger_file=process.name("/srv/app.py"),
        trigger_line=12,
        trigger_function=process.name("f"),
    )
    (full,) = only(tmp_path, process).full_passes
    assert (full.file, full.line, full.function) == ("/srv/app.py", 12, "f")


# --- explicit collects ----------------------------------------------------------------
def test_explicit_collects_by_call_site(tmp_path: Path) -> None:
    """Cases 16 and 51: a skipped collect found nothing because it did not look."""
    process = Process()
    for i in range(3):
        process.add_mark(fmt.MARK_COLLECT, i * 10 * MS, 5 * MS, file="a.py", line=1, a=2, b=4, c=1)
    process.add_mark(fmt.MARK_COLLECT, 50 * MS, 7 * MS, file="b.py", line=2, a=1, b=0, c=1)
    process.add_mark(fmt.MARK_COLLECT, 60 * MS, 100, file="c.py", line=3, a=2, flags=fmt.MARK_FLAG_SKIPPED)
    process.add_mark(fmt.MARK_COLLECT, 70 * MS, 100, file="d.py", line=4, a=2, b=-1, c=1)
    sites = {site.file: site for site in only(tmp_path, process).call_sites}
    assert (sites["a.py"].count, sites["a.py"].total, sites["a.py"].reclaimed) == (3, 15 * MS, 12)
    assert (sites["b.py"].generation, sites["b.py"].skipped) == (1, 0)
    assert (sites["c.py"].count, sites["c.py"].skipped) == (1, 1)
    assert sites["d.py"].raised == 1
    assert next(iter(sites)) == "a.py"  # the costliest first


def test_a_pass_inside_a_recorded_collect_is_not_called_unseen(tmp_path: Path) -> None:
    process = Process()
    process.add_pass(11 * MS, MS, 2, count0=3)
    process.add_pass(50 * MS, 2 * MS, 2, count0=3)
    process.add_mark(fmt.MARK_COLLECT, 10 * MS, 5 * MS, file="a.py", line=1, a=2, c=1)
    report = only(tmp_path, process)
    assert (report.unseen_explicit, report.unseen_explicit_total) == (1, 2 * MS)


# --- state ----------------------------------------------------------------------------
def test_state_at_attach_and_close_and_freeze_counts_as_differences(tmp_path: Path) -> None:
    """Case 47: the 375 objects that CPython 3.12 froze itself are not ours."""
    process = Process(hexversion=0x030C01F0)
    process.add_state(0, (3, 1, 0), frozen=375)
    for i in range(5):
        process.add_pass(i * MS, 100, 0)
    process.add_mark(fmt.MARK_FREEZE, 10 * MS, a=1000)
    process.add_state(20 * MS, (8, 1, 0), frozen=1375, closing=True)
    report = only(tmp_path, process)
    assert report.at_attach is not None and report.at_close is not None
    assert report.at_attach.frozen == 375
    assert report.at_attach.thresholds == (700, 10, 10)
    assert [s and s[0] for s in report.at_close.stats] == [8, 1, 0]
    assert report.frozen_since_attach == 1000
    assert report.frozen_since > 0
    assert report.frozen_until == report.stop
    assert report.lost_passes == 0
    assert any("1,000 objects frozen since the start" in event.text for event in report.events)


def test_the_interpreters_own_count_shows_passes_that_were_not_recorded(tmp_path: Path) -> None:
    """Case 39: get_stats counts collections and never goes down; what it has more is lost."""
    process = Process()
    process.add_state(0, (3, 1, 0))
    for i in range(5):
        process.add_pass(i * MS, 100, 0)
    process.add_state(20 * MS, (18, 1, 0), closing=True)
    report = only(tmp_path, process)
    assert report.lost_passes == 10


# --- walked ---------------------------------------------------------------------------
def test_young_passes_walk_what_was_allocated_since(tmp_path: Path) -> None:
    process = Process()
    process.add_state(0, (3, 0, 0))
    for i in range(10):
        process.add_pass(i * MS, MS // 10, 0, count0=701, collected=1)
    process.add_pass(20 * MS, MS, 1, count0=701)
    young, middle = only(tmp_path, process).generations
    assert (young.walked.value, young.walked.exact) == (7010, False)
    assert middle.walked.value == 10 * 700 + 701
    assert "gc.get_count()" in young.walked.how


def grown(process: Process, objects: int) -> None:
    for i in range(objects // 1000):
        process.add_pass(i * MS // 10, MS // 20, 0, count0=1000)


def test_a_full_pass_walks_the_heap_where_it_was_seen_growing(tmp_path: Path) -> None:
    process = Process()
    process.add_state(0, (3, 0, 0))
    grown(process, 600_000)
    process.add_pass(1000 * MS, 40 * MS, 2, count0=5, flags=fmt.PASS_FULL | fmt.PASS_EXPLICIT)
    process.add_mark(fmt.MARK_FREEZE, 1100 * MS, a=-1)
    process.add_pass(1200 * MS, MS // 10, 2, count0=50)
    process.add_mark(fmt.MARK_THAW, 1300 * MS, a=-1)
    process.add_pass(1400 * MS, 40 * MS, 2, count0=5)
    walked = [p.walked.value for p in only(tmp_path, process).full_passes]
    assert walked == [600_005, 50, 600_060]


def test_a_counted_freeze_says_what_the_pass_before_it_left(tmp_path: Path) -> None:
    process = Process()
    process.add_state(0, (3000, 40, 5))  # attached late: nobody knows what was there
    process.add_pass(1000 * MS, 40 * MS, 2, collected=7)
    process.add_pass(1050 * MS, 40 * MS, 2)
    process.add_mark(fmt.MARK_FREEZE, 1100 * MS, a=500_000)
    walked = [p.walked.value for p in only(tmp_path, process).full_passes]
    assert walked == [None, 500_000]  # unknown stays unknown
    early = Process(pid=5)
    early.add_state(0, (3, 0, 0))
    early.add_pass(1000 * MS, 40 * MS, 2, collected=7)
    early.add_mark(fmt.MARK_FREEZE, 1100 * MS, a=500_000)
    reports = {p.pid: p for p in analysed(tmp_path, early).processes}
    assert [p.walked.value for p in reports[5].full_passes] == [500_007]


@pytest.mark.parametrize("version", [0x030E00F0, 0x030E04F0])
def test_nothing_is_estimated_for_the_incremental_collector(tmp_path: Path, version: int) -> None:
    process = Process(hexversion=version)
    process.add_state(0, (3, 0, 0))
    grown(process, 10_000)
    process.add_pass(1000 * MS, 40 * MS, 2)
    report = only(tmp_path, process)
    assert [g.walked.value for g in report.generations] == [None, None]
    assert {doubt.slug for doubt in analysed(tmp_path).doubts} >= {"incremental"}


def test_an_estimate_that_no_collector_could_walk_is_dropped(tmp_path: Path) -> None:
    """A program that churns: the net count drifts up, and the pass is too short for it."""
    process = Process()
    process.add_state(0, (3, 0, 0))
    grown(process, 3_000_000)
    process.add_pass(1000 * MS, 1 * MS, 2)
    (full,) = only(tmp_path, process).full_passes
    assert full.walked.value is None


def test_a_fork_starts_with_its_parents_heap(tmp_path: Path) -> None:
    parent = Process(pid=10)
    parent.add_state(0, (3, 0, 0))
    grown(parent, 100_000)
    child = Process(pid=11, opened=parent.opened + 500 * MS, text=[("parent_series", str(parent.opened))])
    child.add_mark(fmt.MARK_FORKED, 0, a=10)
    child.add_state(0, (130, 9, 3))
    child.add_pass(10 * MS, 10 * MS, 2, count0=5)
    reports = {p.pid: p for p in analysed(tmp_path, parent, child).processes}
    assert [p.walked.value for p in reports[11].full_passes] == [100_005]


@pytest.mark.parametrize(("thaw", "lasted"), [(None, True), (3900, True), (1200, False)])
def test_a_thaw_at_the_end_does_not_undo_a_freeze(tmp_path: Path, thaw: int | None, lasted: bool) -> None:
    process = Process(words={})
    process.add_mark(fmt.MARK_FREEZE, 1000 * MS, a=-1)
    process.add_pass(1100 * MS, MS)
    if thaw:
        process.add_mark(fmt.MARK_THAW, thaw * MS, a=-1)
    process.add_pass(3950 * MS, 50 * MS)
    report = only(tmp_path, process)
    assert bool(report.frozen_since) is lasted
    if thaw == 3900:
        assert [p.pause for p in report.while_frozen] == [MS]


def test_the_longest_pause_after_start_up_leaves_out_the_boundarys_own(tmp_path: Path) -> None:
    process = Process()
    process.add_pass(100 * MS, 300 * MS)
    process.add_mark(fmt.MARK_BOUNDARY, 1000 * MS, a=1)
    process.add_pass(1001 * MS, 200 * MS, flags=fmt.PASS_FULL | fmt.PASS_FROSTLINE)
    process.add_pass(2000 * MS, 50 * MS)
    report = only(tmp_path, process)
    assert (report.longest, report.longest_text) == (300 * MS, "gen 2, automatic")
    assert (report.serving_longest, report.serving_longest_text) == (50 * MS, "gen 2, automatic")
    assert report.serving == process.opened + 1000 * MS


@pytest.mark.parametrize(("ready", "expected"), [(700, 700), (10**9, 900), (0, 900)])
def test_start_up_ends_at_ready_or_else_at_the_first_step(tmp_path: Path, ready: int, expected: int) -> None:
    process = Process()
    process.add_pass(100 * MS, 300 * MS)
    process.add_span("step", 900 * MS, MS)
    at = process.opened + ready * MS if ready else 0
    write_helper(tmp_path, [], ready={"kind": "url", "at_ns": at, "detail": ""})
    assert only(tmp_path, process).serving == process.opened + expected * MS


def test_at_a_freeze_the_sum_begins_anew_although_nothing_is_known_before(tmp_path: Path) -> None:
    """R14: attached late, so no full pass has an estimate, until somebody freezes."""
    process = Process()
    for i in range(600):
        process.add_pass(i * MS // 10, MS // 20, 0, count0=1000)
    process.add_pass(100 * MS, 40 * MS)
    process.add_mark(fmt.MARK_FREEZE, 200 * MS, file="gc_utils.py", a=-1)
    for i in range(100):
        process.add_pass(300 * MS + i * MS // 10, MS // 20, 0, count0=500)
    process.add_pass(400 * MS, 40 * MS)
    process.add_mark(fmt.MARK_THAW, 500 * MS, a=-1)
    process.add_pass(600 * MS, 40 * MS)
    process.write(tmp_path)
    (report,) = analyse(read_session(tmp_path)).processes
    assert [p.walked.value for p in report.full_passes] == [None, 50_701, None]


def test_what_a_pass_was_too_quick_to_walk_is_not_in_the_next_estimate(tmp_path: Path) -> None:
    process = Process()
    process.add_state(0, (3, 0, 0))
    for i in range(600):
        process.add_pass(i * MS // 10, MS // 20, 0, count0=1000)
    process.add_pass(100 * MS, 1_200_000)  # 100,000 objects at most
    for i in range(10):
        process.add_pass(300 * MS + i * MS // 10, MS // 20, 0, count0=1000)
    # Asked for: CPython starts none by itself so soon.
    process.add_pass(400 * MS, 40 * MS, flags=fmt.PASS_FULL | fmt.PASS_EXPLICIT)
    process.write(tmp_path)
    (report,) = analyse(read_session(tmp_path)).processes
    assert [p.walked.value for p in report.full_passes] == [None, 110_701]
