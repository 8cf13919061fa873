"""Children made in every way that hosts make them (cases 01 and 30, row A1)."""

from __future__ import annotations

import pytest

from frostline import format as layout
from tests.hostile.conftest import Outcome, Stage, sized


def child_of(stage: Stage) -> int:
    return int((stage.folder / "recorded" / "child").read_text())


def sound(outcome: Outcome) -> None:
    """No record of any process is torn, and no slot was given out twice."""
    for series in outcome.series:
        assert series.damaged == 0
        for one, next_one in zip(series.passes, series.passes[1:], strict=False):
            assert 0 < one["start"] <= one["stop"] <= next_one["stop"], series.pid
        assert series.words["lost_passes"] == 0


def test_a_storm_of_children(stage: Stage) -> None:
    forks, spawns, servers, commands = sized(130, 240), sized(10, 24), sized(8, 16), sized(12, 20)
    outcome = stage.both("storm", str(forks), str(spawns), str(servers), str(commands))
    sound(outcome)
    pids = [int(pid) for pid in (stage.folder / "recorded" / "pids").read_text().split()]
    assert len(pids) == forks + spawns + servers + commands
    for pid in pids:
        assert len(outcome.of(pid).marks(layout.MARK_COLLECT)) == 2
    assert len(outcome.root.marks(layout.MARK_FORK)) >= forks


@pytest.mark.parametrize("first", ["passes", "spans"])
def test_a_fork_through_c(stage: Stage, first: str) -> None:
    outcome = stage.both("raw_fork", first)
    sound(outcome)
    child = outcome.of(child_of(stage))
    assert len(child.passes) == 100
    assert all(one["generation"] == 0 and one["start"] >= child.number for one in child.passes[1:])
    (forked,) = child.marks(layout.MARK_FORKED)
    assert forked["b"] == outcome.root.number and forked["c"] == 0  # no hook told of it
    assert len(outcome.root.passes) >= 30
    assert all(one["stop"] - one["start"] < 10**9 for one in outcome.root.passes)
    assert len(child.spans_of("child")) == (7 if first == "spans" else 0)
    assert not outcome.root.spans_of("child")


@pytest.mark.parametrize("where", ["finalizer", "start", "stop"])
def test_a_fork_inside_a_pass(stage: Stage, where: str) -> None:
    outcome = stage.both("fork_inside", where)
    sound(outcome)
    child = outcome.of(child_of(stage))
    assert not child.has(layout.MARK_DEAD_COLLECTOR)
    assert len(child.passes) >= 30
    assert len(outcome.root.passes) >= 32


@pytest.mark.parametrize("generation", ["0", "2"])
def test_a_fork_beside_a_pass(stage: Stage, generation: str) -> None:
    outcome = stage.both("fork_beside_pass", generation)
    sound(outcome)
    child = outcome.of(child_of(stage))
    assert "collect() 0, passes 0, True" in outcome.recorded.stdout
    assert child.has(layout.MARK_DEAD_COLLECTOR)
    assert not outcome.root.has(layout.MARK_DEAD_COLLECTOR)
    assert outcome.root.passes


def test_a_daemon(stage: Stage) -> None:
    outcome = stage.both("daemon")
    sound(outcome)
    assert len(outcome.of(child_of(stage)).passes) >= 20_000


def test_a_chain_of_exec(stage: Stage) -> None:
    outcome = stage.both("exec_chain", "4")
    sound(outcome)
    assert [
        len(series.passes) >= 10 + left for series, left in zip(outcome.series, (4, 3, 2, 1, 0), strict=True)
    ]
    assert len({series.pid for series in outcome.series}) == 1
    assert [series.has(layout.MARK_EXEC) for series in outcome.series] == [True] * 4 + [False]


@pytest.mark.parametrize("option", ["error", "default"])
def test_threads_and_forks_under_warnings(stage: Stage, option: str) -> None:
    outcome = stage.both("threads_and_fork", "40", options=("-W", option))
    sound(outcome)
    if option == "default":
        children = [series for series in outcome.series if series.has(layout.MARK_FORKED)]
        assert len(children) == 40
        assert all(0 < child.marks(layout.MARK_FORKED)[0]["c"] < 60 * 10**9 for child in children)
