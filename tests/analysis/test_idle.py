"""Ranks that idle: whose passes their gaps are consistent with, and whose they are not (A10, A11, D2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from frostline import format as fmt
from frostline.analysis import Analysis, analyse
from frostline.analysis.ranks import CONSISTENT, SUPPLY, UNEXPLAINED, Rank
from frostline.analysis.starved import starved
from frostline.format import told
from frostline.recording import merge, read_session
from tests.synthetic import MS, Process, write_helper, write_run

#: ns; all processes of a session are opened at (nearly) one instant.
OPENED = 10**15
STALLS = [(3_000, 300), (7_210, 450), (13_570, 320)]


def rank(
    pid: int,
    gaps: list[tuple[int, int]],
    role: str = "Worker",
    number: int = 0,
    until: int = 20_000,
    label: str = "execute model",
    **values: Any,
) -> Process:
    """Steps of 9 ms every 10 ms, but for gaps (at, ms): both whole tens."""
    process = Process(pid=pid, opened=OPENED + pid, **values)
    process.add_identity(role, number)
    at = 0
    for start, length in [*sorted(gaps), (until, 0)]:
        while at + 10 <= start:
            process.add_span(label, at * MS, 9 * MS)
            at += 10
        at = start + length
    return process


def collecting(pid: int, passes: list[tuple[int, int]], role: str = "EngineCore", **values: Any) -> Process:
    process = Process(pid=pid, opened=OPENED + pid)
    process.add_identity(role, 0)
    for at, took in passes:
        process.add_pass(at * MS, took * MS, **values)
    return process


def front_end(
    pid: int, requests: list[tuple[int, int]], passes: list[tuple[int, int]] | None = None
) -> Process:
    process = collecting(pid, passes or [], role="APIServer")
    for at, took in requests:
        process.add_span("request", at * MS, took * MS, kind=fmt.SPAN_ASYNC)
    return process


def analysed(folder: Path, *processes: Process) -> Analysis:
    folder.mkdir(exist_ok=True)
    for process in processes:
        process.write(folder)
    return analyse(read_session(folder))


def in_stalls(stalls: list[tuple[int, int]], early: int = 5, late: int = 10) -> list[tuple[int, int]]:
    """Passes that begin soon after each gap has opened and end before it closes."""
    return [(at + early, length - early - late) for at, length in stalls]


def kinds(one: Rank) -> list[int]:
    return one.kind.tolist()  # type: ignore[no-any-return]


# --- another process's passes -----------------------------------------------------------
def test_workers_that_idle_while_the_engine_core_collects(tmp_path: Path) -> None:
    """Their steps are fine and they have no pass: the process at fault is the one that emits nothing."""
    engine = collecting(1, in_stalls(STALLS), collected=7)
    analysis = analysed(tmp_path, engine, rank(2, STALLS), rank(3, STALLS, number=1))
    verdict = analysis.verdict
    assert verdict.kind == "collector"
    assert verdict.sentence == (
        "the 2 ranks of Worker idle 2.1 s in gaps of over 20 ms between their steps, added up; "
        "100 % of it is consistent with passes of EngineCore dp0 (pid 1)"
    )
    assert verdict.lines[0] == "the work itself: none of the 3,786 steps recorded takes over 20 ms"
    assert [one.process for one in analysis.ranks] == ["Worker dp0 (pid 2)", "Worker dp1 (pid 3)"]
    for one in analysis.ranks:
        assert kinds(one) == [CONSISTENT] * 3
        assert (one.count, one.explained, one.unexplained, one.supply) == (3, 3, 0, None)
        assert one.explained_total == one.total == (301 + 451 + 321) * MS
        assert one.supply_unknown == "no request was recorded, and no step says that it was empty"
        (found,) = one.consistent
        assert (found.process, found.own, found.claimed, found.via) == (
            "EngineCore dp0 (pid 1)",
            False,
            True,
            (),
        )
        assert (found.gaps, found.passes, found.generations, found.reclaimed) == (3, 3, (0, 0, 3), 21)
        assert found.longest == 435 * MS and found.share == 1 and found.by_chance <= 0.01
        assert [(b.low // MS, b.high // MS, b.count, b.explained) for b in one.buckets] == [
            (100, 400, 2, 2),
            (400, 700, 1, 1),
        ]
        first = one.longest[0]
        assert first.length == 451 * MS and first.process == "EngineCore dp0 (pid 1)"
        assert first.verdict == "consistent with a pass in EngineCore dp0 (pid 1)"
        assert first.pass_text.startswith("gen 2, 435.0 ms, automatic") and "reclaimed 7" in first.pass_text
    # It is on the path, although it has no span.
    assert analysis.budgets[-1].of[0] == "EngineCore dp0 (pid 1)" and len(analysis.budgets[-1].of) == 3


def test_passes_that_lie_elsewhere_explain_nothing(tmp_path: Path) -> None:
    engine = collecting(1, [(at + 1_000, length) for at, length in STALLS])
    analysis = analysed(tmp_path, engine, rank(2, STALLS))
    assert analysis.verdict.kind == "not-the-collector"
    (one,) = analysis.ranks
    assert kinds(one) == [UNEXPLAINED] * 3 and one.consistent == ()
    assert [gap.verdict for gap in one.longest] == ["unexplained"] * 3


def test_a_process_that_collects_half_of_the_time_meets_gaps_by_chance(tmp_path: Path) -> None:
    """The rule alone would blame it; as much is found wherever its passes lie."""
    busy = collecting(1, [(at, 500) for at in range(0, 20_000, 600)], role="Batch")
    dice = np.random.default_rng(2)
    stalls = [(at, 100) for at in (np.cumsum(dice.gamma(4, 12, 40)).astype(int) * 10).tolist()]
    analysis = analysed(tmp_path, busy, rank(2, stalls))
    (one,) = analysis.ranks
    (found,) = one.consistent
    assert found.gaps > 0 and found.by_chance > 0.05 and not found.claimed
    assert one.explained == 0 and set(kinds(one)) == {UNEXPLAINED}
    assert analysis.verdict.kind == "not-the-collector"


def test_of_many_processes_that_know_nothing_of_the_gaps_none_is_claimed(tmp_path: Path) -> None:
    """Nine ranks' worth of coincidences: the chance asked for falls with the number that is tried."""
    dice = np.random.default_rng(5)
    others = []
    for pid in range(10, 40):
        at = np.cumsum(dice.gamma(3, 250, 25)).astype(int).tolist()
        others.append(collecting(pid, [(a, 150) for a in at], role=f"Other{pid}"))
    stalls = [(int(a) // 10 * 10, 100) for a in np.cumsum(dice.gamma(4, 200, 20))]
    analysis = analysed(tmp_path, *others, rank(2, stalls))
    (one,) = analysis.ranks
    assert any(found.gaps for found in one.consistent)  # some meet by chance
    assert not any(found.claimed for found in one.consistent)
    assert one.tried == 30


def test_several_processes_are_all_named(tmp_path: Path) -> None:
    engine, other = collecting(1, in_stalls(STALLS)), collecting(4, in_stalls(STALLS, 2, 4), role="Scheduler")
    analysis = analysed(tmp_path, engine, other, rank(2, STALLS))
    (one,) = analysis.ranks
    assert {found.role for found in one.consistent if found.claimed} == {"EngineCore dp0", "Scheduler dp0"}
    assert all(
        "EngineCore dp0 (pid 1)" in gap.verdict and "Scheduler dp0 (pid 4)" in gap.verdict
        for gap in one.longest
    )
    assert "EngineCore dp0 (pid 1) (100 %)" in analysis.verdict.sentence
    assert one.explained_total == one.total  # each gap is counted once


def test_its_own_passes_between_steps(tmp_path: Path) -> None:
    worker = rank(2, STALLS)
    for at, took in in_stalls(STALLS):
        worker.add_pass(at * MS, took * MS)
    analysis = analysed(tmp_path, worker)
    (one,) = analysis.ranks
    (found,) = one.consistent
    assert found.own and found.claimed
    assert [gap.verdict for gap in one.longest] == ["its own pass"] * 3
    assert analysis.verdict.sentence == (
        "Worker dp0 (pid 2) idles 1.1 s in gaps of over 20 ms between its steps; "
        "100 % of it are its own passes"
    )


def test_passes_inside_steps_are_no_gaps(tmp_path: Path) -> None:
    engine = rank(1, [], role="EngineCore", label="engine step")
    for at, took in STALLS:
        engine.add_span("engine step", (20_000 + at) * MS, (took + 5) * MS)
        engine.add_pass((20_000 + at) * MS, took * MS)
    worker = rank(2, [(20_000 + at, took) for at, took in STALLS], until=40_000)
    analysis = analysed(tmp_path, engine, worker)
    verdict = analysis.verdict
    assert verdict.sentence.startswith("the collector stopped EngineCore dp0 (pid 1) 3 times")
    # The headline stays; who waits for it is told beside it.
    assert verdict.lines[-1].startswith("Worker dp0 (pid 2) idles 1.1 s in gaps of over 20 ms")
    assert "100 % of it is consistent with passes of EngineCore dp0 (pid 1)" in verdict.lines[-1]
    of_engine = next(r for r in analysis.ranks if r.role == "EngineCore dp0")
    assert of_engine.explained == 0  # it stood still inside its steps


# --- chains -----------------------------------------------------------------------------
def test_the_root_of_a_chain_is_named(tmp_path: Path) -> None:
    """The engine waits for a process that collects, the worker, later and longer, for the engine."""
    root = collecting(1, [(at, 200) for at, _ in STALLS], role="Tokenizer")
    engine = rank(2, [(at, 240) for at, _ in STALLS], role="EngineCore", label="engine step")
    # It closes 80 ms after the pass: too late to be explained by that alone.
    worker = rank(3, [(at + 20, 260) for at, _ in STALLS])
    analysis = analysed(tmp_path, root, engine, worker)
    by_role = {one.role: one for one in analysis.ranks}
    assert [gap.verdict for gap in by_role["EngineCore dp0"].longest] == [
        "consistent with a pass in Tokenizer dp0 (pid 1)"
    ] * 3
    mine = by_role["Worker dp0"]
    assert kinds(mine) == [CONSISTENT] * 3
    (found,) = mine.consistent
    assert (found.role, found.via, found.passes) == ("Tokenizer dp0", ("EngineCore dp0 (pid 2)",), 3)
    assert all("through a gap of EngineCore dp0 (pid 2)" in gap.verdict for gap in mine.longest)


# --- supply -----------------------------------------------------------------------------
def test_a_gap_for_want_of_requests_is_told_apart(tmp_path: Path) -> None:
    gaps = [(2_000, 300), (5_000, 3_010), (12_000, 400)]
    engine = collecting(1, in_stalls([gaps[0], gaps[2]]))
    # In flight until 5 s, and again from 8 s on.
    api = front_end(9, [(at, 1_000) for at in (*range(0, 5_000, 1_000), *range(8_000, 20_000, 1_000))])
    analysis = analysed(tmp_path, api, engine, rank(2, gaps))
    (one,) = analysis.ranks
    assert kinds(one) == [CONSISTENT, SUPPLY, CONSISTENT]
    assert (one.supply, one.supply_total) == (1, 3_011 * MS)
    assert one.longest[0].verdict == "supply gap: no request was in flight"
    assert one.consistent[0].share == 1  # of what was asked for
    assert "idles 702 ms" in analysis.verdict.sentence
    assert [(b.low // MS, b.supply, b.explained) for b in one.buckets] == [
        (100, 0, 1),
        (400, 0, 1),
        (700, 1, 0),
    ]


def test_a_pass_in_an_idle_moment_holds_nothing_up(tmp_path: Path) -> None:
    """The policy ``idle`` collects when nothing is in flight: the gap is there without it."""
    gaps = [(5_000, 410)]
    engine = collecting(1, [(5_005, 395)])
    api = front_end(9, [(0, 5_000), (5_400, 5_000), (11_000, 9_000), (12_000, 1_000)])
    analysis = analysed(tmp_path, api, engine, rank(2, gaps))
    (one,) = analysis.ranks
    assert kinds(one) == [SUPPLY] and one.consistent == ()


def test_a_front_end_that_stands_still_lets_no_request_begin(tmp_path: Path) -> None:
    """What its pass holds up is not in flight yet, so it counts all the same."""
    gaps = [(5_000, 410), (9_000, 300), (15_000, 500)]
    requests = [(0, 5_000), (5_400, 3_600), (9_290, 5_710), (15_490, 4_000)]
    api = front_end(9, requests, in_stalls(gaps))
    analysis = analysed(tmp_path, api, rank(2, gaps))
    (one,) = analysis.ranks
    assert kinds(one) == [CONSISTENT] * 3
    assert one.consistent[0].role == "APIServer dp0"


def test_an_empty_step_and_a_prefill_show_it_too(tmp_path: Path) -> None:
    """A11 in the words of the steps themselves, where no front end was recorded."""
    gaps = [(3_000, 300), (7_000, 300), (11_000, 300), (15_000, 300)]
    worker = rank(2, gaps, label="engine step")

    def stage(at: int, which: int) -> None:
        step = next(s for s in worker.spans if s["start"] == worker.opened + at * MS)
        step["flags"] = which << told.STAGE_SHIFT

    for before, after, (at, length) in zip(
        (told.EMPTY, told.EMPTY, told.DECODE, told.EMPTY),
        (told.PREFILL, told.MIXED, told.PREFILL, 0),
        gaps,
        strict=True,
    ):
        stage(at - 10, before)
        stage(at + length, after)
    (one,) = analysed(tmp_path, worker).ranks
    assert kinds(one) == [SUPPLY, UNEXPLAINED, UNEXPLAINED, UNEXPLAINED]
    assert one.supply == 1 and one.supply_unknown == ""
    assert {gap.verdict for gap in one.longest} == {
        "unexplained",
        "supply gap: from an empty step to a prefill",
    }


def test_supply_is_said_only_where_it_is_shown(tmp_path: Path) -> None:
    """A front end that lost spans, or one that was not recorded, may have had a request in flight."""
    requests = [(0, 1_000)] * 4 + [(4_000, 16_000)]
    lost = front_end(9, requests)
    lost.words["lost_spans"] = 3
    (one,) = analysed(tmp_path / "lost", lost, rank(2, [(1_000, 3_010)])).ranks
    assert kinds(one) == [UNEXPLAINED] and one.supply is None
    assert one.supply_unknown == "requests may be missing from the recording of APIServer dp0 (pid 9)"
    folder = tmp_path / "missed"
    folder.mkdir()
    helper(folder, 0, 2**62)
    (one,) = analysed(folder, front_end(9, requests), rank(2, [(1_000, 3_010)])).ranks
    assert kinds(one) == [UNEXPLAINED] and one.supply == 0
    folder = tmp_path / "gone"
    folder.mkdir()
    helper(folder, OPENED + 10_000 * MS, OPENED + 11_000 * MS)  # it came later
    (one,) = analysed(folder, front_end(9, requests), rank(2, [(1_000, 3_010)])).ranks
    assert kinds(one) == [SUPPLY]


def helper(folder: Path, first: int, last: int) -> None:
    """A process of the tree that was seen and not recorded."""
    seen = {"pid": 77, "python": True, "argv": ["python", "-S", "w.py"], "missed": "no-site"}
    write_helper(folder, [{**seen, "first_seen_ns": first, "last_seen_ns": last}])


# --- who was not recorded ---------------------------------------------------------------
def test_an_unexplained_gap_names_the_process_without_a_recorder(tmp_path: Path) -> None:
    helper(tmp_path, OPENED, OPENED + 8_000 * MS)
    api = front_end(9, [(at, 2_000) for at in range(0, 20_000, 1_000)])
    analysis = analysed(tmp_path, api, rank(2, STALLS))
    (one,) = analysis.ranks
    by_start = {gap.start: gap.verdict for gap in one.longest}
    assert [by_start[at] for at in sorted(by_start)] == [
        "unexplained: no recorder in pid 77",
        "unexplained: no recorder in pid 77",
        "unexplained",  # it had gone
    ]
    assert one.no_recorder == (("w.py (pid 77)", 77),)
    assert analysis.verdict.kind == "cannot-tell"
    assert analysis.verdict.sentence == (
        "cannot tell, because Worker dp0 (pid 2) idles 1.1 s between steps with requests in flight, which "
        "no pass explains; w.py (pid 77) had no recorder"
    )


def test_gaps_that_no_pass_explains_are_no_news_of_the_collector(tmp_path: Path) -> None:
    api = front_end(9, [(at, 2_000) for at in range(0, 20_000, 1_000)])
    verdict = analysed(tmp_path, api, rank(2, STALLS)).verdict
    assert verdict.kind == "not-the-collector"
    assert verdict.lines[-1] == (
        "Worker dp0 (pid 2) idles 1.1 s between steps with requests in flight, which no pass explains"
    )


# --- what is no rank, and what is no gap ------------------------------------------------
def test_front_ends_and_scripts_are_no_ranks(tmp_path: Path) -> None:
    api = front_end(9, [(at, 50) for at in range(0, 20_000, 300)], in_stalls(STALLS))
    for at in range(0, 20_000, 300):
        api.add_span("process outputs", at * MS, 5 * MS)
    script = Process(pid=8, opened=OPENED + 8)
    for at in range(4):
        script.add_span("step", at * 1_000 * MS, MS)
    assert analysed(tmp_path, api, script).ranks == ()


def test_a_rank_with_a_slow_rhythm_has_no_gap_at_every_step(tmp_path: Path) -> None:
    worker = Process(pid=2, opened=OPENED + 2)
    for i in range(60):
        worker.add_span("step", i * 100 * MS, 20 * MS)
    worker.add_span("step", (60 * 100 + 400) * MS, 20 * MS)
    (one,) = analysed(tmp_path, worker).ranks
    assert (one.median, one.floor) == (80 * MS, 240 * MS)
    assert one.longest[0].length == 480 * MS and one.count == 1


def test_where_passes_are_the_rhythm_they_are_found(tmp_path: Path) -> None:
    """After every step a pass of 100 ms: the median gap is a pass, and says nothing of the rank."""
    worker = Process(pid=2, opened=OPENED + 2)
    dice = np.random.default_rng(1)
    at = 0
    engine = Process(pid=1, opened=OPENED + 1)
    for _ in range(60):
        worker.add_span("step", at * MS, 20 * MS)
        took = int(dice.integers(60, 140))
        engine.add_pass((at + 21) * MS, took * MS)
        at += 20 + took + 5
    analysis = analysed(tmp_path, engine, worker)
    (one,) = analysis.ranks
    assert one.floor == 20 * MS and one.explained == one.count == 59


def test_what_came_before_the_end_of_start_up_is_left_out(tmp_path: Path) -> None:
    worker = rank(2, [(1_000, 2_000), *[(at + 5_000, took) for at, took in STALLS]])
    worker.add_mark(fmt.MARK_BOUNDARY, 3_500 * MS)
    (one,) = analysed(tmp_path, worker).ranks
    assert one.count == 3


def test_lost_spans_are_a_doubt_about_every_gap(tmp_path: Path) -> None:
    worker = rank(2, STALLS)
    worker.words["lost_spans"] = 9
    (one,) = analysed(tmp_path, worker).ranks
    assert "some of these gaps may be steps" in one.doubt


def test_another_hosts_clock_widens_the_rule_and_is_stated(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    collecting(1, in_stalls(STALLS)).write(tmp_path / "a")
    rank(2, STALLS).write(tmp_path / "b")
    for folder, boot in (("a", "one"), ("b", "two")):
        write_run(tmp_path / folder, ["serve"], boot_id=boot)
    analysis = analyse(merge([read_session(tmp_path / "a"), read_session(tmp_path / "b")]))
    (one,) = analysis.ranks
    assert analysis.clock_error > 0
    assert [(found.claimed, found.clock_error) for found in one.consistent] == [(True, analysis.clock_error)]


def test_roles_of_many_ranks_are_one_group(tmp_path: Path) -> None:
    roles = ["Worker_TP0", "Worker_TP1", "VLLM::Worker_TP3"]
    ranks = [rank(2 + i, STALLS, role=role, number=-1) for i, role in enumerate(roles)]
    analysis = analysed(tmp_path, collecting(1, in_stalls(STALLS)), *ranks)
    assert [one.group for one in analysis.ranks] == ["Worker", "Worker", "VLLM::Worker"]
    assert len(starved(analysis.ranks, analysis.options)) == 2


def test_passes_that_fill_a_gap_together(tmp_path: Path) -> None:
    """A front end that collects twice while it writes one answer: neither pass is half of the gap."""
    stalls = [(3_000, 1_000), (8_000, 1_500), (14_000, 1_200)]
    twice = [
        (at, took)
        for start, length in stalls
        for at, took in ((start + 5, length * 4 // 10), (start + length // 2, length * 3 // 10))
    ]
    analysis = analysed(tmp_path, collecting(1, twice, role="APIServer"), rank(2, stalls))
    (one,) = analysis.ranks
    assert kinds(one) == [CONSISTENT] * 3
    assert [gap.verdict for gap in one.longest] == ["consistent with 2 passes in APIServer dp0 (pid 1)"] * 3
    (found,) = one.consistent
    assert (found.gaps, found.passes, found.longest) == (3, 6, 600 * MS)
    assert found.covered == (700 + 1_050 + 840) * MS
    assert analysis.verdict.sentence.endswith("passes of APIServer dp0 (pid 1), which fill 2.6 s of it")
    # The first of them alone is too little, and ends too early.
    alone = collecting(1, twice[::2], role="APIServer")
    (one,) = analysed(tmp_path / "alone", alone, rank(2, stalls)).ranks
    assert kinds(one) == [UNEXPLAINED] * 3
