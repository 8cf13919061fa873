"""When start-up was over: a boundary that is told late makes no start-up of the time before."""

from __future__ import annotations

from pathlib import Path

import pytest

from frostline import format as fmt
from tests.analysis.test_verdict import analysed
from tests.synthetic import MS, Process, write_helper

S = 1000 * MS


def served(boundary: int, by: int, attached: bool = False, first: int = 1 * S) -> Process:
    process = Process(opened=10**12)
    process.add_state(0, (3, 0, 0))
    process.add_mark(fmt.MARK_ATTACH, 0, a=60 * S if attached else 0)
    for i in range(100 if first else 0):
        process.add_span("request", first + i * 100 * MS, 90 * MS, kind=fmt.SPAN_ASYNC)
    process.add_pass(5 * S, 400 * MS)
    process.add_mark(fmt.MARK_BOUNDARY, boundary, a=by, flags=fmt.MARK_FLAG_LATE if by == 2 else 0)
    process.add_state(30 * S, (3, 0, 1), closing=True)
    return process


@pytest.mark.parametrize(
    ("by", "attached", "first", "since"),
    [
        (2, True, 1 * S, 0),  # `policy --now` on a server that was attached to
        (2, True, 0, 0),
        (3, True, 1 * S, 0),  # it has taken requests before: the boundary is of something else
        (3, True, 0, 20 * S),  # attached to as it started: it knows itself
        (2, False, 1 * S, 1 * S),  # `policy --now` without an attach
        (2, False, 0, 20 * S),  # nothing else tells it
        (1, False, 1 * S, 20 * S),  # the program: what came before were its own warm-ups
        (3, False, 1 * S, 20 * S),
    ],
)
def test_a_boundary_that_is_told_late(
    tmp_path: Path, by: int, attached: bool, first: int, since: int
) -> None:
    (process,) = analysed(tmp_path, served(20 * S, by, attached, first)).processes
    assert process.serving == process.start + since


@pytest.mark.parametrize(("kind", "since"), [("url", 20 * S), ("log", 20 * S), ("after", 1 * S)])
def test_a_probe_of_the_url_is_no_traffic_and_a_clock_knows_of_none(
    tmp_path: Path, kind: str, since: int
) -> None:
    process = served(20 * S, 2)
    write_helper(tmp_path, [], ready={"kind": kind, "at_ns": process.opened + 20 * S, "detail": "it came"})
    (found,) = analysed(tmp_path, process).processes
    assert found.serving == found.start + since


def test_the_outage_stays_in_the_verdict(tmp_path: Path) -> None:
    """A stranger's night: `policy follow --now` at its end turned all of it into start-up."""
    verdict = analysed(tmp_path, served(20 * S, 2, attached=True)).verdict
    assert "stopped python (pid 4711) once, for 400 ms" in verdict.sentence
