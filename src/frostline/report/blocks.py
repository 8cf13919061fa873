"""What a report consists of: lines and tables, and two ways to draw them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TextIO

from frostline.report.safe import safe


@dataclass(frozen=True)
class Line:
    """A paragraph. ``style`` is for terminals: headline, good, bad, quiet or nothing."""

    text: str
    style: str = ""
    indent: int = 0


@dataclass(frozen=True)
class Table:
    """``right`` are the columns to align right, by index."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()


Block = Line | Table

_STYLES = {"headline": "bold", "good": "green", "bad": "yellow", "quiet": "dim", "command": "bold cyan"}


def plain(blocks: Iterable[Block]) -> Iterator[str]:
    """Lines of ASCII, of any width: for pipes, logs and NO_COLOR."""
    for block in blocks:
        if isinstance(block, Line):
            yield " " * block.indent + safe(block.text, ascii_only=True)
            continue
        yield ""
        if block.title:
            yield safe(block.title, ascii_only=True)
        rows = [block.columns, *block.rows]
        cells = [[safe(text, ascii_only=True) for text in row] for row in rows]
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
    from rich import box
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console(file=stream, highlight=False, markup=False, emoji=False)
    utf8 = (stream.encoding or "").lower().replace("-", "") == "utf8"
    for block in blocks:
        if isinstance(block, Line):
            # Text, not str: a title with [markup] in it stays what it is.
            text = Text(safe(block.text, not utf8), style=_STYLES.get(block.style, ""))
            console.print(Padding(text, (0, 0, 0, block.indent)))
            continue
        title = Text(safe(block.title, not utf8), style="bold") if block.title else None
        table = RichTable(
            title=title, title_justify="left", box=box.SIMPLE_HEAD if utf8 else box.ASCII, pad_edge=False
        )
        for i, column in enumerate(block.columns):
            right = i in block.right
            table.add_column(
                column, justify="right" if right else "left", no_wrap=right or i == 0, overflow="fold"
            )
        for row in block.rows:
            table.add_row(*(Text(safe(text, not utf8)) for text in row))
        console.print(table)
