"""Ten million records to Parquet: time and memory, and that every row is there."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.common import Interpreter, Result, command, load
from benchmarks.report import RECORDS
from benchmarks.synthetic import PASS_SHARE, make

MOST_SECONDS = 30.0
MOST_BYTES = 2 * 1024**3


def measure(interpreter: Interpreter) -> list[Result]:
    try:
        from pyarrow import parquet
    except ModuleNotFoundError:
        return [Result("seconds to Parquet", "", f"{MOST_SECONDS:.0f} s", None, "pyarrow is not installed")]
    with tempfile.TemporaryDirectory(prefix="frostline-bench-", dir="/dev/shm") as folder:
        session, out = Path(folder, "session"), Path(folder, "tables")
        session.mkdir()
        make(session, RECORDS)
        used = command("report", str(session), "--parquet", str(out))
        files = list(out.glob("*.parquet"))
        written = sum(
            parquet.ParquetFile(file).metadata.num_rows
            for file in files
            if file.name == "gc_events.parquet" or file.name.startswith("steps_")
        )
        size = sum(file.stat().st_size for file in files)
    good = used.code == 0 and written == RECORDS
    how = (
        f"{written:,} rows of {RECORDS:,} records ({RECORDS // PASS_SHARE:,} passes), "
        f"{size / 2**20:.0f} MiB of files, the text report with it; {used.how}; {load()}"
    )
    return [
        Result(
            "seconds to Parquet",
            f"{used.seconds:.1f} s",
            f"{MOST_SECONDS:.0f} s",
            good and used.within(MOST_SECONDS),
            how,
        ),
        Result(
            "memory of it",
            f"{used.peak / 2**20:.0f} MiB",
            f"{MOST_BYTES / 2**20:.0f} MiB",
            good and used.peak <= MOST_BYTES,
            how,
        ),
    ]
