"""The two numbers of the quarter rule, against a collector that knows them (D4)."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frostline import format as fmt
from frostline.analysis import analyse
from frostline.analysis.counted import counted
from frostline.analysis.passes import pauses_of
from frostline.analysis.pending import State, states
from frostline.analysis.triggers import held_back
from frostline.recording import Series, read_session
from tests.analysis.simulated import Collector, write_counts
from tests.synthetic import MS, Process


def simulated(folder: Path, seed: int, every: int, passes: int = 3000, spread: float = 0.3) -> Collector:
    """Churn: gen-1 passes leave more than the net growth, by chance. Every so often a reading."""
    dice = random.Random(seed)
    collector = Collector(Process())
    collector.process.add_state(0, (0, 0, 0))
    for number in range(passes):
        collector.young(int(15_000 * (1 + spread * (dice.random() - 0.5))))
        if every and number % every == 0:
            collector.read()
    collector.write(folder)
    return collector


def of(folder: Path) -> tuple[Series, State]:
    (series,) = read_session(folder).series
    pauses = pauses_of(series)
    return series, states(series, pauses, counted(series), held_back(series, pauses))


def test_what_was_read_is_exact_until_the_next_older_pass(tmp_path: Path) -> None:
    collector = simulated(tmp_path, seed=1, every=1)
    series, state = of(tmp_path)
    assert len(series.counted) == len(collector.readings)
    truth = np.array(collector.truth)
    read = [number for number, *_ in collector.readings if number < len(truth)]
    assert np.array_equal(state.total[read], truth[read, 0])
    assert np.array_equal(state.pending[read], truth[read, 1])
    forecast = analyse(read_session(tmp_path)).processes[0].forecast
    assert forecast is not None and forecast.came >= 5
    assert forecast.right == forecast.called == forecast.came and forecast.read == len(collector.readings)


@pytest.mark.parametrize("seed", range(4))
def test_a_reading_now_and_then_is_enough_for_nine_of_ten(seed: int, tmp_path: Path) -> None:
    simulated(tmp_path, seed, every=30, spread=0.1)
    forecast = analyse(read_session(tmp_path)).processes[0].forecast
    assert forecast is not None and forecast.came >= 5
    assert forecast.right >= forecast.came - 1 and forecast.called <= forecast.right + 2
    assert forecast.error is not None and forecast.error <= 0.05


def test_without_readings_a_miss_teaches_and_false_calls_stay_few(tmp_path: Path) -> None:
    simulated(tmp_path, seed=3, every=0)
    series, _ = of(tmp_path)
    forecast = analyse(read_session(tmp_path)).processes[0].forecast
    assert not len(series.counted)
    assert forecast is not None and forecast.came >= 5 and forecast.read == 0
    assert forecast.called <= 4 * forecast.came


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), every=st.sampled_from((0, 7, 50)), cut=st.integers(100, 799))
def test_nothing_is_used_before_it_was_known(seed: int, every: int, cut: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        simulated(Path(name), seed, every, passes=800)
        series, whole = of(Path(name))
        # The same up to some pass: what comes later has changed nothing before it.
        until = int(series.passes["start"][cut])
        series.passes = series.passes[:cut]
        series.counted = series.counted[series.counted["after"] < until]
        pauses = pauses_of(series)
        part = states(series, pauses, counted(series), held_back(series, pauses))
        assert np.array_equal(part.pending, whole.pending[: cut + 1])
        assert np.array_equal(part.total, whole.total[: cut + 1])


def test_readings_of_another_structure_are_not_believed(tmp_path: Path) -> None:
    collector = simulated(tmp_path, seed=2, every=5, passes=500)
    wrong = [(n, b, a, count2 + 3, total, pending) for n, b, a, count2, total, pending in collector.readings]
    write_counts(tmp_path, collector.process, wrong)
    (series,) = read_session(tmp_path).series
    found = counted(series)
    assert len(found) == 0 and found.doubted == len(wrong)


def test_a_reading_during_a_pass_says_nothing(tmp_path: Path) -> None:
    process = Process()
    process.add_pass(10 * MS, 4 * MS, generation=1, count0=701, count1=11, count2=3)
    process.add_pass(30 * MS, 4 * MS, generation=1, count0=701, count1=11, count2=4)
    process.write(tmp_path)
    start = process.opened
    rows = [
        (0, start + 9 * MS, start + 11 * MS, 3, 100, 10),  # it began before the pass and ended in it
        (0, start + 12 * MS, start + 12 * MS, 3, 100, 10),
        (1, start + 20 * MS, start + 20 * MS, 4, 100, 20),
        (2, start + 50 * MS, start + 50 * MS, 5, 100, 30),
    ]
    write_counts(tmp_path, process, rows)
    (series,) = read_session(tmp_path).series
    found = counted(series)
    assert (found.at.tolist(), found.pending.tolist(), found.doubted) == ([1, 2], [20, 30], 0)


def test_a_freeze_sets_count_2_to_0_and_is_no_reason_for_doubt(tmp_path: Path) -> None:
    process = Process()
    process.add_pass(10 * MS, 4 * MS, generation=1, count0=701, count1=11, count2=3)
    process.add_mark(fmt.MARK_FREEZE, 20 * MS, a=-1)
    process.add_pass(30 * MS, 4 * MS, generation=1, count0=701, count1=11, count2=0)
    process.write(tmp_path)
    before, after = process.opened + 15 * MS, process.opened + 25 * MS
    write_counts(tmp_path, process, [(1, before, before, 4, 100, 20), (1, after, after, 0, 100, 20)])
    (series,) = read_session(tmp_path).series
    found = counted(series)
    assert (found.at.tolist(), found.doubted) == ([1, 1], 0)


def test_a_damaged_file_of_readings_is_told_of_and_left_out(tmp_path: Path) -> None:
    collector = simulated(tmp_path, seed=4, every=50, passes=300)
    path = next(tmp_path.glob("counts-*.flc"))
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])  # a tail that was being written
    session = read_session(tmp_path)
    assert len(session.series[0].counted) == len(collector.readings) - 1
    assert not [loss for loss in session.losses if loss.slug == "counts-damaged"]
    path.write_bytes(b"not ours" + whole)
    assert [loss.slug for loss in read_session(tmp_path).losses] == ["counts-damaged"]
    path.write_bytes(whole[:8] + b"\xff" * 56 + whole[64:])
    session = read_session(tmp_path)
    assert "counts-damaged" in [loss.slug for loss in session.losses]
    assert len(session.series[0].counted) == len(collector.readings) - 1
