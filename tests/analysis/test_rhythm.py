"""Full passes that come sooner under more load: said where it is so, and not where it is not (C7)."""

from __future__ import annotations

from pathlib import Path

import pytest

from frostline.analysis import ProcessReport, analyse
from frostline.recording import read_session
from frostline.report import plain, report
from tests.analysis.simulated import Collector
from tests.synthetic import MS, Process

SLOW, FAST = 10 * MS, 3 * MS


def recorded(
    tmp_path: Path, waits: list[int], survivors: int = 15_000, size: int = 1_000_000
) -> ProcessReport:
    """A heap of one size; between passes so many ns. One stretch of 400 passes a wait."""
    collector = Collector(Process())
    collector.process.add_state(0, (0, 0, 0))
    collector.old = size
    collector.total = size
    for wait in waits:
        for _ in range(400):
            if collector.young(survivors, wait=wait) == 2:
                collector.old = collector.total = size  # what came has gone again, by reference count
    collector.write(tmp_path)
    (process,) = analyse(read_session(tmp_path)).processes
    return process


def words(tmp_path: Path) -> str:
    return "\n".join(plain(report(analyse(read_session(tmp_path)))))


def test_more_load_and_sooner_full_passes_are_the_quarter_rule(tmp_path: Path) -> None:
    waits = [SLOW, SLOW, 8 * MS, 6 * MS, 5 * MS, 4 * MS, FAST, FAST]
    found = recorded(tmp_path, waits).rhythm
    assert found is not None and found.intervals >= 8
    assert found.quiet > 2 * found.busy and found.busy_rate > 2 * found.quiet_rate
    assert found.correlation < -0.9
    text = words(tmp_path)
    assert "come sooner as it does more" in text and "The quarter rule makes it so" in text


@pytest.mark.parametrize(
    ("waits", "survivors", "size"),
    [
        ([SLOW] * 8, 15_000, 1_000_000),  # the load is the same all the time
        ([SLOW, FAST] * 4, 15_000, 40_000),  # threshold 2 lets each by: the quarter rule holds nothing back
        ([SLOW, FAST], 15_000, 1_000_000),  # too few full passes
    ],
)
def test_it_is_not_said_where_it_is_not_there(
    tmp_path: Path, waits: list[int], survivors: int, size: int
) -> None:
    assert recorded(tmp_path, waits, survivors, size).rhythm is None
    assert "come sooner" not in words(tmp_path)


def test_full_passes_that_the_program_asks_for_are_no_rhythm_of_the_collector(tmp_path: Path) -> None:
    process = Process()
    for number in range(40):
        wait = SLOW if number < 20 else FAST
        process.add_pass(number * 4 * wait, MS, generation=2, count0=10, count2=30, flags=3)
    process.write(tmp_path)
    assert analyse(read_session(tmp_path)).processes[0].rhythm is None
