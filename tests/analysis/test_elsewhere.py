"""Whose passes a slow step is consistent with: the fit, its null, and what is never claimed."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frostline.analysis import Analysis, analyse
from frostline.analysis.elsewhere import LEVEL, SLACKS, by_chance, covered_by, fitting, off_path, unfelt
from frostline.analysis.intervals import Union, union
from frostline.recording import read_session
from tests.synthetic import MS, Process

Pairs = list[tuple[int, int]]


def arrays(pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
    return np.array([a for a, _ in pairs], np.int64), np.array([b for _, b in pairs], np.int64)


def joined(pairs: Pairs) -> Union:
    return union(*arrays(pairs))


def steps(chance: random.Random, many: int, length: int) -> Pairs:
    """Slow steps of some 100 ms, apart from each other."""
    found: Pairs = []
    for _ in range(many):
        start = (found[-1][1] if found else 0) + chance.randrange(50 * MS, 2 * length // many)
        found.append((start, start + chance.randrange(60 * MS, 200 * MS)))
    return found


def passes(chance: random.Random, many: int, length: int) -> Union:
    starts = [chance.randrange(length) for _ in range(many)]
    return joined([(start, start + chance.randrange(50 * MS, 150 * MS)) for start in starts])


@pytest.mark.parametrize(
    ("step", "collected", "fits"),
    [
        ((0, 100), [(0, 95)], True),
        ((0, 100), [(-50, 95)], True),  # asked while the pass ran
        ((0, 100), [(50, 98)], True),
        ((0, 100), [(60, 98)], False),  # under half
        ((0, 100), [(0, 130)], False),  # it ended, and the pass ran on
        ((0, 100), [(0, 60), (99, 130)], True),  # what runs on is the next one
        ((0, 100), [(0, 30), (50, 80)], True),  # together
        ((0, 100), [(110, 180)], False),
    ],
)
def test_a_pass_fits_that_ended_with_the_step_and_covers_half(
    step: tuple[int, int], collected: Pairs, fits: bool
) -> None:
    start, stop = arrays([(step[0] * MS, step[1] * MS)])
    covered = covered_by(start, stop, joined([(a * MS, b * MS) for a, b in collected]))
    assert fitting(stop - start - 5 * MS, covered, SLACKS[0]).tolist() == [fits]


def test_the_narrower_fits_leave_little_uncovered() -> None:
    excess = np.array([95 * MS] * 3)
    covered = np.array([91 * MS, 80 * MS, 70 * MS])
    assert [fitting(excess, covered, slack).tolist() for slack in SLACKS] == [
        [True, True, True],
        [True, True, False],
        [True, False, False],
    ]


def test_of_independent_passes_few_are_significant() -> None:
    """The null at 5 %: of 200 pairs of processes that have nothing to do with each other some 10 may be."""
    significant = 0
    for seed in range(200):
        chance = random.Random(seed)
        length = 30_000 * MS
        start, stop = arrays(steps(chance, 40, length))
        window = (0, int(stop[-1]))
        found = by_chance(start, stop, np.full(40, 5 * MS), passes(chance, 60, window[1]), window)
        significant += found.by_chance <= LEVEL
    assert significant <= 20  # of a binomial with 0.05: exceeded once in 1,000


def test_what_is_expected_by_chance_is_what_is_found_by_chance() -> None:
    found, expected = np.zeros(len(SLACKS)), np.zeros(len(SLACKS))
    for seed in range(100):
        chance = random.Random(seed)
        start, stop = arrays(steps(chance, 40, 30_000 * MS))
        window = (0, int(stop[-1]))
        one = by_chance(start, stop, np.full(40, 5 * MS), passes(chance, 60, window[1]), window)
        found += np.array(one.found)
        expected += np.array(one.expected)
    assert np.all(abs(found - expected) < 4 * np.sqrt(expected)), (found, expected)


@given(st.integers(0, 10**6), st.integers(-(10**12), 10**15))
def test_the_origin_of_time_does_not_matter(seed: int, moved: int) -> None:
    chance = random.Random(seed)
    start, stop = arrays(steps(chance, 10, 5_000 * MS))
    window = (0, int(stop[-1]) + MS)
    collected = passes(chance, 15, window[1])
    baseline = np.full(10, 3 * MS)
    here = by_chance(start, stop, baseline, collected, window)
    there = by_chance(
        start + moved,
        stop + moved,
        baseline,
        union(collected.start + moved, collected.stop + moved),
        (window[0] + moved, window[1] + moved),
    )
    assert [fits.tolist() for fits in here.fits] == [fits.tolist() for fits in there.fits]
    assert (here.found, here.expected, here.by_chance) == (there.found, there.expected, there.by_chance)


def test_who_goes_on_during_a_pass_does_not_wait_for_it() -> None:
    start, stop = arrays([(at * 5 * MS, at * 5 * MS + 3 * MS) for at in range(2000)])
    window = (0, 10_000 * MS)
    beside = joined([(at * 1000 * MS + 700_000, at * 1000 * MS + 100 * MS) for at in range(1, 9)])
    assert off_path(start, stop, beside, 20 * MS, window) == 1.0
    waited = [
        (
            a,
            b
            if not any(p <= a < q for p, q in zip(beside.start, beside.stop, strict=True))
            else b + 100 * MS,
        )
        for a, b in zip(start.tolist(), stop.tolist(), strict=True)
    ]
    assert off_path(*arrays(waited), beside, 20 * MS, window) == 0.0


@pytest.mark.parametrize("waits", [True, False])
def test_of_many_in_flight_some_feel_every_pass_that_they_wait_for(waits: bool) -> None:
    """Three servers behind one front end: during a pass of one of them the others' requests go on."""
    chance = random.Random(5)
    length = 60_000 * MS
    collected = sorted(chance.randrange(length) for _ in range(12))
    spans: Pairs = []
    for server in range(3):
        at = 0
        while at < length:
            took = 20 * MS
            inside = [a for a in collected if a < at + took and at < a + 400 * MS]
            if inside and server == 0 and waits:
                took += inside[0] + 400 * MS - max(at, inside[0])
            elif chance.random() < 0.02:
                took += 300 * MS
            spans.append((at, at + took))
            at += took + 5 * MS
    slow = [span for span in spans if span[1] - span[0] > 100 * MS]
    start, stop = arrays(spans)
    share = unfelt(
        *arrays(slow),
        np.full(len(slow), 20 * MS),
        joined([(a, a + 400 * MS) for a in collected]),
        100 * MS,
        (np.sort(start), np.sort(stop)),
        (0, length),
    )
    assert share is not None
    assert share < 0.1 if waits else share > 0.5


