"""Ten million records to a text report: time and memory of the command."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.common import Interpreter, Result, environment
from benchmarks.synthetic import make

RECORDS = 10_000_000
MOST_SECONDS = 10.0
MOST_BYTES = 1024**3


def measure(interpreter: Interpreter) -> list[Result]:
    with tempfile.TemporaryDirectory(prefix="frostline-bench-", dir="/dev/shm") as folder:
        make(Path(folder), RECORDS)
        begun = time.monotonic()
        # The commands need the [tools] extra, so they run in the environment that runs this.
        child = subprocess.Popen(
            [sys.executable, "-m", "frostline.commands.main", "report", folder],
            stdout=subprocess.PIPE,
            env=environment(),
        )
        assert child.stdout is not None
        text = child.stdout.read().decode()
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.monotonic() - begun
    child.returncode = os.waitstatus_to_exitcode(status)
    peak = usage.ru_maxrss * 1024
    how = (
        f"{RECORDS:,} records of 4 processes, {len(text.splitlines())} lines; "
        f"{usage.ru_utime:.1f} s user and {usage.ru_stime:.1f} s system, by rusage"
    )
    good = child.returncode == 0 and len(text) > 200
    return [
        Result(
            "seconds to a report",
            f"{seconds:.1f} s",
            f"{MOST_SECONDS:.0f} s",
            good and seconds <= MOST_SECONDS,
            how,
        ),
        Result("memory of it", f"{peak / 2**20:.0f} MiB", "1024 MiB", good and peak <= MOST_BYTES, how),
    ]
