"""Rows of host.csv: the samples of every process, as counted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from frostline.analysis import Analysis
from frostline.format.host import PROCESS_FIELDS


def host_columns(analysis: Analysis, runs: list[str]) -> Iterator[tuple[str, dict[str, Any], list[str]]]:
    """(run, columns, states) of each process that was sampled; the run is empty if it is not recorded."""
    names = {
        (p.session, p.pid, p.series.process_start): run
        for run, p in zip(runs, analysis.processes, strict=True)
    }
    for log in analysis.host_logs:
        for one in log.processes:
            columns: dict[str, Any] = {
                name: one.track.values[:, i] for i, (name, _) in enumerate(PROCESS_FIELDS)
            }
            states = [chr(code) if 32 < code < 127 else "" for code in columns.pop("state").tolist()]
            columns["at_s"] = one.track.time - analysis.start
            columns["pid"] = np.full(len(one.track), one.pid, np.int64)
            yield names.get((one.session, one.pid, one.start_ticks), ""), columns, states
