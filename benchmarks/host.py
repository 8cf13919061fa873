"""What sampling the host costs: CPU time of the helper beside ten processes that time steps."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from benchmarks.common import Interpreter, Result, environment
from frostline.recording import read_session

PROCESSES = 10
SECONDS = 20.0
#: Of one CPU: the sampling's own, and what it adds to the helper.
SAMPLING, MORE = 0.011, 0.02
_STEPS = """
import sys, threading, time
import frostline
told = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), told.set()), daemon=True).start()
threading.Thread(target=lambda: told.wait(), daemon=True).start()
while not told.wait(0.02):
    with frostline.span("step"):
        sum(range(20_000))
"""
_SERVER = f"""
import subprocess, sys
command = [sys.executable, "-c", {_STEPS!r}]
children = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range({PROCESSES})]
print("ready", flush=True)
sys.stdin.read()
for child in children:
    child.communicate(b"")
"""


def helper_share(folder: Path, *options: str) -> float:
    """The helper's CPU time over SECONDS of steady work, as a share of one CPU."""
    command = [sys.executable, "-m", "frostline.commands.main", "run", "-o", str(folder), *options, "--"]
    server = subprocess.Popen(
        [*command, sys.executable, "-c", _SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(),
    )
    assert server.stdin is not None and server.stdout is not None
    try:
        server.stdout.readline()
        time.sleep(5)  # start-up, and until all of them are sampled often
        (note,) = folder.glob("helper-*.json")
        helper = psutil.Process(json.loads(note.read_text())["pid"])
        before, begun = sum(helper.cpu_times()[:2]), time.monotonic()
        time.sleep(SECONDS)
        return float(sum(helper.cpu_times()[:2]) - before) / (time.monotonic() - begun)
    finally:
        server.stdin.close()
        server.wait(60)


def measure(interpreter: Interpreter) -> list[Result]:
    with tempfile.TemporaryDirectory(prefix="frostline-bench-") as place:
        without = helper_share(Path(place) / "without", "--no-host")
        sampled = helper_share(Path(place) / "with")
        until = time.monotonic() + 30
        while not list((Path(place) / "with").glob("host-*.gz")) and time.monotonic() < until:
            time.sleep(0.1)
        (log,) = read_session(Path(place) / "with").host
        size = sum(path.stat().st_size for path in (Path(place) / "with").glob("host-*"))
    length = (log.stop - log.start) / 1e9
    own = log.cost / (log.stop - log.start)
    how = (
        f"{PROCESSES} processes of 3 threads with steps, {length:.0f} s, {log.rounds / length:.1f} looks "
        f"a second; the helper took {without:.2%} of one CPU without and {sampled:.2%} with it; "
        f"{size / length * 3600 / 1e6:.1f} MB an hour, compressed"
    )
    return [
        Result("sampling the host, share of one CPU", f"{own:.2%}", f"{SAMPLING:.1%}", own <= SAMPLING, how),
        Result(
            "the helper with it, over without", f"+{sampled - without:.2%}", f"+{MORE:.0%}",
            sampled - without <= MORE, how,
        ),
    ]  # fmt: skip
