"""What the page draws, as small arrays: decimated so that no longest pause and no slow step is left out."""

from __future__ import annotations

from typing import Any

import numpy as np

from frostline import format as fmt
from frostline.analysis import Analysis, LabelStats, ProcessReport
from frostline.analysis import doubtmodel as kinds
from frostline.analysis.budgets import since as pauses_since
from frostline.analysis.ranks import Rank
from frostline.analysis.steps import ids_of
from frostline.analysis.utilisation import WINDOWS, curve, of_several
from frostline.recording.layout import Array, Int64
from frostline.report.html.host import hosts
from frostline.report.html.packing import packed as packed
from frostline.report.words import verdict_of

#: Columns of time in a figure: of each, what is least and most is kept.
COLUMNS = 1_500
#: Points kept of what is singled out (overlapped steps, long pauses), the longest.
SINGLED = 4_000
LANES = 48
STEP_FIGURES = 4
ZOOMS = 6
ZOOM_POINTS = 3_000
#: Other processes whose passes are shaded in a zoom, and passes of each: those that took most.
SHADED = 12
SHADED_PASSES = 1_000
CURVES = 6
#: BMU is said in words of this length, ns.
PROMISED = 100_000_000
#: Half the width of a zoom, ns.
AROUND = 500_000_000
#: A step is drawn red where passes of its own process took at least this part of it.
TOUCHED = 0.1
#: Steps are drawn on a logarithmic scale if the longest is over so many times their median.
UNEVEN = 50
#: Kinds of numbers that figures of steps show.
_OF_STEPS = (kinds.SPANS, kinds.LENGTHS, kinds.ACROSS)
#: Bounds of the pause histogram, ms: 1, 2, 5 in each decade.
BOUNDS = tuple(m * 10.0**e for e in range(-2, 4) for m in (1, 2, 5))

Figure = dict[str, Any]


def figures(analysis: Analysis) -> list[Figure]:
    """All figures of the page, in order. Times are ms since the session's start."""
    busiest = sorted(analysis.processes, key=lambda p: -p.pause_total)
    busiest = [p for p in busiest if 100 * p.pause_total >= busiest[0].pause_total]
    found = [_timeline(analysis), *_steps(analysis), *_zooms(analysis)]
    found += [
        _histogram(busiest[:CURVES]),
        _heap(analysis, busiest[:CURVES]),
        _utilisation(analysis, busiest),
        *hosts(analysis),
    ]
    return [figure for figure in found if figure]


def since(analysis: Analysis, times: Array) -> Array:
    """ms since the session's start, to the microsecond."""
    return np.round((times - analysis.start) / 1e3) / 1e3


