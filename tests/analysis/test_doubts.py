"""What is printed beside the numbers: why a boundary never came."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from frostline import format as fmt
from frostline.analysis import Analysis, analyse
from frostline.recording import read_session
from tests.synthetic import MS, Process, write_helper, write_run

NEVER = "http://127.0.0.1:9/x never answered 2xx or 3xx (last: connection refused)"


def waiting(folder: Path, ready: dict[str, Any] | None) -> Analysis:
    process = Process(text=[("policy", "freeze")])
    for i in range(100):
        process.add_span("step", i * 10 * MS, 5 * MS)
    process.add_pass(500 * MS, 400 * MS)
    process.write(folder)
    write_run(folder, ["serve"], policy="freeze")
    write_helper(folder, [], ready=ready)
    return analyse(read_session(folder))


@pytest.mark.parametrize(
    ("ready", "told"),
    [
        ({"kind": "url", "at_ns": 0, "detail": NEVER}, f"--ready-url: {NEVER}"),
        (
            {"kind": "log", "at_ns": 0, "detail": "--ready-log 'zzz' matched none of 1 line"},
            "--ready-log 'zzz' matched none of 1 line",
        ),
        (None, "Call frostline.startup_complete() or use --ready-url"),
    ],
)
def test_a_boundary_that_was_asked_for_and_never_came_says_why(
    tmp_path: Path, ready: dict[str, Any] | None, told: str
) -> None:
    """Not: do what you have done (U17)."""
    analysis = waiting(tmp_path, ready)
    (text,) = [doubt.text for doubt in analysis.doubts if doubt.slug == "no-boundary"]
    assert text == (
        f"policy freeze was in force and no boundary came in python (pid 4711): nothing was frozen. {told}"
    )
    freeze = next(one for one in analysis.advice if "nothing was frozen" in one.text)
    assert (told in freeze.text) is (ready is not None)
    assert (freeze.command == "") is (ready is not None)


@pytest.mark.parametrize(
    ("spans", "passes", "frozen", "doubted"),
    [(0, 0, 2, False), (100, 0, 2, True), (0, 8, 2, True), (0, 0, 1, True)],
)
def test_a_supervisor_with_nothing_to_freeze_is_no_doubt(
    tmp_path: Path, spans: int, passes: int, frozen: int, doubted: bool
) -> None:
    """uvicorn's parent of two workers: no span, few objects, and an integration has frozen the workers."""
    parent = Process(pid=1, opened=10**12, text=[("policy", "freeze")])
    parent.add_pass(300 * MS, 30 * MS)  # its own start-up
    for i in range(spans):
        parent.add_span("request", 2000 * MS + i * 10 * MS, 5 * MS)
    for i in range(passes):
        parent.add_pass(3000 * MS + i * 100 * MS, 60 * MS)
    for i in range(2):
        child = Process(pid=2 + i, opened=10**12 + 1000 * MS + i, text=[("policy", "freeze")])
        if i < frozen:
            child.add_mark(fmt.MARK_BOUNDARY, 1000 * MS, a=3)
            child.add_mark(fmt.MARK_FREEZE, 1000 * MS, flags=fmt.MARK_FLAG_OURS, a=5)
        child.add_state(60_000 * MS, (1, 0, 0), closing=True)
        child.write(tmp_path)
    parent.add_state(60_000 * MS, (1, 0, 0), closing=True)
    parent.write(tmp_path)
    write_run(tmp_path, ["uvicorn", "app:app"])
    found = [d.text for d in analyse(read_session(tmp_path)).doubts if d.slug == "no-boundary"]
    assert any("python (pid 1)" in text for text in found) is doubted


@pytest.mark.parametrize(("objects", "told"), [(0, True), (660_000, False), (-1, False)])
def test_a_freeze_that_froze_nothing_is_told_of(tmp_path: Path, objects: int, told: bool) -> None:
    """The program has put a function of its own in the place of gc.freeze: -1 is not counted."""
    process = Process(text=[("policy", "freeze")])
    process.add_mark(fmt.MARK_BOUNDARY, 100 * MS)
    process.add_pass(100 * MS, 50 * MS)
    process.add_mark(fmt.MARK_FREEZE, 160 * MS, flags=fmt.MARK_FLAG_OURS, a=objects)
    process.add_pass(500 * MS, 40 * MS)
    process.write(tmp_path)
    doubts = [doubt.slug for doubt in analyse(read_session(tmp_path)).doubts]
    assert ("froze-nothing" in doubts) is told
