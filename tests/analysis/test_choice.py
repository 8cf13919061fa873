"""The simplest policy that serves, with its reason and its price; whether one in force was worth it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from frostline import format as fmt
from frostline.analysis import Advice
from tests.analysis.test_frozen import OURS, boundary, move, whole
from tests.analysis.test_verdict import analysed
from tests.synthetic import MS, Process, write_run

S = 1000 * MS


def advice(folder: Path, process: Process) -> list[Advice]:
    write_run(folder, ["serve"])
    return list(analysed(folder, process).advice)


def with_command(folder: Path, process: Process) -> Advice:
    return next(one for one in advice(folder, process) if "--policy" in one.command)


def served(process: Process, step: int = 100 * MS, took: int = 99 * MS, until: int = 60 * S) -> None:
    """Requests one after the other: never idle, unless ``step`` leaves a gap."""
    for at in range(5 * S, until, step):
        process.add_span("request", at, took, kind=fmt.SPAN_ASYNC)


def middle(process: Process, count: int = 300) -> None:
    """Passes of generation 1 while it serves."""
    for i in range(count):
        process.add_pass(6 * S + i * 150 * MS, MS, 1)


def walks(process: Process, sizes: list[int], collected: int = 0) -> None:
    """Full passes over so many objects, at 100 ns each, as 3.15 tells them."""
    for i, size in enumerate(sizes):
        process.add_pass((10 + 5 * i) * S, size * 100, candidates=size, collected=collected)


def stock(sizes: list[int], collected: int = 0, **spans: Any) -> Process:
    process = Process(hexversion=0x030F00F0)
    served(process, **spans)
    middle(process)
    walks(process, sizes, collected)
    return process


STAYS = [600_000] * 6
GROWS = [400_000, 500_000, 600_000, 700_000, 800_000, 900_000]


def test_a_heap_that_does_not_grow_needs_freeze_only(tmp_path: Path) -> None:
    one = with_command(tmp_path, stock(STAYS))
    assert one.command == "frostline run --policy freeze --ready-url URL -- serve"
    assert "It did not grow over them, so freezing it once is enough" in one.text
    assert "cycles among the frozen objects that die later are kept until a thaw" in one.how


def test_bounds_that_rise_while_passes_take_no_longer_are_not_called_flat(tmp_path: Path) -> None:
    process = Process()  # 3.11: what full passes walk is known at most
    process.add_state(0, (0, 0, 0))
    process.add_mark(fmt.MARK_ATTACH, 0, b=1)
    served(process)
    for i in range(6):
        for k in range(200):
            process.add_pass((4 + 5 * i) * S + k * 20 * MS, MS, 0, count0=701)
        process.add_pass((9 + 5 * i) * S, 40 * MS, 2)
    one = with_command(tmp_path, process)
    assert "did not grow" not in one.text and "not certain" in one.text
    assert one.command.startswith("frostline run --policy freeze ")


def test_growth_in_which_nothing_dies_is_served_by_thresholds(tmp_path: Path) -> None:
    one = with_command(tmp_path, stock(GROWS))
    assert "--policy freeze,thresholds=700/10/1000 " in one.command
    assert "It grew after start-up, from 450,000 to 850,000 objects, and nothing in it dies late" in one.text
    # Case 13: the price, never only the gain. 300 passes of generation 1 in 55 s, 1,001 to the next full one.
    assert "The price: a cycle that outlives two young passes is held until the next full pass" in one.text
    assert "after about 8,420,000 net allocations of containers (3 min at this rate)" in one.text
    assert "full passes reclaimed none of it here" in one.text


def test_a_little_garbage_is_held_and_the_price_says_how_much(tmp_path: Path) -> None:
    one = with_command(tmp_path, stock(GROWS, collected=1_000))
    assert "--policy freeze,thresholds=700/10/1000 " in one.command
    assert "full passes reclaimed 6,000 objects of it" in one.text
    assert "at what full passes reclaimed here, about 20,000 objects at worst" in one.text


def test_growth_with_cycles_that_die_late_needs_follow(tmp_path: Path) -> None:
    """And idle moments: half a second of each second nothing is in flight."""
    process = stock([size + 1_000_000 for size in (0, 400_000, 800_000)], 18_000, step=1 * S, took=500 * MS)
    process.passes = [p for p in process.passes if p["generation"] == 2] + [
        p for p in process.passes if p["generation"] == 1
    ][:40]
    process.passes.sort(key=lambda p: p["start"])
    one = with_command(tmp_path, process)
    assert "--policy follow " in one.command
    assert (
        "cycles in it die late (full passes reclaimed 54,000 objects); 50 % of the time nothing" in one.text
    )
    assert (
        "The price: what dies among the frozen is held, up to half of the heap (900,000 objects)" in one.text
    )
    assert "It needs frostline.request() or frostline.idle()" in one.text


def test_where_it_is_never_idle_follow_gains_nothing(tmp_path: Path) -> None:
    process = stock([size + 1_000_000 for size in (0, 400_000, 800_000)], 18_000, step=90 * MS, took=95 * MS)
    process.passes = [p for p in process.passes if p["generation"] == 2] + [
        p for p in process.passes if p["generation"] == 1
    ][:40]
    process.passes.sort(key=lambda p: p["start"])
    one = with_command(tmp_path, process)
    assert "--policy freeze " in one.command
    assert "No moment was idle, so follow would gain nothing over freeze" in one.text


def test_passes_that_reclaim_a_good_part_are_not_for_follow(tmp_path: Path) -> None:
    """Its rule leaves such passes alone: the line would never move."""
    process = Process(hexversion=0x030F00F0, text=[("policy", "freeze")])
    boundary(process, 4 * S)
    served(process, step=1 * S, took=500 * MS)
    middle(process, 40)
    walks(process, [600_000] * 4, collected=90_000)
    found = advice(tmp_path, process)
    assert "follow would leave them alone, since each reclaims a good part of what it walks" in found[0].text
    assert "Find what makes those cycles" in found[0].text and not found[0].command


def test_two_passes_do_not_show_growth(tmp_path: Path) -> None:
    assert "--policy freeze " in with_command(tmp_path, stock([400_000, 900_000])).command


def test_a_program_that_tells_the_boundary_itself_needs_no_url(tmp_path: Path) -> None:
    process = stock(STAYS)
    process.add_mark(fmt.MARK_BOUNDARY, 5 * S, a=1)
    assert with_command(tmp_path, process).command == "frostline run --policy freeze -- serve"


def test_a_server_that_was_attached_to_is_frozen_as_it_runs(tmp_path: Path) -> None:
    """At 3 a.m. nobody restarts it for a policy, and its start-up is not in the recording."""
    process = stock(STAYS)
    process.add_mark(fmt.MARK_ATTACH, 0, a=3600 * S)
    now, lasting, *_ = advice(tmp_path, process)
    assert now.command == f"frostline attach {process.pid} --tree --policy freeze"  # detached since
    assert "Freeze it as it runs, which collects nothing before" in now.text
    assert lasting.command == "frostline run --policy freeze --ready-url URL -- serve"
    assert "make it last" in lasting.text and "at its next start" in lasting.text


# --- policies in force ----------------------------------------------------------------------
def follows(policy: str = "follow") -> Process:
    process = Process(hexversion=0x030F00F0, text=[("policy", policy)])
    boundary(process, 5 * S)
    served(process, until=40 * S)
    middle(process, 100)
    return process


def moved(process: Process) -> None:
    for i in range(4):
        process.add_pass((10 + i) * S, 2 * MS, candidates=20_000)
        move(process, (10 + i) * S + 2 * MS, 20_000)


def test_a_line_that_never_moved_is_a_freeze(tmp_path: Path) -> None:
    (one, *_) = advice(tmp_path, follows())
    assert one.text.startswith("policy follow does here what freeze would do: in python (pid 4711) the line")
    # It cost nothing, so to drop it gains nothing: no advice that turns about with each recording.
    assert "the line never moved" in one.text and one.text.endswith("Keep it") and not one.command


def test_a_moment_without_a_full_pass_tells_nothing_of_follow(tmp_path: Path) -> None:
    """A stranger's run with one request was told to drop it."""
    process = Process(hexversion=0x030F00F0, text=[("policy", "follow")])
    boundary(process, 5 * S)
    process.add_span("request", 6 * S, MS, kind=fmt.SPAN_ASYNC)
    (one, *_) = advice(tmp_path, process)
    assert "too little to tell. Keep it" in one.text and not one.command


