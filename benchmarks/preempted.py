"""Waits for a CPU inside passes, as ``frostline gate`` proves them from host samples, beside the truth.

The truth is what the thread itself reads around each pass: time by the clock less time on a CPU. Two
neighbours that spin share its one CPU.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.common import TARGETS, Interpreter, Result, environment
from frostline.analysis import analyse
from frostline.gate.preempted import track_of, waited
from frostline.recording import read_session

SECONDS = 12
#: ns by which a claim may be over the truth: the reads of the clocks around the pass.
SLACK = 1_000_000


def measure(interpreter: Interpreter) -> list[Result]:
    cpu = str(min(os.sched_getaffinity(0)))
    spin = f"import os\nos.sched_setaffinity(0, {{{cpu}}})\nwhile True: pass"
    neighbours = [subprocess.Popen([sys.executable, "-c", spin], env=environment()) for _ in range(2)]
    with tempfile.TemporaryDirectory(prefix="frostline-bench-") as folder:
        target = [interpreter.python, str(TARGETS / "preempted.py"), cpu, str(SECONDS)]
        command = [
            sys.executable,
            "-m",
            "frostline.commands.main",
            "run",
            "-o",
            f"{folder}/rec",
            "--",
            *target,
        ]
        try:
            done = subprocess.run(
                command, env=environment(), check=True, timeout=120, capture_output=True, text=True
            )
        finally:
            for one in neighbours:
                one.kill()
                one.wait()
        rows = json.loads(next(line for line in done.stderr.splitlines() if line.startswith("[[")))
        analysis = analyse(read_session(Path(folder, "rec")))
    process = analysis.processes[0]
    track, pauses = track_of(analysis, process), process.pauses
    over = known = truth = proved = 0
    for begun, ended, used in rows:
        inside = np.flatnonzero((pauses.start >= begun) & (pauses.stop <= ended))
        if len(inside) != 1:
            continue
        claim = waited(track, int(pauses.start[inside[0]]), int(pauses.stop[inside[0]]), True)
        if claim is not None:
            known += 1
            over += claim > ended - begun - used + SLACK
            truth += ended - begun - used
            proved += claim
    load = f"two neighbours on its CPU; load of the machine {os.getloadavg()[0]:.0f}"
    share = f"{100 * proved / truth:.0f} % of {truth / 1e9:.1f} s" if truth else "nothing"
    return [
        Result(
            "waits claimed that were not", f"{over} of {known} passes", "0", not over and known > 10, load
        ),
        Result("waits that samples prove", share, ">= 20 %", known > 10 and proved >= 0.2 * truth, load),
    ]
