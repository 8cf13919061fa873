"""Requests of load clients in the report: text, JSON and the rows of a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, fields
from typing import Any

from frostline.analysis import Analysis
from frostline.analysis.requests import NEVER, Measure, RequestReport, Share
from frostline.analysis.verdict import milliseconds as ms
from frostline.report.blocks import Block, Line, Table
from frostline.report.marks import JOINED, REQUESTS
from frostline.report.safe import cell
from frostline.report.words import number

#: Rows of processes for a measure, and the share of the excess that is worth one; ``--json`` has all.
SHOWN_PROCESSES = 8
WORTH_A_ROW = 0.01
#: A quantile that is a request without an answer and without a deadline.
FAILURE = "failure"


def requests(analysis: Analysis) -> Iterator[Block]:
    """Two tables a run: what the client measured, and whose passes lie in what was slow."""
    for report in analysis.requests:
        yield _measured(report)
        for line in _basis(report):
            yield Line(line, "quiet", indent=2)
        yield from _consistent(report, analysis.options.long_floor, analysis.options.long_factor)


def _measured(report: RequestReport) -> Table:
    rows = []
    for m in report.measures:
        looked = m.touched >= 0
        rows.append(
            (
                m.name,
                f"{m.count:,}",
                *(_cell(value) for value in (m.p50, m.p99, m.p999, m.longest)),
                f"{m.slow:,}" if looked else "",
                f"{m.touched:,}" if looked else "",
                _cell(m.p99_touched) if m.touched > 0 else "",
                _cell(m.p99_rest) if 0 <= m.touched < m.count else "",
            )
        )
    columns = (
        "ms", "count", "p50", "p99", "p99.9", "max", "slow", "touched", "p99 of these", "p99 of the rest",
    )  # fmt: skip
    spare = ("p99 of these", "p99.9", "slow")
    keys = ((report.name, 0),) * len(rows)
    title, right = f"Requests of {report.name}", frozenset(range(1, 10))
    return Table(title, columns, tuple(rows), right, spare, section=REQUESTS, keys=keys)


def _cell(value: int | None) -> str:
    return FAILURE if value is None else number(value)


def _basis(report: RequestReport) -> Iterator[str]:
    """How these numbers came about."""
    parts = [f"{report.format} format", f"{report.loop} loop"]
    if report.failed:
        parts.append(f"{report.failed:,} failed, and none is left out")
    if report.cut:
        parts.append(f"{report.cut:,} cut off by the client's end, and count as long as they had lasted")
    for count, what in ((report.warm_up, "of the warm-up"), (report.unsent, "never sent")):
        if count:
            parts.append(f"{count:,} {what} left out")
    if report.own:
        parts.append(f"INVALID: {report.own:,} failed for want of files or ports where the client ran")
    if report.late_p99 is not None:
        late = f"sent late by {ms(report.late_p99)} (p99), bound {ms(report.late_bound)}"
        within = report.late_p99 <= report.late_bound
        parts.append(f"INVALID: {late}" if not within else f"valid: {late}" if report.valid else late)
    yield "; ".join(parts)
    if report.clock_error:
        yield f"its clock is the wall clock, laid over the recording to {ms(report.clock_error)}"
    yield from report.notes
    yield (
        "touched: a full pass, or a pause over 5 ms, of some process lies in it; the longer one takes, the "
        "likelier that is"
    )


def _consistent(report: RequestReport, floor: int, factor: float) -> Iterator[Block]:
    rows = []
    shown, every = set[str](), set[str]()
    for measure in report.measures:
        worth = [share for share in measure.shares if _worth(measure, share)][:SHOWN_PROCESSES]
        every |= {share.process for share in measure.shares}
        shown |= {share.process for share in worth}
        for i, share in enumerate(worth):
            counted = bool(measure.slow and share.covered)
            rows.append(
                (
                    f"{measure.name}: {measure.slow:,} slow" if i == 0 else "",
                    share.process,
                    number(share.attributed) if share.attributed is not None else "",
                    f"{share.touched:,}",
                    _cell(share.p99_rest) if share.touched < measure.count else "",
                    f"{share.consistent:,}" if measure.slow else "",
                    f"{share.share:.1%}" if counted else "",
                    f"{share.chance:.1%}" if counted else "",
                    f"{share.by_chance:.1%}" if counted else "",
                    "yes" if share.claimed else "",
                )
            )
    columns = (
        "of", "passes in", "ms in all", "touched", "p99 of the rest", "slow: half covered", "of the excess",
        "by chance", "as much in", "beyond chance",
    )  # fmt: skip
    spare = ("ms in all", "touched", "beyond chance", "p99 of the rest")
    if rows:
        title = f"Passes in the requests of {report.name}"
        keys = ((report.name, 0),) * len(rows)
        yield Table(title, columns, tuple(rows), frozenset(range(2, 9)), spare, section=JOINED, keys=keys)
    if every - shown:
        yield Line(
            f"{len(every - shown):,} processes more have passes in them, which cover under "
            f"{WORTH_A_ROW:.0%} of what was slow; see --json",
            "quiet",
            indent=2,
        )
    if rows:
        yield Line(
            f"slow: over {ms(floor)} and {factor:g} x the median; excess: what is over the median. "
            "'by chance' and 'as much in' are of the same passes, shifted circularly in the time of the "
            "requests. The client is another process: this is consistent with a cause, and no proof of one",
            "quiet",
            indent=2,
        )


def _worth(measure: Measure, share: Share) -> bool:
    """Full passes of a frozen process lie in many requests and cost them nothing."""
    return bool(share.consistent) or share.share >= WORTH_A_ROW or (not measure.slow and share.touched > 0)


def requests_json(report: RequestReport) -> dict[str, Any]:
    """All of it but the single requests, which ``--csv`` writes."""
    plain = {f.name: getattr(report, f.name) for f in fields(report) if f.name not in ("measures", "columns")}
    return {**plain, "notes": list(report.notes), "measures": [_measure_json(m) for m in report.measures]}


def _measure_json(measure: Measure) -> dict[str, Any]:
    data = asdict(measure)
    data["touched"] = None if measure.touched < 0 else measure.touched
    data["shares"] = list(data["shares"])
    return data


def requests_rows(analysis: Analysis, runs: list[str]) -> Iterator[tuple[object, ...]]:
    """Rows of ``requests.csv``; ``runs`` are the names of the processes in the other tables."""
    zero = analysis.start

    def at(time: int) -> int | None:
        return time - zero if time >= 0 else None

    def took(begin: int, end: int) -> int | None:
        return end - begin if begin >= 0 and end >= 0 else None

    for report in analysis.requests:
        c = report.columns
        name = cell(report.name)
        arrays = (
            c.intended,
            c.sent,
            c.first,
            c.last_token,
            c.last,
            c.tokens,
            c.response,
            c.touched,
            c.attributed,
        )
        columns = [array.tolist() for array in (*arrays, c.most, c.most_attributed)]
        for row in zip(c.status, *columns, strict=True):
            status, intended, sent, first, token, last, tokens, response, touched, inside, most, its = row
            until = token if token >= 0 else last
            ok = status == "ok"
            counted = response != NEVER
            yield (
                name,
                at(intended),
                at(sent),
                at(first),
                at(last),
                cell(status),
                response if counted else None,
                took(sent, intended + response) if counted else None,
                took(intended, first),
                round((until - first) / (tokens - 1)) if ok and tokens > 1 and first >= 0 else None,
                tokens if tokens >= 0 else None,
                inside,
                touched,
                runs[most] if most >= 0 else None,
                its if most >= 0 else None,
            )
