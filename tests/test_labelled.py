"""The labelled set in small: the report's words for stalls whose cause is known, and how they are counted."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import pytest
from benchmarks.labelled import real, requests, synthetic
from benchmarks.labelled.score import OTHER, OWN, Said, Share, exact_interval, judge, score
from benchmarks.labelled.truth import Labelled, Stall, read_truth, write_truth

from frostline.analysis import analyse
from frostline.recording import read_session


def judged(labelled: Labelled) -> list[Said]:
    return judge(labelled, analyse(read_session(labelled.session)))


def words(said: list[Said]) -> dict[str, list[str]]:
    """What was said, by cause, where it was not right."""
    found: dict[str, list[str]] = defaultdict(list)
    for one in said:
        if not one.right:
            found[one.stall.cause].append(one.text or one.word)
    return dict(found)


def test_simulated_servers(tmp_path: Path) -> None:
    said = [one for labelled in synthetic.sessions(tmp_path, 7, 5, 16) for one in judged(labelled)]
    assert len(said) == 5 * 16
    found = score(said)
    assert found.precision.value >= 0.95 and found.recall.value >= 0.95, words(said)
    assert found.false_claims.value <= 0.05, words(said)
    own = [one for one in said if one.stall.culprit and one.stall.culprit == one.stall.victim]
    assert {one.text for one in own} == {"the collector"}


def test_requests_of_simulated_servers(tmp_path: Path) -> None:
    """Coroutines: their own process's passes overlapped them, another's they are consistent with."""
    said = [one for labelled in requests.sessions(tmp_path, 7, 4, 12) for one in judged(labelled)]
    assert len(said) >= 40
    found = score(said)
    assert found.precision.value >= 0.95 and found.recall.value >= 0.9, words(said)
    assert {one.text for one in said if one.word == OWN} == {"overlapped by the collector"}
    unclear = [one.text for one in said if one.stall.culprit and not one.named]
    assert all(text.startswith("cannot tell: a pass in ") for text in unclear)


def test_a_real_server(tmp_path: Path) -> None:
    """Forty faults in a server of four processes; every cause gets its words."""
    with real.served(sys.executable, tmp_path / "server", 3, 40, ballast=45) as labelled:
        said = judged(labelled)
        assert read_truth(tmp_path / "server" / "truth.jsonl") == labelled.stalls
    assert len(said) >= 30 and len({one.stall.cause for one in said}) >= 8, words(said)
    wrong = words(said)
    # A machine that is busy with others makes stalls of its own.
    assert sum(map(len, wrong.values())) <= 2, wrong
    right = [one for one in said if one.right]
    assert {one.text for one in right if one.word == OWN} == {"the collector"}
    waiting = [one for one in right if one.word == OTHER and one.stall.label]
    assert waiting and all(one.text.startswith("consistent with a pass in ") for one in waiting)
    rest = [one for one in right if not one.stall.culprit and one.stall.label]
    assert len(rest) >= 10 and not any("consistent" in one.text for one in rest)


@pytest.mark.parametrize(
    ("hits", "tries", "low", "high"),
    [
        (0, 10, 0.0, 0.3085),  # 1 - 0.025 ** (1 / 10)
        (10, 10, 0.6915, 1.0),
        (5, 10, 0.1871, 0.8129),  # Clopper and Pearson's own table
        (0, 0, 0.0, 1.0),
    ],
)
def test_exact_intervals(hits: int, tries: int, low: float, high: float) -> None:
    assert exact_interval(hits, tries) == pytest.approx((low, high), abs=1e-4)


def test_the_shares_by_hand() -> None:
    def said(culprit: int, *named: int) -> Said:
        return Said("hand", Stall("cause", 1, "step", 0, 9, culprit), named, "", "")

    found = score([said(1, 1), said(1), said(2, 2, 3), said(0), said(0, 3), said(0), said(2, 3)])
    assert found.precision == Share(2, 5)  # of 1; 2, 3; 3; 3 named
    assert found.recall == Share(2, 4)
    assert found.false_claims == Share(1, 3)


def test_truth_is_written_and_read(tmp_path: Path) -> None:
    stalls = (Stall("a", 1, "step", 5, 9, 2, (3, 4)), Stall("b", 1, "", 5, 9))
    write_truth(tmp_path / "truth", stalls)
    assert read_truth(tmp_path / "truth") == stalls
    (tmp_path / "truth").write_text('{"cause": "a"}\n')
    with pytest.raises(ValueError, match="line 1"):
        read_truth(tmp_path / "truth")
    with pytest.raises(ValueError, match="not after its begin"):
        Stall("a", 1, "step", 5, 5)


def test_the_same_seed_gives_the_same_plan() -> None:
    plan, steps = real.plan_faults(5, 60)
    assert (plan, steps) == real.plan_faults(5, 60)
    made = [fault for faults in plan.values() for fault in faults.values()]
    assert len(made) == 60
    assert {fault["cause"] for fault in made} == {*real.ALONE, *real.COLLECTOR, "no requests"}
