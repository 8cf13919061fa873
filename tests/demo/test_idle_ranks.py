"""The reference server's workers idle while its engine core collects: is that what the report says?"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from frostline import format as layout
from frostline.analysis import analyse
from frostline.reach import asking
from frostline.recording import read_session
from frostline.report import plain, report
from tests.demo.serving import Server
from tests.reach.under_run import wait_for_helper

PASSES = 20
LOAD = ("--rate", "10", "--seconds", "14", "--warm-up", "0")


def test_the_workers_gaps_are_consistent_with_the_engine_cores_passes(
    start: Callable[..., Server], tmp_path: Path
) -> None:
    """Passes that we ask the engine core for: when they are is known, and nobody else pauses for long."""
    rec = tmp_path / "rec"
    server = start(scale=0.7, workers=2, record=rec)
    processes = server.wait_ready()["processes"]
    engine = next(pid for role, _, pid, *_ in processes if role == "EngineCore")
    load = subprocess.Popen(
        [sys.executable, "-m", "frostline.demo", "drive", server.url(), *LOAD],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    for _ in range(PASSES):
        # A request of our own before each: the engine has work when it is stopped, and time passes.
        status, _ = server.ask("/v1/completions", {"prompt": "how deep?", "max_tokens": 48})
        assert status == 200
        (answer,) = asking.ask_all(asking.targets(str(engine), False), layout.OP_COLLECT, (2,), 20.0)
        assert answer.done, answer
    output, _ = load.communicate(timeout=120)
    assert load.returncode == 0, output
    server.process.terminate()
    assert server.process.wait(60) == 0
    wait_for_helper(rec)
    analysis = analyse(read_session(rec))
    core = next(p for p in analysis.processes if p.pid == engine)
    asked = [p for p in core.full_passes if p.kind == "Frostline"]
    assert len(asked) == PASSES
    long = [p for p in asked if p.pause > 2 * analysis.options.long_floor]
    assert len(long) >= PASSES // 2, [p.pause for p in asked]
    ranks = [one for one in analysis.ranks if one.group == "Worker"]
    text = "\n".join(plain(report(analysis)))
    assert len(ranks) == 2, text
    for one in ranks:
        (found,) = [c for c in one.consistent if c.pid == engine]
        assert found.claimed and not found.own, text
        # A pass while nothing was in flight, or one that another stall ran into, explains no gap.
        assert len(long) // 2 <= found.passes <= PASSES, text
        assert found.generations == (0, 0, found.passes)
        assert found.walked.value and found.walked.value >= 100_000 * found.passes
    assert core.name in next(
        line
        for line in (analysis.verdict.sentence, *analysis.verdict.lines)
        if "the 2 ranks of Worker idle" in line
    )