def test_a_walk_that_saw_little_is_no_ground_for_a_change_and_siblings_speak(tmp_path: Path) -> None:
    """Two workers of one server: one walked soon after the freeze, the other when much had been frozen."""
    early, late = follows(), follows()
    early.pid, late.pid = 11, 12
    late.opened = early.opened + 1
    for process, frozen in ((early, 900), (late, 80_000)):
        moved(process)
        whole(process, 20 * S, reclaimed=60)
        process.marks[-1]["c"] = frozen
    (one, *_) = advice(tmp_path, early)
    assert "only 900 of them have been walked since" in one.text and not one.command
    (tmp_path / "b").mkdir()
    write_run(tmp_path / "b", ["serve"])
    both = analysed(tmp_path / "b", early, late).advice[0]
    assert "--policy freeze,thresholds=700/10/1000 " in both.command
    assert "It would spare 1 pass of the policy's own, 80 ms" in both.text
    assert "see it again under your load before you change it" in both.text


def test_a_line_that_never_moved_although_full_passes_matter(tmp_path: Path) -> None:
    process = follows()
    walks(process, [600_000] * 4, collected=90_000)
    (one,) = [a for a in advice(tmp_path, process) if a.text.startswith("policy follow")]
    assert "full passes reclaim a good part of what they walk (360,000 objects)" in one.text
    assert not one.command
    whole(process, 35 * S, 300_000)
    (tmp_path / "b").mkdir()
    one = with_command(tmp_path / "b", process)
    assert "1 walk of the whole heap took 80 ms, and the line never moved" in one.text


