"""The reference server under steady load, stock and ``follow`` side by side in time (A14).

Each arm has its own server and client, with the same plan of requests. Every few seconds the resident
memory of each process is read from outside; pauses are those of the recordings, response times the
clients'. FROSTLINE_SOAK_MINUTES is the length (2: a trial; 30: the bound's), FROSTLINE_SOAK_RATE,
_SCALE and _POLICY the load, the size of the heaps and the second arm.

The rule, for each process. d is memory of the policy's arm less that of the stock arm, at the same
time; its slope is taken over the last two thirds of the run, with the 95 % interval of a moving-block
bootstrap of the residuals (blocks of a minute, or a fifth of the run). Over the run's length d may
grow by 2 % of the stock process, or 4 MiB. *No growth beyond stock's*: the interval's upper end is
below that. *Growth*: its lower end is above. Else *not measured*: the run was too short, or too noisy.
Response times, p99 of each minute, go by the same rule with 10 % of stock's, or 5 ms.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.common import Interpreter, Result, environment
from frostline.recording import read_session

Floats = npt.NDArray[np.float64]

EVERY = 5.0
RESAMPLES = 2000
MEMORY_SHARE, MEMORY_LEAST = 0.02, 4.0  # of the stock process; MiB
RESPONSE_SHARE, RESPONSE_LEAST = 0.10, 5.0  # of stock's p99; ms
ARMS = ("stock", "policy")


@dataclass
class Arm:
    """A server under way, and what was seen of it."""

    name: str
    folder: Path
    server: subprocess.Popen[bytes]
    url: str = ""
    client: subprocess.Popen[bytes] | None = None
    #: role -> pid
    processes: dict[str, int] = field(default_factory=dict)
    #: role -> MiB at each sample; anonymous pages, so that the recording's own files do not count.
    memory: dict[str, list[float]] = field(default_factory=dict)

    @property
    def requests(self) -> Path:
        return self.folder / "requests"


def resident(pid: int) -> float:
    """MiB of anonymous memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    return float("nan")


@contextlib.contextmanager
def serving(name: str, folder: Path, policy: str, scale: float) -> Iterator[Arm]:
    """One server under ``frostline run``; ended by closing its input."""
    folder.mkdir()
    command = [sys.executable, "-m", "frostline.commands.main", "run", "-o", str(folder / "rec")]
    command += ["--policy", policy] if policy else []
    command += ["--", sys.executable, "-m", "frostline.demo", "serve", "--tethered", "--step-ms", "20"]
    command += ["--scale", str(scale), "--announce", str(folder / "address")]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment(), cwd=folder
        )
    arm = Arm(name, folder, server)
    try:
        yield arm
    finally:
        if arm.client is not None and arm.client.poll() is None:
            arm.client.kill()
            arm.client.wait()
        assert server.stdin is not None
        server.stdin.close()
        try:
            server.wait(60)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def await_ready(arm: Arm) -> None:
    """Waits for READY, and learns who the processes are."""
    until = time.monotonic() + 300
    while True:
        if arm.server.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"no server: {(arm.folder / 'log').read_text()[-1000:]}")
        with contextlib.suppress(OSError, ValueError):
            arm.url = (arm.folder / "address").read_text().strip()
            with urllib.request.urlopen(f"{arm.url}/health", timeout=5) as answer:
                body = json.load(answer)
            arm.processes = {f"{one[0]} {one[1]}": one[2] for one in body["processes"]}
            arm.memory = {role: [] for role in arm.processes}
            return
        time.sleep(0.2)


