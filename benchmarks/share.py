"""The recorder's share of a request on the reference server, in instructions.

Instructions of an event come from callgrind. Those of a request are the server's CPU time over its
requests, times the instructions that this machine executes in a second of a plain Python loop:
hardware counters are not there in most machines.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from benchmarks.common import TARGETS, Interpreter, Result, environment, run_target, session
from frostline import format as layout
from frostline.recording import read_session

MOST = 0.01
SECONDS = 20.0
RATE = 12.0
FEW, MANY = 2_000, 8_000
LOOP = 2_000_000


def callgrind(python: str, mode: str, many: int, **settings: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        script = str(TARGETS / "events.py")
        command = [
            "valgrind",
            "--tool=callgrind",
            f"--callgrind-out-file={out}",
            python,
            script,
            mode,
            str(many),
        ]
        subprocess.run(command, check=True, capture_output=True, env=environment(**settings))
        found = re.search(r"^(?:summary|totals): (\d+)", out.read_text(), re.MULTILINE)
    if found is None:
        raise RuntimeError("callgrind wrote no total")
    return int(found[1])


def each(python: str, mode: str, recorded: bool) -> float:
    """Instructions of one turn of the mode."""
    totals = []
    for many in (FEW, MANY):
        with session() as folder:
            settings = {"FROSTLINE_OUTPUT": str(folder)} if recorded else {}
            totals.append(callgrind(python, mode, many, **settings))
    return (totals[1] - totals[0]) / (MANY - FEW)


def cpu_of(processes: list[psutil.Process]) -> float:
    total = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system
    return total


def serve_and_drive(folder: Path) -> tuple[float, int, int, int]:
    """Runs the server under ``frostline run``: its CPU seconds under load, and the window's ends."""
    address = folder / "address"
    command = [sys.executable, "-m", "frostline.commands.main", "run", "-o", str(folder / "rec"), "--"]
    command += [sys.executable, "-m", "frostline.demo", "serve", "--tethered", "--announce", str(address)]
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment())
    try:
        until = time.monotonic() + 120
        while not address.exists() or not address.read_text().strip():
            if server.poll() is not None or time.monotonic() > until:
                raise RuntimeError("no server: " + (folder / "server.log").read_text()[-1000:])
            time.sleep(0.2)
        url = address.read_text().strip()
        driver = [sys.executable, "-m", "frostline.demo", "drive", url, "--rate", str(RATE)]
        # The first drive waits for READY and warms up; the second one is counted.
        subprocess.run([*driver, "--seconds", "3"], check=True, capture_output=True, env=environment())
        root = psutil.Process(server.pid)
        processes = [root, *root.children(recursive=True)]
        before, begun = cpu_of(processes), time.monotonic_ns()
        output = folder / "requests"
        subprocess.run(
            [*driver, "--seconds", str(SECONDS), "--warm-up", "0", "--output", str(output)],
            check=True,
            capture_output=True,
            env=environment(),
        )
        ended = time.monotonic_ns()
        return cpu_of(processes) - before, begun, ended, int(SECONDS * RATE)
    finally:
        assert server.stdin is not None
        server.stdin.close()
        try:
            server.wait(60)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def measure(interpreter: Interpreter) -> list[Result]:
    python = interpreter.python
    cost = {
        "span": each(python, "wrapped", True) - each(python, "call", False),
        "pass": each(python, "passes", True) - each(python, "passes", False),
        "mark": each(python, "marks", True),
    }
    per_turn = each(python, "loop", False)
    cpu_ns = min(run_target(python, "events", "loop", str(LOOP))["cpu_ns"] for _ in range(3))
    per_second = per_turn * LOOP / (cpu_ns / 1e9)
    with tempfile.TemporaryDirectory(prefix="frostline-bench-") as place:
        cpu, begun, ended, requests = serve_and_drive(Path(place))
        read = read_session(Path(place) / "rec")
    events = {"span": 0, "pass": 0, "mark": 0}
    for series in read.series:
        if series.spans:
            starts = series.spans["start"]
            events["span"] += int(((starts >= begun) & (starts <= ended)).sum())
        starts = series.passes["start"]
        events["pass"] += int(((starts >= begun) & (starts <= ended)).sum())
        quiet = (layout.MARK_STATE, layout.MARK_CLOSE)
        events["mark"] += sum(begun <= mark.time <= ended and mark.kind not in quiet for mark in series.marks)
    spent = sum(cost[kind] * many for kind, many in events.items())
    share = spent / (cpu * per_second)
    a_request = {kind: round(many / requests, 2) for kind, many in events.items()}
    how = (
        f"{requests} requests at {RATE:.0f}/s, {cpu / requests * 1e3:.1f} ms of CPU each; events each "
        f"{json.dumps(a_request)}; instructions an event "
        f"{json.dumps({kind: round(many) for kind, many in cost.items()})}; "
        f"{per_second / 1e9:.1f} G instructions/s"
    )
    good = share <= MOST and events["span"] > 0
    return [Result("the recorder's share of a request", f"{share:.3%}", f"{MOST:.0%}", good, how)]
