"""The collector's own two numbers, as the helper read them: which series each reading belongs to."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from frostline.format import counts as fmt
from frostline.recording.layout import COUNTED, Array
from frostline.recording.loss import Losses
from frostline.recording.model import Series
from frostline.recording.segment import open_file

#: Two files of 16 MiB are kept of one run; a session may have several runs.
_MAX_BYTES = 256 << 20
#: No heap has so many objects, no instant so many ns.
_TOO_MANY, _TOO_LATE = 1 << 40, 1 << 62


def attach_counts(folder: Path, series: list[Series], losses: Losses) -> None:
    """Gives each series its readings, in order of time. What is damaged is left out and said."""
    parts = [
        part for path in sorted(folder.glob(f"{fmt.PREFIX}*{fmt.SUFFIX}")) if len(part := _read(path, losses))
    ]
    if not parts:
        return
    every = np.concatenate(parts)
    every = every[np.argsort(every["before"], kind="stable")]
    by_process: dict[tuple[int, int], list[Series]] = {}
    for one in series:
        if one.interpreter == 0:  # only the main interpreter's are read
            by_process.setdefault((one.pid, one.process_start), []).append(one)
    for (pid, start), programs in by_process.items():
        mine = every[(every["pid"] == pid) & (every["process_start"] == start)]
        programs.sort(key=lambda one: one.series)
        for one, following in zip(programs, [*(p.series for p in programs[1:]), _TOO_LATE], strict=True):
            one.counted = mine[(mine["before"] >= one.series) & (mine["after"] < following)]


def _read(path: Path, losses: Losses) -> Array:
    empty = np.empty(0, COUNTED)
    try:
        descriptor = open_file(path)
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(_MAX_BYTES)
    except OSError as error:
        losses.add("counts-damaged", f"cannot read this file: {error.strerror}", path)
        return empty
    if data[: len(fmt.MAGIC)] != fmt.MAGIC:
        if data:
            losses.add("counts-damaged", "it is no file of counters of this version: left out", path)
        return empty
    body = data[len(fmt.MAGIC) :]
    raw = np.frombuffer(body[: len(body) // fmt.SIZE * fmt.SIZE], COUNTED)
    good = (raw["before"] >= 0) & (raw["before"] <= raw["after"]) & (raw["after"] < _TOO_LATE)
    for name in ("total", "pending"):
        good &= (raw[name] >= 0) & (raw[name] < _TOO_MANY)
    for name in ("count0", "count1", "count2"):
        good &= raw[name] >= 0
    bad = len(raw) - int(np.count_nonzero(good))
    if bad:
        losses.add("counts-damaged", f"{bad} readings of counters are damaged: left out", path)
    found: Array = raw[good]
    return found
