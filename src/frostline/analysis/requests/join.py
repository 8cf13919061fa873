"""Joins a client's requests to the passes of every recorded process (case 23, D3).

A client is another process: of a pass inside a request nothing more is said than *consistent with*.
Beside it stands what circular shifts of the same passes would cover, so that an accident is seen as one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from frostline.analysis.intervals import Union, quantile, union
from frostline.analysis.model import Options, ProcessReport
from frostline.analysis.requests.model import (
    GAPS,
    NEVER,
    RESPONSE,
    TTFT,
    Columns,
    Measure,
    RequestReport,
    Share,
)
from frostline.analysis.requests.null import SHIFTS, metered, shifted
from frostline.analysis.steps import TOUCHING
from frostline.recording.layout import Array, Int64
from frostline.recording.requests import CLOSED, Requests

#: A process is named if chance does as much in at most this share, divided by the number of tests.
CLAIM = 0.05
#: More shifts than this are not made, however many tests there are.
MOST_SHIFTS = 10_000
#: ns. DaCapo's window of metered latency.
METERED = 100_000_000


@dataclass(frozen=True)
class _Candidate:
    index: int
    process: ProcessReport
    union: Union
    #: Full passes and pauses over TOUCHING.
    heavy: Union
    #: A pause over TOUCHING lies in the time of the requests: only such a process can be claimed, and it
    #: alone counts as a test. Where in that time the pauses lie plays no part.
    tested: bool


@dataclass(frozen=True)
class _Items:
    """What a measure measures: ``stop`` is -1 where the end is not known."""

    name: str
    start: Int64
    stop: Int64
    value: Int64


def of_requests(
    requests: Requests,
    inside: Array,
    processes: Sequence[ProcessReport],
    options: Options,
    clock_error: int = 0,
) -> RequestReport:
    """Joins one run to the passes of all processes.

    Args:
        requests: times on the clock of the processes.
        inside: which of them lie in the recorded time; at least one.
    """
    response = _response(requests, inside)
    window = int(response.start.min()), int(np.maximum(response.start, response.stop).max())
    candidates = [_candidate(index, process, window) for index, process in enumerate(processes)]
    candidates = [c for c in candidates if len(c.union.start)]
    whole = _several([c.union for c in candidates])
    heavy = _several([c.heavy for c in candidates])
    items = [response, *_first(requests, inside, response), *_gaps(requests, window)]
    tests = len(items) * sum(c.tested for c in candidates)
    attributed = _known(whole, response)
    totals, most, most_attributed = _most(candidates, response)
    measures = [_measure(one, candidates, whole, heavy, options, window, tests, totals) for one in items]
    touched = _meets(heavy, response)
    chosen = np.flatnonzero(inside)
    failed, late = requests.failed, _late(requests, inside)
    outside = ~inside
    return RequestReport(
        name=requests.name,
        format=requests.format,
        loop=requests.loop,
        count=len(chosen),
        failed=int(np.count_nonzero(failed & inside)),
        cut=int(np.count_nonzero(requests.cut & inside)),
        outside=int(np.count_nonzero(outside)),
        outside_failed=int(np.count_nonzero(outside & failed)),
        warm_up=requests.warm_up,
        unsent=requests.unsent,
        unread=requests.unread,
        own=requests.own,
        start=window[0],
        stop=window[1],
        clock_error=clock_error,
        late_p99=late,
        late_bound=requests.late_bound,
        valid=not requests.own and (late is None or late <= requests.late_bound),
        attributed=int(attributed.sum()),
        measures=(*measures, *_others(requests, inside, response)),
        notes=requests.notes,
        columns=Columns(
            intended=response.start,
            sent=requests.sent[chosen],
            first=requests.first[chosen],
            last_token=requests.last_token[chosen],
            last=response.stop,
            tokens=requests.tokens[chosen],
            status=tuple(requests.status[i] for i in chosen.tolist()),
            response=response.value,
            touched=touched,
            attributed=attributed,
            most=most,
            most_attributed=most_attributed,
        ),
    )


def _candidate(index: int, process: ProcessReport, window: tuple[int, int]) -> _Candidate:
    pauses = process.pauses
    long = pauses.length > TOUCHING
    touching = long | (process.series.passes["generation"] == 2)
    heavy = union(pauses.start[touching], pauses.stop[touching])
    tested = bool((long & (pauses.stop > window[0]) & (pauses.start < window[1])).any())
    return _Candidate(index, process, pauses.union, heavy, tested)


def _several(unions: Sequence[Union]) -> Union:
    nothing = np.zeros(0, np.int64)
    return union(
        np.concatenate([nothing, *(u.start for u in unions)]),
        np.concatenate([nothing, *(u.stop for u in unions)]),
    )


def _late(requests: Requests, inside: Array) -> int | None:
    """p99 of sent - intended; a closed loop has no plan to be late for."""
    which = inside & (requests.sent >= 0)
    if requests.loop == CLOSED or not which.any():
        return None
    return quantile(requests.sent[which] - requests.intended[which], 0.99)


def _response(requests: Requests, inside: Array) -> _Items:
    """From intended to last. A failure counts at its deadline; what lies in it ends where it ended."""
    start, last, deadline = (c[inside] for c in (requests.intended, requests.last, requests.deadline))
    failed = requests.failed[inside]
    counts = np.where(failed, deadline, last)
    value = np.where(counts >= 0, counts - start, NEVER)
    ended = np.where(last >= 0, last, NEVER)
    bound = np.where(failed & (deadline >= 0), deadline, NEVER)
    stop = np.minimum(ended, bound)
    return _Items(RESPONSE, start, np.where(stop == NEVER, -1, stop), value)


def _first(requests: Requests, inside: Array, response: _Items) -> list[_Items]:
    """Time to the first chunk of text, of streams; one that never came counts as its request does."""
    first, ok = requests.first[inside], requests.ok[inside]
    came = first >= 0
    if not (came & ok & (first < response.stop)).any():
        return []  # answers in one piece
    which = came | ~ok
    stop = np.where(came, first, response.stop)[which]
    value = np.where(came, first - response.start, response.value)[which]
    return [_Items(TTFT, response.start[which], stop, value)]


def _gaps(requests: Requests, window: tuple[int, int]) -> list[_Items]:
    which = (requests.gap_start >= window[0]) & (requests.gap_stop <= window[1])
    if not which.any():
        return []
    start, stop = requests.gap_start[which], requests.gap_stop[which]
    return [_Items(GAPS, start, stop, stop - start)]


def _others(requests: Requests, inside: Array, response: _Items) -> list[Measure]:
    """What is told of without an interval of its own to look into."""
    found = []
    if requests.loop == CLOSED:
        for name, window in (("metered, 100 ms", METERED), ("metered, full", None)):
            found.append(_told(name, metered(response.start, response.value, window)))
    sent, last, first = requests.sent[inside], requests.last[inside], requests.first[inside]
    was = sent >= 0
    if requests.loop != CLOSED and was.any():
        delay = np.where(was, sent - response.start, 0)
        # The same end as the response's, counted from sending.
        service = np.where(response.value == NEVER, NEVER, response.value - delay)[was]
        found.append(_told("service", service))
    tokens = requests.tokens[inside]
    many = requests.ok[inside] & (tokens > 1) & (first >= 0)
    if many.any():
        token = requests.last_token[inside]
        until = np.where(token >= 0, token, last)
        found.append(_told("TPOT", np.rint((until - first)[many] / (tokens[many] - 1)).astype(np.int64)))
    return found


def _told(name: str, value: Int64) -> Measure:
    p50, p99, p999, longest = (_quantile(value, q) for q in (0.5, 0.99, 0.999, 1.0))
    return Measure(name, len(value), p50, p99, p999, longest)


def _quantile(value: Int64, q: float) -> int | None:
    found = quantile(value, q)
    return None if found == NEVER or not len(value) else found


def _known(passes: Union, items: _Items) -> Int64:
    """How much of each the passes cover; 0 where its end is not known."""
    stop = np.maximum(items.start, items.stop)
    return passes.overlap(items.start, stop)


def _meets(heavy: Union, items: _Items) -> Array:
    found: Array = heavy.meets(items.start, items.stop) & (items.stop >= 0)
    return found


def _most(candidates: list[_Candidate], items: _Items) -> tuple[dict[int, int], Int64, Int64]:
    """Sums by process, and of each request the process whose passes take most of it, and how much."""
    n = len(items.start)
    totals: dict[int, int] = {}
    most, attributed = np.full(n, -1, np.int64), np.zeros(n, np.int64)
    for candidate in candidates:
        own = _known(candidate.union, items)
        totals[candidate.index] = int(own.sum())
        more = own > attributed
        most[more], attributed[more] = candidate.index, own[more]
    return totals, most, attributed


def _measure(
    items: _Items,
    candidates: list[_Candidate],
    whole: Union,
    heavy: Union,
    options: Options,
    window: tuple[int, int],
    tests: int,
    totals: dict[int, int],
) -> Measure:
    told = _told(items.name, items.value)
    touched = _meets(heavy, items)
    hit = np.flatnonzero(touched)
    median = 0 if told.count < options.few else told.p50
    slow = np.zeros(0, np.int64)
    if median is not None:
        bar = max(float(options.long_floor), options.long_factor * median)
        slow = np.flatnonzero((items.value > bar) & (items.value < NEVER) & (items.stop >= 0))
    start, stop = items.start[slow], items.stop[slow]
    excess = items.value[slow] - (median or 0)
    shares = []
    # As many as a claim needs: with n shifts nothing is rarer than 1 in n + 1.
    shifts = min(MOST_SHIFTS, max(SHIFTS, math.ceil(tests / CLAIM)))
    for candidate in candidates:
        met = hit[candidate.heavy.meets(items.start[hit], items.stop[hit])]
        inside = candidate.union.overlap(start, stop)
        covered = int(np.minimum(inside, excess).sum())
        if not len(met) and not covered:
            continue
        chance, by_chance = 0.0, 1.0
        if covered:
            chance, by_chance = shifted(start, stop, excess, candidate.union, window, shifts)
        rest = np.ones(told.count, bool)
        rest[met] = False
        consistent = int(np.count_nonzero((inside > 0) & (2 * inside >= excess)))
        shares.append(
            Share(
                process=candidate.process.name,
                pid=candidate.process.pid,
                attributed=totals[candidate.index] if items.name == RESPONSE else None,
                touched=len(met),
                p99_rest=_quantile(items.value[rest], 0.99),
                consistent=consistent,
                covered=covered,
                share=covered / max(1, int(excess.sum())),
                chance=chance,
                by_chance=by_chance,
                claimed=candidate.tested and consistent > 0 and by_chance * tests <= CLAIM,
            )
        )
    any_of = whole.overlap(start, stop)
    return Measure(
        name=told.name,
        count=told.count,
        p50=told.p50,
        p99=told.p99,
        p999=told.p999,
        longest=told.longest,
        slow=len(slow),
        excess=int(excess.sum()),
        touched=len(hit),
        p99_touched=_quantile(items.value[touched], 0.99),
        p99_rest=_quantile(items.value[~touched], 0.99),
        consistent=int(np.count_nonzero((any_of > 0) & (2 * any_of >= excess))),
        shares=tuple(sorted(shares, key=lambda share: (-share.covered, -share.touched))),
    )
