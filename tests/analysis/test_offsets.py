"""Runs compared with each other: a slow one is found, and what few runs cannot tell is said (B11)."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from frostline.analysis import Analysis, analyse
from frostline.analysis.offsets import BY_CHANCE, ENOUGH_RUNS, LEAST, Key, interval, offsets
from frostline.format import told
from frostline.recording import merge, read_session
from tests.synthetic import MS, Process, write_run

DECODE = told.DECODE << told.STAGE_SHIFT | told.FLAG_BATCH
PREFILL = told.PREFILL << told.STAGE_SHIFT | told.FLAG_BATCH


def run_of(folder: Path, number: int, factor: float, sizes: int = 6, command: str = "serve") -> Path:
    """One session: steps of two stages and so many batch sizes, 0.3 % of noise in each."""
    folder.mkdir()
    dice = random.Random(number)
    process = Process(pid=1000 + number, opened=10**12 + number * 10**11)
    process.add_identity("EngineCore", 0)
    at = 0
    for i in range(40 * sizes * 2):
        batch = 1 << i % sizes
        flags = PREFILL if i // sizes % 2 else DECODE
        took = (5 + batch / 10 + (3 if flags == PREFILL else 0)) * factor * dice.gauss(1, 0.003)
        process.add_span("step", at, round(took * MS), flags=flags, value0=batch)
        at += 30 * MS
    process.write(folder)
    write_run(folder, [command], pid=process.pid, started_monotonic_ns=process.opened - 5)
    return folder


def report_of(tmp_path: Path, factors: list[float], **more: int) -> Analysis:
    folders = [run_of(tmp_path / f"run{i}", i, factor, **more) for i, factor in enumerate(factors)]
    return analyse(merge([read_session(folder) for folder in folders]))


def test_one_of_ten_runs_is_3_1_percent_slower(tmp_path: Path) -> None:
    grouping = report_of(tmp_path, [1.0] * 6 + [1.031] + [1.0] * 3).grouping
    assert [run.number for run in grouping.runs] == list(range(1, 11))
    assert [one.run for one in grouping.offsets if one.stands_out] == [7]
    slow = grouping.offsets[6]
    assert slow.ratio == pytest.approx(1.031, abs=0.002)
    assert slow.low is not None and slow.high is not None
    assert 1.025 < slow.low <= slow.ratio <= slow.high < 1.037
    assert (slow.basis, slow.count, slow.slower) == ("groups", 12, 12)
    (said,) = grouping.sentences
    assert re.match(
        r"run 7 is 3\.[0-2]% slower than the others \(95% \+\d\.\d% to \+\d\.\d%, sign test\), "
        r"in all 12 groups; the other 9 are within 0\.\d% of each other$",
        said,
    )


def test_runs_that_are_alike_do_not_stand_out(tmp_path: Path) -> None:
    grouping = report_of(tmp_path, [1.0] * 6).grouping
    assert not any(one.stands_out for one in grouping.offsets)
    (said,) = grouping.sentences
    assert said.startswith("no run stands out")


def test_of_three_runs_nothing_is_concluded_either(tmp_path: Path) -> None:
    grouping = report_of(tmp_path, [1.0, 1.0, 1.05]).grouping
    assert [one.run for one in grouping.offsets if one.apart] == [3]
    assert not any(one.stands_out for one in grouping.offsets)
    assert re.match(r"run 3 is (4\.9|5\.[01])% slower", grouping.sentences[0])
    assert grouping.sentences[1].startswith("of 3 runs that cannot be concluded: ")
    assert "in 54% of cases" in grouping.sentences[1]


def test_of_two_runs_nothing_is_concluded(tmp_path: Path) -> None:
    grouping = report_of(tmp_path, [1.0, 1.05]).grouping
    assert not any(one.stands_out for one in grouping.offsets)
    (said,) = grouping.sentences
    assert re.match(r"run 2 is \+(4\.9|5\.[01])% against run 1", said) and "cannot be concluded" in said


def test_with_too_few_groups_the_run_is_cut_into_eighths(tmp_path: Path) -> None:
    grouping = report_of(tmp_path, [1.0, 1.0, 1.05, 1.0], sizes=2).grouping
    slow = grouping.offsets[2]
    assert (slow.groups, slow.basis, slow.count, slow.slower) == (4, "eighths", 32, 32)
    assert slow.apart and "in all 32 eighths of the run" in grouping.sentences[0]


def test_runs_of_other_commands_are_said_to_be(tmp_path: Path) -> None:
    folders = [run_of(tmp_path / str(i), i, 1.0, command=name) for i, name in enumerate("aab")]
    grouping = analyse(merge([read_session(folder) for folder in folders])).grouping
    assert "differ in their command" in grouping.sentences[-1]


def test_two_starts_in_one_session_are_two_runs(tmp_path: Path) -> None:
    """``-o`` onto a session that is there joins it."""
    one = run_of(tmp_path / "one", 1, 1.0)
    other = run_of(tmp_path / "other", 2, 1.0)
    for path in other.iterdir():
        path.rename(one / path.name)
    analysis = analyse(read_session(one))
    assert analysis.grouping.run_of == (1, 2)
    assert [run.session for run in analysis.grouping.runs] == [0, 0]
    assert analysis.grouping.offsets[0].groups == 12


def test_parts_of_one_server_in_one_session_are_no_runs_to_compare(tmp_path: Path) -> None:
    first, second = Process(pid=11, opened=10**12), Process(pid=12, opened=10**12 + 100)
    for process, role in ((first, "Frontend"), (second, "Worker")):
        process.add_identity(role)
        for i in range(50):
            process.add_span("step", i * 10 * MS, 5 * MS)
        process.write(tmp_path)
        write_run(tmp_path, [role], pid=process.pid, started_monotonic_ns=process.opened - 5)
    grouping = analyse(read_session(tmp_path)).grouping
    assert len(grouping.runs) == 2
    assert [one.ratio for one in grouping.offsets] == [None, None]


def test_a_process_that_no_run_started_is_of_its_session(tmp_path: Path) -> None:
    for i in range(2):
        folder = tmp_path / str(i)
        folder.mkdir()
        process = Process(pid=7 + i)
        process.add_span("step", 0, MS)
        process.write(folder)
    session = merge([read_session(tmp_path / str(i)) for i in range(2)])
    grouping = analyse(session).grouping
    assert [(run.number, run.session, run.command) for run in grouping.runs] == [(1, 0, ()), (2, 1, ())]
    assert [Path(run.path).name for run in grouping.runs] == ["0", "1"]


def test_the_interval_holds_the_median_as_often_as_it_says() -> None:
    dice = random.Random(7)
    for n in (LEAST, 9, 25):
        held = 0
        for _ in range(1000):
            low, high = interval([dice.expovariate(1) for _ in range(n)])
            assert low is not None and high is not None
            held += low <= 0.6931 <= high
        # 0.95 less three standard deviations of 1,000 tries.
        assert held >= 929, n


@pytest.mark.parametrize(("runs", "most"), [(3, 0.62), (4, 0.27), (5, 0.14), (6, 0.09), (10, 0.03)])
def test_runs_that_differ_by_chance_alone_stand_out_as_seldom_as_is_said(runs: int, most: float) -> None:
    """Eight groups that share what chance does to their run: 5 % of it, and 0.1 % of each group's own."""
    dice = random.Random(runs)
    apart = 0
    for _ in range(400):
        effect = [dice.gauss(1, 0.05) for _ in range(runs)]
        medians = {
            Key("Engine", "step", "decode", "", bucket, True): {
                run: [(round(1e7 * effect[run] * dice.gauss(1, 0.001)), (1,) * 8)] for run in range(runs)
            }
            for bucket in range(8)
        }
        apart += any(one.apart for one in offsets(medians, list(range(runs))))
    said = BY_CHANCE.get(runs, 0.05)
    assert apart / 400 <= most and (runs >= ENOUGH_RUNS or apart / 400 >= 0.6 * said)


def test_an_interval_of_few_is_none_and_one_of_many_is_narrow() -> None:
    assert interval([1.0] * (LEAST - 1)) == (None, None)
    many = [float(i) for i in range(2001)]
    low, high = interval(many)
    assert low is not None and high is not None and 940 < low < 1000 < high < 1060
