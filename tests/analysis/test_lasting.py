"""Advice for what runs already, for what was frozen there, for workers that are forked, and for scripts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from frostline import format as fmt
from tests.analysis.test_choice import GROWS, STAYS, advice, stock, walks
from tests.analysis.test_frozen import OURS
from tests.analysis.test_verdict import analysed
from tests.synthetic import MS, Process, write_helper, write_run

S = 1000 * MS


def test_a_live_session_is_frozen_by_command_first(tmp_path: Path) -> None:
    start = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    namespace = os.stat("/proc/self/ns/pid").st_ino
    alive = {"pid": os.getpid(), "start_ticks": start, "pid_namespace": namespace, "ended": False}
    write_helper(tmp_path, [], **alive)
    now, lasting, *_ = advice(tmp_path, stock(STAYS))
    assert now.command == f"frostline freeze {tmp_path}" and now.saving
    assert "collects nothing before" in now.text and "the freeze itself costs no pass" in now.how
    assert lasting.command == "frostline run --policy freeze --ready-url URL -- serve"


def test_what_grows_in_a_live_session_needs_its_thresholds_too(tmp_path: Path) -> None:
    start = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    namespace = os.stat("/proc/self/ns/pid").st_ino
    before, after = tmp_path / "before", tmp_path / "after"
    for folder in (before, after):
        folder.mkdir()
        write_helper(folder, [], pid=os.getpid(), start_ticks=start, pid_namespace=namespace, ended=False)
    now, lasting, *_ = advice(before, stock(GROWS))
    assert now.command == f"frostline freeze {before}"
    assert f"frostline tune 700,10,1000 {before}" in now.text
    assert "--policy freeze,thresholds=700/10/1000 " in lasting.command
    # Once it is frozen the thresholds come first.
    frozen = stock(GROWS)
    frozen.add_mark(fmt.MARK_FREEZE, 6 * S, a=-1, flags=OURS | fmt.MARK_FLAG_SPLICE)
    now, lasting, *_ = advice(after, frozen)
    assert now.command == f"frostline tune 700,10,1000 {after}"
    assert lasting.command == "frostline run --policy freeze,thresholds=700/10/1000 --ready-url URL -- serve"


@pytest.mark.parametrize("thawed", [True, False])
def test_what_was_frozen_as_asked_is_to_be_made_to_last(tmp_path: Path, thawed: bool) -> None:
    """`frostline freeze` on a live server, then `detach`: at the next restart it all comes back."""
    process = Process(hexversion=0x030F00F0)
    walks(process, STAYS[:3])
    process.add_mark(fmt.MARK_FREEZE, 30 * S, a=-1, flags=OURS | fmt.MARK_FLAG_SPLICE)
    process.add_pass(50 * S, MS, 0)
    if thawed:
        process.add_mark(fmt.MARK_THAW, 55 * S, a=-1, flags=OURS)
        process.words["off_reason"] = fmt.OFF_REMOVED
    first = advice(tmp_path, process)[0]
    assert first.text.startswith("make it last: 1 of 1 recorded processes were frozen as asked")
    assert ("1 of them thawed again" in first.text) is thawed
    assert first.command == "frostline run --policy freeze --ready-url URL -- serve"


def pool(policy: str, child_passes: list[int], heap: int = 400_000, took: int = 60) -> list[Process]:
    """A parent that builds a heap and forks a worker."""
    parent = Process(pid=10, opened=10**12, hexversion=0x030F00F0, text=[("policy", policy)])
    parent.add_mark(fmt.MARK_ATTACH, 0, b=1)
    parent.add_pass(1 * S, 30 * MS, candidates=heap)
    parent.add_mark(fmt.MARK_FORK, 2 * S)
    child = Process(pid=11, opened=10**12 + 2 * S, hexversion=0x030F00F0)
    child.text += [("policy", policy), ("parent_series", str(10**12))]
    child.add_mark(fmt.MARK_FORKED, 0, a=10)
    if policy == "prefork":
        parent.add_mark(fmt.MARK_FREEZE, 1900 * MS, a=heap, flags=OURS)
        child.add_mark(fmt.MARK_FREEZE, MS, a=-1, flags=OURS)
    for i, size in enumerate(child_passes):
        child.add_pass((1 + i) * S, took * MS, candidates=size)
    return [parent, child]


@pytest.mark.parametrize(("heap", "advised"), [(400_000, "prefork"), (50_000, "freeze")])
def test_workers_that_walk_what_they_inherit_get_prefork(tmp_path: Path, heap: int, advised: str) -> None:
    write_run(tmp_path, ["python", "batch.py"])
    first = analysed(tmp_path, *pool("off", [450_000] * 4, heap)).advice[0]
    ready = "" if advised == "prefork" else " --ready-after 1s"
    assert first.command == f"frostline run --policy {advised}{ready} -- python batch.py"
    assert ("so that they stay shared" in first.text) is (advised == "prefork")


@pytest.mark.parametrize(("took", "changed"), [(11, False), (200, True)])
def test_page_sharing_is_not_given_up(tmp_path: Path, took: int, changed: bool) -> None:
    """For milliseconds not at all; for more, prefork stays and thresholds come to it."""
    write_run(tmp_path, ["python", "batch.py"])
    found = analysed(tmp_path, *pool("prefork", [50_000] * 2, took=took)).advice
    assert not any("--policy freeze" in a.command for a in found)
    assert any(a.command.startswith("frostline run --policy prefork,thresholds=") for a in found) is changed


@pytest.mark.parametrize("span", ["", "work"])
def test_a_script_without_requests_has_no_url(tmp_path: Path, span: str) -> None:
    """Nor has it one after a run under a policy, and with spans of its own."""
    process = Process(hexversion=0x030F00F0, text=[("policy", "freeze")])
    walks(process, STAYS)
    for i in range(30 if span else 0):
        process.add_span(span, i * S, MS)
    write_run(tmp_path, ["python", "big.py"])
    analysis = analysed(tmp_path, process)
    assert not any("URL" in a.command or "ready-url" in a.text for a in analysis.advice)
    (doubt,) = [d.text for d in analysis.doubts if d.slug == "no-boundary"]
    assert "Call frostline.startup_complete() or use --ready-after 9s" in doubt
    assert " --ready-after 9s -- " in analysis.advice[0].command


def test_ready_after_that_came_too_late_is_told_again_with_a_time_that_fits(tmp_path: Path) -> None:
    process = Process(hexversion=0x030F00F0, text=[("policy", "freeze")])
    walks(process, STAYS)
    never = {"kind": "after", "at_ns": 0, "detail": "all processes ended before it"}
    write_helper(tmp_path, [], ready={**never, "option": "--ready-after 90s"})
    write_run(tmp_path, ["python", "big.py"])
    first = analysed(tmp_path, process).advice[0]
    assert "all processes ended before it" in first.text and " --ready-after 9s -- " in first.command