def watch(arms: list[Arm], minutes: float, rate: float) -> Floats:
    """Drives both and samples them until both clients are done; returns the times, in minutes."""
    for arm in arms:
        command = [sys.executable, "-m", "frostline.demo", "drive", arm.url, "--tethered", "--logprobs", "5"]
        command += ["--rate", str(rate), "--seconds", str(minutes * 60), "--tokens", "16"]
        arm.client = subprocess.Popen(
            [*command, "--output", str(arm.requests)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=environment(),
        )
    begun = time.monotonic()
    times: list[float] = []
    told = 0.0
    while any(arm.client is not None and arm.client.poll() is None for arm in arms):
        due = begun + (len(times) + 1) * EVERY
        time.sleep(max(0.0, due - time.monotonic()))
        rows = [{role: resident(pid) for role, pid in arm.processes.items()} for arm in arms]
        now = (time.monotonic() - begun) / 60
        if now > minutes:
            break
        times.append(now)
        for arm, row in zip(arms, rows, strict=True):
            for role, value in row.items():
                arm.memory[role].append(value)
        if now - told >= 0.5:
            told = now
            held = ", ".join(
                f"{arm.name} {sum(row.values()):.0f}" for arm, row in zip(arms, rows, strict=True)
            )
            print(f"{'':12s} soak: {now:.1f} of {minutes:g} min; MiB: {held}", file=sys.stderr, flush=True)
    for arm in arms:
        assert arm.client is not None
        if arm.client.wait(120) != 0:
            raise RuntimeError(f"the client of {arm.name} ended with {arm.client.returncode}")
    return np.array(times)


def slope(times: Floats, values: Floats, block: int) -> tuple[float, float, float]:
    """Least squares, a minute, and its 95 % interval by a moving-block bootstrap of the residuals."""
    if len(times) < 4:
        return float("nan"), float("-inf"), float("inf")
    design = np.vstack([times, np.ones_like(times)]).T
    fitted = np.linalg.lstsq(design, values, rcond=None)[0]
    residuals = values - design @ fitted
    many, block = len(values), max(1, min(block, len(values) // 2))
    random = np.random.default_rng(0)
    starts = random.integers(0, many - block + 1, size=(RESAMPLES, -(-many // block)))
    places = (starts[:, :, None] + np.arange(block)).reshape(RESAMPLES, -1)[:, :many]
    centred = times - times.mean()
    bent = (residuals[places] @ centred) / (centred @ centred)
    low, high = np.quantile(bent, [0.025, 0.975])
    return float(fitted[0]), float(fitted[0] - high), float(fitted[0] - low)


def judge(what: str, unit: str, times: Floats, stock: Floats, other: Floats, allowed: float) -> Result:
    """The rule at the top of this file."""
    minutes = float(times[-1]) if len(times) else 0.0
    step = minutes / max(len(times), 1)
    block = round(min(1.0, minutes / 5) / max(step, 1e-9))
    thirds = np.array_split(np.arange(len(times)), 3)
    late = np.arange(len(times)) >= len(times) // 3
    found, low, high = slope(times[late], (other - stock)[late], block)
    grown, least, most = found * minutes, low * minutes, high * minutes
    passed = True if most <= allowed else False if least > allowed else None
    parts = []
    for name, values in zip(ARMS, (stock, other), strict=True):
        each = [slope(times[third], values[third], block) for third in thirds]
        text = " | ".join("too short" if a != a else f"{a:+.2f} ({b:+.2f} to {c:+.2f})" for a, b, c in each)
        parts.append(f"{name} at the end {values[-1]:.1f} {unit}, by thirds {text} {unit}/min")
    measured = f"{grown:+.2f} {unit} over {minutes:.0f} min ({least:+.2f} to {most:+.2f})"
    return Result(what, measured, f"at most {allowed:.2f} {unit}", passed, "; ".join(parts))


def by_minute(arm: Arm, minutes: float) -> tuple[Floats, Floats, int]:
    """p99 of the response from the intended time, ms, of each whole minute or tenth of the run; errors."""
    whole = json.loads(arm.requests.read_text())
    rows = [dict(zip(whole["columns"], row, strict=True)) for row in whole["requests"]]
    rows = [row for row in rows if row["measured"]]
    first = min(row["intended"] for row in rows)
    at = np.array([(row["intended"] - first) / 6e10 for row in rows])
    took = np.array([(row["last"] - row["intended"]) / 1e6 for row in rows])
    width = min(1.0, minutes / 10)
    bins = [(at >= n * width) & (at < (n + 1) * width) for n in range(int(minutes / width + 1e-9))]
    kept = [(n, chosen) for n, chosen in enumerate(bins) if chosen.any()]
    times = np.array([(n + 0.5) * width for n, _ in kept])
    return (
        times,
        np.array([float(np.quantile(took[chosen], 0.99)) for _, chosen in kept]),
        sum(row["status"] != "ok" for row in rows),
    )


def pauses(arm: Arm, begun: int, minutes: float) -> dict[str, list[str]]:
    """Of each process, by thirds: full passes, their longest and their total, ms; from the recording."""
    known = {pid: role for role, pid in arm.processes.items()}
    found: dict[str, list[str]] = {}
    for series in read_session(arm.folder / "rec").series:
        role = known.get(series.pid)
        if role is None:
            continue
        rows = series.passes[series.passes["generation"] == 2]
        at = (rows["start"].astype(np.int64) - begun) / 6e10
        took = (rows["stop"].astype(np.int64) - rows["start"].astype(np.int64)) / 1e6
        parts = []
        for third in range(3):
            chosen = took[(at >= third * minutes / 3) & (at < (third + 1) * minutes / 3)]
            parts.append(
                f"{len(chosen)} full, longest {chosen.max():.1f}, in all {chosen.sum():.0f} ms"
                if len(chosen)
                else "none"
            )
        found[role] = parts
    return found


def measure(interpreter: Interpreter) -> list[Result]:
    minutes = float(os.environ.get("FROSTLINE_SOAK_MINUTES", "2"))
    rate = float(os.environ.get("FROSTLINE_SOAK_RATE", "2"))
    scale = float(os.environ.get("FROSTLINE_SOAK_SCALE", "0.2"))
    policy = os.environ.get("FROSTLINE_SOAK_POLICY", "follow")
    place = Path(tempfile.mkdtemp(prefix="frostline-soak-"))
    try:
        with (
            serving("stock", place / "stock", "", scale) as stock,
            serving("policy", place / "policy", policy, scale) as other,
        ):
            arms = [stock, other]
            for arm in arms:
                await_ready(arm)
            begun = time.monotonic_ns()
            times = watch(arms, minutes, rate)
        load = f"{policy} beside stock, {minutes:g} min at {rate:g} requests/s, scale {scale:g}"
        results = []
        for role in stock.memory:
            one, two = np.array(stock.memory[role]), np.array(other.memory[role])
            allowed = max(MEMORY_SHARE * float(one[-1]), MEMORY_LEAST)
            results.append(judge(f"memory of {role}, growth beyond stock's", "MiB", times, one, two, allowed))
        at, one, stock_errors = by_minute(stock, minutes)
        at_two, two, errors = by_minute(other, minutes)
        many = min(len(at), len(at_two))
        allowed = max(RESPONSE_SHARE * float(np.median(one)), RESPONSE_LEAST)
        results.append(
            judge(
                "p99 of the response, growth beyond stock's", "ms", at[:many], one[:many], two[:many], allowed
            )
        )
        results.append(
            Result(
                "failed requests", f"{errors} (stock {stock_errors})", "no more", errors <= stock_errors, load
            )
        )
        for arm in arms:
            for role, parts in pauses(arm, begun, minutes).items():
                results.append(
                    Result(f"pauses of {role}, {arm.name}", " | ".join(parts), "none: shown", True, load)
                )
        return results
    finally:
        shutil.rmtree(place, ignore_errors=True)
