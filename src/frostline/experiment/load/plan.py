"""When requests are sent: planned before the run, from a seed or from a file. Nothing a server does moves
it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from frostline.errors import FrostlineError

Offsets = npt.NDArray[np.int64]

NS = 1_000_000_000
#: Requests of a plan, at most: a slip in a rate is not to fill the memory.
MOST = 20_000_000


@dataclass(frozen=True)
class Rung:
    """A stretch of the plan at one rate. Times in ns from the start of the plan.

    Attributes:
        rate: requests a second that are offered; of a trace, its mean.
        start, stop: the stretch; that of a trace ends a mean gap after its last request.
        measured: from where its requests count; before, they warm up.
        offsets: when each is sent, rising, all in [start, stop).
    """

    rate: float
    start: int
    stop: int
    measured: int
    offsets: Offsets


def ladder(
    rates: Sequence[float], seconds: float, warmup: float, seed: int, poisson: bool = True
) -> list[Rung]:
    """One rung for each rate, in the order given: ``warmup`` seconds that do not count, then ``seconds``
    that do.

    Args:
        poisson: exponential gaps; else even ones, the first in the middle of its gap.

    Raises:
        FrostlineError: ``load-plan``: nothing would be sent, or too much.
    """
    rungs = []
    start = 0
    for number, rate in enumerate(rates):
        stop = start + round((warmup + seconds) * NS)
        expected = rate * (warmup + seconds)
        if expected > MOST:
            raise FrostlineError(
                "load-plan",
                f"{rate:g} requests a second for {warmup + seconds:g} s are more than {MOST:,}",
                "Give a lower rate or fewer seconds.",
            )
        at = _poisson(rate, stop - start, seed, number) if poisson else _even(rate, stop - start)
        rungs.append(Rung(rate, start, stop, start + round(warmup * NS), at + start))
        start = stop
    if not any(len(rung.offsets) for rung in rungs):
        raise FrostlineError("load-plan", "the plan sends nothing", "Give a higher rate or more seconds.")
    return rungs


def _poisson(rate: float, length: int, seed: int, number: int) -> Offsets:
    rng = np.random.default_rng((seed, number))
    mean = NS / rate
    found: list[npt.NDArray[np.float64]] = []
    reached = 0.0
    while reached < length:
        gaps = rng.exponential(mean, max(16, int(1.1 * (length - reached) / mean)))
        found.append(reached + np.cumsum(gaps))
        reached = float(found[-1][-1])
    at = np.concatenate(found)
    return at[at < length].astype(np.int64)


def _even(rate: float, length: int) -> Offsets:
    gap = NS / rate
    return ((np.arange(int(length / gap)) + 0.5) * gap).astype(np.int64)


def from_trace(path: Path) -> list[Rung]:
    """A plan from a file: one number a line, seconds from the start; or JSON lines with ``timestamp``
    (seconds).

    Raises:
        FrostlineError: ``load-trace``: it cannot be read, or holds no times.
    """
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        times = [
            float(json.loads(line)["timestamp"]) if line.startswith("{") else float(line) for line in lines
        ]
        if not all(map(math.isfinite, times)):
            raise ValueError("not every time is a finite number")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FrostlineError(
            "load-trace",
            f"{path} is no trace: {error}",
            'One time a line in seconds, or JSON lines with "timestamp".',
        ) from error
    at: Offsets = np.sort(np.round((np.array(times) - min(times, default=0.0)) * NS).astype(np.int64))
    if not len(at):
        raise FrostlineError("load-trace", f"{path} holds no times", "One time a line in seconds.")
    # n requests have n - 1 gaps between them: with one more behind the last the rate is what it was.
    stop = round(int(at[-1]) * len(at) / (len(at) - 1)) if at[-1] else NS
    stop = max(stop, int(at[-1]) + 1)
    return [Rung(len(at) / (stop / NS), 0, stop, 0, at)]


def is_url(text: str) -> bool:
    """Whether it can be asked: http or https, a host, and a port that is one."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is none
        return False
