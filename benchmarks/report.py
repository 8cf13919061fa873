"""Ten million records through the whole analysis: time and memory of the command."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.common import Interpreter, Result, command, load
from benchmarks.synthetic import PASS_SHARE, make

RECORDS = 10_000_000
#: (what is written, one of so many records is a pass, all forms, seconds, bytes): the text of a recording
#: as a server gives it, all that can be drawn and read beside it, and the text where half are passes, the
#: worst there is.
CASES = (
    ("a report", PASS_SHARE, False, 10.0, 1024**3),
    ("a report, the page and JSON", PASS_SHARE, True, 30.0, 2 * 1024**3),
    ("a report, half of it passes", 2, False, 30.0, 2 * 1024**3),
)


def measure(interpreter: Interpreter) -> list[Result]:
    found = []
    for what, share, everything, seconds, most in CASES:
        with tempfile.TemporaryDirectory(prefix="frostline-bench-", dir="/dev/shm") as folder:
            make(Path(folder), RECORDS, share)
            more = ("--json", "--html", f"{folder}/page.html") if everything else ()
            used = command("report", folder, *more)
        good = used.code == 0 and len(used.text) > 200
        how = (
            f"{RECORDS:,} records of 4 processes, {RECORDS // share:,} of them passes, "
            f"{len(used.text.splitlines()):,} lines; {used.how}; {load()}"
        )
        found += [
            Result(
                f"seconds to {what}",
                f"{used.seconds:.1f} s",
                f"{seconds:.0f} s",
                good and used.within(seconds),
                how,
            ),
            Result(
                "memory of it",
                f"{used.peak / 2**20:.0f} MiB",
                f"{most / 2**20:.0f} MiB",
                good and used.peak <= most,
                how,
            ),
        ]
    return found
