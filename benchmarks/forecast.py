"""The forecast that the next pass is a full one, and of the allocations to it: six loads (D4).

Each load runs under ``frostline run`` as a user would run it, and the figures are those that the report
prints of it: made from what was known at the stop before. The same recordings without what the helper
read of the interpreters' counters say what the record alone is good for.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.common import LIMIT, ROOT, TARGETS, Interpreter, Result, environment
from frostline.analysis import analyse
from frostline.analysis.triggers import Forecast
from frostline.recording import read_session

LOADS = ("static", "grow", "churn", "json", "lru", "threads")
#: Full passes of each load, and seconds that it may take.
PASSES, SECONDS = int(os.environ.get("FORECAST_PASSES", "20")), 25
#: Precision and recall at least, and the median error of the allocations at most.
CALLED, ERROR = 0.95, 0.05


def forecasts(interpreter: Interpreter, load: str) -> tuple[Forecast | None, Forecast | None]:
    """The forecast of one recording: with the counters that were read, and from the record alone."""
    folder = Path(tempfile.mkdtemp(prefix="frostline-forecast-"))
    try:
        program = "from frostline.commands.main import main; main()"
        target = [interpreter.python, str(TARGETS / "forecast_load.py"), load, str(PASSES), str(SECONDS)]
        run = [sys.executable, "-c", program, "run", "-o", str(folder / "session"), "--", *target]
        own = environment(PYTHONPATH=str(ROOT / "src"))
        done = subprocess.run(run, env=own, capture_output=True, text=True, timeout=LIMIT)
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        wait_for_helper(folder / "session")
        session = read_session(folder / "session")
        with_counters = analyse(session).processes[0].forecast
        for series in session.series:
            series.counted = series.counted[:0]
        return with_counters, analyse(session).processes[0].forecast
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def wait_for_helper(session: Path) -> None:
    """It takes up to a second after the target to write what it has read."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        notes = [json.loads(path.read_text()) for path in session.glob("helper-*.json")]
        if notes and all(note["ended"] for note in notes):
            return
        time.sleep(0.05)
    raise RuntimeError("the helper has not ended")


def measure(interpreter: Interpreter) -> list[Result]:
    if (3, 14, 0) <= interpreter.version < (3, 14, 5):
        return [Result("forecast", "", "", None, "the incremental collector starts no full pass")]
    results, errors = [], []
    right = called = came = 0
    for load in LOADS:
        found, alone = forecasts(interpreter, load)
        if found is None or not found.came:
            results.append(Result(load, "no forecast", "", False, "no full pass came by itself"))
            continue
        right, called, came = right + found.right, called + found.called, came + found.came
        precision, recall = found.right / max(1, found.called), found.right / found.came
        # Of a dozen passes one is more than a twentieth: of one load one may be missed and one in vain.
        good = min(found.right + 1, found.came) >= CALLED * found.came and (
            min(found.right + 1, found.called) >= CALLED * found.called
        )
        results.append(
            Result(
                f"{load}: full passes called at the stop before, precision and recall",
                f"{precision:.2f} and {recall:.2f}",
                f"{CALLED} each, or one",
                good,
                f"{found.right} of {found.called} called and of {found.came} that came; "
                f"{found.read} readings; "
                f"from the record alone {alone.right if alone else 0} of {alone.called if alone else 0} "
                f"and of {alone.came if alone else 0}",
            )
        )
        if found.error is not None:
            errors.append(found.error)
            results.append(
                Result(
                    f"{load}: allocations to the next full pass, median error",
                    f"{found.error:.1%}",
                    f"{ERROR:.0%}",
                    found.error <= ERROR,
                    f"{found.tried} forecasts, each made at the full pass before; record alone "
                    f"{alone.error if alone and alone.error is not None else float('nan'):.1%}",
                )
            )
    precision, recall = right / max(1, called), right / max(1, came)
    how = f"{right} of {called} called and of {came} that came, all loads"
    results.append(
        Result(
            "all loads: precision and recall",
            f"{precision:.3f} and {recall:.3f}",
            f"{CALLED} each",
            min(precision, recall) >= CALLED,
            how,
        )
    )
    median = float(np.median(errors)) if errors else float("nan")
    results.append(
        Result(
            "all loads: median error, median",
            f"{median:.1%}",
            f"{ERROR:.0%}",
            median <= ERROR,
            "of the loads",
        )
    )
    return results
