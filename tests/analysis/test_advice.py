"""What to do next, and the doubts beside the numbers, on synthetic sessions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from frostline import format as fmt
from frostline.analysis import Analysis
from tests.analysis.test_verdict import analysed, normal
from tests.synthetic import MS, Process, write_helper, write_run

S = 1000 * MS


# --- what to do -----------------------------------------------------------------------
def advice(folder: Path, *processes: Process) -> list[str]:
    return [one.text for one in analysed(folder, *processes).advice]


def heap(process: Process, passes: int = 4, took: int = 60 * MS, **values: Any) -> None:
    process.add_state(0, (3, 0, 0))
    for i in range(600):
        process.add_pass(i * MS // 10, MS // 20, 0, count0=1000)
    for i in range(passes):
        process.add_pass(1000 * MS + i * 500 * MS, took, 2, **values)


def test_a_static_heap_is_to_be_frozen(tmp_path: Path) -> None:
    process = Process()
    heap(process)
    write_run(tmp_path, ["uvicorn", "app:app", "--name", "a b"])
    first = analysed(tmp_path, process).advice[0]
    assert first.command == "frostline run --policy freeze --ready-url URL -- uvicorn app:app --name 'a b'"
    assert first.saving == 240 * MS
    assert "expect up to 240 ms less" in first.text
    assert first.how


def test_passes_that_reclaim_much_are_needed(tmp_path: Path) -> None:
    process = Process()
    heap(process, collected=200_000)
    (text, *_) = advice(tmp_path, process)
    assert text.startswith("a freeze gains nothing here")


def test_negligible_pauses_need_nothing(tmp_path: Path) -> None:
    """Case 49: the source is fixed, and a freeze would change nothing."""
    process = Process()
    heap(process, took=2 * MS)
    (text, *_) = advice(tmp_path, process)
    assert text.startswith("a freeze gains nothing here: the longest pause is 2 ms")


def test_a_storm_of_explicit_collects_is_to_be_stopped_first(tmp_path: Path) -> None:
    process = Process()
    process.add_state(0, (3, 0, 0))
    for i in range(30):
        process.add_mark(fmt.MARK_COLLECT, i * 100 * MS, 20 * MS, file="x.py", line=4, a=2, b=1, c=1)
        process.add_pass(i * 100 * MS, 20 * MS, 2, flags=fmt.PASS_FULL | fmt.PASS_EXPLICIT, collected=1)
    texts = advice(tmp_path, process)
    assert texts[0].startswith("x.py:4 calls gc.collect() 30 times")
    assert "600 ms in all, each over at most 21,000 objects, reclaimed 30 objects" in texts[0]


def test_several_lines_that_call_collect_are_weighed_together(tmp_path: Path) -> None:
    """Case 16: each of three sites costs a third, and they come before the freeze all the same."""
    process = Process()
    process.add_state(0, (3, 0, 0))
    for i in range(30):
        process.add_mark(fmt.MARK_COLLECT, i * 100 * MS, 20 * MS, file="x.py", line=i % 3, a=2, b=0, c=1)
        process.add_pass(i * 100 * MS, 20 * MS, 2, flags=fmt.PASS_FULL | fmt.PASS_EXPLICIT)
    texts = advice(tmp_path, process)
    assert "calls gc.collect() 10 times" in texts[0]
    assert texts[0].endswith("or not at all; 2 other lines call it too (400 ms)")
    assert "Freeze" in texts[1]


def test_a_frozen_process_is_told_what_it_gained(tmp_path: Path) -> None:
    process = Process()
    heap(process)
    process.add_mark(fmt.MARK_FREEZE, 3000 * MS, a=-1)
    process.add_pass(4000 * MS, 1 * MS, 2)
    (text, *_) = advice(tmp_path, process)
    assert (
        "1 of 1 recorded processes were frozen" in text
        and "took 60 ms up to the freeze, and 1 ms after it" in text
    )


def test_a_heap_that_grew_after_the_freeze_is_named(tmp_path: Path) -> None:
    process = Process()
    heap(process)
    process.add_mark(fmt.MARK_FREEZE, 3000 * MS, a=-1)
    process.add_pass(4000 * MS, 55 * MS, 2, count0=400_000)
    (text, *_) = advice(tmp_path, process)
    assert "still had a full pass: 55 ms, up to 55 ms; its heap grew by at most 400,000 objects" in text


def test_without_steps_the_next_thing_is_to_name_one(tmp_path: Path) -> None:
    process = Process()
    heap(process)
    assert any("--span" in one.command for one in analysed(tmp_path, process).advice)


# --- never what was done, never what a freeze cannot give -----------------------------------
def serve(process: Process, start: int = 5 * S) -> None:
    for i in range(200):
        process.add_span("request", start + i * 50 * MS, 40 * MS, kind=fmt.SPAN_ASYNC)


def one(folder: Path, *processes: Process) -> Any:
    """The first advice that has a command."""
    return next(a for a in analysed(folder, *processes).advice if a.command)


def test_passes_of_start_up_are_not_promised_away(tmp_path: Path) -> None:
    """R3: four passes, all before the first request: a freeze at its end removes none of them."""
    process = Process()
    heap(process)
    serve(process)
    texts = advice(tmp_path, process)
    assert texts == [
        "a freeze gains nothing here: since start-up no full pass costs much and reclaims next to nothing; "
        "for the 4 during start-up (240 ms) it would come too late"
    ]


def test_a_helper_that_ended_during_start_up_is_judged_by_the_others(tmp_path: Path) -> None:
    server, registry = Process(), Process(pid=4712)
    registry.opened = server.opened + 1
    serve(server)
    heap(registry)
    assert not any("Freeze" in text for text in advice(tmp_path, server, registry))


def test_only_what_lies_after_start_up_is_counted(tmp_path: Path) -> None:
    process = Process()
    heap(process)
    serve(process)
    process.add_pass(6 * S, 70 * MS)
    process.add_pass(7 * S, 50 * MS, flags=fmt.PASS_FULL | fmt.PASS_EXPLICIT)
    first = one(tmp_path, process)
    assert first.saving == 70 * MS
    assert "expect up to 70 ms less" in first.text and "1 explicit call stays, and gets cheaper" in first.text


def test_case_02_explicit_passes_are_made_cheap_not_removed(tmp_path: Path) -> None:
    process = Process()
    heap(process, passes=0)
    for i in range(3):
        process.add_mark(fmt.MARK_COLLECT, (1000 + 100 * i) * MS, 40 * MS, file="x.py", line=9, a=2, c=1)
        process.add_pass((1000 + 100 * i) * MS, 40 * MS, flags=fmt.PASS_FULL | fmt.PASS_EXPLICIT)
    explicit, freeze, *_ = analysed(tmp_path, process).advice
    assert (
        explicit.text.startswith("x.py:9 calls gc.collect() 3 times") and "reclaimed nothing" in explicit.text
    )
    assert "3 (3 by explicit calls)" in freeze.text and "and reclaimed 0" in freeze.text
    assert "each over at most 602,000 objects" in freeze.text
    assert freeze.text.endswith("the calls stay, and get cheaper: expect up to 120 ms less")
    # The script goes on to freeze, and collects again: nothing may claim that the freeze was in vain.
    process.add_mark(fmt.MARK_FREEZE, 2 * S, file="x.py", a=-1)
    for i in range(3):
        process.add_pass(2 * S + (i + 1) * MS, MS // 10, flags=fmt.PASS_FULL | fmt.PASS_EXPLICIT)
    explicit, freeze, *rest = analysed(tmp_path, process).advice
    assert "It was frozen only after them" in freeze.text and freeze.saving == 3 * (40 * MS - MS // 10)
    assert not any("still had" in a.text for a in rest)


def test_the_programs_own_thaw_at_its_end_does_not_undo_the_freeze(tmp_path: Path) -> None:
    """R13: vLLM's worker thaws itself 0.2 s before it ends."""
    process = Process()
    heap(process)
    process.add_mark(fmt.MARK_BOUNDARY, 4 * S, a=2, flags=fmt.MARK_FLAG_LATE)
    flags = fmt.MARK_FLAG_OURS | fmt.MARK_FLAG_SPLICE | fmt.MARK_FLAG_LATE
    process.add_mark(fmt.MARK_FREEZE, 4 * S, a=-1, flags=flags)
    serve(process)
    process.add_mark(fmt.MARK_THAW, 15 * S, file="gpu_worker.py", line=1607, a=-1)
    (text,) = advice(tmp_path, process)
    assert text.startswith("nothing: 1 of 1 recorded processes were frozen")