def session(tmp_path: Path, *processes: Process) -> Analysis:
    for process in processes:
        process.write(tmp_path)
    return analyse(read_session(tmp_path))


def server(seed: int, culprit: bool) -> tuple[Process, Process, list[int]]:
    """A process with 600 steps, 30 of them slow, and one with passes: in ten of those, or anywhere."""
    chance = random.Random(seed)
    late = sorted(chance.sample(range(20, 600), 30))
    front, other = Process(pid=10, opened=10**12), Process(pid=11, opened=10**12)
    at, by_pass = 0, []
    for number in range(600):
        slow = number in late
        took = 100 * MS if slow else 4 * MS
        if culprit and number in late[::3]:
            other.add_pass(at + MS, 97 * MS)
            by_pass.append(front.opened + at)
        front.add_span("ask", at, took)
        at += took + MS
    if not culprit:
        for _ in range(20):
            other.add_pass(chance.randrange(at), 97 * MS)
    other.passes.sort(key=lambda one: one["start"])
    return front, other, by_pass


def test_the_process_that_held_it_up_is_named_and_only_there(tmp_path: Path) -> None:
    front, other, by_pass = server(1, culprit=True)
    report = session(tmp_path, front, other).processes[0]
    assert sorted(step.start for step in report.long_steps if step.elsewhere) == by_pass
    assert len(report.long_steps) == 30


@pytest.mark.parametrize("seed", range(8))
def test_passes_that_merely_coincide_are_not_named(tmp_path: Path, seed: int) -> None:
    """The process goes on during them, so that it cannot have waited."""
    front, other, _ = server(seed, culprit=False)
    report = session(tmp_path, front, other).processes[0]
    begins, ends = arrays([(one["start"], one["stop"]) for one in other.passes])
    slow = [(step.start, step.start + step.duration) for step in report.long_steps]
    beside = [
        2 * int(np.maximum(0, np.minimum(ends, stop) - np.maximum(begins, start)).sum()) >= stop - start
        for start, stop in slow
    ]
    assert any(beside)  # else nothing is tested
    assert not any(step.elsewhere for step in report.long_steps)
