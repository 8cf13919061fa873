"""Writes large recordings fast: for the bounds on what reading them may cost."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from frostline import format as fmt
from frostline.recording.layout import RECORD
from tests.synthetic import Process, write_run

SEGMENT = fmt.GROWN_SEGMENT_SIZES[-1]
#: Of a hundred records so many are passes; of a thousand passes one is full.
PASSES = 5


def write_many(folder: Path, records: int, processes: int = 1) -> None:
    """A session of about ``records`` records, mostly spans, in segments as large as the recorder's."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    for number in range(processes):
        process = Process(pid=1000 + number)
        process.add_identity("EngineCore", number)
        process.add_state(0, (3, 0, 0))
        labels = np.array([process.name(f"label {i}") for i in range(5)])
        segment = len(process.write(folder))
        passes = records * PASSES // 100 // processes
        spans = records // processes - passes
        for kind, count in ((fmt.REGION_SPANS, spans), (fmt.REGION_PASSES, passes)):
            dtype = RECORD[kind]
            fits = (SEGMENT - fmt.HEADER_SIZE) // dtype.itemsize
            for first in range(0, count, fits):
                n = min(fits, count - first)
                part = np.zeros(fits, dtype)
                at = process.opened + (first + np.arange(n, dtype=np.uint64)) * 5000
                part["start"][:n] = at
                part["commit"][:n] = np.arange(1, n + 1)
                if kind == fmt.REGION_SPANS:
                    part["stop"][:n] = at + rng.exponential(3e6, n).astype(np.uint64)
                    part["label"][:n] = rng.choice(labels, n)
                    part["kind"][:n] = fmt.SPAN_SYNC
                    part["thread"][:n] = rng.integers(1, 4, n)
                else:
                    full = (first + np.arange(n)) % 1000 == 999
                    part["generation"][:n] = np.where(full, 2, 0)
                    part["stop"][:n] = at + np.where(full, 40_000_000, 1_000).astype(np.uint64)
                    part["count0"][:n] = 701
                    part["threshold0"][:n] = 700
                    part["flags"][:n] = np.where(full, fmt.PASS_FULL, 0)
                    part["candidates"][:n] = -1
                    part["duration"][:n] = -1
                head = process.header(segment, [(kind, dtype.itemsize, fmt.HEADER_SIZE, fits)])
                name = fmt.segment_name(process.pid, process.opened, 0, segment)
                (folder / name).write_bytes(bytes(head) + part.tobytes())
                segment += 1
    write_run(folder, ["server"])


if __name__ == "__main__":
    write_many(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1)
