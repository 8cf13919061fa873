"""Puts runs of load clients beside an analysis: on its clock, into its verdict, with their doubts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from frostline.analysis.clock import clock
from frostline.analysis.model import Analysis, Doubt
from frostline.analysis.requests.join import of_requests
from frostline.analysis.requests.model import GAPS, RESPONSE, Measure, RequestReport
from frostline.analysis.verdict import milliseconds as ms
from frostline.analysis.verdict import some
from frostline.errors import FrostlineError
from frostline.recording.layout import Int64
from frostline.recording.requests import CLOSED, UNIX, Requests

#: ns. A clock that may be off by more than this is a doubt: pauses are as long.
COARSE = 5_000_000
#: What is slow, by measure, in words.
_SLOW = {RESPONSE: "slow requests", GAPS: "slow gaps between chunks"}


def with_requests(analysis: Analysis, runs: Iterable[Requests]) -> Analysis:
    """The analysis with each run joined to the passes of its processes.

    The headline stays what it is: it counts what was recorded. What users felt is a line below it.

    Raises:
        FrostlineError: ``requests-elsewhere``, ``requests-other-boot``, ``no-anchors``.
    """
    reports = tuple(_beside(analysis, run) for run in runs)
    lines = [line for report in reports for line in _lines(report)]
    doubts = [doubt for report in reports for doubt in _doubts(report)]
    return replace(
        analysis,
        requests=(*analysis.requests, *reports),
        verdict=replace(analysis.verdict, lines=(*analysis.verdict.lines, *lines)),
        doubts=(*analysis.doubts, *doubts),
    )


def _beside(analysis: Analysis, requests: Requests) -> RequestReport:
    boots = [run.boot_id for run in analysis.runs if run.boot_id]
    if analysis.clock_error:  # of several hosts the clock is the first one's
        boots = boots[:1]
    if requests.boot_id and boots and requests.boot_id not in boots:
        raise FrostlineError(
            "requests-other-boot",
            f"{requests.path} was written on another machine, or before a restart of this one",
            "Its times are on a clock that the session does not know: run the client on the server's host, "
            "or one that writes Unix time (GuideLLM).",
        )
    error = 0
    if requests.clock == UNIX:
        between = clock(analysis.anchors)
        error = between.error
        requests = _moved(requests, between.from_unix)
    ends = np.maximum(requests.intended, requests.last)
    inside = (requests.intended >= analysis.start) & (ends <= analysis.stop)
    if not inside.any():
        low, high = int(requests.intended[0]) - analysis.start, int(ends.max()) - analysis.start
        raise FrostlineError(
            "requests-elsewhere",
            f"none of the {len(requests):,} requests in {requests.path} lies in the recorded time: they ran "
            f"from {low / 1e9:,.1f} s to {high / 1e9:,.1f} s, and the session from 0 s to "
            f"{(analysis.stop - analysis.start) / 1e9:,.1f} s",
            "Give the file of a run against this recording. If it is: it was written on another host, or "
            "before a restart of this one, and its times are on another clock.",
        )
    return of_requests(requests, inside, analysis.processes, analysis.options, error)


def _moved(requests: Requests, move: Callable[[Int64], Int64]) -> Requests:
    """The run on another clock; -1 stays -1."""

    def moved(column: Int64) -> Int64:
        return np.where(column >= 0, move(column), -1)

    names = ("intended", "sent", "first", "last_token", "last", "deadline", "gap_start", "gap_stop")
    columns: dict[str, Any] = {name: moved(getattr(requests, name)) for name in names}
    return replace(requests, **columns)


def telling(report: RequestReport) -> Measure:
    """The measure that the verdict speaks of: one with slow items that passes explain, the response first."""
    measures = [m for m in report.measures if m.touched >= 0]
    claimed = [m for m in measures if any(s.claimed for s in m.shares)]
    return (claimed or [m for m in measures if m.slow] or measures)[0]


def _lines(report: RequestReport) -> Iterator[str]:
    response = report.measures[0]
    failed = f", {report.failed:,} of them failed" if report.failed else ""
    text = f"requests in {report.name}: {report.count:,}{failed}; {_outside(report)}"
    if response.p99 is None:
        text += "p99 of the response is a failure"
    else:
        text += f"p99 of the response {ms(response.p99)}"
    if response.touched == response.count:
        text += ", and full passes or pauses over 5 ms touched every one"
    elif response.touched:
        rest = "a failure" if response.p99_rest is None else ms(response.p99_rest)
        text += (
            f", {rest} without the {response.touched:,} that a full pass, or a pause over 5 ms, "
            "of some process touched"
        )
    yield text
    measure = telling(report)
    what = _SLOW.get(measure.name, f"slow {measure.name}s")
    if not measure.slow:
        names = " or ".join(m.name for m in report.measures if m.touched >= 0)
        if report.failed < report.count:
            yield f"none of the requests that were answered is slow, by {names}"
        return
    claimed = [share for share in measure.shares if share.claimed]
    if claimed:
        first = claimed[0]
        only = len(claimed) == 1
        count = first.consistent if only else measure.consistent
        they = "they" if only else f"those of {first.process}"
        yield (
            f"{count:,} of the {measure.slow:,} {what} are consistent with passes in "
            f"{some([share.process for share in claimed])}; {they} cover {first.share:.0%} of their "
            f"excess, {first.chance:.0%} by chance (as much in {first.by_chance:.1%} of shifts)"
        )
    elif measure.consistent:
        first = measure.shares[0]
        yield (
            f"{measure.consistent:,} of the {measure.slow:,} {what} overlap passes, which may be chance: "
            f"those of {first.process} cover as much of them in {first.by_chance:.1%} of shifts"
        )
    else:
        yield f"no pass covers half of what the {measure.slow:,} {what} took too long"


def _outside(report: RequestReport) -> str:
    """Failures that are left out stand in the verdict: a server that died in mid-load ends the recording."""
    if not report.outside_failed:
        return ""
    return (
        f"{report.outside_failed:,} more failed outside of the recorded time and are in no figure "
        f"({report.outside:,} lie there); "
    )


def _doubts(report: RequestReport) -> Iterator[Doubt]:
    if report.late_p99 is not None and report.late_p99 > report.late_bound:
        yield Doubt(
            "requests-late",
            f"{report.name} is invalid as a measurement: the client sent late (p99 of sent - intended "
            f"{ms(report.late_p99)}, bound {ms(report.late_bound)}), so it was the bottleneck itself",
            about=(report.name,),
        )
    if report.own:
        yield Doubt(
            "requests-own",
            f"{report.name} is invalid as a measurement: {report.own:,} of its requests could not be sent "
            "for want of files or ports where the client ran, so they are no failures of the server's, and "
            "it was asked less",
            about=(report.name,),
        )
    if report.loop == CLOSED:
        yield Doubt(
            "requests-closed-loop",
            f"{report.name} is a closed loop: its client waited for answers before it sent more, so a stall "
            "hides the requests that it kept from being sent; metered latency is an estimate of them",
            about=(report.name,),
        )
    if report.outside:
        failed = f", {report.outside_failed:,} of them failures" if report.outside_failed else ""
        yield Doubt(
            "requests-outside",
            f"{report.name}: {report.outside:,} requests lie outside of the recorded time and are left out"
            f"{failed}",
            about=(report.name,),
        )
    if report.unread:
        text = f"{report.name}: {report.unread:,} lines could not be read"
        yield Doubt("requests-unread", text, about=(report.name,))
    if report.clock_error > COARSE:
        yield Doubt(
            "requests-clock",
            f"{report.name} is laid over the recording by the wall clock, to {ms(report.clock_error)}",
            about=(report.name,),
        )