def frozen(process: Process, ours: bool, threshold2: int = 10) -> None:
    heap(process)
    flags = fmt.MARK_FLAG_OURS if ours else 0
    process.add_mark(fmt.MARK_FREEZE, 4 * S, file="gc_utils.py", a=-1, flags=flags)
    serve(process)
    for i in range(5):
        process.add_pass(6 * S + i * S, 90 * MS, count0=50_000, threshold2=threshold2)


def test_full_passes_after_a_freeze_are_made_rare_by_thresholds(tmp_path: Path) -> None:
    process = Process()
    frozen(process, ours=False)
    process.add_pass(9500 * MS, 30 * MS, 0)
    write_run(tmp_path, ["vllm", "serve"])
    first = one(tmp_path, process)
    assert first.command == "frostline run --policy tune:700,10,1000 -- vllm serve"
    assert first.text.startswith("frozen, python (pid 4711) still had 5 full passes: 450 ms, up to 90 ms")
    # Case 13: never only the gain.
    assert (
        "The price: each young pass may walk more, and a cycle that outlives two young passes" in first.text
    )
    assert "after about 8,420,000 net allocations of containers" in first.text
    assert "young passes of up to 30 ms are there already" in first.text
    assert "freeze later" not in first.text


def test_where_the_freeze_is_ours_it_keeps_the_policy(tmp_path: Path) -> None:
    process = Process()
    frozen(process, ours=True)
    write_run(tmp_path, ["serve"])
    assert one(tmp_path, process).command == (
        "frostline run --policy freeze,thresholds=700/10/1000 --ready-url URL -- serve"
    )


