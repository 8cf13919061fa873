"""What a report consists of: lines and tables, and two ways to draw them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TextIO

from frostline.report.safe import safe

if TYPE_CHECKING:
    from rich.console import Console as RichConsole
    from rich.table import Table as RichTable


#: Letters of doubts, explained under "Doubts".
Letters = tuple[str, ...]


def lettered(text: str, letters: Letters, after: bool = False) -> str:
    """``[a,b] 12.0``: doubts before a number, whose digits stay in line so, and after a text."""
    if not letters:
        return text
    shown = f"[{','.join(letters)}]"
    return f"{text} {shown}" if after else f"{shown} {text}"


@dataclass(frozen=True)
class Line:
    """A paragraph. ``style`` is for terminals: headline, good, bad, quiet or nothing.

    ``section`` and ``who`` say which numbers it holds, and whose, for ``letters``: the doubts about them.
    """

    text: str
    style: str = ""
    indent: int = 0
    section: str = ""
    who: str = ""
    letters: Letters = ()

    @property
    def shown(self) -> str:
        """Its text with its letters."""
        return lettered(self.text, self.letters, after=True)


@dataclass(frozen=True)
class Table:
    """``right`` are the columns to align right, by index: numbers, which are never cut or folded.

    ``spare`` are columns that a narrow terminal goes without, the first one first. ``section`` says which
    numbers it holds, ``keys`` whose each row is and, of a single pass, when it began (0: of none); without
    keys the first column says whose, an empty cell meaning the row above. ``letters`` are the doubts about
    the cell of a row and a column, ``noted`` those about all of it.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()
    spare: tuple[str, ...] = ()
    section: str = ""
    keys: tuple[tuple[str, int], ...] = ()
    letters: Mapping[tuple[int, int], Letters] = field(default_factory=dict)
    noted: Letters = ()

    @property
    def whose(self) -> tuple[tuple[str, int], ...]:
        """(name, instant) of each row."""
        if self.keys:
            return self.keys
        found: list[tuple[str, int]] = []
        above = ""
        for row in self.rows:
            above = row[0] or above
            found.append((above, 0))
        return tuple(found)

    @property
    def heading(self) -> str:
        """Its title with its letters."""
        return lettered(self.title, self.noted, after=True)

    def cells(self, ascii_only: bool) -> list[list[str]]:
        """Its heads and its rows as they are printed, letters and all."""
        rows = [
            [
                lettered(text, self.letters.get((r, c), ()), after=c not in self.right)
                for c, text in enumerate(row)
            ]
            for r, row in enumerate(self.rows)
        ]
        return [[safe(text, ascii_only) for text in row] for row in (self.columns, *rows)]

    def without(self, names: Iterable[str]) -> Table:
        """The table without these columns."""
        gone = set(names)
        kept = [i for i, column in enumerate(self.columns) if column not in gone]
        return replace(
            self,
            columns=tuple(self.columns[i] for i in kept),
            rows=tuple(tuple(row[i] for i in kept) for row in self.rows),
            right=frozenset(at for at, i in enumerate(kept) if i in self.right),
            letters={(r, kept.index(c)): some for (r, c), some in self.letters.items() if c in kept},
        )

    def filled(self) -> Table:
        """The table without its spare columns that hold nothing at all."""
        empty = [c for i, c in enumerate(self.columns) if not any(row[i] for row in self.rows)]
        return self.without(c for c in empty if c in self.spare)


Block = Line | Table

_STYLES = {"headline": "bold", "good": "green", "bad": "yellow", "quiet": "dim", "command": "bold cyan"}


def plain(blocks: Iterable[Block]) -> Iterator[str]:
    """Lines of ASCII, of any width: for pipes, logs and NO_COLOR."""
    for block in blocks:
        if isinstance(block, Line):
            yield " " * block.indent + safe(block.shown, ascii_only=True)
            continue
        block = block.filled()
        yield ""
        if block.title:
            yield safe(block.heading, ascii_only=True)
        cells = block.cells(ascii_only=True)
        widths = [max(len(row[i]) for row in cells) for i in range(len(block.columns))]
        for row in cells:
            parts = [
                text.rjust(width) if i in block.right else text.ljust(width)
                for i, (text, width) in enumerate(zip(row, widths, strict=True))
            ]
            yield ("  " + "  ".join(parts)).rstrip()


