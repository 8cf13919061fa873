"""Advice and story where several processes of a server began and ended at different times."""

from __future__ import annotations

from pathlib import Path

from frostline import format as fmt
from frostline.analysis import analyse
from frostline.recording import read_session
from frostline.report import plain, report
from tests.synthetic import MS, Process, write_run

S = 1000 * MS


def server(pid: int, boundary: int) -> Process:
    """Frozen at its boundary, no full pass after it."""
    process = Process(pid=pid, opened=10**12)
    process.text.append(("policy", "freeze"))
    process.add_state(0, (3, 0, 0))
    process.add_mark(fmt.MARK_BOUNDARY, boundary, a=3)
    process.add_mark(fmt.MARK_FREEZE, boundary, flags=fmt.MARK_FLAG_OURS, a=600_000)
    process.add_state(600 * S, (3, 0, 0), closing=True)
    return process


def test_a_helper_of_the_start_up_that_is_gone_is_nothing_to_freeze(tmp_path: Path) -> None:
    server(10, 300 * S).write(tmp_path)
    helper = Process(pid=11, opened=10**12 + 1)
    helper.text.append(("policy", "freeze"))
    helper.add_state(0, (3, 0, 0))
    for i in range(6):
        helper.add_pass((10 + i) * S, 400 * MS)
    helper.add_state(200 * S, (3, 0, 6), closing=True)
    helper.write(tmp_path)
    write_run(tmp_path, ["serve"])
    analysis = analyse(read_session(tmp_path))
    assert analysis.processes[1].stop < analysis.processes[0].boundary
    assert not any("full passes walk a heap that stays" in advice.text for advice in analysis.advice)


def test_a_boundary_told_twice_in_one_start_up_is_no_leak_and_a_growing_one_is(tmp_path: Path) -> None:
    for second, leaks in ((605_000, False), (1_200_000, True)):
        folder = tmp_path / str(second)
        folder.mkdir()
        process = server(10, 100 * S)
        process.add_mark(fmt.MARK_BOUNDARY, 101 * S, a=3)
        process.add_mark(fmt.MARK_FREEZE, 101 * S, flags=fmt.MARK_FLAG_OURS, a=second)
        process.write(folder)
        write_run(folder, ["serve"])
        text = "\n".join(plain(report(analyse(read_session(folder)))))
        assert ("never thawed" in text) is leaks
