"""Results of ``vllm bench serve --save-result --save-detailed``.

Read from vLLM 0.32's ``benchmarks/serve.py``: ``start_times`` are ``time.perf_counter()`` at sending,
which on Linux is CLOCK_MONOTONIC; ``latencies``, ``ttfts`` and ``itls`` are seconds from there;
``queue_times`` what a request waited for ``--max-concurrency``. A failure has an entry in ``errors``,
a latency of 0, and no end.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np

from frostline.errors import FrostlineError
from frostline.recording.layout import Int64
from frostline.recording.requests.model import (
    CLOSED,
    MONOTONIC,
    OK,
    OPEN,
    Requests,
    damaged,
    nanoseconds,
    numbers,
    ordered,
)

_NO_PLAN = (
    "the plan is not in the file: intended is when the client got round to a request, "
    "so that its own lateness shows in part only"
)
_NO_DEADLINE = "failures have neither an end nor a deadline: they count as longer than any answer"


def read_vllm(path: Path, whole: dict[str, Any], name: str) -> Requests:
    """One result.

    Raises:
        FrostlineError: ``requests-not-detailed``, ``requests-damaged``.
    """
    if "start_times" not in whole:
        raise FrostlineError(
            "requests-not-detailed",
            f"{path} has the sums of a vLLM benchmark and not when each request was sent",
            "Run it again with --save-result --save-detailed (a pooling benchmark never has them).",
        )
    start = _column(path, whole, "start_times")
    n = len(start)
    ttft = _column(path, whole, "ttfts", n)
    queued = _column(path, whole, "queue_times", n) if "queue_times" in whole else np.zeros(n)
    errors = whole.get("errors") or [""] * n
    tokens = whole.get("output_lens") or [0] * n
    itls = whole.get("itls") or [[]] * n
    if not all(isinstance(column, list) and len(column) == n for column in (errors, tokens, itls)):
        raise damaged(path, "its columns are not of one length")
    if not numbers(tokens):
        raise damaged(path, "'output_lens' are not numbers")
    if not all(isinstance(gaps, list) for gaps in itls):
        raise damaged(path, "'itls' are not lists")
    lengths = np.array([len(gaps) for gaps in itls], np.int64)
    flat = list(itertools.chain.from_iterable(itls))
    if not numbers(flat):
        raise damaged(path, "'itls' are not numbers")
    gaps = np.array(flat, np.float64)
    until = np.cumsum(gaps)
    ends = np.cumsum(lengths)
    total = np.append(0.0, until)  # of the gaps up to an index
    latency = (
        _column(path, whole, "latencies", n)
        if "latencies" in whole  # not in older versions
        else ttft + (total[ends] - total[ends - lengths])
    )
    failed = np.array([bool(error) for error in errors], bool) | (latency <= 0)
    first = np.repeat(start + ttft - total[ends - lengths], lengths)
    gap_stop: Int64 = nanoseconds(first + until)
    endless = whole.get("request_rate") in ("inf", None)
    closed = endless and whole.get("max_concurrency") is not None
    at, sent = nanoseconds(start if closed else start - queued), nanoseconds(start)
    status = [_status(str(error)) if bad else OK for error, bad in zip(errors, failed.tolist(), strict=True)]
    return Requests(
        name=name,
        path=path,
        format="vllm",
        clock=MONOTONIC,
        loop=CLOSED if closed else OPEN,
        gap_start=gap_stop - nanoseconds(gaps),
        gap_stop=gap_stop,
        notes=(*(() if closed else (_NO_PLAN,)), *((_NO_DEADLINE,) if failed.any() else ())),
        **ordered(
            at,
            sent,
            np.where(ttft > 0, sent + nanoseconds(ttft), -1),
            np.where(failed, -1, sent + nanoseconds(latency)),
            np.where(failed, -1, np.array(tokens, np.int64)),
            np.full(n, -1),
            status,
        ),
    )


def _column(path: Path, whole: dict[str, Any], key: str, n: int | None = None) -> Any:
    values = whole.get(key)
    if not isinstance(values, list) or not numbers(values) or (n is not None and len(values) != n):
        raise damaged(path, f"{key!r} is not one number a request")
    return np.array(values, np.float64)


def _status(error: str) -> str:
    """The last line of what is often a traceback."""
    lines = error.strip().splitlines()
    last = lines[-1].strip() if lines else ""
    if last.rstrip(":").endswith("TimeoutError"):
        return "timeout"
    return last[:200] if last not in ("", OK, "cut") else "error"