def test_thresholds_that_were_raised_are_not_advised_again(tmp_path: Path) -> None:
    process = Process()
    frozen(process, ours=False, threshold2=1000)
    found = analysed(tmp_path, process).advice
    assert "make full passes rare already" in found[0].text and not found[0].command


def test_a_freeze_long_before_start_up_was_over_is_to_be_made_later(tmp_path: Path) -> None:
    process = Process()
    process.add_state(0, (3, 0, 0))
    process.add_mark(fmt.MARK_FREEZE, 10 * MS, a=-1)
    heap(process, passes=0)
    serve(process)
    process.add_pass(6 * S, 90 * MS)
    first = one(tmp_path, process)
    assert "before start-up was over. Freeze it when it is over" in first.text
    assert "--policy freeze --ready-url URL" in first.command


def test_both_are_said_of_two_processes(tmp_path: Path) -> None:
    """R4: what an unfrozen process could gain does not hide what a frozen one still pays."""
    stock, done = Process(), Process(pid=4712)
    heap(stock)
    frozen(done, ours=False)
    stock.opened = done.opened
    for part in (stock.passes, stock.marks):
        part.clear()
    serve(stock)
    for i in range(5):
        stock.add_pass(6 * S + i * S, 90 * MS)
    first, second, *_ = analysed(tmp_path, stock, done).advice
    assert "--policy freeze " in first.command and "still had 5 full passes" in second.text
    # No two commands of which one undoes the other.
    assert not second.command and "first freeze, then freeze,thresholds=700/10/1000" in second.text


def test_a_threshold_so_high_that_young_passes_stop_the_process(tmp_path: Path) -> None:
    process = Process()
    process.add_mark(fmt.MARK_THRESHOLD, 0, a=50_000, b=20, c=100, flags=fmt.MARK_FLAG_OURS)
    serve(process)
    process.add_pass(6 * S, 165 * MS, 0, count0=50_001, threshold0=50_000)
    texts = advice(tmp_path, process)
    assert texts[0].startswith(
        "with threshold 0 at 50,000, young passes of python (pid 4711) take up to 165 ms"
    )


