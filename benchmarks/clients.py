"""``report --requests``: 300,000 requests read and laid over a session, against the parse of their JSON."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.common import Interpreter, Result
from benchmarks.synthetic import make
from frostline.analysis import analyse
from frostline.analysis.requests import with_requests
from frostline.recording import read_session
from frostline.recording.requests import read_requests, write_own

REQUESTS = 300_000
RECORDS = 400_000
#: As long as that many records last, and less.
SECONDS = 400
#: Times the parse: reading checks every value, and the join sorts, cuts and shifts.
BOUND = 8.0


def measure(_: Interpreter) -> list[Result]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "s").mkdir()
        make(folder / "s", RECORDS)
        analysis = analyse(read_session(folder / "s"))
        dice = np.random.default_rng(1)
        at = np.sort(analysis.start + dice.integers(0, SECONDS * 10**9, REQUESTS))
        took = dice.integers(5_000_000, 9_000_000, REQUESTS)
        took[dice.random(REQUESTS) < 0.02] = 150_000_000
        rows = (
            {"intended": a, "sent": a + 1000, "first": a + t // 4, "last": a + t, "status": "ok", "tokens": 9}
            for a, t in zip(at.tolist(), took.tolist(), strict=True)
        )
        path = folder / "requests.jsonl"
        write_own(path, {"seed": 1}, rows)
        begun = time.perf_counter()
        for line in path.read_text().splitlines():
            json.loads(line)
        parsed = time.perf_counter()
        joined = with_requests(analysis, read_requests(path))
        done = time.perf_counter()
    (report,) = joined.requests
    ratio = (done - parsed) / (parsed - begun)
    return [
        Result(
            what=f"{REQUESTS:,} requests of a client",
            measured=f"{ratio:.1f} x the parse of their JSON",
            bound=f"{BOUND:g} x",
            passed=ratio <= BOUND and report.count == REQUESTS,
            how=f"{done - parsed:.1f} s against {parsed - begun:.1f} s, over {RECORDS:,} records of "
            f"{len(analysis.processes)} processes",
        )
    ]
