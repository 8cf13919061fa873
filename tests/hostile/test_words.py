"""What ``report`` says of a recording whose ground gave way: what is missing, and why."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from frostline.analysis import analyse
from frostline.recording import read_session
from frostline.report import report, write
from tests.hostile.conftest import Stage, needs_mount, needs_root
from tests.hostile.test_ground import on_small_disk


def text_of(session: Path) -> str:
    out = io.StringIO()
    write(report(analyse(read_session(session))), out)
    return " ".join(out.getvalue().split())


@needs_mount
def test_it_names_a_full_disk(stage: Stage) -> None:
    moved, wrapper = on_small_disk(stage, "320k")
    outcome = moved.both("busy", "nothing", "", "1000", "4000", wrapper=wrapper)
    said = text_of(moved.live)
    assert "no space left" in said
    assert f"{outcome.root.words['lost_passes']} passes" in said.replace(",", "")
    assert "a pass was running" not in said, "the passes ran: they were not recorded"


@needs_root
@pytest.mark.parametrize(
    ("action", "why"), [("drop", "no permission"), ("jail", "folder"), ("few_files", "Too many open files")]
)
def test_it_names_the_reason(stage: Stage, action: str, why: str) -> None:
    stage.both("busy", action, "", "128", "3000")
    said = text_of(stage.session)
    assert "passes seen and not recorded" in said
    assert why in said
