"""A load client's requests beside the passes of every process (case 23), and what chance does."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frostline.analysis import Analysis
from frostline.analysis.clock import clock
from frostline.analysis.intervals import union
from frostline.analysis.requests import GAPS, NEVER, RESPONSE, TTFT, Measure, metered, shifted, with_requests
from frostline.errors import FrostlineError
from frostline.recording.requests import CLOSED, UNIX, Requests
from tests.analysis.test_verdict import analysed
from tests.requests import S, run_of
from tests.synthetic import MS, Process, write_run

OPENED = 1_000 * S


def process(pid: int, role: str, passes: list[tuple[int, int]], until: int = 30 * S) -> Process:
    """Full passes at (after opening, length), recorded for ``until`` ns."""
    made = Process(pid=pid, opened=OPENED + pid)
    made.add_identity(role)
    for at, took in passes:
        made.add_pass(at, took)
    made.add_state(until, (0, 0, 0), closing=True)
    return made


def measure(analysis: Analysis, name: str = RESPONSE) -> Measure:
    (report,) = analysis.requests
    (found,) = [m for m in report.measures if m.name == name]
    return found


def slow_at(places: list[int], count: int = 200, apart: int = 100 * MS) -> Requests:
    """Requests of 10 ms, those at ``places`` of 100 ms."""
    intended = [OPENED + S + i * apart for i in range(count)]
    return run_of(intended, [100 * MS if i in places else 10 * MS for i in range(count)])


PLACES = [17, 61, 84, 133, 170]


def test_case_23_the_touched_and_the_untouched(tmp_path: Path) -> None:
    stops = [(S + i * 100 * MS + MS, 90 * MS) for i in PLACES]
    plain = analysed(tmp_path, process(11, "EngineCore", stops), process(12, "APIServer", [(2 * S, MS)]))
    analysis = with_requests(plain, [slow_at(PLACES)])
    (report,) = analysis.requests
    found = measure(analysis)
    assert (report.count, report.failed, report.valid) == (200, 0, True)
    assert (found.p50, found.p99, found.p99_rest, found.p99_touched) == (10 * MS, 100 * MS, 10 * MS, 100 * MS)
    # Of the other process's pass, 1 ms long and full, a request is touched too.
    assert (found.touched, found.slow, found.consistent) == (6, 5, 5)
    engine, front = found.shares
    assert engine.process == "EngineCore (pid 11)" and engine.claimed and not front.claimed
    assert (engine.touched, engine.consistent, engine.covered) == (5, 5, 5 * 90 * MS)
    assert engine.share == 1.0 and engine.chance < 0.05 and engine.by_chance < 0.01
    assert (engine.attributed, report.attributed) == (5 * 90 * MS, 5 * 90 * MS + MS)
    assert (front.touched, front.consistent, front.covered) == (1, 0, 0)
    assert report.columns.touched.sum() == 6
    most = [analysis.processes[i].pid for i in report.columns.most[report.columns.response > 50 * MS]]
    assert most == [11] * 5
    assert analysis.verdict.sentence == plain.verdict.sentence
    first, second = analysis.verdict.lines[len(plain.verdict.lines) :]
    assert first == (
        "requests in bench.json: 200; p99 of the response 100 ms, 10 ms without the 6 that a full pass, "
        "or a pause over 5 ms, of some process touched"
    )
    assert second.startswith(
        "5 of the 5 slow requests are consistent with passes in EngineCore (pid 11); they "
        "cover 100% of their excess, "
    )


def test_passes_that_lie_elsewhere_are_not_claimed(tmp_path: Path) -> None:
    between = [(S + i * 100 * MS + 40 * MS, 50 * MS) for i in range(0, 200, 11) if i not in PLACES]
    analysis = with_requests(analysed(tmp_path, process(11, "EngineCore", between)), [slow_at(PLACES)])
    found = measure(analysis)
    assert found.slow == 5 and found.consistent == 0 and not any(s.claimed for s in found.shares)
    assert analysis.verdict.lines[-1] == "no pass covers half of what the 5 slow requests took too long"


def test_what_covers_half_of_everything_is_chance(tmp_path: Path) -> None:
    """Passes take half of the time; that half of the slow requests holds one says nothing."""
    stops = [(S + i * 400 * MS, 200 * MS) for i in range(60)]
    analysis = with_requests(analysed(tmp_path, process(11, "EngineCore", stops)), [slow_at(PLACES)])
    found = measure(analysis)
    (share,) = found.shares
    assert share.consistent >= 1 and share.by_chance > 0.05 and not share.claimed
    assert "may be chance" in analysis.verdict.lines[-1]


def test_passes_too_short_to_matter_are_never_claimed(tmp_path: Path) -> None:
    """Each slow request holds a full pass of 1 ms, as a frozen process has: beyond chance, and nothing."""
    stops = [(S + i * 100 * MS + MS, MS) for i in PLACES]
    analysis = with_requests(analysed(tmp_path, process(11, "EngineCore", stops)), [slow_at(PLACES)])
    (share,) = measure(analysis).shares
    assert share.touched == 5 and share.by_chance < 0.01
    assert (share.consistent, share.claimed) == (0, False)
    assert analysis.verdict.lines[-1] == "no pass covers half of what the 5 slow requests took too long"


def test_where_every_request_is_touched_or_none_is_slow(tmp_path: Path) -> None:
    analysis = with_requests(
        analysed(tmp_path, process(11, "EngineCore", [(S, 25 * S)])), [slow_at([], count=100)]
    )
    found = measure(analysis)
    assert (found.touched, found.slow, found.p99_rest) == (100, 0, None)
    first, second = analysis.verdict.lines[-2:]
    assert first.endswith("and full passes or pauses over 5 ms touched every one")
    assert second == "none of the requests that were answered is slow, by response"


def test_streams_are_judged_by_their_gaps(tmp_path: Path) -> None:
    """Long answers: the response hides a pause of 200 ms, the gap between two chunks shows it."""
    stops = [(2 * S + i * 5 * S, 200 * MS) for i in range(4)]
    intended = [OPENED + S + i * S for i in range(20)]
    gaps = []
    for at in intended:
        moment = at + 30 * MS
        while moment < at + 6 * S:
            held = [
                OPENED + 11 + start + took for start, took in stops if start <= moment - OPENED < start + took
            ]
            gaps.append((moment, max(moment + 20 * MS, *held) if held else moment + 20 * MS))
            moment = gaps[-1][1]
    requests = run_of(intended, [6 * S] * 20, first=[30 * MS] * 20, tokens=200, gaps=gaps)
    analysis = with_requests(analysed(tmp_path, process(11, "EngineCore", stops)), [requests])
    assert measure(analysis).slow == 0 and measure(analysis, TTFT).p50 == 30 * MS
    found = measure(analysis, GAPS)
    assert found.slow > 5 and found.consistent == found.slow and found.p50 == 20 * MS
    assert found.shares[0].claimed and found.shares[0].attributed is None
    assert measure(analysis, "TPOT").p50 == pytest.approx(5970 * MS / 199, abs=1)
    assert "slow gaps between chunks are consistent with passes in EngineCore" in analysis.verdict.lines[-1]


# --- failures -------------------------------------------------------------------------
def test_failures_without_a_deadline_count_as_longer_than_any_answer(tmp_path: Path) -> None:
    intended = [OPENED + S + i * 100 * MS for i in range(100)]
    took = [10 * MS] * 98 + [-1, 3 * MS]  # one never ended, one was refused at once
    requests = run_of(intended, took, status={98: "timeout", 99: "503"})
    analysis = with_requests(analysed(tmp_path, process(11, "EngineCore", [(2 * S, MS)])), [requests])
    found, service = measure(analysis), measure(analysis, "service")
    assert (found.count, found.p50, found.p99, found.longest) == (100, 10 * MS, None, None)
    assert (service.count, service.p99) == (100, None)
    assert analysis.requests[0].failed == 2
    assert "100, 2 of them failed; p99 of the response is a failure" in analysis.verdict.lines[-2]


def test_failures_count_at_their_deadline(tmp_path: Path) -> None:
    intended = [OPENED + S + i * 100 * MS for i in range(100)]
    took = [10 * MS] * 97 + [-1, 3 * MS, 12 * S]  # the client noticed the last one late
    requests = run_of(intended, took, status={97: "timeout", 98: "503", 99: "timeout"}, deadline=10 * S)
    analysis = with_requests(analysed(tmp_path, process(11, "EngineCore", [(12 * S, 2 * S)])), [requests])
    found, columns = measure(analysis), analysis.requests[0].columns
    assert (found.longest, found.slow, found.p99) == (10 * S, 3, 10 * S)
    assert columns.response.tolist()[-3:] == [10 * S] * 3
    # What lay in it ends where it ended: a refusal after 3 ms held no pass.
    assert (columns.last - columns.intended).tolist()[-3:] == [10 * S, 3 * MS, 10 * S]
    assert columns.attributed.tolist()[-3:] == [2 * S, 0, 2 * S]


def test_what_the_client_cut_off_counts_as_long_as_it_had_lasted(tmp_path: Path) -> None:
    requests = run_of([OPENED + S, OPENED + 2 * S], [4 * S, 10 * MS], status={0: "cut"})
    analysis = with_requests(analysed(tmp_path, process(11, "EngineCore", [(2 * S, MS)])), [requests])
    (report,) = analysis.requests
    assert (report.failed, report.cut, measure(analysis).longest) == (0, 1, 4 * S)


# --- doubts and refusals --------------------------------------------------------------
def slugs(analysis: Analysis) -> set[str]:
    return {doubt.slug for doubt in analysis.doubts}


def test_a_late_client_makes_the_run_invalid(tmp_path: Path) -> None:
    plain = analysed(tmp_path, process(11, "EngineCore", []))
    intended = [OPENED + S + i * 100 * MS for i in range(100)]
    late = with_requests(plain, [run_of(intended, [30 * MS] * 100, late=20 * MS)])
    assert not late.requests[0].valid and late.requests[0].late_p99 == 20 * MS
    assert "requests-late" in slugs(late)
    allowed = with_requests(plain, [run_of(intended, [30 * MS] * 100, late=20 * MS, late_bound=25 * MS)])
    assert allowed.requests[0].valid and "requests-late" not in slugs(allowed)
    assert measure(allowed, "service").p50 == 10 * MS


def test_a_client_that_had_no_files_left_makes_the_run_invalid(tmp_path: Path) -> None:
    plain = analysed(tmp_path, process(11, "EngineCore", []))
    intended = [OPENED + S + i * 100 * MS for i in range(100)]
    analysis = with_requests(plain, [run_of(intended, [30 * MS] * 100, own=7)])
    assert not analysis.requests[0].valid and "requests-own" in slugs(analysis)
    assert "requests-late" not in slugs(analysis)  # what it did send went out in time


def test_a_closed_loop_is_marked_and_metered(tmp_path: Path) -> None:
    """One client, one answer after the other: a stall of 2 s is one slow request, and hides 200."""
    intended, took, at = [], [], OPENED + S
    for i in range(500):
        intended.append(at)
        took.append(2 * S if i == 250 else 10 * MS)
        at += took[-1]
    analysis = with_requests(
        analysed(tmp_path, process(11, "EngineCore", [(S + 2500 * MS, 2 * S)])),
        [run_of(intended, took, loop=CLOSED)],
    )
    assert "requests-closed-loop" in slugs(analysis) and analysis.requests[0].late_p99 is None
    assert measure(analysis).p99 == 10 * MS  # it looks well
    hidden = measure(analysis, "metered, full").p99
    assert hidden is not None and hidden > 500 * MS  # it is not


def test_requests_outside_of_the_recorded_time_are_counted_and_left_out(tmp_path: Path) -> None:
    plain = analysed(tmp_path, process(11, "EngineCore", []))
    intended = [OPENED - 2 * S, OPENED + S, OPENED + 29 * S, OPENED + 40 * S]
    analysis = with_requests(plain, [run_of(intended, [S, S, 2 * S, -1], status={3: "timeout"})])
    (report,) = analysis.requests
    assert (report.count, report.outside, report.outside_failed) == (1, 3, 1)
    # A server that dies in mid-load ends the recording: its failures are not to be missed in the verdict.
    assert any(
        "1 more failed outside of the recorded time and are in no figure (3 lie there)" in line
        for line in analysis.verdict.lines
    )
    assert "requests-outside" in slugs(analysis)
    with pytest.raises(FrostlineError, match="lies in the recorded time") as raised:
        with_requests(plain, [run_of([S, 2 * S], [MS, MS])])
    assert raised.value.slug == "requests-elsewhere"


def test_a_file_of_another_boot_is_refused(tmp_path: Path) -> None:
    write_run(tmp_path, ["server"], boot_id="this")
    plain = analysed(tmp_path, process(11, "EngineCore", []))
    for boot in ("this", ""):
        assert with_requests(plain, [run_of([OPENED + S], [MS], boot_id=boot)]).requests
    with pytest.raises(FrostlineError) as raised:
        with_requests(plain, [run_of([OPENED + S], [MS], boot_id="another")])
    assert raised.value.slug == "requests-other-boot"


def test_a_file_on_the_wall_clock_is_laid_over_by_the_anchors(tmp_path: Path) -> None:
    stops = [(S + i * 100 * MS + MS, 90 * MS) for i in PLACES]
    plain = analysed(tmp_path, process(11, "EngineCore", stops))
    requests = slow_at(PLACES)
    between = clock(plain.anchors)
    moved = run_of(
        between.unix(requests.intended).tolist(),
        (requests.last - requests.intended).tolist(),
        clock=UNIX,
    )
    analysis = with_requests(plain, [moved])
    assert measure(analysis).shares[0].consistent == 5
    assert analysis.requests[0].clock_error == between.error > 0
    assert analysis.requests[0].columns.intended.tolist() == requests.intended.tolist()


# --- laws -----------------------------------------------------------------------------
spans = st.lists(st.tuples(st.integers(0, 4_000), st.integers(1, 400)), max_size=15)


@settings(max_examples=40)
@given(
    st.lists(spans, min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 4_000), st.integers(0, 900), st.booleans()), min_size=1, max_size=30),
)
def test_no_more_is_attributed_than_there_was(
    passes: list[list[tuple[int, int]]], asked: list[tuple[int, int, bool]]
) -> None:
    """Attributed <= response; the union of all <= the sum over the processes, >= the largest."""
    with tempfile.TemporaryDirectory() as folder:
        processes = [
            process(10 + i, "Worker", [(at * MS, took * MS) for at, took in sorted(own)], until=9 * S)
            for i, own in enumerate(passes)
        ]
        plain = analysed(Path(folder), *processes)
        requests = run_of(
            [OPENED + 100 + at * MS for at, _, _ in asked],
            [took * MS for _, took, _ in asked],
            status={i: "timeout" for i, (_, _, failed) in enumerate(asked) if failed},
            deadline=500 * MS,
        )
        (report,) = with_requests(plain, [requests]).requests
    columns, response = report.columns, report.measures[0]
    assert np.all(columns.attributed <= columns.response)
    assert np.all(columns.attributed <= columns.last - columns.intended)
    assert np.all(columns.most_attributed <= columns.attributed)
    assert np.all(columns.touched >= (columns.attributed > 0))  # every pass here is a full one
    sums = [share.attributed or 0 for share in response.shares]
    assert max(sums, default=0) <= report.attributed <= sum(sums)
    assert report.count == response.count == len(asked)
    for share in response.shares:
        assert 0 <= share.share <= 1 and 0 <= share.chance <= 1 and 0 < share.by_chance <= 1
        assert share.consistent <= response.consistent <= response.slow


def test_the_null_is_uniform_for_what_is_independent() -> None:
    """Of independent passes and slow requests, 5 % look like a pattern at 5 %, and half at one half."""
    found = []
    for seed in range(150):
        dice = np.random.default_rng(seed)
        begun, stopped = (np.sort(dice.integers(0, 99_000, n)) * MS for n in (30, 60))
        passes = union(stopped, stopped + 200 * MS)
        most = np.full(30, 400 * MS)
        chance, p = shifted(begun, begun + 500 * MS, most, passes, (0, 100 * S), shifts=200, seed=seed)
        assert 0 < chance < 0.5
        found.append(p)
    assert sum(p <= 0.05 for p in found) <= 17
    assert 50 <= sum(p <= 0.5 for p in found) <= 100


@given(
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 5_000)), min_size=1, max_size=40),
    st.sampled_from([None, 100, 1_000]),
)
def test_metered_latency_is_what_its_definition_says(
    events: list[tuple[int, int]], window: int | None
) -> None:
    events.sort()
    begin = [at for at, _ in events]
    end = [at + took for at, took in events]
    expected = []
    for i, at in enumerate(begin):
        near = [k for k in range(len(begin)) if window is None or abs(begin[k] - at) <= window // 2]
        first, last = near[0], near[-1]
        interval = (begin[last] - begin[first]) / (last - first) if last > first else 0.0
        synthetic = begin[first] + np.rint((i - first) * interval)
        expected.append(max(end[i] - at, end[i] - synthetic))
    starts, took = np.array(begin), np.array([t for _, t in events])
    assert metered(starts, took, window).tolist() == expected
    took[0] = NEVER
    assert metered(starts, took, window)[0] == NEVER


@given(
    st.lists(
        st.tuples(st.integers(1, 10**9), st.integers(-1_000, 1_000), st.integers(0, 100)),
        min_size=1,
        max_size=8,
    ),
    st.lists(st.integers(0, 10**10), min_size=1, max_size=20),
)
def test_there_and_back_between_the_clocks(steps: list[tuple[int, int, int]], times: list[int]) -> None:
    anchors, at, difference = [], 0, 1_790_000_000_000_000_000
    for step, slew, error in steps:
        # A wall clock that runs backwards has no way back.
        at, difference = at + step, difference + max(slew, -(step // 2))
        anchors.append((at, at + difference, error))
    between = clock(anchors)
    back = between.from_unix(between.unix(np.array(times)))
    assert np.all(np.abs(back - np.array(times)) <= between.error + 1)


def test_quantiles_are_nearest_rank(tmp_path: Path) -> None:
    took = [i * MS for i in range(1, 1001)]
    intended = [OPENED + S + i * 10 * MS for i in range(1000)]
    found = measure(with_requests(analysed(tmp_path, process(11, "A", [])), [run_of(intended, took)]))
    expected = tuple(math.ceil(q * 1000) * MS for q in (0.5, 0.99, 0.999))
    assert (found.p50, found.p99, found.p999) == expected and found.longest == 1000 * MS