def test_what_rare_full_passes_would_hold_keeps_follow(tmp_path: Path) -> None:
    process = follows()
    moved(process)
    for one in process.passes:
        if one.get("candidates") == 20_000:
            one["collected"] = 6_000
    whole(process, 20 * S, 900)
    process.marks[-1]["c"] = 80_000
    (text,) = [a.text for a in advice(tmp_path, process) if a.text.startswith("policy follow is right here")]
    assert "rare full passes would hold about 240,000 objects that they reclaim now" in text


@pytest.mark.parametrize(("reclaimed", "keeps"), [(900, False), (40_000, True)])
def test_whether_what_the_line_froze_has_died(tmp_path: Path, reclaimed: int, keeps: bool) -> None:
    process = follows()
    moved(process)
    whole(process, 20 * S, reclaimed)
    process.marks[-1]["c"] = 80_000
    found = advice(tmp_path, process)
    told = f"1 walk of the whole heap (80 ms) reclaimed {reclaimed:,} objects in all"
    if keeps:
        (one,) = [a for a in found if told in a.text]
        assert one.text.startswith("policy follow is right here") and one.text.endswith("Keep it")
        assert not any("--policy" in a.command for a in found)
    else:
        one = next(a for a in found if "--policy" in a.command)
        assert told in one.text and "The price: a cycle that outlives two young passes" in one.text
        assert one.command == "frostline run --policy freeze,thresholds=700/10/1000 -- serve"


def test_without_a_walk_it_is_not_known(tmp_path: Path) -> None:
    process = follows()
    moved(process)
    found = advice(tmp_path, process)
    assert "whether such objects die is not known" in found[0].text and not found[0].command


