"""Ten million records to a text report: time and memory of the command."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.common import Interpreter, Result, command, load
from benchmarks.synthetic import PASS_SHARE, make

RECORDS = 10_000_000
#: One of so many records is a pass: as a server has them, and half, which is the worst there is.
SHARES = (PASS_SHARE, 2)
#: What the project set itself at first, and what everything that came later may cost at most.
MOST_SECONDS = {PASS_SHARE: 10.0, 2: 30.0}
MOST_BYTES = {PASS_SHARE: 1024**3, 2: 2 * 1024**3}


def measure(interpreter: Interpreter) -> list[Result]:
    found = []
    for share in SHARES:
        with tempfile.TemporaryDirectory(prefix="frostline-bench-", dir="/dev/shm") as folder:
            make(Path(folder), RECORDS, share)
            used = command("report", folder)
        good = used.code == 0 and len(used.text) > 200
        how = (
            f"{RECORDS:,} records of 4 processes, {RECORDS // share:,} of them passes, "
            f"{len(used.text.splitlines())} lines; {used.how}; {load()}"
        )
        most, bytes_ = MOST_SECONDS[share], MOST_BYTES[share]
        found += [
            Result(
                f"seconds to a report, 1 of {share} a pass",
                f"{used.seconds:.1f} s",
                f"{most:.0f} s",
                good and used.within(most),
                how,
            ),
            Result(
                "memory of it",
                f"{used.peak / 2**20:.0f} MiB",
                f"{bytes_ / 2**20:.0f} MiB",
                good and used.peak <= bytes_,
                how,
            ),
        ]
    return found