def write(blocks: Iterable[Block], stream: TextIO) -> None:
    """Draws for a terminal with rich, and plainly everywhere else."""
    # https://no-color.org: set and not empty.
    if not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        for line in plain(blocks):
            stream.write(line + "\n")
        return
    _write_rich(blocks, stream)


def _write_rich(blocks: Iterable[Block], stream: TextIO) -> None:
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    console = Console(file=stream, highlight=False, markup=False, emoji=False)
    utf8 = (stream.encoding or "").lower().replace("-", "") == "utf8"
    for block in blocks:
        if isinstance(block, Line):
            # Text, not str: a title with [markup] in it stays what it is.
            text = Text(safe(block.shown, not utf8), style=_STYLES.get(block.style, ""))
            if block.style == "command":  # the terminal may wrap it: it is there to be copied
                console.print(Text(" " * block.indent) + text, soft_wrap=True)
            else:
                console.print(Padding(text, (0, 0, 0, block.indent)))
            continue
        drawn, width = _fit(block.filled(), console.width, utf8)
        Console(
            file=stream,
            width=width,
            highlight=False,
            markup=False,
            emoji=False,
            color_system=_colors(console),
        ).print(drawn)


def _colors(console: RichConsole) -> Literal["auto"] | None:
    return None if console.color_system is None else "auto"


#: A column of text is folded to no less than this.
_FOLDED = 20
_FIRST = 24


def _fit(block: Table, width: int, utf8: bool) -> tuple[RichTable, int]:
    """The table for a terminal of ``width``: text is folded, then spare columns are left out.

    Numbers stay whole. Where that is not enough it is wider than the terminal, which wraps it.
    """
    cells = block.cells(not utf8)
    natural = [max(len(row[i]) for row in cells) for i in range(len(block.columns))]
    least = [
        size if i in block.right else min(size, _FOLDED if i else _FIRST) for i, size in enumerate(natural)
    ]
    gap = 2  # one divider, one blank
    room = width - gap * (len(natural) - 1) - 2
    left_out: list[str] = []
    kept = list(range(len(natural)))
    for name in block.spare:
        if sum(least[i] for i in kept) <= room:
            break
        if name in block.columns:
            kept.remove(block.columns.index(name))
            left_out.append(name)
            room += gap
    for name in reversed(left_out[:-1]):  # a wide one is out: a narrow one may fit after all
        i = block.columns.index(name)
        if sum(least[k] for k in kept) + least[i] + gap <= room:
            kept = sorted([*kept, i])
            left_out.remove(name)
            room -= gap
    widths = {i: natural[i] for i in kept}
    while sum(widths.values()) > room:
        widest = max(kept, key=lambda i: widths[i] - least[i])
        if widths[widest] <= least[widest]:
            break
        widths[widest] -= 1
    return _rich_table(block, cells, widths, left_out, utf8), max(width, width - room + sum(widths.values()))


def _rich_table(
    block: Table, cells: list[list[str]], widths: dict[int, int], left_out: list[str], utf8: bool
) -> RichTable:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    title = Text(safe(block.heading, not utf8), style="bold")
    if left_out:
        title.append(f" (too narrow for: {', '.join(left_out)})", style="dim")
    table = RichTable(
        title=title if block.title else None,
        title_justify="left",
        box=box.SIMPLE_HEAD if utf8 else box.ASCII,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for i, width in widths.items():
        right = i in block.right
        table.add_column(
            cells[0][i],
            justify="right" if right else "left",
            no_wrap=right,
            overflow="fold",
            min_width=width,
            max_width=width,
        )
    for row in cells[1:]:
        table.add_row(*(Text(row[i]) for i in widths))
    return table
