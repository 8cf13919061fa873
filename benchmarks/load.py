"""The load client's honesty: a server that stalls for 300 ms every 5 s, seen by an open loop and by a
closed one."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from benchmarks.common import TARGETS, Interpreter, Result

RATE, SECONDS = 100.0, 60.0
#: Clients of the closed loop: enough to ask for as much as the open one, were there no stall.
CLIENTS = 2


def measure(interpreter: Interpreter) -> list[Result]:
    server = subprocess.Popen(
        [sys.executable, str(TARGETS / "stalling.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    port = int(server.stdout.readline())
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "requests.jsonl"
        done = subprocess.run(
            [sys.executable, "-m", "frostline.commands.main", "load", f"http://127.0.0.1:{port}/",
             "--rate", str(RATE),
             "--seconds", str(SECONDS), "--warmup", "2", "--json", "-o", str(out)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        told = json.loads(done.stdout)
        rows = [json.loads(line) for line in out.read_text().splitlines()[1:]]
    closed = closed_loop(port, SECONDS)
    text, _ = server.communicate(timeout=60)
    stalls = np.array(json.loads(text), np.int64)
    rung = told["rungs"][0]
    planned = np.array([row["intended"] for row in rows if row.get("measured", True)], np.int64)
    at = np.searchsorted(stalls[:, 1], planned, "right").clip(max=len(stalls) - 1)
    inside = (planned >= stalls[at, 0]) & (planned < stalls[at, 1])
    exact = float(
        np.quantile(np.where(inside, stalls[at, 1] - planned, 0) / 1e6, 0.99, method="inverted_cdf")
    )
    seen = rung["response"]["p99"]
    hidden = float(np.quantile(closed, 0.99, method="inverted_cdf"))
    how = f"{len(planned):,} requests, {len(stalls)} stalls; p99 of sending late {rung['late']:.2f} ms"
    return [
        Result("response p99 against the exact value", f"{seen:.1f} / {exact:.1f} ms", "within 5 %",
               abs(seen / exact - 1) <= 0.05 if rung["valid"] else None, how),
        Result("the same by a closed loop of 2 clients", f"{hidden:.1f} ms", "misses it (under half)",
               hidden < exact / 2, f"{len(closed):,} requests, each sent when the one before was answered"),
    ]  # fmt: skip


def closed_loop(port: int, seconds: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Response times in ms, each client paced as the open loop is: it waits out its share of the gap."""
    took: list[float] = []
    until = time.monotonic() + seconds

    def client(number: int) -> None:
        rng = np.random.default_rng(number)
        connection = http.client.HTTPConnection("127.0.0.1", port)
        while time.monotonic() < until:
            begun = time.monotonic()
            connection.request("GET", "/")
            connection.getresponse().read()
            took.append((time.monotonic() - begun) * 1e3)
            time.sleep(rng.exponential(CLIENTS / RATE))

    threads = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return np.array(took)
