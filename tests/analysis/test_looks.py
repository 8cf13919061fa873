"""A step that is slow since Frostline stopped its process is told as Frostline's doing."""

from __future__ import annotations

from pathlib import Path

import pytest

from frostline import format as fmt
from frostline.report import plain, report
from tests.analysis.test_verdict import analysed
from tests.synthetic import MS, Process


def served(look: int, a_pass: int = 0) -> Process:
    """Steps of 5 ms, and one of 1 s in which a look lasts so many ms and a full pass of ours so many."""
    process = Process(hexversion=0x030F00F0)
    for i in range(200):
        process.add_span("step", i * 10 * MS, 5 * MS)
    process.add_span("step", 2_000 * MS, 1_000 * MS)
    process.add_mark(fmt.MARK_LOOK, 2_100 * MS, look * MS, a=0, flags=fmt.MARK_FLAG_OURS)
    if a_pass:
        process.add_pass(2_110 * MS, a_pass * MS, 2, flags=fmt.PASS_FULL | fmt.PASS_FROSTLINE)
    return process


@pytest.mark.parametrize("a_pass", [0, 600])
def test_what_a_look_fills_is_its_doing_whatever_passes_are_in_it(tmp_path: Path, a_pass: int) -> None:
    analysis = analysed(tmp_path, served(800, a_pass))
    (slow,) = analysis.processes[0].long_steps
    assert slow.host is not None and slow.host.kind == "look"
    text = "\n".join(plain(report(analysis)))
    words = "stood still for 800 ms of its 1,000 ms while Frostline looked at the heap (census)"
    assert f"not the server's doing: it {words}" in text
    assert "stopped for 800 ms: frostline census, as asked" in text
    (doubt,) = [one for one in analysis.doubts if one.slug == "looked-at"]
    assert "stood still for 800 ms" in doubt.text and "(1 look)" in doubt.text


def test_a_short_look_explains_nothing(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, served(400))
    (slow,) = analysis.processes[0].long_steps
    assert slow.host is None or slow.host.kind != "look"
    assert "not the server's doing" not in "\n".join(plain(report(analysis)))
