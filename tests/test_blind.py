"""The blind half of the labelled set: its labels follow from what was done, whatever the analysis says."""

from __future__ import annotations

import random
from pathlib import Path

from benchmarks.labelled.blind import generate, live
from benchmarks.labelled.blind.labels import CALLER, MS, Victim, label
from benchmarks.labelled.truth import read_truth

from frostline.recording import read_session

#: In the middle of what a cause may take by itself, and what a pass beside it may.
MOST, LEAST = 0.66, 0.35


def covered(passes: list[tuple[int, int]], begin: int, end: int) -> float:
    """The share of a time that the passes of one process, none of which overlap, fill."""
    return sum(max(0, min(stop, end) - max(start, begin)) for start, stop in passes) / (end - begin)


def test_simulated_labels_agree_with_their_recordings(tmp_path: Path) -> None:
    made = list(generate.simulations(tmp_path / "one", 5, 3, 16))
    again = list(generate.simulations(tmp_path / "two", 5, 3, 16))
    assert [one.stalls for one in made] == [one.stalls for one in again]
    assert sum(len(one.stalls) for one in made) >= 80
    for labelled in made:
        series = {one.pid: one for one in read_session(labelled.session).series}
        passes = {
            pid: list(zip(one.passes["start"].tolist(), one.passes["stop"].tolist(), strict=True))
            for pid, one in series.items()
        }
        assert labelled.stalls == read_truth(labelled.session / "truth.jsonl")
        for stall in labelled.stalls:
            shares = {pid: covered(some, stall.begin, stall.end) for pid, some in passes.items()}
            for pid in stall.coincides:
                assert shares.pop(pid) > 0, stall
            if stall.culprit:
                assert shares.pop(stall.culprit) > MOST, stall
            assert all(share < LEAST for share in shares.values()), (stall, shares)


def fault(role: str, pid: int, begin: int, end: int, collector: bool = True) -> dict[str, object]:
    return {
        "cause": "x",
        "role": role,
        "pid": pid,
        "begin": begin * MS,
        "end": end * MS,
        "collector": collector,
    }


def test_a_fault_is_left_out_where_nobody_can_say_which_it_was() -> None:
    steps = [("handle", 10 * n * MS, (10 * n + 5) * MS) for n in range(30)]
    steps.append(("handle", 1000 * MS, 1120 * MS))
    told = [{"role": "a", "pid": 1, "steps": steps}, {"role": "b", "pid": 2, "steps": []}]
    victims = {"b": (Victim("a", "handle", CALLER),), "c": (Victim("a", "handle"),)}

    def made(*lines: dict[str, object]) -> tuple[list[int], dict[str, int]]:
        stalls, left = label(lines, told, victims, lambda victim, name: {"aside"}, random.Random(1))
        return [stall.culprit for stall in stalls], left

    slow, none = (
        fault("b", 2, 1005, 1115),
        {"two at once": 0, "not held up": 0, "something else too": 0},
    )
    assert made(slow) == ([2], none)
    assert made({**slow, "collector": False}) == ([0], none)
    assert made(slow, fault("c", 3, 1050, 1100)) == ([], none | {"two at once": 2})
    first, second = fault("b", 2, 1002, 1060), fault("b", 2, 1065, 1118)
    assert made(first, second)[1] == none | {"two at once": 2}
    assert made(fault("b", 2, 1010, 1055)) == ([], none | {"something else too": 1})
    assert made(slow, fault("sidecar", 4, 1050, 1100)) == ([2], none)
    assert made(fault("b", 2, 1300, 1400)) == ([], none | {"not held up": 1})
    stalls, _ = label(
        [slow, fault("sidecar", 4, 1050, 1100)], told, victims, lambda *_: set(), random.Random(1)
    )
    assert stalls[0].coincides == (4,)


def test_a_real_program_writes_its_own_truth(tmp_path: Path) -> None:
    labelled, left = live.served(live.PIPELINE, tmp_path / "pipeline", 2, 5)
    assert labelled.stalls and labelled.stalls == read_truth(tmp_path / "pipeline" / "truth.jsonl")
    recorded = {one.pid for one in read_session(labelled.session).series}
    for stall in labelled.stalls:
        assert {stall.victim, stall.culprit or stall.victim, *stall.coincides} <= recorded
    assert sum(left.values()) < 40
