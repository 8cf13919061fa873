"""The figure of a load client's requests: response against time, touched ones in red."""

from __future__ import annotations

import numpy as np

from frostline.analysis import Analysis
from frostline.analysis import doubtmodel as kinds
from frostline.analysis.requests import NEVER, RequestReport
from frostline.report.html.figures import Figure, packed, since, thinned

#: Runs of clients that are drawn; all are in the tables.
FIGURES = 4


def of_requests(analysis: Analysis) -> list[Figure]:
    """One figure a run. A failure without a deadline has no height, and is told of in the caption."""
    return [_figure(analysis, report) for report in analysis.requests[:FIGURES]]


def _figure(analysis: Analysis, report: RequestReport) -> Figure:
    columns = report.columns
    answered = np.flatnonzero(columns.response != NEVER)
    start, length, touched = (c[answered] for c in (columns.intended, columns.response, columns.touched))
    kept = thinned(start, length, touched)
    count = report.count - len(answered)
    missing = f" {count:,} failures without a deadline are not drawn." if count else ""
    return {
        "kind": "steps",
        "title": f"Requests of {report.name}",
        "caption": f"{report.count:,} requests by when they were meant to be sent: the response from then "
        f"on, {report.failed:,} of them failures.{missing} Red: a full pass, or a pause over 5 ms, of some "
        "process lies in it; that is no proof that it made it longer.",
        "legend": ["no such pass", "a full pass, or a pause over 5 ms"],
        "start": packed(since(analysis, start[kept]), "f8"),
        "length": packed(length[kept] / 1e6, "f4"),
        "touched": packed(touched[kept], "u1"),
        "drawn": len(kept),
        "count": len(start),
        "about": ((kinds.REQUESTS, kinds.QUANTILES, kinds.COUNTED, kinds.JOINED), [report.name]),
    }
