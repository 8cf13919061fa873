"""Sessions that people already have, in pairs A B: what differs, and whether that is enough to conclude."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from frostline.analysis import Analysis, ProcessReport
from frostline.analysis.intervals import quantiles
from frostline.analysis.steps import ids_of
from frostline.experiment.ablation.judging import median
from frostline.experiment.ablation.measuring import Pauses, of_analysis
from frostline.experiment.statistics import MARGIN, Effect, effect, least_blocks
from frostline.recording.layout import Int64

#: What a session without any counts as in a ratio, so that it has a logarithm: below anything measured.
_FLOORS = {
    "time paused": 1e-7,
    "full passes a minute": 1e-3,
    "walked a minute": 1.0,
    "longest full pass": 1e-3,
}


@dataclass(frozen=True)
class Row:
    """One figure of the processes of one role; of all together with ``role`` empty.

    Attributes:
        a, b: medians over the sessions. effect: over the pairs, lower is better.
    """

    role: str
    what: str
    unit: str
    a: float
    b: float
    effect: Effect


@dataclass(frozen=True)
class Comparison:
    """All rows; the first is the one that is judged.

    Attributes:
        pairs: how many. least: how many it takes.
        one_sided: every A began before its B, or after it: a drift over time would look the same.
        unknown: full passes of which it is not known what they walked: no row of that then.
    """

    rows: tuple[Row, ...]
    pairs: int
    least: int
    one_sided: bool
    unknown: int

    @property
    def concluded(self) -> bool:
        return self.pairs >= self.least


@dataclass(frozen=True)
class _Session:
    analysis: Analysis
    begun: int
    minutes: float
    roles: dict[str, Pauses]


def compare(pairs: Sequence[tuple[Analysis, Analysis]]) -> Comparison:
    """Compares from the end of start-up, where it is known, to the end of each session."""
    sessions = [(_session(a), _session(b)) for a, b in pairs]
    flat = [one for pair in sessions for one in pair]
    named = sorted(set.intersection(*({*one.roles} for one in flat)))
    unknown = sum(role.unknown for one in flat for role in one.roles.values())
    rows = [_row("", "time paused", "%", sessions, lambda one: 100 * _paused(one, one.roles))]
    for role in named:
        if not any(one.roles[role].pause_s for one in flat):
            continue  # the helpers of multiprocessing, mostly
        rows += _of_role(role, sessions, known=not any(one.roles[role].unknown for one in flat))
        rows += _steps(role, sessions)
    first = [_begun(a.analysis) < _begun(b.analysis) for a, b in sessions]
    return Comparison(tuple(rows), len(pairs), least_blocks(), len(set(first)) == 1, unknown)


def _session(analysis: Analysis) -> _Session:
    serving = [process.serving for process in analysis.processes if process.serving]
    begun = max([analysis.start, *serving])
    roles = {one.role: one for one in of_analysis(analysis, (begun, analysis.stop)) if one.processes}
    return _Session(analysis, begun, max(1e-9, (analysis.stop - begun) / 60e9), roles)


def _begun(analysis: Analysis) -> int:
    """Unix time in ns, as far as is known."""
    return min((run.started_realtime for run in analysis.runs), default=analysis.start)


def _paused(one: _Session, roles: Sequence[str] | dict[str, Pauses]) -> float:
    """Seconds in passes, of all of them together, a second."""
    return sum(one.roles[role].pause_s for role in roles) / (60 * one.minutes)


Value = Callable[[_Session], float]


def _row(role: str, what: str, unit: str, sessions: Sequence[tuple[_Session, _Session]], value: Value) -> Row:
    floor = _FLOORS.get(what, 1e-6)
    values = [(value(a), value(b)) for a, b in sessions]
    judged = effect([([max(floor, a)], [max(floor, b)]) for a, b in values], False, MARGIN)
    return Row(role, what, unit, median([a for a, _ in values]), median([b for _, b in values]), judged)


def _of_role(role: str, sessions: Sequence[tuple[_Session, _Session]], known: bool) -> list[Row]:
    rows = [
        _row(role, "time paused", "%", sessions, lambda one: 100 * _paused(one, [role])),
        _row(role, "full passes a minute", "", sessions, lambda one: one.roles[role].full / one.minutes),
        _row(role, "longest full pass", "ms", sessions, lambda one: one.roles[role].longest_ms),
    ]
    if known:
        rows.append(
            _row(role, "walked a minute", "", sessions, lambda one: one.roles[role].walked / one.minutes)
        )
    return rows


def _lengths(process: ProcessReport, label: str, since: int) -> Int64:
    """Of the spans of a label, ns; those of start-up (a warm-up, a compilation) are no figure of either."""
    spans = process.series.spans
    chosen = np.isin(spans["label"], ids_of(process.series, {label})) & (spans["start"] >= since)
    took: Int64 = (spans["stop"] - spans["start"])[chosen]
    return took


def _steps(role: str, sessions: Sequence[tuple[_Session, _Session]]) -> list[Row]:
    """Quantiles of the steps or requests that count, of labels that every session has."""

    def labels(one: _Session) -> dict[str, tuple[int, ...]]:
        found: dict[str, tuple[int, ...]] = {}
        for process in one.analysis.processes:
            for label in process.labels if process.role == role else ():
                if label.primary and not label.few:
                    took = _lengths(process, label.label, one.begun)
                    if len(took):
                        here, before = quantiles(took, (0.5, 0.99)), found.get(label.label, (0, 0))
                        # Of several processes the worst: a step waits for the slowest.
                        found[label.label] = tuple(map(max, here, before))
        return found

    of = {id(one): labels(one) for pair in sessions for one in pair}
    rows = []
    for name in sorted(set.intersection(*({*found} for found in of.values()))):
        for at, quantile in enumerate(("p50", "p99")):

            def value(one: _Session, name: str = name, at: int = at) -> float:
                return of[id(one)][name][at] / 1e6

            rows.append(_row(role, f"{name}, {quantile}", "ms", sessions, value))
    return rows