def test_the_command_is_that_of_the_run_which_started_the_process(tmp_path: Path) -> None:
    """R20: two commands wrote into one session."""
    front = Process(pid=100)
    heap(front)
    write_run(tmp_path, ["front", "end"], pid=50, started_monotonic_ns=front.opened - 2)
    write_run(tmp_path, ["mocker"], pid=60, started_monotonic_ns=front.opened - 1)
    shell = {"pid": 70, "parent": 50, "python": False}
    write_helper(tmp_path, [shell, {"pid": 100, "parent": 70, "python": True, "recorded": True}])
    assert one(tmp_path, front).command.endswith("-- front end")


def test_a_policy_whose_boundary_never_came_is_told(tmp_path: Path) -> None:
    process = Process(text=[("policy", "freeze")])
    heap(process)
    analysis = analysed(tmp_path, process)
    (doubt,) = [d for d in analysis.doubts if d.slug == "no-boundary"]
    assert "nothing was frozen. Call frostline.startup_complete() or use --ready-url" in doubt.text
    assert (
        "no boundary came: nothing was frozen. Call frostline.startup_complete()" in analysis.advice[0].text
    )


def test_a_child_that_ended_before_the_others_were_told_has_missed_none(tmp_path: Path) -> None:
    server, child = Process(text=[("policy", "freeze")]), Process(pid=9, text=[("policy", "freeze")])
    child.opened = server.opened + 1
    child.add_pass(MS, MS)
    server.add_mark(fmt.MARK_BOUNDARY, 5 * S, a=2)
    server.add_mark(fmt.MARK_FREEZE, 5 * S, a=-1, flags=fmt.MARK_FLAG_OURS)
    serve(server, 6 * S)
    assert "no-boundary" not in slugs(analysed(tmp_path, server, child))


@pytest.mark.parametrize(
    ("lived", "ago", "doubted"), [(0.7, 0, False), (30, 0, True), (0.7, 4 * S, False), (0.7, 6 * S, True)]
)
def test_a_child_of_a_frozen_parent_that_ended_early_was_frozen_from_its_start(
    tmp_path: Path, lived: float, ago: int, doubted: bool
) -> None:
    """Pool workers that live less than a second inherit the freeze; nobody can tell them in time. Not if the
    parent froze while the child, forked before, was yet to run."""
    server = Process(text=[("policy", "freeze")])
    server.add_mark(fmt.MARK_BOUNDARY, 5 * S, a=2)
    server.add_mark(fmt.MARK_FREEZE, 5 * S, a=-1, flags=fmt.MARK_FLAG_OURS)
    serve(server, 60 * S)
    child = Process(pid=9, text=[("policy", "freeze"), ("parent_series", str(server.opened))])
    child.opened = server.opened + 10 * S
    child.add_mark(fmt.MARK_FORKED, 0, a=server.pid, b=server.opened, c=ago)
    child.add_pass(MS, MS)
    child.add_pass(int(lived * S), MS)
    assert ("no-boundary" in slugs(analysed(tmp_path, server, child))) == doubted


# --- doubts ---------------------------------------------------------------------------
def slugs(analysis: Analysis) -> set[str]:
    return {doubt.slug for doubt in analysis.doubts}


def test_a_span_that_was_never_put_on_is_named(tmp_path: Path) -> None:
    process = Process()
    process.add_mark(fmt.MARK_WRAPPED, 0, a=process.name("app:Engine.step"), b=process.name("step"))
    process.add_mark(fmt.MARK_REFUSED, 0, a=process.name("app:fast"), b=process.name("a cdef class"))
    normal(process)
    write_run(tmp_path, ["x"], spans="app:Engine.step=step;app:fast;app:missing=m")
    analysis = analysed(tmp_path, process)
    (doubt,) = [doubt for doubt in analysis.doubts if doubt.slug == "span-unused"]
    assert "--span app:missing " in doubt.text
    assert analysis.processes[0].refused == ("app:fast: a cdef class",)


def test_a_pass_that_was_off_the_cpu_is_doubted(tmp_path: Path) -> None:
    process = Process()
    heap(process, took=3000 * MS)
    assert "slow-walk" in slugs(analysed(tmp_path, process))


