"""Numbers, paths and verdicts in few words, as every table of the report prints them."""

from __future__ import annotations

import re

from frostline.analysis import LongStep, ProcessReport, Walked
from frostline.analysis.host import cause_words
from frostline.analysis.hostmodel import OPEN
from frostline.analysis.triggers import QUARTER, Forecast
from frostline.analysis.verdict import milliseconds as ms

#: Up to the folder of the installed packages, or else of the standard library.
_LIBRARY = re.compile(r"(?<![^\s:(])/[^\s:]*?/lib(?:64)?/python3\.\d+t?/(?:site-packages/|dist-packages/)?")
#: How a process ended that said nothing, and why that is nothing to worry about.
NO_CLOSE = "no close recorded"
NO_CLOSE_WHY = (
    "no close recorded: it ended by a signal or by os._exit(). Workers of uvicorn do: they shut down, "
    "and then raise the signal again that they were told by. All that came before is in the recording"
)


def seconds(ns: float) -> str:
    return f"{ns / 1e9:,.1f} s"


def walked(value: Walked) -> str:
    if value.value is None:
        return "-"
    sign = "" if value.exact else "<=" if value.at_most else "~"
    return f"{sign}{value.value:,}"


def short_paths(text: str) -> str:
    """Paths from site-packages or the standard library on; ``--json`` and ``--csv`` have them whole."""
    return _LIBRARY.sub("", text)


def sentence(text: str) -> str:
    """With a capital and a full stop; a path or a module at its head stays as it is."""
    head = text.split(" ", 1)[0]
    return (text if "." in head or "/" in head else text[:1].upper() + text[1:]) + "."


def number(ns: float) -> str:
    """Milliseconds in a column."""
    value = ns / 1e6
    return f"{value:,.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def verdict_of(step: LongStep, floor: int) -> str:
    """One step's verdict in few words; careful where others ran between."""
    if step.host is not None and step.host.kind == "look":
        return f"not the server's doing: it {step.host.text}"
    if step.explained:
        text = "the collector" if step.kind == 1 else "overlapped by the collector"
        return f"{text}; but it {step.host.text}" if step.host is not None else text
    if step.by_callback:
        return f"not the collector{cause_words(step.host)}"
    if step.elsewhere:
        return f"consistent with a pass in {step.elsewhere}"
    if step.beside:
        text = f"cannot tell: a pass in {step.beside} lies in it, perhaps by chance"
        told = step.host is not None and step.host.kind not in OPEN
        return f"{text}; the host shows that it {step.host.text}" if told and step.host else text
    if step.overlap > floor:
        return f"{ms(step.overlap)} of it are passes ({100 * step.overlap / step.excess:.0f} % of the excess)"
    return f"not the collector{cause_words(step.host)}"


def forecast_words(forecast: Forecast) -> str:
    when = f", {_lasting(forecast.seconds)} at the recent rate" if forecast.seconds is not None else ""
    rule = f"the {forecast.rule}" if forecast.rule == QUARTER else forecast.rule
    return f"after {forecast.allocations:,} net container allocations{when}; it waits for {rule}"


def _lasting(s: float) -> str:
    return f"{s:,.1f} s" if s < 600 else f"{s / 60:,.0f} min" if s < 36_000 else f"{s / 3600:,.0f} h"


def forecast_checked(forecast: Forecast) -> str:
    """How good that is: the same forecast at the passes before, and what it rests on."""
    parts = ["never checked: no full pass came by itself before"]
    if forecast.error is not None:
        times = "once" if forecast.tried == 1 else f"{forecast.tried:,} times"
        parts = [f"made {times} before, it was off by {forecast.error:.1%} (median)"]
    if forecast.came:
        vain = forecast.called - forecast.right
        parts.append(
            f"{forecast.right:,} of {forecast.came:,} full passes were called at the stop before, "
            f"{vain:,} in vain"
        )
    read = f"the interpreter's own counters, read {forecast.read:,} times from outside"
    parts.append(f"from {read}" if forecast.read else "from the record alone")
    return "; ".join(parts)


def how_it_ended(process: ProcessReport) -> str:
    """In a word or two."""
    if process.closed:
        return "closed"
    if any(event.kind == "exec" for event in process.events):
        return "exec"
    return "running or killed" if process.series.live else NO_CLOSE


def longest_line(what: str, process: ProcessReport, pause: int, words: str) -> str:
    """``Longest pause: 40 ms, in NAME (gen 2, automatic).``"""
    return f"{what}: {ms(pause)}, in {process.name}{f' ({words})' if words else ''}."
