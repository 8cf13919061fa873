"""A million steps of four ranks against 200,000 passes of another process: time to explain the gaps."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.common import Interpreter, Result
from benchmarks.synthetic import START, header, passes, spans, write_segments
from frostline import format as layout
from frostline.analysis import analyse
from frostline.analysis.idle import idle_ranks
from frostline.recording import read_session
from frostline.recording.layout import RECORD, Array

RANKS = 4
STEPS = 250_000
PASSES = 200_000
#: Each step that many is followed by a gap of 100 ms, and all but the first ms of it by a pass.
EVERY = 50
GAP, STEP = 100_000_000, 5_000_000
MOST_SECONDS = 3.0


def gap_starts() -> Array:
    """ns since the start at which every rank idles."""
    number = np.arange(1, STEPS // EVERY + 1, dtype=np.uint64)
    return number * np.uint64(EVERY * STEP) + (number - np.uint64(1)) * np.uint64(GAP)


def rank_spans(dice: np.random.Generator) -> Array:
    rows = spans(0, STEPS, dice)
    number = np.arange(STEPS, dtype=np.uint64)
    rows["start"] = np.uint64(START) + number * np.uint64(STEP) + number // np.uint64(EVERY) * np.uint64(GAP)
    rows["stop"] = rows["start"] + dice.integers(3_000_000, 5_000_000, STEPS).astype(np.uint64)
    rows["label"] = 1
    return rows


def engine_passes(dice: np.random.Generator) -> Array:
    """Full passes in the gaps, and young ones of 50 us everywhere else."""
    full = passes(0, STEPS // EVERY, dice)
    full["start"] = np.uint64(START) + gap_starts() + np.uint64(1_000_000)
    full["stop"] = full["start"] + np.uint64(GAP - 2_000_000)
    full["generation"], full["flags"] = 2, layout.PASS_FULL
    young = passes(0, PASSES - len(full), dice)
    at = (np.arange(len(young)) * (STEPS * STEP // len(young))).astype(np.uint64)
    young["start"] = np.uint64(START) + at + at // np.uint64(EVERY * STEP) * np.uint64(GAP)
    young["stop"] = young["start"] + np.uint64(50_000)
    young["generation"], young["flags"] = 0, 0
    both: Array = np.empty(PASSES, full.dtype)  # np.concatenate would drop the padding of a record
    both[: len(full)], both[len(full) :] = full, young
    return both[np.argsort(both["start"], kind="stable")]


def make(folder: Path) -> None:
    dice = np.random.default_rng(1)
    for process in range(RANKS + 1):
        pid = 1000 + process
        names: Array = np.zeros(1, RECORD[layout.REGION_NAMES])
        names[0] = (1, 0, 4, b"step", 1)
        table = [(layout.REGION_NAMES, layout.NAME_SIZE, layout.HEADER_SIZE, 1)]
        first = folder / layout.segment_name(pid, START + pid, 0, 0)
        first.write_bytes(bytes(header(pid, START + pid, 0, table)) + names.tobytes())
        if process:
            write_segments(folder, pid, layout.REGION_SPANS, rank_spans(dice), 1)
        else:
            write_segments(folder, pid, layout.REGION_PASSES, engine_passes(dice), 1)


def measure(interpreter: Interpreter) -> list[Result]:
    with tempfile.TemporaryDirectory(prefix="frostline-bench-", dir="/dev/shm") as folder:
        make(Path(folder))
        session = read_session(folder)
    analysis = analyse(session)
    begun = time.process_time()
    ranks = idle_ranks(analysis.processes, analysis.missed, 0, analysis.options)
    seconds = time.process_time() - begun
    gaps = sum(rank.count for rank in ranks)
    found = sum(rank.explained for rank in ranks)
    how = f"{RANKS * STEPS:,} steps of {RANKS} ranks, {PASSES:,} passes; {found:,} of {gaps:,} gaps explained"
    right = found == gaps == RANKS * (STEPS // EVERY - 1)
    return [
        Result(
            "CPU seconds to explain gaps",
            f"{seconds:.2f} s",
            f"{MOST_SECONDS:.0f} s",
            right and seconds <= MOST_SECONDS,
            how,
        )
    ]
