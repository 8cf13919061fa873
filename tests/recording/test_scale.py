"""What reading costs does not depend on the clock here: bytes a record, and that every one is counted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from frostline.recording import read_session
from tests.many import write_many

MEASURE = """
import resource, sys
from frostline.analysis import analyse
from frostline.recording import read_session
from frostline.report import plain, report
lines = list(plain(report(analyse(read_session(sys.argv[1])))))
print(len(lines), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
#: 10,000,000 records in 1 GiB are 107 bytes each; half of that leaves room for everything else.
BYTES_A_RECORD = 54


def resident(folder: Path) -> int:
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(folder)], capture_output=True, text=True, check=True
    )
    return int(done.stdout.split()[1]) * 1024


def test_memory_for_a_record_is_bounded(tmp_path: Path) -> None:
    small, large = 200_000, 1_400_000
    write_many(tmp_path / "small", small)
    write_many(tmp_path / "large", large)
    growth = resident(tmp_path / "large") - resident(tmp_path / "small")
    assert growth < BYTES_A_RECORD * (large - small)


def test_every_record_of_many_segments_is_read(tmp_path: Path) -> None:
    write_many(tmp_path, 100_000, processes=3)
    session = read_session(tmp_path)
    assert session.losses == ()
    assert sum(len(s.spans["start"]) + len(s.passes) for s in session.series) in range(99_990, 100_001)
    assert all(len(s.passes) == 100_000 * 5 // 100 // 3 for s in session.series)
