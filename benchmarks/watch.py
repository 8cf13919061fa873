"""What ``frostline watch-threads`` finds of passes that were recorded as well, and how sharp its edges are.

A target collects a large heap again and again, and makes C calls of the same length that hold the GIL,
while another thread of it works. Counts have bounds; the errors of the edges are beside the scheduler's
tick, and are valid only where the machine left the target a CPU.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.common import Interpreter, Result, environment

ROUNDS = 15
#: Share of passes that must be found, of a target that had its CPU; and of one CPU that it may take.
FOUND, SHARE = 0.9, 0.11
#: A pass or call counts if its thread was on a CPU for this share of it.
HAD_CPU = 0.95
_TARGET = f"""
import gc, json, sys, threading, time
gc.disable()
heap = [[i] for i in range(2_000_000)]
stop = threading.Event()
def beside():
    while not stop.wait(0.004):
        sum(range(30_000))
threading.Thread(target=beside).start()
def timed(act):
    begun, cpu = time.monotonic_ns(), time.thread_time_ns()
    act()
    wall = time.monotonic_ns() - begun
    return [begun, begun + wall, (time.thread_time_ns() - cpu) / wall]
print("ready", flush=True)
sys.stdin.readline()
found = []
for _ in range({ROUNDS}):
    for what, act in (("pass", gc.collect), ("call", lambda: sum(range(20_000_000)))):
        time.sleep(0.3)
        found.append([what, *timed(act)])
time.sleep(0.3)
stop.set()
print(json.dumps(found), flush=True)
sys.stdin.readline()
"""


def watched(place: Path) -> tuple[list[list[float]], dict[str, object], str]:
    """What the target says of itself, what the watcher says, and its last words."""
    command = [sys.executable, "-m", "frostline.commands.main"]
    target = subprocess.Popen(
        [*command, "run", "-o", str(place / "rec"), "--no-host", "--", sys.executable, "-c", _TARGET],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert target.stdin is not None and target.stdout is not None
    try:
        target.stdout.readline()
        watcher = subprocess.Popen(
            [*command, "watch-threads", str(place / "rec"), "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        assert watcher.stderr is not None
        watcher.stderr.readline()
        target.stdin.write("go\n")
        target.stdin.flush()
        said = json.loads(target.stdout.readline())
        watcher.send_signal(signal.SIGINT)
        output, errors = watcher.communicate(timeout=120)
        return said, json.loads(output), errors
    finally:
        target.communicate("\n", timeout=120)
        until = time.monotonic() + 30
        while time.monotonic() < until and not _ended(place / "rec"):
            time.sleep(0.1)


def _ended(session: Path) -> bool:
    return any(json.loads(note.read_text())["ended"] for note in session.glob("helper-*.json"))


def measure(interpreter: Interpreter) -> list[Result]:
    with tempfile.TemporaryDirectory(prefix="frostline-bench-") as place:
        said, data, _ = watched(Path(place))
    suspects: list[dict[str, int]] = data["suspects"]  # type: ignore[assignment]
    cost: dict[str, float] = data["cost"]  # type: ignore[assignment]
    counts = {"pass": [0, 0], "call": [0, 0]}
    wrong = 0
    errors: list[float] = []
    for what, start, stop, share in said:
        mine = [s for s in suspects if s["start"] < stop and s["stop"] > start]
        wrong += sum((s["verdict"] == "a pass") != (what == "pass") for s in mine)  # type: ignore[comparison-overlap]
        if share < HAD_CPU or stop - start < 100e6:
            continue
        counts[str(what)][1] += 1
        if mine:
            counts[str(what)][0] += 1
            errors += [abs(mine[0]["start"] - start) / 1e6, abs(mine[-1]["stop"] - stop) / 1e6]
    errors.sort()
    (passes, of_passes), (calls, of_calls) = counts.values()
    others = [s for s in suspects if not any(s["start"] < b and s["stop"] > a for _, a, b, _ in said)]
    edges = f"{errors[len(errors) // 2]:.1f}, at most {errors[-1]:.1f} ms" if errors else "none"
    how = (
        f"{ROUNDS} passes and {ROUNDS} calls, those counted that were over 100 ms and on a CPU for "
        f"{HAD_CPU:.0%} of it; C calls found {calls} of {of_calls}; {len(others)} suspects besides; edges "
        f"off by {edges} (median, most); a look every {cost['interval_used'] / 1e6:.0f} ms, the latest "
        f"{cost['latest'] / 1e6:.0f} ms late"
    )
    enough = of_passes >= ROUNDS // 3
    return [
        Result(
            "passes found from outside",
            f"{passes} of {of_passes}",
            f"{FOUND:.0%}",
            passes >= FOUND * of_passes if enough else None,
            how if enough else f"the machine was too busy: {how}",
        ),
        Result("suspects called a pass or not, wrongly", str(wrong), "0", wrong == 0, how),
        Result(
            "watching, share of one CPU",
            f"{cost['cpu_share']:.1%}",
            f"{SHARE:.0%}",
            cost["cpu_share"] <= SHARE,
            how,
        ),
    ]
