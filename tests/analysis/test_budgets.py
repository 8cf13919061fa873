"""Pause budgets: pauses over a limit an hour, and MMU, by process and together."""

from __future__ import annotations

from pathlib import Path

import pytest

from frostline import format as fmt
from frostline.analysis import Analysis, analyse
from frostline.analysis.budgets import LIMITS, WINDOWS
from frostline.recording import read_session
from frostline.report import plain, report
from tests.synthetic import MS, Process

OPENED = 10**15


def process(pid: int, passes: list[tuple[int, float]], seconds: int = 20, work: bool = True) -> Process:
    one = Process(pid=pid, opened=OPENED + pid, words={"closed": OPENED + seconds * 1_000 * MS})
    for at, took in passes:
        one.add_pass(at * MS, int(took * MS))
    if work:
        for at in range(0, seconds * 1_000, 500):
            one.add_span("step", at * MS, MS)
    return one


def analysed(folder: Path, *processes: Process) -> Analysis:
    for one in processes:
        one.write(folder)
    return analyse(read_session(folder))


def test_pauses_over_each_limit_are_counted_and_told_an_hour(tmp_path: Path) -> None:
    analysis = analysed(
        tmp_path, process(1, [(1_000, 0.5), (2_000, 3), (3_000, 30), (4_000, 150), (5_000, 600)])
    )
    (one,) = analysis.budgets
    assert dict(zip((limit // MS for limit in LIMITS), one.over, strict=True)) == {
        1: 4, 5: 3, 10: 3, 20: 3, 50: 2, 100: 2, 200: 1, 500: 1,
    }  # fmt: skip
    assert one.per_hour[0] == pytest.approx(4 * 3_600 / 20, rel=1e-3) and one.extrapolated
    shares = dict(zip((window // MS for window in WINDOWS), one.mmu, strict=True))
    assert shares == {10: 0.0, 100: 0.0, 1_000: pytest.approx(0.4), 10_000: pytest.approx(1 - 0.07835)}


def test_together_a_pause_is_a_time_at_which_any_stands_still(tmp_path: Path) -> None:
    analysis = analysed(
        tmp_path,
        process(1, [(1_000, 60), (5_000, 60)]),
        process(2, [(1_050, 60), (9_000, 60)]),
        process(3, [(15_000, 900)], work=False),  # not on the path of any request
    )
    both = analysis.budgets[-1]
    assert both.process == "" and len(both.of) == 2
    assert dict(zip(LIMITS, both.over, strict=True))[100 * MS] == 1  # 60 + 60 ms that overlap by 10
    assert dict(zip(LIMITS, both.over, strict=True))[50 * MS] == 3
    assert both.mmu[2] == pytest.approx(0.89)
    assert len(analysis.budgets) == 4


def test_what_start_up_took_is_not_in_the_budget(tmp_path: Path) -> None:
    one = process(1, [(1_000, 900), (8_000, 30)])
    one.add_mark(fmt.MARK_BOUNDARY, 5_000 * MS)
    (budget,) = analysed(tmp_path, one).budgets
    assert budget.pauses == 1 and budget.over[-1] == 0
    assert budget.wall == pytest.approx(15_000 * MS, rel=0.01)


def test_the_report_prints_both(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, process(1, [(1_000, 60)]), process(2, [(1_050, 60)]))
    text = "\n".join(plain(report(analysis)))
    assert "Pauses an hour over so long" in text and "MMU: the least" in text
    row = next(line for line in text.splitlines() if line.strip().startswith("all of them (2)"))
    assert row.split()[4:7] == ["20.0", "s", "~180"]
    assert "~ from less than an hour, extrapolated" in text


def test_a_program_without_a_long_pause_has_no_budget_to_speak_of(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, process(1, [(1_000, 0.4)]))
    assert len(analysis.budgets) == 1
    assert "Pauses an hour" not in "\n".join(plain(report(analysis)))
