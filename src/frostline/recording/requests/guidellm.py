"""Reports of GuideLLM (``benchmarks.json``): one run a benchmark in it.

Times are Unix seconds. ``targeted_start`` is the plan's time where the strategy has one; of the others
(synchronous, concurrent, throughput) it is "as soon as possible", and the loop is closed. Requests
stand apart by how they ended: ``successful``, ``errored``, and ``incomplete``, which the client
itself cut off at its end.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from frostline.recording.requests.model import (
    CLOSED,
    OK,
    OPEN,
    UNIX,
    Requests,
    damaged,
    nanoseconds,
    numbers,
    ordered,
)

#: Strategies that plan arrivals.
PLANNED = ("constant", "poisson", "trace", "replay")
_GROUPS = (("successful", OK), ("incomplete", "cut"), ("errored", "error"))
_NO_GAPS = "the times of single chunks are not in the file"
_NO_DEADLINE = "failures have no deadline: they count as longer than any answer"


def read_guidellm(path: Path, whole: dict[str, Any]) -> list[Requests]:
    """Each benchmark of a report.

    Raises:
        FrostlineError: ``requests-damaged``.
    """
    found = []
    benchmarks = whole["benchmarks"]
    for number, benchmark in enumerate(benchmarks, 1):
        try:
            strategy = _strategy(benchmark)
            which = (
                f" ({f'benchmark {number}, ' if len(benchmarks) > 1 else ''}{strategy or 'unknown strategy'})"
            )
            found.append(_one(path, benchmark, strategy, f"{path.name}{which}"))
        except (KeyError, TypeError, AttributeError) as error:
            what = f"benchmark {number} is not as GuideLLM 0.8 writes it ({error!r})"
            raise damaged(path, what) from error
    return found


def _strategy(benchmark: dict[str, Any]) -> str:
    strategy = benchmark["config"]["strategy"]
    return str(strategy.get("type_") or strategy.get("kind") or "")


def _one(path: Path, benchmark: dict[str, Any], strategy: str, name: str) -> Requests:
    closed = strategy not in PLANNED
    rows: list[tuple[Any, ...]] = []
    status: list[str] = []
    unsent = 0
    for group, word in _GROUPS:
        for request in benchmark["requests"].get(group) or ():
            times = request["info"]["timings"]
            sent = times["request_start"]
            if sent is None and group != "errored":
                unsent += 1  # still in the client's own queue when it ended
                continue
            target = times["targeted_start"]
            at = target if target is not None and not closed else sent
            if at is None:  # it failed before it was sent
                at = times.get("resolve_start") or times.get("queued")
            end = times["request_end"]
            if end is None:
                end = times.get("resolve_end")
            first = times.get("first_token_iteration")
            tokens = request.get("output_tokens")
            row = (at, sent, first, end, tokens)
            if at is None or not numbers(value for value in row if value is not None):
                raise TypeError("a request without a time")
            rows.append(row)
            status.append(_status(request, word))
    intended, sent, first, last = (_times([row[i] for row in rows]) for i in range(4))
    tokens = [-1 if row[4] is None else int(row[4]) for row in rows]
    nothing = np.zeros(0, np.int64)
    made = (benchmark.get("scheduler_metrics") or {}).get("requests_made") or {}
    ended = sum(made.get(group) or 0 for group in ("successful", "errored"))
    there = sum(word != "cut" for word in status)
    sampled = (
        f"it is a sample: {ended:,} requests ended, and {there:,} are in the file" if ended > there else ""
    )
    failures = any(word not in (OK, "cut") for word in status)
    return Requests(
        name=name,
        path=path,
        format="guidellm",
        clock=UNIX,
        loop=CLOSED if closed else OPEN,
        gap_start=nothing,
        gap_stop=nothing,
        unsent=unsent,
        notes=(_NO_GAPS, *((_NO_DEADLINE,) if failures else ()), *((sampled,) if sampled else ())),
        **ordered(intended, sent, first, last, tokens, np.full(len(rows), -1), status),
    )


def _times(values: list[Any]) -> Any:
    """ns; -1 where there is none. A float64 holds Unix seconds to 0.24 us."""
    known = np.array([value is not None for value in values], bool)
    return np.where(known, nanoseconds([0.0 if value is None else value for value in values]), -1)


def _status(request: dict[str, Any], word: str) -> str:
    if word != "error":
        return word
    text = str(request["info"].get("error") or "").strip()
    if "Timeout" in text:
        return "timeout"
    return text[:200] if text not in ("", OK, "cut") else "error"
