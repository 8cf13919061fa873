"""The files of a load run: every request, and the response as HdrHistogram writes it."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt

from frostline.experiment.load.client import TIMEOUT, Sent, unsendable, word
from frostline.experiment.load.outcome import LATE_BOUND, response, stretches
from frostline.experiment.load.plan import NS

Int64 = npt.NDArray[np.int64]

#: Significant digits of a histogram, and the longest time that it has room for at least, ns.
_DIGITS, _ROOM = 3, 60 * NS
#: Values are ns and shown in ms, as HdrHistogram's own tools take them to be.
_RATIO = 1e6


def header(sent: Sent, url: str, seed: int) -> dict[str, Any]:
    """What our own format says of the whole run (docs/requests.md); with keys of the client's own."""
    return {
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
        "begun": sent.begun,
        "client_passes": sent.passes,
        "client_longest_pass": sent.longest_pass,
    }


def write_requests(sent: Sent, about: dict[str, Any], file: TextIO) -> None:
    """Our own format, version 1 (docs/requests.md)."""
    file.write(json.dumps(about) + "\n")
    begin, gaps = gaps_of(sent)
    for number, row in enumerate(_rows(sent)):
        if begin[number] < begin[number + 1]:
            row["gaps"] = gaps[begin[number] : begin[number + 1]].tolist()
        file.write(json.dumps(row, separators=(",", ":")) + "\n")


def _rows(sent: Sent) -> Iterator[dict[str, Any]]:
    columns = (
        sent.intended,
        sent.sent,
        sent.first,
        sent.last_token,
        ended(sent),
        sent.tokens,
        sent.status,
        sent.code,
        sent.measured,
        rung_of(sent),
        unsendable(sent),
    )
    for at, gone, first, last_token, last, tokens, status, code, measured, rung, own in zip(
        *(c.tolist() for c in columns), strict=True
    ):
        row: dict[str, Any] = {"intended": at}
        times = (("sent", gone), ("first", first), ("last_token", last_token), ("last", last))
        for name, value in (*times, ("tokens", tokens)):
            if value >= 0:
                row[name] = value
        row["status"] = word(status, code)
        if own:
            row["own"] = True
        if not measured:
            row["measured"] = False
        if rung:
            row["rung"] = rung
        yield row


def ended(sent: Sent) -> Int64:
    """When the last byte came, or the client gave up; -1 of a timeout, which counts at its deadline."""
    return np.where(sent.status == TIMEOUT, -1, sent.last)


def rung_of(sent: Sent) -> Int64:
    """The number of each request's rung, from 0."""
    return np.repeat(np.arange(len(sent.rungs)), [len(rung.offsets) for rung in sent.rungs])


def gaps_of(sent: Sent) -> tuple[Int64, Int64]:
    """Gaps between chunks by request: where each one's begin (and one entry more, the end), and the gaps."""
    which = sent.gap_of[: sent.gaps]
    order = np.argsort(which, kind="stable")
    begin: Int64 = np.searchsorted(which[order], np.arange(len(sent.intended) + 1))
    return begin, sent.gap[: sent.gaps][order]


def _histogram(most: float) -> Any:
    from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]

    return HdrHistogram(1, max(_ROOM, int(most) + 1), _DIGITS)


def _record(histogram: Any, values: npt.NDArray[np.float64]) -> None:
    for value in values.tolist():
        histogram.record_value(max(1, int(value)))


def write_distribution(sent: Sent, path: Path) -> None:
    """HdrHistogram's percentile distribution (.hgrm) of the response, in ms, of all measured requests."""
    values = response(sent)[sent.measured]
    histogram = _histogram(values.max(initial=0))
    _record(histogram, values)
    text = io.BytesIO()
    histogram.output_percentile_distribution(text, _RATIO)
    # hdrhistogram 0.10 scales the mean and leaves the deviation beside it as it is.
    spread = histogram.get_stddev()
    as_is, scaled = (f"StdDeviation   = {value:12.3f}]".encode() for value in (spread, spread / _RATIO))
    path.write_bytes(text.getvalue().replace(as_is, scaled))


def write_intervals(sent: Sent, path: Path) -> None:
    """HdrHistogram's interval log (.hlog) of the response, in ns: a histogram for each second of the plan.

    A request is in the second in which it was meant to be sent. Of several rungs each has its rate as tag.
    """
    took = response(sent)
    histogram = _histogram(took[sent.measured].max(initial=0))
    begun = (sent.started + sent.wall) / 1e9
    at_utc = datetime.fromtimestamp(begun, timezone.utc).isoformat(sep=" ", timespec="milliseconds")
    with path.open("w", encoding="ascii") as file:
        file.write("#[Response from the time in the plan, ns, by the second of the plan; failures at their ")
        file.write("deadline]\n#[Histogram log format version 1.3]\n")
        file.write(f"#[StartTime: {begun:.3f} (seconds since epoch), {at_utc}]\n")
        file.write('"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"\n')
        for stretch in stretches(sent):
            tag = f"Tag={stretch.rate:g}," if len(sent.rungs) > 1 else ""
            intended = sent.intended[stretch.measured]
            for begin in range(stretch.begin, stretch.stop, NS):
                stop = min(begin + NS, stretch.stop)
                first, past = np.searchsorted(intended, (begin, stop))
                histogram.reset()
                _record(histogram, took[stretch.measured[first:past]])
                file.write(
                    f"{tag}{(begin - sent.started) / 1e9:.3f},{(stop - begin) / 1e9:.3f},"
                    f"{histogram.get_max_value() / _RATIO:.3f},{histogram.encode().decode('ascii')}\n"
                )
