"""Doubts and losses beside the numbers that they touch: a letter in the row, the words under "Doubts".

Which numbers a doubt touches is the analysis's to say (``doubtmodel.TOUCHES``); in which cells such numbers
stand is said here. One about processes stands in their rows, one about the session as a whole beside the
table's title. What finds no such cell stands beside the process's own row, or else beside the line that says
what all of it rests on: none is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from frostline.analysis import Analysis
from frostline.analysis import doubtmodel as kinds
from frostline.analysis.doubts import whose
from frostline.recording import Loss
from frostline.report.blocks import Block, Letters, Line, Table

#: Sections that marks are looked for in: those of tables, and of lines (which have no columns).
PROCESSES, PASSES, FULL, STEPS, SLOW = "processes", "passes", "full passes", "steps", "slow steps"
GAPS, CAUSES, LONGEST_GAPS = "gaps", "causes of gaps", "longest gaps"
REQUESTS, JOINED, FREEZING, STATE, HOST = "requests", "passes in requests", "freezing", "state", "host"
LONGEST, RESTS = "longest pause", "what it rests on"

#: Kind of number -> section -> columns in which such numbers stand.
CELLS: dict[str, dict[str, tuple[str, ...]]] = {
    kinds.PASSES: {PROCESSES: ("passes",), PASSES: ("count",)},
    # Which generations they are in is seen by the column that other rows leave empty.
    kinds.PAUSES: {PROCESSES: ("longest ms", "paused"), PASSES: ("callbacks ms",), LONGEST: ()},
    kinds.SINGLE: {FULL: ("pause ms",)},
    kinds.WALKED: {PASSES: ("walked",), FULL: ("walked",)},
    kinds.SPANS: {PROCESSES: ("spans",), STEPS: ("count",), GAPS: ("gaps",)},
    kinds.LABELS: {STEPS: ("span",)},
    kinds.LENGTHS: {STEPS: ("max",)},
    kinds.ACROSS: {
        SLOW: ("verdict",),
        GAPS: ("consistent",),
        CAUSES: ("chance",),
        LONGEST_GAPS: ("verdict",),
    },
    kinds.FROZEN: {FREEZING: ("objects",), STATE: ("frozen",)},
    kinds.POLICY: {PROCESSES: ("policy",)},
    kinds.RECORDED: {PROCESSES: ("recorded",)},
    kinds.HOST: {HOST: ("CPU %",)},
    kinds.REQUESTS: {REQUESTS: ("ms",)},
    kinds.QUANTILES: {REQUESTS: ("p99", "max")},
    kinds.COUNTED: {REQUESTS: ("count",)},
    kinds.JOINED: {REQUESTS: ("touched",), JOINED: ("touched", "slow: half covered")},
    kinds.SESSION: {RESTS: ()},
}


@dataclass(frozen=True)
class Note:
    """A doubt, or the losses of one name, with its letter."""

    letter: str
    slug: str
    #: Whose numbers it touches, by name; and whether it is (also) about the session as a whole.
    about: frozenset[str]
    whole: bool
    #: When the passes began that it is about, ns; empty where it is not about single ones.
    at: frozenset[int]
    #: In words: of a doubt its text, of losses an entry each.
    texts: tuple[str, ...]
    loss: bool = False

    def touches(self, which: Collection[str], names: Collection[str]) -> bool:
        """Whether it is about one of these kinds of numbers of one of these processes."""
        return self._kinds(which) and (self.whole or not self.about.isdisjoint(names))

    def columns(self, section: str) -> tuple[str, ...] | None:
        """Where such numbers stand in a section; None if they do not."""
        found = [CELLS[kind][section] for kind in self._touched if section in CELLS.get(kind, {})]
        return tuple(column for columns in found for column in columns) if found else None

    @property
    def _touched(self) -> tuple[str, ...]:
        return kinds.TOUCHES.get(self.slug, ())

    def _kinds(self, which: Collection[str]) -> bool:
        return any(kind in which for kind in self._touched)


def notes(analysis: Analysis) -> tuple[Note, ...]:
    """Everything that has a letter: the doubts, then the losses by name, in their order."""
    found = [
        Note("", one.slug, frozenset(one.about), not one.about, frozenset(one.at), (one.text,))
        for one in analysis.doubts
    ]
    by_name: dict[str, list[Loss]] = {}
    for loss in analysis.losses:
        by_name.setdefault(loss.slug, []).append(loss)
    for slug, losses in by_name.items():
        known = [loss for loss in losses if loss.pid]
        about = frozenset(whose(known, analysis.processes))
        texts = tuple(f"{f'pid {loss.pid}: ' if loss.pid else ''}{loss}" for loss in losses)
        whole = len(known) < len(losses) or not about
        found.append(Note("", slug, about, whole, frozenset(), texts, loss=True))
    return tuple(replace(note, letter=letter(i)) for i, note in enumerate(found))


def letter(number: int) -> str:
    """``a`` to ``z``, then ``aa``, ``ab``, as the columns of a spreadsheet."""
    text = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(97 + rest) + text
    return text


def letters(found: Iterable[Note], which: Collection[str], names: Collection[str]) -> Letters:
    """Letters of the doubts about these kinds of numbers of these processes."""
    return tuple(note.letter for note in found if note.touches(which, names))


def marked(blocks: Iterable[Block], found: tuple[Note, ...]) -> list[Block]:
    """The blocks with their letters."""
    every = list(blocks)
    if not found:
        return every
    placed: set[str] = set()
    every = [_table(b, found, placed) if isinstance(b, Table) else _line(b, found, placed) for b in every]
    left = [note for note in found if note.letter not in placed]
    every = [_own_row(b, left, placed) if isinstance(b, Table) else b for b in every]
    rest = tuple(note.letter for note in left if note.letter not in placed)
    return [
        replace(block, letters=(*block.letters, *rest))
        if isinstance(block, Line) and block.section == RESTS
        else block
        for block in every
    ]


def _table(table: Table, found: Iterable[Note], placed: set[str]) -> Table:
    cells: dict[tuple[int, int], Letters] = {}
    noted: Letters = ()
    for note in found:
        columns = note.columns(table.section)
        if columns is None:
            continue
        if note.whole:
            noted += (note.letter,)
            placed.add(note.letter)
        where = [i for i, column in enumerate(table.columns) if column in columns]
        _cells(table, note, where, cells, placed)
    return replace(table, letters=cells, noted=noted)


def _cells(
    table: Table, note: Note, where: list[int], cells: dict[tuple[int, int], Letters], placed: set[str]
) -> None:
    for r, (name, at) in enumerate(table.whose):
        if name not in note.about or (note.at and at not in note.at):
            continue
        for c in where:
            if table.rows[r][c]:  # an empty cell has no number to doubt
                cells[r, c] = (*cells.get((r, c), ()), note.letter)
                placed.add(note.letter)


def _own_row(table: Table, left: Iterable[Note], placed: set[str]) -> Table:
    """Of the table of processes: the names of those that doubts are about which stand nowhere else."""
    if table.section != PROCESSES:
        return table
    cells = dict(table.letters)
    for note in left:
        _cells(table, replace(note, at=frozenset()), [0], cells, placed)
    return replace(table, letters=cells)


def _line(line: Line, found: Iterable[Note], placed: set[str]) -> Line:
    if not line.section:
        return line
    mine = [note for note in found if note.columns(line.section) is not None]
    mine = [note for note in mine if note.whole or line.who in note.about]
    placed.update(note.letter for note in mine)
    return replace(line, letters=tuple(note.letter for note in mine))
