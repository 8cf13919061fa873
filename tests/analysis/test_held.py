"""Work that passes held up, by time: where counting slow steps would call the collector innocent."""

from __future__ import annotations

from pathlib import Path

import pytest

from frostline import format as fmt
from frostline.analysis import Analysis, analyse
from frostline.recording import read_session
from frostline.report import plain, report
from tests.synthetic import MS, Process, write_helper

S = 1000 * MS


def requests(
    process: Process, took: int = 4 * S, count: int = 40, every: int = S, start: int = 10 * S
) -> None:
    """Requests of mixed length, several in flight at any time."""
    for i in range(count):
        process.add_span("request", start + i * every, took // (1 + i % 3), kind=fmt.SPAN_ASYNC)


def front_end(pid: int = 4711, opened: int = 0, pauses: int = 9, took: int = 600 * MS) -> Process:
    """Steps that no pass falls into, and requests that every pass falls into."""
    process = Process(pid=pid, opened=opened)
    process.add_identity("ApiServer", pid - 4711)
    requests(process)
    for i in range(400):
        at = 10 * S + i * 100 * MS
        if (at - 12 * S) % (3 * S) > took + 30 * MS:  # no step begins during a pass
            process.add_span("outputs", at, (25 if i % 4 == 0 else 2) * MS)
    for i in range(pauses):
        process.add_pass(12 * S + i * 3 * S + 30 * MS, took, count0=400_000)
    return process


def analysed(folder: Path, *processes: Process) -> Analysis:
    for process in processes:
        process.write(folder)
    return analyse(read_session(folder))


def test_requests_in_flight_waited_although_no_step_holds_a_pass(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, front_end(took=60 * MS, pauses=3), front_end(pid=4712))
    assert analysis.verdict.kind == "collector"
    assert analysis.verdict.sentence == (
        "the collector stopped ApiServer dp1 (pid 4712) 9 times for over 20 ms, up to 600 ms at a time"
    )
    text = analysis.verdict.lines[0]
    assert text.startswith("5,400 ms in ") and text.endswith(" of 40 requests waited for it")
    assert analysis.processes[0].held is not None and analysis.verdict.held == ()


def test_every_process_that_was_held_up_is_named_five_of_them(tmp_path: Path) -> None:
    first = front_end()
    others = [front_end(4712 + i, first.opened + i, took=(200 + i) * MS) for i in range(7)]
    lines = analysed(tmp_path, first, *others).verdict.held
    assert len(lines) == 6
    assert lines[0].startswith("it also stopped ApiServer dp7 (pid 4718) 9 times")
    assert lines[-1] == "and 2 more"


def test_one_long_stop_is_a_finding_by_itself(tmp_path: Path) -> None:
    process = Process()
    requests(process, count=3000, every=100 * MS)
    process.add_pass(50 * S, 1887 * MS)
    analysis = analysed(tmp_path, process)
    assert analysis.verdict.kind == "collector"
    assert analysis.verdict.sentence == "the collector stopped python (pid 4711) once, for 1,887 ms"
    assert analysis.verdict.lines[0].startswith("1,887 ms in 304 s (0.6 %) while work was in flight; ")


def test_a_share_of_the_time_is_a_finding_without_a_long_stop(tmp_path: Path) -> None:
    process = Process()
    requests(process)
    for i in range(60):
        process.add_pass(12 * S + i * 400 * MS, 60 * MS)
    analysis = analysed(tmp_path, process)
    assert analysis.verdict.kind == "collector"
    assert "60 times" in analysis.verdict.sentence and "up to 60 ms at a time" in analysis.verdict.sentence


@pytest.mark.parametrize(
    ("at", "took", "flags"),
    [
        (5 * S, 2 * S, fmt.PASS_FULL),  # during start-up
        (70 * S, 2 * S, fmt.PASS_FULL),  # nothing was in flight
        (20 * S, 60 * MS, fmt.PASS_FULL),  # small
        (20 * S, 2 * S, fmt.PASS_FULL | fmt.PASS_FROSTLINE),  # ours, at the boundary
    ],
)
def test_not_the_collector_where_little_waited_for_it(tmp_path: Path, at: int, took: int, flags: int) -> None:
    """Steps are slow, and not by the collector (case 07; case 45's neighbour)."""
    process = Process()
    requests(process)
    for i in range(300):
        process.add_span("step", 10 * S + i * 100 * MS, (90 if i > 280 else 5) * MS)
    process.add_pass(at, took, flags=flags)
    process.add_span("export", 60 * S, 22 * S)
    assert analysed(tmp_path, process).verdict.kind == "not-the-collector"


def test_a_span_around_all_of_start_up_is_no_work_in_flight(tmp_path: Path) -> None:
    process = Process()
    process.add_span("load_model", 0, 9 * S)
    process.add_pass(3 * S, 2 * S)
    requests(process)
    analysis = analysed(tmp_path, process)
    assert analysis.processes[0].held is None
    assert analysis.processes[0].serving == process.opened + 10 * S


def test_serving_begins_at_the_first_boundary(tmp_path: Path) -> None:
    process = Process()
    process.add_mark(fmt.MARK_BOUNDARY, 9 * S, a=1)
    process.add_mark(fmt.MARK_BOUNDARY, 30 * S, a=1)
    requests(process)
    process.add_pass(20 * S, 2 * S)
    assert analysed(tmp_path, process).processes[0].held is not None


def test_what_was_in_flight_before_the_boundary_is_start_up(tmp_path: Path) -> None:
    process = Process()
    process.add_mark(fmt.MARK_BOUNDARY, 30 * S, a=1)
    requests(process)
    process.add_pass(20 * S, 2 * S)
    assert analysed(tmp_path, process).processes[0].held is None


def test_it_stands_although_a_process_was_missed_and_passes_were_lost(tmp_path: Path) -> None:
    process = front_end()
    process.words = {"lost_passes": 3}
    write_helper(
        tmp_path, [{"pid": 99, "python": True, "missed": "no-site", "argv": ["python", "-S", "x.py"]}]
    )
    analysis = analysed(tmp_path, process)
    assert analysis.verdict.sentence.startswith("the collector stopped ")
    assert analysis.verdict.kind == "collector" and analysis.verdict.explained == 0
    assert {"passes-lost", "processes-missed"} <= {doubt.slug for doubt in analysis.doubts}


def test_a_row_never_acquits_where_long_passes_are_inside(tmp_path: Path) -> None:
    process = Process()
    requests(process, took=2 * S, count=100, every=200 * MS)
    process.add_span("request", 12 * S, 20 * S, kind=fmt.SPAN_ASYNC)
    process.add_pass(13 * S, 2500 * MS)
    process.add_pass(20 * S, 2433 * MS)
    text = "\n".join(plain(report(analysed(tmp_path, process))))
    assert "4,933 ms of it are passes (26 % of the excess)" in text
    (row,) = [line for line in text.splitlines() if " 20,000.0 " in line and "gen 2" in line]
    assert "not the collector" not in row


# --- a process that was missed (R1) ---------------------------------------------------------
def missed_during(folder: Path, first: int, last: int) -> str:
    process = Process()
    for i in range(100):
        process.add_span("step", i * 10 * MS, 5 * MS)
    for i in range(50):
        process.add_span("step", 2 * S + i * 100 * MS, 90 * MS)
    process.write(folder)
    seen = {"first_seen_ns": process.opened + first, "last_seen_ns": process.opened + last}
    write_helper(folder, [{"pid": 99, "python": True, "missed": "no-site", "argv": ["x.py"], **seen}])
    return analyse(read_session(folder)).verdict.sentence


def test_a_missed_child_of_a_moment_does_not_take_the_verdict_away(tmp_path: Path) -> None:
    text = missed_during(tmp_path, 2 * S, 2 * S + 300 * MS)
    assert text == "not the collector: no pass explains the 50 slow steps"


def test_one_that_lived_through_the_slow_steps_does(tmp_path: Path) -> None:
    assert missed_during(tmp_path, 0, 9 * S) == "cannot tell, because x.py (pid 99) was not recorded"


# --- requests in the headline (R19) ---------------------------------------------------------
def test_requests_are_counted_beside_the_steps(tmp_path: Path) -> None:
    process = Process()
    for i in range(100):
        process.add_span("outputs", i * 10 * MS, MS)
        process.add_span("request", i * 10 * MS, 30 * MS, kind=fmt.SPAN_ASYNC)
        process.add_span("preprocess", i * 10 * MS, 10 * MS, kind=fmt.SPAN_ASYNC)
    assert analysed(tmp_path, process).verdict.sentence == (
        "not the collector: the 100 requests take about 30 ms each, none over 3 x that; "
        "passes are 0.0 % of the time"
    )
    for i in range(6):
        process.add_span("request", 2 * S + i * 300 * MS, 200 * MS, kind=fmt.SPAN_ASYNC)
    analysis = analysed(tmp_path, process)
    assert analysis.verdict.sentence == (
        "not the collector: no pass explains the 6 slow requests, and none of the 100 steps is slow"
    )
    assert (analysis.verdict.requests, analysis.verdict.slow_requests) == (106, 6)


def test_slow_requests_that_passes_explain_make_the_verdict(tmp_path: Path) -> None:
    process = Process()
    for i in range(1000):
        process.add_span("outputs", i * 10 * MS, MS)
        process.add_span("request", i * 10 * MS, 30 * MS, kind=fmt.SPAN_ASYNC)
    process.add_span("request", 20 * S, 110 * MS, kind=fmt.SPAN_ASYNC)
    process.add_pass(20 * S, 90 * MS)
    assert analysed(tmp_path, process).verdict.sentence == ("the collector explains 1 of the 1 slow requests")
