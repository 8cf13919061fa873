"""The verdict on synthetic sessions of every kind: it must also be able to say no, and don't know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from frostline import format as fmt
from frostline.analysis import Analysis, Options, analyse
from frostline.recording import read_session
from tests.synthetic import MS, Process, write_helper, write_run


def normal(
    process: Process, label: str = "step", count: int = 100, took: int = 5 * MS, **values: Any
) -> None:
    for i in range(count):
        process.add_span(label, i * 10 * MS, took, **values)


def analysed(folder: Path, *processes: Process, options: Options | None = None) -> Analysis:
    for process in processes:
        process.write(folder)
    return analyse(read_session(folder), options)


def sentence(folder: Path, *processes: Process) -> str:
    return analysed(folder, *processes).verdict.sentence


# --- the three answers ----------------------------------------------------------------
def test_the_collector(tmp_path: Path) -> None:
    process = Process()
    normal(process)
    for i in range(3):
        process.add_pass(2000 * MS + i * 100 * MS, 80 * MS)
        process.add_span("step", 1998 * MS + i * 100 * MS, 85 * MS)
    analysis = analysed(tmp_path, process)
    assert analysis.verdict.kind == "collector"
    assert analysis.verdict.sentence == (
        "the collector stopped python (pid 4711) 3 times for over 20 ms, up to 80 ms at a time"
    )
    assert analysis.verdict.lines == (
        "240 ms in 2.3 s (10.5 %) while work was in flight; 3 of 103 steps waited for it",
        "it explains 3 of the 3 slow steps",
    )


def test_case_07_one_of_each(tmp_path: Path) -> None:
    """Four steps only: fast, sleeping, fast, collecting. Each slow one gets its own verdict."""
    process = Process()
    process.add_span("step", 0, 1000)
    process.add_span("step", 1 * MS, 50 * MS)
    process.add_span("step", 60 * MS, 1000)
    process.add_span("step", 70 * MS, 29 * MS)
    process.add_pass(70 * MS + 1000, 29 * MS - 2000, flags=fmt.PASS_FULL | fmt.PASS_EXPLICIT)
    analysis = analysed(tmp_path, process)
    assert analysis.verdict.sentence == "the collector stopped python (pid 4711) once, for 29.0 ms"
    assert analysis.verdict.lines == (
        "29.0 ms in 99 ms (29.3 %) while work was in flight; 1 of 4 steps waited for it",
        "it explains 1 of the 2 slow steps",
    )
    sleeping, collecting = analysis.processes[0].long_steps
    assert (sleeping.duration, sleeping.overlap, sleeping.explained) == (50 * MS, 0, False)
    assert (collecting.duration, collecting.explained) == (29 * MS, True)
    assert collecting.pass_text.startswith("gen 2, 29.0 ms, explicit")


def test_case_45_a_single_step_that_a_pass_fills(tmp_path: Path) -> None:
    process = Process()
    process.add_span("innocent", 10 * MS, 31 * MS)
    process.add_pass(11 * MS, 29 * MS, trigger_file=process.name("app.py"), trigger_line=16)
    analysis = analysed(tmp_path, process)
    assert analysis.verdict.lines[1] == "it explains 1 of the 1 slow steps"
    assert "automatic, triggered at app.py:16" in analysis.processes[0].long_steps[0].pass_text


def test_not_the_collector_when_slow_steps_hold_no_pass(tmp_path: Path) -> None:
    process = Process()
    normal(process)
    process.add_span("step", 2000 * MS, 90 * MS)
    process.add_pass(3000 * MS, 80 * MS)
    assert sentence(tmp_path, process) == "not the collector: no pass explains the slow step"


def test_not_the_collector_when_passes_are_too_short_to_explain(tmp_path: Path) -> None:
    process = Process()
    normal(process)
    process.add_span("step", 2000 * MS, 90 * MS)
    process.add_pass(2010 * MS, 2 * MS, 0)
    analysis = analysed(tmp_path, process)
    assert analysis.verdict.kind == "not-the-collector"
    (step,) = analysis.processes[0].long_steps
    assert (step.overlap, step.passes, step.explained) == (2 * MS, 1, False)
    assert "overlapped by too little" in analysis.verdict.details[0]


def test_not_the_collector_when_it_explains_next_to_none(tmp_path: Path) -> None:
    process = Process()
    normal(process, count=200)
    for i in range(20):
        process.add_span("step", 3000 * MS + i * 100 * MS, 50 * MS)
    process.add_pass(3000 * MS, 45 * MS)
    text = sentence(tmp_path, process)
    assert text == "not the collector: it explains only 1 of the 20 slow steps"


def test_not_the_collector_when_nothing_is_slow(tmp_path: Path) -> None:
    process = Process()
    normal(process)
    process.add_pass(5000 * MS, 300 * MS)
    assert sentence(tmp_path, process) == "not the collector: none of the 100 steps recorded takes over 20 ms"


def test_no_step_is_called_quick_where_all_take_long(tmp_path: Path) -> None:
    """Every request takes 180 ms, so none is over 3 x the median: not one of them is quick (U13)."""
    process = Process()
    normal(process, "request", took=180 * MS, kind=fmt.SPAN_ASYNC)
    process.add_pass(500 * MS, 9 * MS, 1)
    verdict = analysed(tmp_path, process).verdict
    assert verdict.kind == "not-the-collector"
    assert verdict.sentence == (
        "not the collector: the 100 requests take about 180 ms each, none over 3 x that; "
        "passes are 0.8 % of the time"
    )
    assert verdict.lines == ("requests of python (pid 4711): median 180 ms, p99 180 ms, longest 180 ms",)
    assert (verdict.threshold, verdict.factor, verdict.median) == (20 * MS, 3.0, 180 * MS)
    assert 0.007 < verdict.paused < 0.008


def test_a_time_finding_is_not_weakened_by_the_steps_it_does_not_explain(tmp_path: Path) -> None:
    process = Process()
    normal(process, count=200)
    for i in range(20):
        process.add_span("step", 3000 * MS + i * 100 * MS, 50 * MS)
    process.add_span("step", 9000 * MS, 410 * MS)
    process.add_pass(9000 * MS, 400 * MS)
    verdict = analysed(tmp_path, process).verdict
    assert verdict.sentence == "the collector stopped python (pid 4711) once, for 400 ms"
    assert verdict.lines[1] == "it explains 1 of the 21 slow steps"
    assert "only" not in " ".join(verdict.lines)


@pytest.mark.parametrize("asked", [True, False])
def test_a_span_that_was_refused_is_the_reason_that_nothing_can_be_told(tmp_path: Path, asked: bool) -> None:
    """The user has named a step already: what to correct is in the headline (U20)."""
    process = Process()
    process.add_mark(
        fmt.MARK_REFUSED,
        0,
        a=process.name("eng:Engine.stpe"),
        b=process.name("Engine has no stpe; near: step"),
    )
    process.add_pass(5000 * MS, 268 * MS)
    write_run(tmp_path, ["serve"], spans="eng:Engine.stpe=step" if asked else "")
    analysis = analysed(tmp_path, process)
    why = "--span eng:Engine.stpe: Engine has no stpe; near: step"
    assert (f"because no steps were recorded: {why}; the longest" in analysis.verdict.sentence) is asked
    assert any("name the function" in one.text for one in analysis.advice) is not asked
    assert (why in [doubt.text for doubt in analysis.doubts if doubt.slug == "span-refused"]) is asked


def test_cannot_tell_without_steps_and_says_the_longest_pause(tmp_path: Path) -> None:
    process = Process()
    process.add_identity("EngineCore", 0)
    process.add_pass(5000 * MS, 268 * MS)
    assert sentence(tmp_path, process) == (
        "cannot tell, because no steps were recorded; "
        "the longest pause was 268 ms, in EngineCore dp0 (pid 4711)"
    )


def test_cannot_tell_without_processes(tmp_path: Path) -> None:
    write_run(tmp_path, ["true"])
    assert sentence(tmp_path) == "cannot tell, because no process was recorded"


def test_cannot_tell_on_free_threaded_builds(tmp_path: Path) -> None:
    process = Process(build=fmt.BUILD_FREE_THREADED)
    normal(process)
    assert "free-threaded" in sentence(tmp_path, process)


def test_cannot_tell_when_the_passes_that_would_explain_may_be_lost(tmp_path: Path) -> None:
    process = Process(words={"lost_passes": 3})
    normal(process)
    process.add_span("step", 2000 * MS, 90 * MS)
    text = sentence(tmp_path, process)
    assert text.startswith("cannot tell, because passes were lost in ")


def test_what_was_lost_cannot_turn_a_yes(tmp_path: Path) -> None:
    process = Process(words={"lost_passes": 3})
    normal(process)
    process.add_span("step", 2000 * MS, 90 * MS)
    process.add_pass(2000 * MS, 85 * MS)
    analysis = analysed(tmp_path, process)
    assert analysis.verdict.kind == "collector"
    assert "passes-lost" in {doubt.slug for doubt in analysis.doubts}


def test_cannot_tell_when_the_recorder_stopped(tmp_path: Path) -> None:
    process = Process(words={"state": fmt.STATE_OFF, "off_reason": fmt.OFF_SPACE})
    normal(process)
    process.add_span("step", 2000 * MS, 90 * MS)
    assert sentence(tmp_path, process).startswith("cannot tell, because recording stopped before the end in ")


def test_cannot_tell_when_the_process_that_matters_may_have_been_missed(tmp_path: Path) -> None:
    process = Process()
    normal(process)
    process.add_span("step", 2000 * MS, 90 * MS)
    write_helper(
        tmp_path,
        [
            {
                "pid": 99,
                "python": True,
                "recorded": False,
                "missed": "no-site",
                "argv": ["python", "-S", "engine.py"],
            }
        ],
    )
    analysis = analysed(tmp_path, process)
    assert analysis.verdict.sentence == "cannot tell, because engine.py (pid 99) was not recorded"
    assert [(m.pid, m.reason) for m in analysis.missed] == [(99, "no-site")]
    assert "processes-missed" in {doubt.slug for doubt in analysis.doubts}


def test_cannot_tell_when_many_spans_are_lost(tmp_path: Path) -> None:
    process = Process(words={"lost_spans": 50})
    normal(process)
    assert "50 spans were lost" in sentence(tmp_path, process)


# --- what counts ----------------------------------------------------------------------
def test_both_bounds_can_be_set(tmp_path: Path) -> None:
    process = Process()
    normal(process)
    process.add_span("step", 2000 * MS, 12 * MS)
    process.add_pass(2000 * MS, 8 * MS)
    assert analysed(tmp_path, process).verdict.slow == 0
    strict = analyse(read_session(tmp_path), Options(long_factor=2, long_floor=10 * MS))
    assert strict.verdict.sentence == "the collector explains 1 of the 1 slow steps"


def test_three_times_the_median_is_needed_as_well(tmp_path: Path) -> None:
    process = Process()
    normal(process, took=30 * MS)
    process.add_span("step", 2000 * MS, 80 * MS)
    process.add_pass(2000 * MS, 50 * MS)
    assert analysed(tmp_path, process).verdict.slow == 0


def test_nested_steps_are_one_stall(tmp_path: Path) -> None:
    process = Process()
    for label, before in (("step", 3), ("schedule", 2), ("submit", 1)):
        normal(process, label)
        process.add_span(label, (2000 - before) * MS, (80 + 2 * before) * MS)
    process.add_pass(2000 * MS, 80 * MS)
    analysis = analysed(tmp_path, process)
    assert analysis.verdict.sentence == "the collector explains 1 of the 1 slow steps"
    assert {label.label: label.slow for label in analysis.processes[0].labels} == {
        "step": 1,
        "schedule": 1,
        "submit": 1,
    }
    assert [step.nested for step in analysis.processes[0].long_steps] == [False, True, True]


def test_steps_of_two_threads_are_two(tmp_path: Path) -> None:
    process = Process()
    normal(process)
    process.add_span("step", 1999 * MS, 84 * MS, thread=1)
    process.add_span("step", 2000 * MS, 80 * MS, thread=2)
    process.add_pass(2000 * MS, 80 * MS)
    assert analysed(tmp_path, process).verdict.slow == 2


def test_requests_that_wait_in_one_stall_do_not_drown_the_steps(tmp_path: Path) -> None:
    process = Process()
    normal(process)
    normal(process, "request", kind=fmt.SPAN_ASYNC)
    process.add_span("step", 2000 * MS, 80 * MS)
    for i in range(50):
        process.add_span("request", 1999 * MS + i, 90 * MS, kind=fmt.SPAN_ASYNC)
    process.add_pass(2000 * MS, 80 * MS)
    analysis = analysed(tmp_path, process)
    assert analysis.verdict.sentence == (
        "the collector explains 1 of the 1 slow steps and 50 of the 50 slow requests"
    )
    details = "\n".join(analysis.verdict.details)
    assert "1 of 1 slow 'step' explained" in details
    assert "50 of 50 slow 'request' covered" in details and "others ran in between" in details


def test_requests_count_where_there_is_nothing_else(tmp_path: Path) -> None:
    process = Process()
    normal(process, "request", kind=fmt.SPAN_ASYNC)
    process.add_span("request", 2000 * MS, 80 * MS, kind=fmt.SPAN_ASYNC)
    process.add_pass(2000 * MS, 80 * MS)
    assert sentence(tmp_path, process) == "the collector explains 1 of the 1 slow requests"


def test_start_up_spans_too_few_to_compare_stay_out_of_the_headline(tmp_path: Path) -> None:
    process = Process()
    normal(process)
    process.add_span("load_model", 0, 9000 * MS)
    process.add_span("step", 9500 * MS, 80 * MS)
    process.add_pass(9500 * MS, 80 * MS)
    analysis = analysed(tmp_path, process)
    assert analysis.verdict.sentence == "the collector explains 1 of the 1 slow steps"
    assert any("too few to compare" in line for line in analysis.verdict.details)


def test_a_pass_in_every_step_does_not_hide_in_the_median(tmp_path: Path) -> None:
    """Case 16 as steps: each calls gc.collect(), so three times the median is never reached."""
    process = Process()
    for i in range(50):
        process.add_span("step", i * 100 * MS, 30 * MS)
        process.add_pass(i * 100 * MS + MS, 28 * MS, flags=fmt.PASS_FULL | fmt.PASS_EXPLICIT)
    analysis = analysed(tmp_path, process)
    assert analysis.verdict.lines[1] == "it explains 50 of the 50 slow steps"
    assert "most of these steps hold a pass" in analysis.verdict.details[0]


def test_overlapping_passes_are_not_counted_twice(tmp_path: Path) -> None:
    process = Process()
    normal(process)
    process.add_span("step", 2000 * MS, 90 * MS)
    for _ in range(3):
        process.add_pass(2000 * MS, 20 * MS)  # a damaged recording may say the same thrice
    (step,) = analysed(tmp_path, process).processes[0].long_steps
    assert (step.overlap, step.explained) == (20 * MS, False)


def test_another_process_is_consistent_with_and_no_more(tmp_path: Path) -> None:
    engine, worker = Process(pid=10), Process(pid=11)
    worker.opened = engine.opened
    worker.add_identity("Worker", 1)
    normal(engine)
    engine.add_span("step", 2000 * MS, 90 * MS)
    worker.add_pass(2000 * MS, 85 * MS)
    analysis = analysed(tmp_path, engine, worker)
    assert analysis.verdict.kind == "not-the-collector"
    assert analysis.verdict.sentence.endswith("; 1 more is consistent with a pass in another process")
    (step,) = analysis.processes[0].long_steps
    assert step.elsewhere == "Worker dp1 (pid 11)"


def test_two_ids_of_one_text_are_one_label(tmp_path: Path) -> None:
    process = Process()
    normal(process)
    process.names["step "] = process.name("other")
    process.add_span("step", 2000 * MS, 90 * MS)
    process.spans[-1]["label"] = 77
    process.names["x"] = 77
    process.write(tmp_path)
    session = read_session(tmp_path)
    session.series[0].names[77] = "step"
    (label,) = analyse(session).processes[0].labels
    assert (label.label, label.count, label.slow) == ("step", 101, 1)


@pytest.mark.parametrize("labels", [1, 10, 60])
def test_any_number_of_labels_gives_the_same_statistics(tmp_path: Path, labels: int) -> None:
    process = Process()
    expected: dict[str, list[int]] = {}
    for i in range(300):
        label, took = f"step{i % labels}", (1 + i * 7 % 11) * 1000
        process.add_span(label, i * MS, took)
        expected.setdefault(label, []).append(took)
    found = {s.label: s for s in analysed(tmp_path, process).processes[0].labels}
    assert set(found) == set(expected)
    for label, times in expected.items():
        stats = found[label]
        ordered = sorted(times)
        assert (stats.count, stats.total, stats.longest) == (len(times), sum(times), ordered[-1])
        assert stats.p50 == ordered[-(-len(times) // 2) - 1]


def test_of_a_damaged_recording_nothing_is_claimed_with_confidence(tmp_path: Path) -> None:
    """A copy that was cut off on a full disk: what is left looks like a quiet server."""
    process = Process()
    normal(process)
    for i in range(400):
        process.add_pass(i * 5 * MS, MS // 10, generation=0)
    for path in process.write(tmp_path):
        path.write_bytes(path.read_bytes()[:6_000])
    write_run(tmp_path, ["serve"])
    analysis = analyse(read_session(tmp_path))
    assert analysis.verdict.kind == "cannot-tell"
    assert "the recording is damaged" in analysis.verdict.sentence
    assert analysis.advice[0].text.startswith("copy the session whole")
    assert not any("gains nothing" in advice.text for advice in analysis.advice)
