"""p99 with and without what a pass touched (case 23), and passes outside the main thread (case 42)."""

from __future__ import annotations

from pathlib import Path

from frostline import format as fmt
from frostline.report import plain, report
from tests.analysis.test_verdict import analysed
from tests.synthetic import MS, Process

S = 1000 * MS


def requests(process: Process, slow: int) -> None:
    """200 requests of 10 ms, ``slow`` of them held up by a full pass of 90 ms."""
    for i in range(200):
        process.add_span("request", i * S, 100 * MS if i < slow else 10 * MS, kind=fmt.SPAN_ASYNC)
    for i in range(slow):
        process.add_pass(i * S + MS, 90 * MS)


def test_case_23_the_tail_with_and_without_the_touched(tmp_path: Path) -> None:
    process = Process()
    requests(process, 4)
    process.add_pass(50 * S + MS, MS, 0)  # a young pass of 1 ms touches nothing
    process.add_pass(60 * S + MS, 6 * MS, 0)
    analysis = analysed(tmp_path, process)
    (label,) = analysis.processes[0].labels
    assert (label.touched, label.p99, label.p99_rest) == (5, 100 * MS, 10 * MS)
    (line,) = analysis.verdict.tail
    assert line.startswith(
        "p99 of requests of python (pid 4711): 100 ms, 10 ms without the 5 of 200 that a full"
    )
    assert "touched" in "\n".join(plain(report(analysis))).split("Steps")[1].splitlines()[1]


def test_where_every_request_is_touched_there_is_no_rest(tmp_path: Path) -> None:
    process = Process()
    requests(process, 200)
    (line,) = analysed(tmp_path, process).verdict.tail
    assert line.endswith("touched every one of the 200")


def test_where_nothing_is_touched_nothing_is_said(tmp_path: Path) -> None:
    process = Process()
    requests(process, 0)
    process.add_pass(500 * MS, 90 * MS)  # between two
    analysis = analysed(tmp_path, process)
    assert analysis.verdict.tail == () and analysis.processes[0].labels[0].p99_rest == 10 * MS


def test_case_42_passes_outside_the_main_thread_are_listed(tmp_path: Path) -> None:
    process = Process()
    process.add_mark(fmt.MARK_ATTACH, 0, thread=1, tid=process.pid)
    process.add_pass(1 * S, MS, 0, thread=1, collected=50)
    process.add_pass(2 * S, 3 * MS, 0, thread=2, collected=1)
    process.add_pass(3 * S, 30 * MS, 2, thread=2, tid=4800, collected=7)
    process.add_pass(4 * S, 5 * MS, 0, thread=3)
    analysis = analysed(tmp_path, process)
    (worker, other) = analysis.processes[0].threads
    assert (worker.tid, worker.count, worker.full) == (4800, 2, 1)
    assert (worker.reclaimed, worker.longest, other.tid) == (8, 30 * MS, 0)
    text = "\n".join(plain(report(analysis)))
    assert "Passes outside the main thread" in text
    assert "finalizers of what a pass reclaims run in its thread" in text


def test_of_passes_in_the_main_thread_alone_nothing_is_listed(tmp_path: Path) -> None:
    process = Process()
    process.add_pass(3 * S, 30 * MS, 2, thread=1, tid=process.pid)
    process.add_pass(4 * S, MS, 0, thread=1)
    assert analysed(tmp_path, process).processes[0].threads == ()
