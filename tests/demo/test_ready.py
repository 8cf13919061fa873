"""READY comes last: after the start-up of a subclass, too, and after the freeze (A8)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.demo.serving import Server, until
from tests.demo.test_server import PROMPT

LATE = Path(__file__).parent / "inputs" / "late.py"
#: What inputs/late.py builds when it is let go.
OBJECTS = 30_000


@pytest.mark.parametrize(("options", "late"), [((), 0), (("--disaggregated",), "decode")])
def test_a_subclass_puts_ready_off_until_its_own_start_up_has_ended(
    start: Callable[..., Server], tmp_path: Path, options: tuple[str, ...], late: int | str
) -> None:
    go, reached = tmp_path / "go", tmp_path / "reached"
    os.mkfifo(go)
    settings = {"LATE_SETTINGS": json.dumps({"go": str(go), "reached": str(reached)})}
    server = start(options=options, program=LATE, policy="freeze", settings=settings)
    until(reached.exists, "the base's start-up")
    # All that the base does has ended, and nobody is told.
    status, body = server.ask("/health")
    assert (status, json.loads(body)["status"]) == (503, "starting")
    assert server.ask("/v1/completions", PROMPT)[0] == 503
    go.write_bytes(b"")
    processes = server.wait_ready()["processes"]
    for role, rank, _, tracked, frozen in processes:
        assert frozen == pytest.approx(tracked, rel=0.1)
        if (role, rank) == ("EngineCore", late):
            assert tracked > OBJECTS  # also what the subclass built
    assert server.ask("/v1/completions", PROMPT)[0] == 200
