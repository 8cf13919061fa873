"""The load of an ablation: some users who stream a fixed amount of work, and what the ranks did meanwhile.

    python -m benchmarks.paper.users URL USERS REQUESTS [WHOLE]

Prints a JSON line for ``frostline ablate``: the window (``t0``, ``t1``, Unix seconds); ``idle_ms``, the time
that the worker ranks idled in gaps of 100 to 700 ms between two steps while there was work, and 1 (a metric
is positive), by ``frostline report`` of the session that runs just now; ``p999_ms``, of the times in which
no piece of text came for anybody; ``seconds``, what the work took.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from benchmarks.common import TARGETS, environment
from benchmarks.paper.doing import frostline

#: Requests before the window.
WARM = 8
#: Of gaps between steps, ms.
LOW, HIGH = 100, 700


def main(url: str, users: str, requests: str, whole: str = "0") -> int:
    at = urlsplit(url)
    with tempfile.TemporaryDirectory() as place:
        output = Path(place) / "arrived.json"
        for many, seed in ((str(WARM), "10000"), (requests, "0")):
            command = [sys.executable, str(TARGETS / "streams.py"), str(at.hostname), str(at.port), users]
            command += [many, seed, str(output), whole]
            subprocess.run(command, check=True, env=environment(), timeout=900)
        told = json.loads(output.read_text())
    since = time.time_ns() - time.monotonic_ns()
    window = (int(told["begin"]), int(told["end"]))
    silent = np.diff(np.sort(np.array(told["arrived"], np.int64))) / 1e6
    found = idle(json.loads(frostline("report", "--json")))
    print(
        json.dumps(
            {
                "idle_ms": 1 + sum(bucket["ms"] for rank in found.values() for bucket in rank),
                "p999_ms": float(np.quantile(silent[silent > 0], 0.999)),
                "seconds": (window[1] - window[0]) / 1e9,
                "t0": (window[0] + since) / 1e9,
                "t1": (window[1] + since) / 1e9,
                "ranks": found,
            }
        )
    )
    return 0


def idle(report: Mapping[str, Any], low: int = LOW, high: int = HIGH) -> dict[str, list[dict[str, Any]]]:
    """Worker rank -> its gaps by length within the bounds (ms), those for want of requests left out."""
    found = {}
    for rank in report["ranks"]:
        if "worker" in rank["role"].lower():
            found[rank["process"]] = [
                {
                    "low": bucket["low"] // 1_000_000,
                    "high": bucket["high"] // 1_000_000,
                    "count": bucket["count"] - (bucket["supply"] or 0),
                    "ms": (bucket["total"] - (bucket["supply_total"] or 0)) / 1e6,
                }
                for bucket in rank["buckets"]
                if bucket["low"] >= low * 1_000_000 and 0 < bucket["high"] <= high * 1_000_000
            ]
    return found


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