def thinned(
    start: Int64, value: Array, singled: Array, columns: int = COLUMNS, most_singled: int = SINGLED
) -> Int64:
    """Indices to draw, in order: of each column of time the least and the most, and what is singled out.

    Args:
        start: when, rising or not.
        value: what is drawn upwards.
        singled: which are to be kept one by one (the largest ``most_singled`` of them).
    """
    n = len(start)
    if n <= 4 * columns:
        return np.argsort(start, kind="stable")
    order = np.argsort(start, kind="stable")
    low, high = int(start[order[0]]), int(start[order[-1]])
    column = ((start - low) * columns // max(1, high - low + 1)).astype(np.int64)
    by_value = np.lexsort((value, column))
    edges = np.flatnonzero(np.diff(column[by_value])) + 1
    least = by_value[np.concatenate((np.zeros(1, np.int64), edges))]
    most = by_value[np.concatenate((edges - 1, np.array([n - 1])))]
    chosen = np.flatnonzero(singled)
    if len(chosen) > most_singled:
        chosen = chosen[np.argpartition(-value[chosen], most_singled)[:most_singled]]
    kept = np.unique(np.concatenate((least, most, chosen)))
    return kept[np.argsort(start[kept], kind="stable")]


def _timeline(analysis: Analysis) -> Figure:
    lanes = []
    ranks = {(rank.session, rank.process): rank for rank in analysis.ranks}
    many = max(1, min(len(analysis.processes), LANES) // 8)
    for process in analysis.processes[:LANES]:
        pauses, length = process.pauses, process.pauses.length
        kept = thinned(pauses.start, length, length > 5_000_000, COLUMNS // many, SINGLED // many)
        lanes.append(
            {
                "name": process.name,
                "from": float(since(analysis, np.array([process.start]))[0]),
                "to": float(since(analysis, np.array([process.stop]))[0]),
                "boundary": (process.boundary - analysis.start) / 1e6 if process.boundary else None,
                "start": packed(since(analysis, pauses.start[kept]), "f8"),
                "length": packed(length[kept] / 1e6, "f4"),
                "generation": packed(process.series.passes["generation"][kept], "u1"),
                "gaps": _gaps(analysis, ranks.get((process.session, process.name)), SINGLED // many),
            }
        )
    more = len(analysis.processes) - len(lanes)
    note = f" {more} more processes are in the tables only." if more > 0 else ""
    total = sum(len(p.series.passes) for p in analysis.processes)
    if analysis.ranks:
        note += (
            " Below the line of a rank: gaps between its steps, red where they are consistent with a pass, "
            "grey where no request was in flight, else hollow."
        )
    return {
        "kind": "timeline",
        "title": "Every process on one clock",
        "caption": f"{total:,} passes of the collector in {len(analysis.processes):,} processes: each bar is "
        f"a stop of one process, as long as it lasted. Full passes stand out; the line: boundary.{note}",
        "lanes": lanes,
        "until": (analysis.stop - analysis.start) / 1e6,
        "about": ((kinds.PASSES,), [process.name for process in analysis.processes[:LANES]]),
    }


def _gaps(analysis: Analysis, rank: Rank | None, most: int) -> dict[str, dict[str, str]] | None:
    """The longest gaps of a rank: when, how long, and which kind."""
    if rank is None:
        return None
    kept = np.sort(np.argsort(rank.start - rank.stop, kind="stable")[:most])
    return {
        "start": packed(since(analysis, rank.start[kept]), "f8"),
        "length": packed((rank.stop - rank.start)[kept] / 1e6, "f4"),
        "kind": packed(rank.kind[kept], "u1"),
    }


def _shown_labels(analysis: Analysis) -> list[tuple[ProcessReport, LabelStats]]:
    """What people look at: the headline's labels, the ones with slow steps first."""
    every = [(p, label) for p in analysis.processes for label in p.labels if label.primary]
    every.sort(key=lambda pair: (-pair[1].slow, -pair[1].total))
    return every[:STEP_FIGURES]


def _of_label(
    process: ProcessReport, label: str, window: tuple[int, int] | None = None
) -> tuple[Int64, Int64, Array]:
    """(start, duration, kind) of a label's spans, ns. 1: passes of its own process took TOUCHED of it; 2: it
    is slow and consistent with a pass in another process; else 0."""
    spans = process.series.spans
    start, stop, labels = spans["start"], spans["stop"], spans["label"]
    if window is not None:
        near = np.flatnonzero((stop >= window[0]) & (start <= window[1]))
        start, stop, labels = start[near], stop[near], labels[near]
    which = np.isin(labels, ids_of(process.series, {label}))
    start, stop = start[which], stop[which]
    kind = (process.pauses.union.overlap(start, stop) > TOUCHED * (stop - start)).astype(np.uint8)
    others = [step.start for step in process.long_steps if step.elsewhere and step.label == label]
    kind[np.isin(start, others) & (kind == 0)] = 2
    return start, stop - start, kind


def _steps(analysis: Analysis) -> list[Figure]:
    found = []
    for process, label in _shown_labels(analysis):
        start, duration, touched = _of_label(process, label.label)
        if not len(start):
            continue
        kept = thinned(start, duration, touched)
        word = "step" if label.kind == fmt.SPAN_SYNC else "span"
        # One of seconds among thousands of milliseconds: on an even scale all others are a line at its foot.
        uneven = label.longest > UNEVEN * label.p50 > 0
        found.append(
            {
                "kind": "steps",
                "title": f"{label.label} in {process.name}",
                "caption": f"{label.count:,} {word}s, median {label.p50 / 1e6:,.1f} ms, longest "
                f"{label.longest / 1e6:,.1f} ms; {label.slow:,} slow, of which {label.explained:,} are "
                f"explained by passes of this process. Red: they took a tenth of it or more."
                + (" Amber: slow, and consistent with a pass in another process." if 2 in touched else "")
                + (" The scale is logarithmic." if uneven else ""),
                "uneven": uneven,
                "start": packed(since(analysis, start[kept]), "f8"),
                "length": packed(duration[kept] / 1e6, "f4"),
                "touched": packed(touched[kept], "u1"),
                "drawn": len(kept),
                "count": len(start),
                "about": (_OF_STEPS, [process.name]),
            }
        )
    return found


def _zooms(analysis: Analysis) -> list[Figure]:
    worst = [(step, process) for process in analysis.processes for step in process.long_steps]
    worst.sort(key=lambda pair: -pair[0].duration)
    chosen: list[Any] = []
    for step, process in worst:  # one stall makes many steps long: each second is shown once
        near = any(p is process and abs(s.start - step.start) < 2 * AROUND for s, p in chosen)
        if not near:
            chosen.append((step, process))
        if len(chosen) == ZOOMS:
            break
    found = []
    for step, process in chosen:
        middle = step.start + step.duration // 2
        low, high = (
            min(middle - AROUND, step.start - AROUND // 5),
            max(middle + AROUND, step.start + step.duration + AROUND // 5),
        )
        start, duration, touched = _of_label(process, step.label, (low, high))
        inside = thinned(start, duration, touched, ZOOM_POINTS // 4)
        pauses = process.pauses
        shaded = _in_window(process, low, high, 100_000, ZOOM_POINTS)
        words = verdict_of(step, analysis.options.long_floor)
        others = [(p, _in_window(p, low, high)) for p in analysis.processes if p is not process]
        others = [(other, full) for other, full in others if len(full)]
        longest_first = sorted(others, key=lambda one: -int(one[0].pauses.length[one[1]].sum()))
        elsewhere = [
            {
                "name": other.name,
                "start": packed(since(analysis, other.pauses.start[full]), "f8"),
                "length": packed(other.pauses.length[full] / 1e6, "f4"),
            }
            for other, full in longest_first[:SHADED]
        ]
        names = [str(one["name"]) for one in elsewhere]
        if len(others) > SHADED:
            names.append(f"{len(others) - SHADED:,} more, which are not drawn")
        found.append(
            {
                "kind": "zoom",
                "elsewhere": elsewhere,
                "title": f"{step.label} in {process.name}: {step.duration / 1e6:,.1f} ms",
                "caption": f"At {(step.start - analysis.start) / 1e9:,.3f} s; {step.overlap / 1e6:,.1f} ms "
                f"of it in passes: {words}. A bar lasts as long as its step. Shaded red: its passes; "
                f"grey: passes of over 5 ms in {_joined(names)}.",
                "low": (low - analysis.start) / 1e6,
                "high": (high - analysis.start) / 1e6,
                "start": packed(since(analysis, start[inside]), "f8"),
                "length": packed(duration[inside] / 1e6, "f4"),
                "touched": packed(touched[inside], "u1"),
                "pauseStart": packed(since(analysis, pauses.start[shaded]), "f8"),
                "pauseLength": packed(pauses.length[shaded] / 1e6, "f4"),
                "about": ((*_OF_STEPS, kinds.PASSES), [process.name]),
            }
        )
    return found


def _in_window(
    process: ProcessReport, low: int, high: int, least: int = 5_000_000, most: int = SHADED_PASSES
) -> Int64:
    """Passes of at least ``least`` ns that meet a window: the longest ``most`` of them, in order."""
    pauses = process.pauses
    found = np.flatnonzero((pauses.stop >= low) & (pauses.start <= high) & (pauses.length >= least))
    if len(found) > most:
        found = np.sort(found[np.argpartition(-pauses.length[found], most)[:most]])
    return found


def _joined(names: list[str]) -> str:
    return ", ".join(names) if names else "another process (none here)"


def _histogram(processes: list[ProcessReport]) -> Figure:
    lines = []
    for process in processes:
        length = process.pauses.length / 1e6
        if len(length):
            counts, _ = np.histogram(length, (0.0, *BOUNDS, np.inf))
            lines.append({"name": process.name, "values": packed(counts, "f4")})
    if not lines:
        return {}
    return {
        "kind": "histogram",
        "title": "How long the pauses were",
        "caption": "Passes by the length of the pause, all generations, by process without those that paused "
        "little. The scale of counts is compressed: one long pause among thousands of short ones is seen.",
        "x": packed(np.array(BOUNDS), "f4"),
        "lines": lines,
        "about": ((kinds.PASSES, kinds.PAUSES), [process.name for process in processes]),
    }


def _heap(analysis: Analysis, processes: list[ProcessReport]) -> Figure:
    edges = np.linspace(analysis.start, analysis.stop, COLUMNS // 3 + 1)
    lines = []
    for process in processes:
        heap = process.pauses.heap
        if heap.stops is None or heap.grown is None or not len(heap.stops):
            continue
        tracked, frozen = np.full(len(edges) - 1, np.nan), np.full(len(edges) - 1, np.nan)
        for i in range(len(edges) - 1):
            at = int(edges[i + 1])
            if process.start <= at and int(edges[i]) <= process.stop:
                here = heap.at(at)
                if here is not None:
                    tracked[i], frozen[i] = here
        lines.append({"name": process.name, "tracked": packed(tracked, "f4"), "frozen": packed(frozen, "f4")})
    if not lines:
        return {}
    return {
        "kind": "heap",
        "title": "What a full pass would walk, and what is frozen",
        "caption": "Tracked objects that are not frozen (solid) and frozen objects (dashed), by process. "
        "Estimated from net container allocations: at most, since CPython does not count all deaths.",
        "x": packed((edges[1:] - analysis.start) / 1e6, "f8"),
        "lines": lines,
        "about": ((kinds.WALKED, kinds.FROZEN, kinds.PASSES), [process.name for process in processes]),
    }


def _utilisation(analysis: Analysis, busiest: list[ProcessReport]) -> Figure:
    found = [
        (process.name, curve(process.pauses.union, pauses_since(process), process.stop))
        for process in busiest[:CURVES]
    ]
    if len(busiest) > 1:
        start = min(pauses_since(p) for p in busiest)
        found.append(
            ("any of them", curve(of_several([p.pauses.union for p in busiest]), start, analysis.stop))
        )
    if not found:
        return {}
    lines = []
    for name, shares in found:
        line = {"name": name, "values": packed(100 * shares.mmu, "f4")}
        if bool((shares.mmu > shares.bmu).any()):
            line["bounded"] = packed(100 * shares.bmu, "f4")
        lines.append(line)
    name, shares = found[-1]
    least = shares.at(PROMISED)
    said = f" BMU of {PROMISED / 1e6:,.0f} ms: {100 * least:.1f} % ({name})." if least is not None else ""
    return {
        "kind": "utilisation",
        "title": "What the collector leaves to the program (MMU, BMU)",
        "caption": "MMU, solid: the least share of any window of just that length in which the process was "
        "not stopped, after start-up; at 10 ms, 0 % means that somewhere all of 10 ms were a pause. A longer "
        "window can have less, where a second pause falls into it. BMU, dashed where it is lower: the least "
        f"share of any window of that length or longer, which never falls.{said}",
        "x": packed(WINDOWS / 1e6, "f8"),
        "lines": lines,
        "about": ((kinds.PASSES, kinds.PAUSES), [process.name for process in busiest]),
    }
