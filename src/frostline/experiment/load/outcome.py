"""What a load run comes to: one summary a rung, and the files that others read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt

from frostline.experiment.load.client import CUT, OK, TIMEOUT, WORDS, Sent
from frostline.experiment.load.plan import NS, Rung

Int64 = npt.NDArray[np.int64]

#: p99 of sent - intended over which the client was the bottleneck, ns.
LATE_BOUND = 10_000_000
#: Share of the offered rate that must be achieved at a ceiling.
ACHIEVED = 0.99
QUANTILES = (0.5, 0.9, 0.99, 0.999)


@dataclass(frozen=True)
class Summary:
    """One rung. Times in ms; a quantile that falls on a failure without a time is infinite.

    Attributes:
        offered: requests a second that the plan sent, in the measured stretch.
        achieved: of these, answered without an error before the deadline, by the second.
        response: quantiles of last - intended, failures at their deadline.
        service: the same of last - sent, of answers alone: what a closed loop would have seen.
        ttft, tpot, itl: of streams; empty where there is no text.
        late: p99 of sent - intended; ``valid`` whether it is within the bound.
    """

    rate: float
    offered: float
    achieved: float
    requests: int
    failures: dict[str, int]
    response: dict[str, float]
    service: dict[str, float]
    ttft: dict[str, float]
    tpot: dict[str, float]
    itl: dict[str, float]
    late: float
    valid: bool


def quantiles(values: npt.NDArray[np.float64] | Int64) -> dict[str, float]:
    """Nearest-rank quantiles in ms of values in ns."""
    if not len(values):
        return {}
    ordered = np.sort(values)
    count = len(ordered)
    found = {
        f"p{100 * q:g}": round(float(ordered[min(count - 1, max(0, int(np.ceil(q * count)) - 1))]) / 1e6, 3)
        for q in QUANTILES
    }
    return {**found, "max": round(float(ordered[-1]) / 1e6, 3)}


def response(sent: Sent) -> npt.NDArray[np.float64]:
    """last - intended of each request, ns; a failure at its deadline, or at its end if that came later."""
    took = (sent.last - sent.intended).astype(np.float64)
    failed = sent.status != OK
    return np.where(failed, np.maximum(took, sent.deadline), took)


def summaries(sent: Sent) -> list[Summary]:
    """One for each rung with measured requests."""
    told = []
    at = 0
    for rung in sent.rungs:
        chosen = np.arange(at, at + len(rung.offsets))
        at += len(rung.offsets)
        chosen = chosen[sent.measured[chosen]]
        if len(chosen):
            told.append(_summary(sent, rung, chosen))
    return told


def _summary(sent: Sent, rung: Rung, chosen: Int64) -> Summary:
    good = chosen[sent.status[chosen] == OK]
    # Of a run that was interrupted, the time that there was: else it would look like a server that dies.
    stop = rung.stop if sent.stopped < 0 else min(rung.stop, sent.stopped - sent.started)
    seconds = max(stop - rung.measured, 1) / NS
    failed = sent.status[chosen] != OK
    words: dict[str, int] = {}
    for status, code in zip(
        sent.status[chosen][failed].tolist(), sent.code[chosen][failed].tolist(), strict=True
    ):
        word = WORDS[status].format(code=code)
        words[word] = words.get(word, 0) + 1
    streams = good[sent.first[good] >= 0]
    many = streams[sent.tokens[streams] > 1]
    kept = np.zeros(len(sent.intended), bool)
    kept[good] = True
    gaps = sent.gap[: sent.gaps][kept[sent.gap_of[: sent.gaps]]]
    gone = chosen[sent.sent[chosen] >= 0]
    late = sent.sent[gone] - sent.intended[gone]
    late_p99 = quantiles(late).get("p99", float("inf"))
    return Summary(
        rate=rung.rate,
        offered=round(len(chosen) / seconds, 3),
        achieved=round(len(good) / seconds, 3),
        requests=len(chosen),
        failures=words,
        response=quantiles(response(sent)[chosen]),
        service=quantiles(sent.last[good] - sent.sent[good]),
        ttft=quantiles(sent.first[streams] - sent.intended[streams]),
        tpot=quantiles((sent.last[many] - sent.first[many]) / (sent.tokens[many] - 1)),
        itl=quantiles(gaps),
        late=late_p99,
        valid=late_p99 * 1e6 <= LATE_BOUND,
    )


def ceiling(told: list[Summary], limit_ms: float) -> Summary | None:
    """The highest rung that achieves 99 % of what it offers, with p99 of the response within the limit,
    and is valid."""
    good = [
        one
        for one in told
        if one.valid and one.achieved >= ACHIEVED * one.offered and one.response.get("p99", 0.0) <= limit_ms
    ]
    return max(good, key=lambda one: one.rate, default=None)


def write_requests(sent: Sent, url: str, seed: int, file: TextIO) -> None:
    """Our own format, version 1 (docs/requests.md)."""
    header = {
        "frostline_requests": 1,
        "clock": "monotonic",
        "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip(),
        "loop": "open",
        "seed": seed,
        "deadline": sent.deadline,
        "late_bound": LATE_BOUND,
        "url": url,
        "rates": [rung.rate for rung in sent.rungs],
        "started": sent.started,
    }
    file.write(json.dumps(header) + "\n")
    between: dict[int, list[int]] = {}
    for number, gap in zip(sent.gap_of[: sent.gaps].tolist(), sent.gap[: sent.gaps].tolist(), strict=True):
        between.setdefault(number, []).append(gap)
    for number, row in enumerate(_rows(sent)):
        if number in between:
            row["gaps"] = between[number]
        file.write(json.dumps(row, separators=(",", ":")) + "\n")


def _rows(sent: Sent) -> Iterator[dict[str, Any]]:
    columns = (
        sent.intended,
        sent.sent,
        sent.first,
        sent.last,
        sent.tokens,
        sent.status,
        sent.code,
        sent.measured,
    )
    for at, gone, first, last, tokens, status, code, measured in zip(
        *(c.tolist() for c in columns), strict=True
    ):
        row: dict[str, Any] = {"intended": at}
        for name, value in (("sent", gone), ("first", first), ("last", last), ("tokens", tokens)):
            if value >= 0:
                row[name] = value
        if status == TIMEOUT:
            row.pop("last", None)
        row["status"] = WORDS[status].format(code=code)
        if not measured:
            row["measured"] = False
        yield row


def write_histogram(sent: Sent, path: Path) -> None:
    """HdrHistogram's percentile distribution (.hgrm) of the response, in ms, with three digits."""
    from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]

    chosen = sent.measured & (sent.status != CUT)
    values = response(sent)[chosen] / 1e3
    histogram = HdrHistogram(1, max(60_000_000, int(values.max(initial=0)) + 1), 3)
    for value in values.tolist():
        histogram.record_value(max(1, int(value)))
    with path.open("wb") as file:
        histogram.output_percentile_distribution(file, 1000.0)


def as_json(told: list[Summary], found: Summary | None, limit_ms: float) -> dict[str, Any]:
    """For programs."""
    return {
        "rungs": [asdict(one) for one in told],
        "ceiling": {"limit_ms": limit_ms, "rate": found.rate if found else None},
    }
