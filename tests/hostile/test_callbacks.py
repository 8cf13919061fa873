"""Passes at the worst moments: locks held, limits reached, signals, the interpreter's end."""

from __future__ import annotations

import pytest

from frostline import format as layout
from tests.hostile.conftest import Stage, sized


@pytest.mark.parametrize("kind", ["metric_lock", "natural", "queues", "streams", "finalizers"])
def test_no_lock_is_waited_for(stage: Stage, kind: str) -> None:
    """Cases 25, 26, 28, 55: a hang is the run's time limit, so it fails here."""
    tries = 1000 if kind != "natural" else sized(200, 1000)
    outcome = stage.both("locked", kind, str(tries))
    root = outcome.root
    assert root.words["state"] == layout.STATE_CLOSED
    assert root.damaged == 0 and root.words["lost_passes"] == 0
    assert len(root.passes) >= (tries if kind != "finalizers" else 1)


@pytest.mark.parametrize(("how", "code"), [("quiet", 0), ("exit", 9), ("raise", 1), ("daemons", 0)])
def test_late_destructors(stage: Stage, how: str, code: int) -> None:
    """Case 31: nothing of ours is printed and the record is closed."""
    outcome = stage.both("late", how, code=code)
    assert "Exception ignored" not in outcome.recorded.stderr
    assert outcome.root.words["state"] == layout.STATE_CLOSED
    assert outcome.root.words["off_reason"] == layout.OFF_NONE
    assert outcome.root.has(layout.MARK_CLOSE)
    assert outcome.root.damaged == 0


def test_the_recursion_limit(stage: Stage) -> None:
    """Case 33: no more is swallowed than an empty callback's own failure, and recording goes on."""
    with_empty = stage.once("deep", "empty", recorded=False)
    with_ours = stage.once("deep", "ours", recorded=True)
    assert with_empty.returncode == with_ours.returncode == 0
    assert with_ours.stderr == ""
    (root,) = stage.read()
    assert int(with_ours.stdout) <= int(with_empty.stdout)
    assert root.words["off_reason"] == layout.OFF_NONE
    assert root.words["state"] == layout.STATE_CLOSED
    assert root.damaged == 0
    assert len([one for one in root.passes if one["generation"] == 0]) > 200


@pytest.mark.parametrize("name", ["SIGINT", "SIGALRM"])
def test_an_interrupt_reaches_the_host(stage: Stage, name: str) -> None:
    """An exception from a signal handler that lands inside our callback belongs to the host."""
    times = sized(100, 1000)
    lost = {}
    for run, callback in (("recorded", "none"), ("plain", "empty")):
        for _ in range(8):
            done = stage.once("interrupted", name, str(times), callback, recorded=run == "recorded")
            landed = ("in <module>", "lost sys.stderr")
            if done.returncode == 0 or not any(words in done.stderr for words in landed):
                # Else one landed in the host's own "except", or while its end was printed, recorded or
                # not: that run says nothing.
                break
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        lost[run] = int((stage.folder / run / "lost").read_text().split()[0])
    root = stage.read()[0]
    assert root.words["off_reason"] == layout.OFF_NONE
    assert root.damaged == 0
    # Of an empty callback an eighth to three quarters are lost: nearly all time is spent in it.
    assert lost["recorded"] <= lost["plain"] + times // 10, lost


@pytest.mark.parametrize("mode", ["clear", "replace", "first", "wrap", "churn", "start", "stop"])
def test_the_host_edits_the_list(stage: Stage, mode: str) -> None:
    outcome = stage.both("list_edits", mode)
    root = outcome.root
    assert root.damaged == 0
    assert root.words["off_reason"] == layout.OFF_NONE
    assert root.words["state"] == layout.STATE_CLOSED
    assert len(root.passes) >= 200
    if mode in ("clear", "replace", "start", "stop"):
        assert root.has(layout.MARK_REINSTALLED)


def test_other_interpreters(stage: Stage) -> None:
    if stage.target.version < (3, 12):
        pytest.skip("their collectors are the main interpreter's before 3.12")
    outcome = stage.both("interpreters")
    assert all(series.damaged == 0 for series in outcome.series)
    with_passes = [series for series in outcome.series if len(series.passes) >= 900]
    assert len(with_passes) == 3
    assert len({series.interpreter for series in outcome.series}) == 4