def test_the_pass_after_the_thaw_is_a_walk_too(tmp_path: Path) -> None:
    process = follows()
    moved(process)
    process.add_mark(fmt.MARK_THAW, 40 * S, a=-1, flags=OURS)
    process.add_pass(40 * S + MS, 90 * MS, flags=fmt.PASS_FULL | fmt.PASS_FROSTLINE, collected=70_000)
    assert "the full pass after the thaw reclaimed 70,000 objects" in advice(tmp_path, process)[0].text


def test_credit_that_is_gone_and_never_comes_back(tmp_path: Path) -> None:
    process = follows()
    process.add_mark(fmt.MARK_LINE, 10 * S, a=fmt.LINE_EXHAUSTED, b=-1, flags=OURS)
    (one, *_) = advice(tmp_path, process)
    assert "nobody tells of idle moments (frostline.request(), frostline.idle())" in one.text
    assert not one.command


@pytest.mark.parametrize(("policy", "collected", "right"), [("idle", 0, False), ("idle", 100_000, True)])
def test_idle_passes_that_reclaim_nothing(tmp_path: Path, policy: str, collected: int, right: bool) -> None:
    process = Process(hexversion=0x030F00F0, text=[("policy", policy)])
    process.add_mark(fmt.MARK_BOUNDARY, 5 * S, a=1)
    ours = fmt.PASS_FULL | fmt.PASS_FROSTLINE
    # The boundary's own is no evidence: it collects what start-up left.
    process.add_pass(5 * S + MS, 60 * MS, flags=ours, candidates=600_000, collected=500_000)
    served(process, until=40 * S)
    for i in range(3):
        process.add_pass((10 + i) * S, 60 * MS, flags=ours, candidates=600_000, collected=collected)
    (one,) = [a for a in advice(tmp_path, process) if a.text.startswith("policy idle")]
    assert f"3 full passes of its own took 180 ms, up to 60 ms, and reclaimed {3 * collected:,}" in one.text
    assert ("is right here" in one.text) is right
    assert bool(one.command) is not right


def test_sync_without_a_step(tmp_path: Path) -> None:
    process = Process(text=[("policy", "sync:100")])
    process.add_mark(fmt.MARK_BOUNDARY, 5 * S, a=1)
    (one,) = [a for a in advice(tmp_path, process) if a.text.startswith("policy sync:100 did nothing")]
    assert "no frostline.step() was called" in one.text


def test_case_19_collect_on_failure_only_where_a_pass_freed_something(tmp_path: Path) -> None:
    for name, collected in (("freed", 300_000), ("nothing", 0)):
        process = Process(hexversion=0x030F00F0)
        for i in range(30):
            flags = fmt.SPAN_FLAG_ERROR if 20 <= i < 23 else 0
            process.add_span("alloc", i * S, MS, flags=flags)
        process.add_pass(22 * S + 500 * MS, 50 * MS, candidates=600_000, collected=collected)
        (tmp_path / name).mkdir()
        texts = [a.text for a in advice(tmp_path / name, process)]
        told = [text for text in texts if "call gc.collect() where it fails" in text]
        assert bool(told) is bool(collected)
        if told:
            assert told[0].startswith(
                "'alloc' of python (pid 4711) failed 3 times in a row; then a full pass"
            )


def test_an_explicit_collect_that_frees_much_is_not_to_be_left_out(tmp_path: Path) -> None:
    process = Process(hexversion=0x030F00F0)
    for i in range(10):
        process.add_mark(fmt.MARK_COLLECT, i * S, 60 * MS, file="x.py", line=4, a=2, b=300_000, c=1)
        flags = fmt.PASS_FULL | fmt.PASS_EXPLICIT
        process.add_pass(i * S, 60 * MS, flags=flags, candidates=600_000, collected=300_000)
    (one,) = [a for a in advice(tmp_path, process) if "x.py:4 calls gc.collect()" in a.text]
    assert "held by dead cycles: call it where an allocation has failed" in one.text
    assert "not at all" not in one.text
