"""What a load run comes to: one summary a rung, and the rate that the server keeps up with."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from frostline.experiment.load.client import CUT, OK, Sent, unsendable, word
from frostline.experiment.load.plan import NS

Int64 = npt.NDArray[np.int64]

#: p99 of sent - intended over which the client was the bottleneck, ns.
LATE_BOUND = 10_000_000
#: Share of the offered rate that must be achieved at a ceiling.
ACHIEVED = 0.99
QUANTILES = (0.5, 0.9, 0.99, 0.999)


@dataclass(frozen=True)
class Summary:
    """One rung. Times in ms unless said otherwise; a quantile that falls on a failure without a time is
    infinite.

    Attributes:
        seconds: length of the measured stretch; of a run that was interrupted, the time that there was.
        requests: that the plan sent in it. offered: by the second.
        answered: answers without an error, by the deadline, whose last byte came within the stretch; the
            warm-up's among them. achieved: by the second.
        under_way_first, under_way_last: requests that were open when the stretch began, and when it ended.
        drain: s from its end until its last request had ended or reached its deadline; the next rung began
            then.
        response: quantiles of last - intended, failures at their deadline; of what Ctrl-C cut off, the time
            that it had lasted.
        service: the same of last - sent, of answers alone: what a closed loop would have seen.
        ttft: of streams, first - intended; of a failure without text, its response. tpot, itl: of what came;
            tpot is (last_token - first) / (tokens - 1).
        late: p99 of sent - intended. own: requests that the client itself could not send, out of files or of
            ports. ``valid``: ``late`` is within the bound, and ``own`` none.
    """

    rate: float
    seconds: float
    offered: float
    achieved: float
    requests: int
    answered: int
    under_way_first: int
    under_way_last: int
    drain: float
    failures: dict[str, int]
    response: dict[str, float]
    service: dict[str, float]
    ttft: dict[str, float]
    tpot: dict[str, float]
    itl: dict[str, float]
    late: float
    own: int
    valid: bool

    @property
    def keeps_up(self) -> bool | None:
        """Whether 99 % of the rate is achieved; None where it cannot be told.

        What is answered in a stretch is what was sent in it, and what was under way at its beginning, less
        what is under way at its end, and failures. With Poisson arrivals the two that are under way differ
        by chance by about the root of their sum, also where the server keeps up: a shortfall of twice that
        or less says nothing.
        """
        short = ACHIEVED * self.requests - self.answered
        if short <= 0:
            return True
        return None if short <= 2 * math.sqrt(self.under_way_first + self.under_way_last) else False


@dataclass(frozen=True)
class Ceiling:
    """The highest rate that the server keeps up with, with p99 of the response within the limit.

    Attributes:
        rate: None where it is below the lowest rung.
        unclear: higher rungs within the limit of which it cannot be told whether it keeps up.
    """

    limit_ms: float
    rate: float | None
    unclear: tuple[float, ...]


@dataclass(frozen=True)
class Stretch:
    """A rung as it came. Times in ns of CLOCK_MONOTONIC.

    Attributes:
        rate: requests a second.
        requests: numbers of those of the rung, the warm-up's too. measured: of those that count.
        begin, stop: the measured stretch; its end is that of the run where Ctrl-C came before.
    """

    rate: float
    requests: Int64
    measured: Int64
    begin: int
    stop: int


def stretches(sent: Sent) -> list[Stretch]:
    """Of each rung with measured requests."""
    found = []
    first = 0
    # A run that was interrupted did not reach all of them.
    for rung, begun in zip(sent.rungs, sent.begun, strict=False):
        chosen = np.arange(first, first + len(rung.offsets))
        first += len(rung.offsets)
        measured = chosen[sent.measured[chosen]]
        stop = begun + rung.stop - rung.start
        if sent.stopped >= 0:
            # Else it would look like a server that dies.
            stop = min(stop, sent.stopped)
        if len(measured):
            found.append(Stretch(rung.rate, chosen, measured, begun + rung.measured - rung.start, stop))
    return found


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
    """last - intended of each request, ns; a failure at its deadline, or at its end if that came later; what
    Ctrl-C cut off lasted at least so long."""
    took = (sent.last - sent.intended).astype(np.float64)
    failed = (sent.status != OK) & (sent.status != CUT)
    return np.where(failed, np.maximum(took, sent.deadline), took)


def summaries(sent: Sent) -> list[Summary]:
    """One for each rung with measured requests."""
    ends = np.where(sent.last >= 0, sent.last, sent.intended + sent.deadline)
    took = response(sent)
    return [_summary(sent, one, ends, took) for one in stretches(sent)]


def _summary(sent: Sent, stretch: Stretch, ends: Int64, took: npt.NDArray[np.float64]) -> Summary:
    chosen = stretch.measured
    # What an interrupt kept from being sent is no request.
    of_rung = stretch.requests[(sent.sent >= 0)[stretch.requests] | (sent.status != CUT)[stretch.requests]]
    good = chosen[sent.status[chosen] == OK]
    answers = of_rung[sent.status[of_rung] == OK]
    answered = int(((sent.last[answers] >= stretch.begin) & (sent.last[answers] < stretch.stop)).sum())
    seconds = max(stretch.stop - stretch.begin, 1) / NS

    def under_way(at: int) -> int:
        return int(((sent.intended[of_rung] < at) & (ends[of_rung] >= at)).sum())

    many = good[(sent.tokens[good] > 1) & (sent.first[good] >= 0)]
    kept = np.zeros(len(sent.intended), bool)
    kept[chosen] = True
    gaps = sent.gap[: sent.gaps][kept[sent.gap_of[: sent.gaps]]]
    own = int(np.count_nonzero(unsendable(sent)[chosen]))
    gone = chosen[sent.sent[chosen] >= 0]
    late = quantiles(sent.sent[gone] - sent.intended[gone]).get("p99", float("inf"))
    return Summary(
        rate=stretch.rate,
        seconds=round(seconds, 3),
        offered=round(len(chosen) / seconds, 3),
        achieved=round(answered / seconds, 3),
        requests=len(chosen),
        answered=answered,
        under_way_first=under_way(stretch.begin),
        under_way_last=under_way(stretch.stop),
        drain=round(max(0, int(ends[of_rung].max()) - stretch.stop) / NS, 3),
        failures=_failures(sent, chosen),
        response=quantiles(took[chosen]),
        service=quantiles(sent.last[good] - sent.sent[good]),
        ttft=quantiles(_first(sent, chosen, took)),
        tpot=quantiles((sent.last_token[many] - sent.first[many]) / (sent.tokens[many] - 1)),
        itl=quantiles(gaps),
        late=late,
        own=own,
        valid=late * 1e6 <= LATE_BOUND and not own,
    )


def _failures(sent: Sent, chosen: Int64) -> dict[str, int]:
    failed = chosen[sent.status[chosen] != OK]
    words: dict[str, int] = {}
    for status, code in zip(sent.status[failed].tolist(), sent.code[failed].tolist(), strict=True):
        name = word(status, code)
        words[name] = words.get(name, 0) + 1
    return words


def _first(sent: Sent, chosen: Int64, took: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Time to the first text, ns; of what ended without any, its response, unless it is an answer of none."""
    if not sent.stream:
        return np.zeros(0)
    came = sent.first[chosen] >= 0
    first = np.where(came, sent.first[chosen] - sent.intended[chosen], took[chosen])
    found: npt.NDArray[np.float64] = first[came | (sent.status[chosen] != OK)]
    return found


def ceiling(told: list[Summary], limit_ms: float) -> Ceiling:
    """The highest valid rung that the server keeps up with within the limit (``Summary.keeps_up``)."""
    within = [one for one in told if one.valid and one.response.get("p99", 0.0) <= limit_ms]
    rate = max((one.rate for one in within if one.keeps_up), default=None)
    unclear = sorted(one.rate for one in within if one.keeps_up is None and one.rate > (rate or 0.0))
    return Ceiling(limit_ms, rate, tuple(unclear))


def as_json(sent: Sent, told: list[Summary], found: Ceiling) -> dict[str, Any]:
    """For programs; see docs/load.md."""
    return {
        "rungs": [
            # JSON knows no infinity.
            asdict(one) | {"keeps_up": one.keeps_up, "late": one.late if math.isfinite(one.late) else None}
            for one in told
        ],
        "ceiling": asdict(found),
        "client": {
            "passes": sent.passes,
            "longest_pass_ms": round(sent.longest_pass / 1e6, 3),
            "frozen": sent.frozen,
            "ran_ms": round(sent.ran / 1e6, 3),
            "queued_ms": round(sent.queued / 1e6, 3),
            "gaps_lost": sent.gaps_lost,
        },
    }
