"""What is printed beside the numbers: why a boundary never came."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

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
