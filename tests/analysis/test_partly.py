"""Full passes that reclaim some of what they walk: "a freeze gains nothing" would be a claim too many."""

from __future__ import annotations

from pathlib import Path

import pytest

from frostline import format as fmt
from tests.analysis.test_verdict import analysed
from tests.synthetic import MS, Process, write_run

S = 1000 * MS


def server(folder: Path, reclaimed: int, took: int = 90 * MS) -> list[tuple[str, str]]:
    """600,000 objects at the start, then requests, and one full pass among them."""
    process = Process()
    process.add_state(0, (3, 0, 0))
    for i in range(600):
        process.add_pass(i * MS // 10, MS // 20, 0, count0=1000)
    for i in range(200):
        process.add_span("request", 5 * S + i * 50 * MS, 40 * MS, kind=fmt.SPAN_ASYNC)
    process.add_pass(9 * S, took, 2, collected=reclaimed)
    write_run(folder, ["uvicorn", "app:app"])
    return [(one.text, one.command) for one in analysed(folder, process).advice]


@pytest.mark.parametrize("share", [0.05, 0.10, 0.20])
def test_some_work_among_much_walking_is_not_sure_and_to_be_tried(tmp_path: Path, share: float) -> None:
    ((text, command),) = server(tmp_path, int(600_000 * share))
    assert text.startswith("whether a freeze gains is not sure: a full pass after start-up in ")
    assert f"reclaimed at least {share:.0%} of what was walked" in text
    assert command.startswith("frostline run --policy freeze ")


def test_where_much_is_reclaimed_the_passes_are_needed(tmp_path: Path) -> None:
    ((text, command),) = server(tmp_path, 300_000)
    assert text.startswith("a freeze gains nothing here") and not command


def test_where_nothing_is_reclaimed_a_freeze_gains(tmp_path: Path) -> None:
    (text, _), *_ = server(tmp_path, 0)
    assert text.startswith("full passes walk a heap that stays")


def test_short_ones_are_no_reason(tmp_path: Path) -> None:
    texts = [text for text, _ in server(tmp_path, 60_000, took=3 * MS)]
    assert not any("not sure" in text for text in texts)
