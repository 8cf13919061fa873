"""Steps compared with their like: by label, stage, batch size and name, in one process of one run (B11).

A *group* has the same label, stage, batch size (its bucket) and name. Steps over OVER times the
median of their group are counted. Those whose excess their process's own passes explain (at least half
of it, as everywhere) are told apart; the others are not blamed on the collector, and where their
excess lies is told by the spans nested in them.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from frostline import format as fmt
from frostline.analysis.attributes import FEW, NO_BATCH, Attributes, attributes_of, buckets, shown
from frostline.analysis.grouping import OVER, Group, Grouping, Over, Part
from frostline.analysis.intervals import quantile, quantiles
from frostline.analysis.model import ProcessReport
from frostline.analysis.offsets import Key, Medians, offsets, words
from frostline.analysis.runs import runs_of
from frostline.format import told
from frostline.recording import Session
from frostline.recording.layout import Array, Int64

#: A run's steps of a group are cut into so many parts, in order of time.
PARTS = 8
_ORDINARY, _EXPLAINED, _REST = 1, 2, 3
#: Sums are kept for every combination up to so many of them, else only for those that occur.
_DENSE = 2_000_000
#: So few cells are looked for in ten million spans sooner than these are sorted, and in less memory.
_LOOKED_FOR = 8


def grouped(session: Session, processes: tuple[ProcessReport, ...]) -> Grouping:
    """Groups of every process, and the offset of each run from the others."""
    runs, run_of = runs_of(session, [process.series for process in processes])
    groups: list[Group] = []
    parts: list[Part] = []
    over: list[Over] = []
    crossing: list[str] = []
    medians: Medians = defaultdict(lambda: defaultdict(list))
    tells = False
    for run, process in zip(run_of, processes, strict=True):
        if not len(process.series.spans.get("start", ())):
            continue
        one = _Process(run, process, attributes_of(process.series))
        groups += one.groups(medians)
        mine, steps = one.parts()
        parts += mine
        over += steps
        tells = tells or one.told.tells
        if one.told.tree.crossing:
            crossing.append(process.name)
    found = offsets(medians, [run.number for run in runs])
    return Grouping(
        runs=runs,
        run_of=tuple(run_of),
        groups=tuple(groups),
        parts=tuple(parts),
        over=tuple(over),
        offsets=found,
        sentences=words(found, {run.number: run for run in runs}),
        crossing=tuple(crossing),
        tells=tells,
    )


@dataclass(frozen=True)
class _Cell:
    """The finest group: what its spans tell."""

    label: int
    stage: int
    name: int
    bucket: int
    count: int
    #: The spans, by place in the series, in the order of their ends; None: they are looked for each time.
    held: Int64 | None
    number: int
    #: By span, the number of its cell.
    of: Array

    @property
    def at(self) -> Int64:
        return np.flatnonzero(self.of == self.number) if self.held is None else self.held


class _Process:
    """The groups of one process. The arrays here have one entry a span of the series."""

    def __init__(self, run: int, process: ProcessReport, found: Attributes) -> None:
        self.run, self.process, self.told = run, process, found
        spans = process.series.spans
        self.start, self.stop, self.kind = spans["start"], spans["stop"], spans["kind"]
        tree = found.tree
        self.outer = np.zeros(len(self.start), bool)
        self.outer[tree.which[tree.outermost]] = True
        #: 0 where a span was not compared, else _ORDINARY, _EXPLAINED or _REST.
        self.judged = np.zeros(len(self.start), np.uint8)
        self.cell, self.cells = self._cells()
        #: By cell: compared, over, explained, overlapped.
        self.counts: dict[int, tuple[int, int, int, int]] = {}
        self.medians: dict[int, int] = {}
        for number, cell in enumerate(self.cells):
            if cell.count >= FEW:
                self._judge(number, cell)
        #: Cells that were compared, by label.
        self.compared: dict[int, list[int]] = defaultdict(list)
        for number in self.counts:
            self.compared[self.cells[number].label].append(number)

    def _cells(self) -> tuple[Array, list[_Cell]]:
        found = self.told
        if found.tells:
            key = (found.label.astype(np.int64) * 8 + found.stage) * len(found.names) + found.name
            key = key * 256 + buckets(found.batch)
            keys, of = np.unique(key, return_inverse=True)
            del key
        else:
            keys = np.arange(len(found.texts), dtype=np.int64) * 8 * 256 + NO_BATCH
            of = found.label
        small: Array = of.astype(np.uint16 if len(keys) < 2**16 else np.uint32)
        order = np.argsort(small, kind="stable") if len(keys) > _LOOKED_FOR else None
        counts = np.bincount(small, minlength=len(keys)).tolist()
        cells = []
        begin = 0
        for i, number in enumerate(keys.tolist()):
            rest, bucket = divmod(number, 256)
            rest, name = divmod(rest, len(found.names))
            label, stage = divmod(rest, 8)
            end = begin + counts[i]
            held = None if order is None else order[begin:end]
            cells.append(_Cell(label, stage, name, bucket, counts[i], held, i, small))
            begin = end
        return small, cells

    def _judge(self, number: int, cell: _Cell) -> None:
        """Which outermost steps of a cell are over OVER times its median, and whether passes explain them."""
        mine = cell.at
        length = self.stop[mine] - self.start[mine]
        median = self.medians[number] = quantile(length, 0.5)
        outer = self.outer[mine]
        if not bool(np.any(outer)):
            return
        self.judged[mine[outer]] = _ORDINARY
        over = outer & (length > OVER * median)
        at = mine[over]
        overlap = self.process.pauses.union.overlap(self.start[at], self.stop[at])
        explained = (overlap > 0) & (2 * overlap >= length[over] - median)
        self.judged[at] = np.where(explained, _EXPLAINED, _REST)
        self.counts[number] = (
            int(np.count_nonzero(outer)),
            len(at),
            int(np.count_nonzero(explained)),
            int(np.count_nonzero((overlap > 0) & ~explained)),
        )

    def _excess(self, cell: _Cell) -> float:
        """ns by which steps that no pass explains are longer than the mean of the ordinary ones."""
        at = cell.at
        judged = self.judged[at]
        if not bool(np.any(judged == _REST)):
            return 0.0
        length = self.stop[at] - self.start[at]
        rest, ordinary = length[judged == _REST], length[judged == _ORDINARY]
        return float(rest.sum() - len(rest) * _mean(int(ordinary.sum()), len(ordinary)))

    # --- groups ----------------------------------------------------------------------
    def groups(self, medians: Medians) -> list[Group]:
        """The rows of this process, those with most time first. Adds its medians for the runs' offsets."""
        rows: dict[tuple[int, int, int, tuple[int, int]], list[int]] = defaultdict(list)
        for number, cell in enumerate(self.cells):
            rows[(cell.label, cell.stage, cell.name, shown(cell.bucket))].append(number)
            self._add_median(number, cell, medians)
        found = [self._group(key, numbers) for key, numbers in rows.items()]
        return sorted(found, key=lambda group: (-group.total, group.label, group.batch_low))

    def _group(self, key: tuple[int, int, int, tuple[int, int]], numbers: list[int]) -> Group:
        label, stage, name, (low, high) = key
        every = [self.cells[n].at for n in numbers]
        at = np.concatenate(every) if len(every) > 1 else every[0]
        length = self.stop[at] - self.start[at]
        p50, p99, longest = quantiles(length, (0.5, 0.99, 1.0))
        counts = [self.counts.get(n, (0, 0, 0, 0)) for n in numbers]
        return Group(
            run=self.run,
            process=self.process.name,
            pid=self.process.pid,
            label=self.told.texts[label],
            kind=int(self.kind[at[0]]),
            stage=told.STAGES[stage],
            batch_low=low,
            batch_high=high,
            name=self.told.names[name],
            count=len(at),
            total=int(length.sum()),
            p50=p50,
            p99=p99,
            longest=longest,
            compared=sum(c[0] for c in counts),
            over=sum(c[1] for c in counts),
            explained=sum(c[2] for c in counts),
            excess=round(sum(self._excess(self.cells[n]) for n in numbers if self.counts.get(n))),
        )

    def _add_median(self, number: int, cell: _Cell, medians: Medians) -> None:
        """Of outermost steps and of requests: what is nested would count a difference twice."""
        median = self.medians.get(number)
        if median is None or median <= 0:
            return
        at = cell.at
        kind = int(self.kind[at[0]])
        if kind == fmt.SPAN_SYNC and 2 * int(np.count_nonzero(self.outer[at])) < len(at):
            return
        key = Key(
            self.process.role,
            self.told.texts[cell.label],
            told.STAGES[cell.stage],
            self.told.names[cell.name],
            cell.bucket,
            kind == fmt.SPAN_SYNC,
        )
        length = self.stop[at] - self.start[at]
        parts = tuple(quantile(part, 0.5) for part in np.array_split(length, PARTS))
        medians[key][self.run].append((median, parts))

    # --- parts -----------------------------------------------------------------------
    def parts(self) -> tuple[list[Part], list[Over]]:
        """Where the time of the steps goes, and the excess of those that no pass explains."""
        tree = self.told.tree
        texts = self.told.texts
        if tree.flat:
            return [], [flat for label in self.compared if (flat := self._over(label, [])).over]
        n_parts = len(texts) + 1  # the last one: the step itself
        top = tree.which[tree.root]
        counted = np.flatnonzero(self.judged[top])
        top, at = top[counted], tree.which[counted]
        part = np.where(top == at, len(texts), self.told.label[at].astype(np.int64))
        key = (self.cell[top].astype(np.int64) * 4 + self.judged[top]) * n_parts + part
        del part
        sums = _sums(key, tree.own[counted], len(self.cells) * 4 * n_parts)
        by_cell: dict[int, dict[int, dict[int, tuple[int, int]]]] = defaultdict(lambda: defaultdict(dict))
        for combined, total, count in sums:
            rest, number = divmod(combined, n_parts)
            cell, judged = divmod(rest, 4)
            by_cell[cell][judged][number] = (total, count)
        steps: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(lambda: [0, 0, 0.0]))
        for cell, judged_parts in by_cell.items():
            step = steps[self.cells[cell].label]
            ordinary, rest_parts = judged_parts[_ORDINARY], judged_parts[_REST]
            n_ordinary = ordinary.get(len(texts), (0, 0))[1]
            n_rest = rest_parts.get(len(texts), (0, 0))[1]
            for number in {n for one in judged_parts.values() for n in one}:
                row = step[number]
                for one in judged_parts.values():
                    total, count = one.get(number, (0, 0))
                    row[0] += total
                    row[1] += count
                if n_rest:
                    usual = _mean(ordinary.get(number, (0, 0))[0], n_ordinary)
                    row[2] += rest_parts.get(number, (0, 0))[0] - n_rest * usual
        found: list[Part] = []
        over: list[Over] = []
        for label, by_part in steps.items():
            mine = self._parts_of(label, by_part)
            found += mine
            over.append(self._over(label, mine))
        return found, [step_over for step_over in over if step_over.over]

    def _parts_of(self, label: int, rows: dict[int, list[float]]) -> list[Part]:
        texts = self.told.texts
        total = sum(row[0] for row in rows.values())
        excess = sum(row[2] for row in rows.values())
        found = [
            Part(
                run=self.run,
                process=self.process.name,
                pid=self.process.pid,
                step=texts[label],
                part=texts[number] if number < len(texts) else "",
                count=int(row[1]),
                total=int(row[0]),
                share=row[0] / total if total else 0.0,
                excess=round(row[2]),
                excess_share=row[2] / excess if excess > 0 else None,
            )
            for number, row in rows.items()
        ]
        return sorted(found, key=lambda part: (-part.total, part.part))

    def _over(self, label: int, parts: list[Part]) -> Over:
        counts = [self.counts[n] for n in self.compared[label]]
        compared, over, explained, overlapped = (sum(c[i] for c in counts) for i in range(4))
        worst = max(parts, key=lambda part: part.excess, default=None)
        excess = sum(self._excess(self.cells[n]) for n in self.compared[label])
        return Over(
            run=self.run,
            process=self.process.name,
            pid=self.process.pid,
            step=self.told.texts[label],
            compared=compared,
            over=over,
            explained=explained,
            overlapped=overlapped,
            excess=round(excess),
            part=worst.part if worst else "",
            part_share=worst.excess_share if worst else None,
        )


def _mean(total: float, count: int) -> float:
    return total / count if count else 0.0


def _sums(key: Int64, values: Int64, size: int) -> list[tuple[int, int, int]]:
    """(key, sum of its values, how many) of each key that occurs."""
    if not len(key):
        return []
    if size > _DENSE:
        keys, key = np.unique(key, return_inverse=True)
    else:
        keys = np.arange(size)
    counts = np.bincount(key, minlength=len(keys))
    totals = np.bincount(key, weights=values, minlength=len(keys)).astype(np.int64)
    present = np.flatnonzero(counts)
    columns = (keys[present].tolist(), totals[present].tolist(), counts[present].tolist())
    return list(zip(*columns, strict=True))
