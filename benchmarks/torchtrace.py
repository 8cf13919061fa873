"""A torch trace of 200 MB with a session's passes put into it: time and memory of the command."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tests.kineto import MS, Kineto

from benchmarks.common import Interpreter, Result, command, load
from benchmarks.synthetic import PASS_SHARE, START, make, pass_starts

RECORDS = 1_000_000
MOST_SECONDS = 30.0
#: The trace is read in pieces: what is kept of it are numbers, 16 bytes a kernel.
MOST_BYTES = 200 * 1024**2
SIZE = 200 * 10**6
#: What one kernel and its launch take in the trace, about, in bytes.
EACH = 1_050
#: The wall clock less the monotonic one, as ``synthetic`` writes it.
WALL = 1_800_000_000 * 10**9 - START


def works(kernels: int, stops: list[int]) -> Iterator[tuple[int, int, str]]:
    """A kernel a millisecond, except in the passes and 5 ms after them."""
    for i in range(kernels):
        at = START + i * MS
        if not any(stop <= at < stop + 115 * MS for stop in stops):
            yield at + WALL, MS * 9 // 10, "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm>"


def measure(interpreter: Interpreter) -> list[Result]:
    kernels = SIZE // EACH
    every = pass_starts(np.arange(999, RECORDS // 4 // PASS_SHARE, 1000, dtype=np.uint64), PASS_SHARE)
    stops = [int(at) for at in every if int(at) < START + kernels * MS]
    with tempfile.TemporaryDirectory(prefix="frostline-bench-") as folder:
        session, trace, out = Path(folder, "session"), Path(folder, "trace.json"), Path(folder, "out.json")
        session.mkdir()
        make(session, RECORDS)
        begun = 1_800_000_000 * 10**9
        Kineto(pid=999, tid=999, base=begun - 5 * 10**15, works={0: works(kernels, stops)}).write(trace)
        size = trace.stat().st_size
        used = command("export", str(session), "--into", str(trace), "--to", str(out))
        # Not parsed again: a merge keeps the trace's text, so it is as long as both together.
        grown = out.stat().st_size - size if out.exists() else -1
        os.sync()
    explained = f"consistent with passes: {len(stops)} gaps" in used.text
    good = used.code == 0 and grown > 0 and explained and size >= 0.95 * SIZE
    how = (
        f"{size / 10**6:.0f} MB, {kernels:,} kernels, {grown / 10**6:.1f} MB of passes and gaps put in, "
        f"{len(stops)} gaps of {len(stops)} explained: {explained}; the session's analysis with it; "
        f"{used.how}; {load()}"
    )
    return [
        Result(
            "seconds to a merged trace",
            f"{used.seconds:.1f} s",
            f"{MOST_SECONDS:.0f} s",
            good and used.within(MOST_SECONDS),
            how,
        ),
        Result(
            "memory of it",
            f"{used.peak / 2**20:.0f} MiB",
            f"{MOST_BYTES / 2**20:.0f} MiB",
            good and used.peak <= MOST_BYTES,
            how,
        ),
    ]
