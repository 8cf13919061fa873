"""Are the words of the report true? What it says of each labelled stall, against what was done.

What is judged is what a user reads: the row of the slow step, in the report's own words
(``verdict_of``). "The collector" and "overlapped by the collector" claim the step's own process,
"consistent with a pass in NAME" claims that process; everything else claims nobody, and so does a stall
of which the report has no row. Of several rows the one that overlaps the stall most is taken, of rows
inside each other the outer one. Of a gap between steps it is what the report's table of idle ranks says
of that gap: every process that it is consistent with is named.

- Precision: of the processes named, the share that was the culprit.
- Recall: of the stalls that a collector caused, the share in which the culprit was named.
- False claims: of the stalls that no collector caused, the share in which a process was named.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.labelled.truth import Labelled, Stall
from frostline.analysis import Analysis, LongStep, ProcessReport
from frostline.report.words import verdict_of

#: What was said of a stall, in one word, for the table.
OWN, OTHER, NOBODY, NO_ROW = "own collector", "another's collector", "no collector", "no row"
CONSISTENT = "consistent with a pass in "
WORDS = (OWN, OTHER, NOBODY, NO_ROW)


@dataclass(frozen=True)
class Said:
    """One stall and the report's words of it. ``named`` are the pids that were named."""

    source: str
    stall: Stall
    named: tuple[int, ...]
    word: str
    text: str

    @property
    def right(self) -> bool:
        return self.named == ((self.stall.culprit,) if self.stall.culprit else ())


@dataclass(frozen=True)
class Share:
    """``hits`` of ``tries``, with the exact interval (Clopper and Pearson 1934) at 95 %."""

    hits: int
    tries: int

    @property
    def value(self) -> float:
        return self.hits / self.tries if self.tries else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        return exact_interval(self.hits, self.tries)

    def __str__(self) -> str:
        if not self.tries:
            return "none of 0"
        low, high = self.interval
        return f"{self.value:.3f} ({self.hits} of {self.tries}; 95 % {low:.3f} to {high:.3f})"


@dataclass(frozen=True)
class Score:
    precision: Share
    recall: Share
    false_claims: Share


def exact_interval(hits: int, tries: int, level: float = 0.95) -> tuple[float, float]:
    """The Clopper-Pearson interval of a share: by bisection on the binomial distribution."""
    if not tries:
        return 0.0, 1.0
    tail = (1 - level) / 2
    low = 0.0 if not hits else _root(lambda p: 1 - _at_most(hits - 1, tries, p) - tail)
    high = 1.0 if hits == tries else _root(lambda p: tail - _at_most(hits, tries, p))
    return low, high


def _at_most(hits: int, tries: int, p: float) -> float:
    """P(X <= hits) of a binomial; by logarithms, since the factors leave the range of a float."""
    if p <= 0 or p >= 1:
        return 1.0 if p <= 0 or hits >= tries else 0.0
    whole = math.lgamma(tries + 1)
    terms = (
        whole
        - math.lgamma(k + 1)
        - math.lgamma(tries - k + 1)
        + k * math.log(p)
        + (tries - k) * math.log1p(-p)
        for k in range(hits + 1)
    )
    return min(1.0, math.fsum(math.exp(term) for term in terms))


def _root(rising: Callable[[float], float]) -> float:
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if rising(middle) < 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def judge(labelled: Labelled, analysis: Analysis) -> list[Said]:
    """What the report says of each stall of a session.

    Raises:
        ValueError: a victim that is not in the recording: then the truth is of another session.
    """
    by_pid = {process.pid: process for process in analysis.processes}
    pids = {process.name: process.pid for process in analysis.processes}
    absent = {stall.victim for stall in labelled.stalls} - set(by_pid)
    if absent:
        raise ValueError(f"{labelled.session}: no recording of {', '.join(map(str, sorted(absent)))}")
    return [_said(labelled.source, stall, by_pid[stall.victim], pids, analysis) for stall in labelled.stalls]


def _said(
    source: str, stall: Stall, process: ProcessReport, pids: dict[str, int], analysis: Analysis
) -> Said:
    if not stall.label:
        return _said_of_a_gap(source, stall, analysis)
    row = _row(stall, process.long_steps)
    if row is None:
        return Said(source, stall, (), NO_ROW, "")
    text = verdict_of(row, analysis.options.long_floor)
    head = text.partition("; ")[0]  # behind it stands what else the machine did
    if head in ("the collector", "overlapped by the collector"):
        return Said(source, stall, (stall.victim,), OWN, text)
    if head.startswith(CONSISTENT):
        return Said(source, stall, (pids[head.removeprefix(CONSISTENT)],), OTHER, text)
    return Said(source, stall, (), NOBODY, text)


def _row(stall: Stall, steps: Sequence[LongStep]) -> LongStep | None:
    """The slow step that the stall lies in."""

    def shared(step: LongStep) -> int:
        return min(stall.end, step.start + step.duration) - max(stall.begin, step.start)

    mine = [step for step in steps if stall.label == step.label and shared(step) > 0]
    return max(mine, key=lambda step: (shared(step), not step.nested, step.duration), default=None)


def _said_of_a_gap(source: str, stall: Stall, analysis: Analysis) -> Said:
    """The gap of the victim that the stall overlaps most, and every process that it is given to."""
    rank = next((one for one in analysis.ranks if one.pid == stall.victim), None)
    if rank is None or not len(rank.start):
        return Said(source, stall, (), NO_ROW, "")
    shared = np.minimum(rank.stop, stall.end) - np.maximum(rank.start, stall.begin)
    gap = int(shared.argmax())
    if shared[gap] <= 0:
        return Said(source, stall, (), NO_ROW, "")
    named = tuple(one.pid for one in rank.consistent if one.claimed and one.by[gap] >= 0)
    word = NOBODY if not named else OWN if named == (stall.victim,) else OTHER
    text = f"a gap consistent with {', '.join(map(str, named)) or 'nobody'} (kind {rank.kind[gap]})"
    return Said(source, stall, named, word, text)


def score(said: Iterable[Said]) -> Score:
    said = list(said)
    named = sum(len(one.named) for one in said)
    true = sum(one.stall.culprit in one.named for one in said if one.stall.culprit)
    caused = sum(1 for one in said if one.stall.culprit)
    others = [one for one in said if not one.stall.culprit]
    return Score(
        precision=Share(true, named),
        recall=Share(true, caused),
        false_claims=Share(sum(bool(one.named) for one in others), len(others)),
    )


def confusion(said: Iterable[Said]) -> list[tuple[str, ...]]:
    """A row a cause: (cause, stalls, how often each word was said, wrong); a header first."""
    counts: dict[str, Counter[str]] = {}
    wrong: Counter[str] = Counter()
    for one in said:
        counts.setdefault(one.stall.cause, Counter())[one.word] += 1
        wrong[one.stall.cause] += not one.right
    rows = [("cause", "stalls", *WORDS, "wrong")]
    for cause, words in sorted(counts.items()):
        rows.append((cause, str(words.total()), *(str(words[w]) for w in WORDS), str(wrong[cause])))
    return rows


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """A table as text: the first column to the left, numbers to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for first, *rest in rows:
        cells = (cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
        lines.append("  ".join((first.ljust(widths[0]), *cells)))
    return "\n".join(lines)
