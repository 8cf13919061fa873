"""Requests of a load client for tests: as columns, and as the files of other people's clients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from frostline.recording.requests import MONOTONIC, OPEN, Requests
from frostline.recording.requests.model import ordered
from tests.synthetic import MS

S = 1_000 * MS


def run_of(
    intended: list[int],
    took: list[int],
    *,
    late: int = 0,
    first: list[int] | None = None,
    status: dict[int, str] | None = None,
    deadline: int = -1,
    tokens: int = -1,
    gaps: list[tuple[int, int]] | None = None,
    loop: str = OPEN,
    clock: str = MONOTONIC,
    **more: Any,
) -> Requests:
    """One run: ``took`` is from intended to last, -1 for no end; ``first`` and ``deadline`` likewise."""
    at = np.array(intended, np.int64)
    last = np.where(np.array(took) >= 0, at + np.array(took), -1)
    words = [(status or {}).get(i, "ok") for i in range(len(intended))]
    columns = ordered(
        at,
        at + late,
        np.full(len(at), -1) if first is None else at + np.array(first),
        last,
        np.full(len(at), tokens),
        at + deadline if deadline >= 0 else np.full(len(at), -1),
        words,
    )
    between = np.array(gaps or [], np.int64).reshape(-1, 2)
    values: dict[str, Any] = {
        "name": "bench.json",
        "path": Path("bench.json"),
        "format": "frostline",
        "clock": clock,
        "loop": loop,
        "gap_start": between[:, 0],
        "gap_stop": between[:, 1],
        **columns,
        **more,
    }
    return Requests(**values)


def vllm_result(rows: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """The keys of ``vllm bench serve --save-result --save-detailed`` (0.32) that concern requests."""
    return {
        "date": "20261130-040000",
        "backend": "openai",
        "num_prompts": len(rows),
        "request_rate": 20.0,
        "burstiness": 1.0,
        "max_concurrency": None,
        "duration": 10.0,
        "completed": sum(not row["error"] for row in rows),
        "failed": sum(bool(row["error"]) for row in rows),
        "request_throughput": 1.0,
        "input_lens": [8 for _ in rows],
        "output_lens": [0 if row["error"] else len(row["itl"]) + 1 for row in rows],
        "ttfts": [row["ttft"] for row in rows],
        "itls": [row["itl"] for row in rows],
        "latencies": [0.0 if row["error"] else row["ttft"] + sum(row["itl"]) for row in rows],
        "start_times": [row["start"] for row in rows],
        "queue_times": [row["queued"] for row in rows],
        "generated_texts": ["x" for _ in rows],
        "errors": [row["error"] for row in rows],
        **more,
    }
