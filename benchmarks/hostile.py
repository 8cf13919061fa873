"""The hostile suite at its full sizes, for every interpreter of FROSTLINE_PYTHONS."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from benchmarks.common import ROOT, Interpreter, Result


def measure(interpreter: Interpreter) -> list[Result]:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", "tests/hostile"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ | {"FROSTLINE_FULL": "1"},
    )
    counts = {
        word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|skipped|error)", done.stdout)
    }
    failed = re.findall(r"^(?:FAILED|ERROR) \S+::(\S+)", done.stdout, re.MULTILINE)
    how = f"pytest tests/hostile with FROSTLINE_FULL=1: {counts}"
    passed = done.returncode == 0 and counts.get("passed", 0) > 0
    return [
        Result(
            "hosts that noticed us",
            str(len(failed)),
            "0",
            passed,
            how + (f": {' '.join(failed)}" if failed else ""),
        )
    ]
