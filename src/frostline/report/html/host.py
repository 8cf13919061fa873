"""Figures of the host signals: CPU and run queue, and memory, by process over time."""

from __future__ import annotations

from typing import Any

import numpy as np

from frostline.analysis import Analysis, ProcessReport
from frostline.analysis.hostcause import COLUMN, US
from frostline.recording.host import HostProcess
from frostline.recording.layout import Array
from frostline.report.html.packing import packed

#: Columns of time, and processes drawn: those that were sampled and computed most.
COLUMNS = 400
CURVES = 6


def hosts(analysis: Analysis) -> list[dict[str, Any]]:
    """Two figures; none where nothing was sampled."""
    chosen = [p for p in analysis.processes if p.host is not None]
    chosen = sorted(chosen, key=lambda p: -(p.host.cpu if p.host is not None else 0))[:CURVES]
    sampled = [
        (process, one) for process in chosen for one in [_samples(analysis, process)] if one is not None
    ]
    if not sampled or analysis.stop <= analysis.start:
        return []
    edges = np.linspace(analysis.start, analysis.stop, COLUMNS + 1)
    x = packed((edges[1:] - analysis.start) / 1e6, "f8")
    cpu, memory = [], []
    for process, one in sampled:
        line = {
            "name": process.name,
            "values": packed(_share(one, edges, "main_cpu_us") + _share(one, edges, "others_cpu_us"), "f4"),
            "dashed": packed(_share(one, edges, "main_queue_us"), "f4"),
        }
        cpu.append(line)
        held = np.interp(
            edges[1:], one.track.time, one.track.values[:, COLUMN["resident_kib"]], np.nan, np.nan
        )
        memory.append({"name": process.name, "values": packed(held * 1024 / 1e6, "f4")})
    return [
        {
            "kind": "host",
            "title": "CPU, and the wait for one",
            "caption": "Solid: CPU time of the process, all threads, in percent of one CPU. Dashed: time "
            "that its main thread was runnable and had none (run queue, or a quota used up), "
            "drawn where that wait ended. "
            "Sampled from outside.",
            "unit": " %",
            "solid": ", CPU",
            "dashed": ", run queue",
            "x": x,
            "lines": cpu,
        },
        {
            "kind": "host",
            "title": "Resident memory",
            "caption": "Resident memory of each process in MB, shared pages included. Sampled from outside.",
            "unit": " MB",
            "solid": "",
            "dashed": "",
            "x": x,
            "lines": memory,
        },
    ]


def _samples(analysis: Analysis, process: ProcessReport) -> HostProcess | None:
    key = (process.session, process.pid, process.series.process_start)
    mine = [
        one
        for log in analysis.host_logs
        for one in log.processes
        if (one.session, one.pid, one.start_ticks) == key
    ]
    return max(mine, key=lambda one: len(one.track), default=None)


def _share(one: HostProcess, edges: Array, name: str) -> Array:
    """Growth of a counter of microseconds over each column, in percent of the time; nan outside."""
    values = np.interp(edges, one.track.time, one.track.values[:, COLUMN[name]], np.nan, np.nan)
    share: Array = 100 * US * np.diff(values) / np.diff(edges)
    return share