def test_a_pass_at_the_usual_speed_is_not(tmp_path: Path) -> None:
    process = Process()
    heap(process)
    assert "slow-walk" not in slugs(analysed(tmp_path, process))


def test_what_the_limit_dropped_is_no_loss_and_is_said(tmp_path: Path) -> None:
    process = Process()
    process.add_state(0, (3, 0, 0))
    process.add_pass(MS, 1000, 0)
    process.add_state(20 * MS, (104, 0, 0), closing=True)
    normal(process)
    write_helper(tmp_path, [], dropped={f"{process.pid}-{process.opened}": {"spans": 7, "young_passes": 100}})
    analysis = analysed(tmp_path, process)
    assert analysis.processes[0].lost_passes == 0
    assert {(loss.slug, loss.count) for loss in analysis.losses} == {
        ("spans-dropped", 7),
        ("passes-dropped", 100),
    }


def test_a_dead_collector_is_named(tmp_path: Path) -> None:
    """Case 30: forked inside a pass of another thread; isenabled() says True, and nothing runs."""
    process = Process()
    process.add_mark(fmt.MARK_FORKED, 0, a=1)
    process.add_mark(fmt.MARK_DEAD_COLLECTOR, 0)
    normal(process)
    assert "dead-collector" in slugs(analysed(tmp_path, process))


def test_a_freeze_without_a_collect_is_doubted(tmp_path: Path) -> None:
    process = Process()
    process.add_mark(fmt.MARK_FREEZE, 0, a=5, flags=fmt.MARK_FLAG_SPLICE | fmt.MARK_FLAG_LATE)
    normal(process)
    analysis = analysed(tmp_path, process)
    assert "frozen-garbage" in slugs(analysis)
    assert any("requests may have been in flight" in event.text for event in analysis.processes[0].events)


def test_a_session_whose_helper_died_is_not_called_running(tmp_path: Path) -> None:
    process = Process()
    normal(process)
    write_helper(
        tmp_path,
        [],
        ended=False,
        pid=2**22 - 1,
        start_ticks=1,
        pid_namespace=os.stat("/proc/self/ns/pid").st_ino,
    )
    analysis = analysed(tmp_path, process)
    assert not analysis.running
    assert [loss.slug for loss in analysis.losses] == ["helper-died"]


def test_splices_are_doubted_once_for_all_processes(tmp_path: Path) -> None:
    processes = [Process(pid=10 + i) for i in range(3)]
    for process in processes:
        flags = fmt.MARK_FLAG_SPLICE | fmt.MARK_FLAG_LATE | fmt.MARK_FLAG_OURS
        process.add_mark(fmt.MARK_FREEZE, 0, a=-1, flags=flags)
        normal(process)
    (text,) = [d.text for d in analysed(tmp_path, *processes).doubts if d.slug == "frozen-garbage"]
    assert text == (
        "frozen at READY without a collect in 3 processes: what garbage there was is frozen; "
        "how much cannot be counted without a thaw and a full pass"
    )


def test_a_dead_collector_is_the_first_thing_said(tmp_path: Path) -> None:
    process = Process()
    process.add_mark(fmt.MARK_FORKED, 0, a=1)
    process.add_mark(fmt.MARK_DEAD_COLLECTOR, 0)
    normal(process)
    analysis = analysed(tmp_path, process)
    assert analysis.doubts[0].slug == "dead-collector" and "IS DEAD" in analysis.doubts[0].text
    assert "Restart it, and fork before other threads start" in analysis.advice[0].text


def test_finalizers_at_exit_are_no_event(tmp_path: Path) -> None:
    process = Process()
    for at, file in ((0, "/lib/app.py"), (S, "/usr/lib/python3.11/weakref.py"), (2 * S, "/x/weakref.py")):
        process.add_mark(fmt.MARK_DISABLE, at, file=file)
        process.add_mark(fmt.MARK_ENABLE, at + (900 if file.startswith("/x") else 5) * MS, file=file)
    events = analysed(tmp_path, process).processes[0].events
    assert [(e.kind, e.time - process.opened) for e in events] == [
        ("disable", 0),
        ("enable", 5 * MS),
        ("disable", 2 * S),
        ("enable", 2 * S + 900 * MS),
    ]
