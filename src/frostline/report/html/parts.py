"""What every page is made of: its head, and lines and tables of a report, escaped and with their names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from html import escape
from pathlib import Path

from frostline import __version__
from frostline.report.blocks import Block, Letters, Table
from frostline.report.safe import safe

#: Rows of a table that are shown at first; page.js has the same number.
SHOWN = 300
_ASSETS = Path(__file__).parent / "assets"
#: Nothing is loaded from anywhere: the browser is told to refuse it.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def document(title: str, styles: Iterable[str], body: Iterable[str], about: str = "") -> str:
    """A whole page: styles and body as they are. ``about`` is a sentence for its foot."""
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        f"<title>{text(title)}</title>",
        "<style>" + "\n".join(styles) + "</style>",
        "<noscript><style>.rest { display: table-row-group; } .scripted { display: none; }</style>",
        "</noscript></head><body>",
        *body,
        f"<footer>Frostline {text(__version__)}. This file is complete: it loads nothing from anywhere. "
        f"{about}</footer>",
        "</body></html>",
    ]
    return "\n".join(parts)


def asset(name: str) -> str:
    """The text of a file that goes into a page."""
    return (_ASSETS / name).read_text(encoding="utf-8")


def text(words: str) -> str:
    """A text from anywhere, as a text and nothing else."""
    return escape(safe(words))


def command(words: str) -> str:
    """A command that is copied whole and broken between its words only."""
    return " ".join(f"<span>{text(word)}</span>" for word in words.split(" "))


def heading(block: Block) -> str:
    """What a block is the heading of; empty for others."""
    if isinstance(block, Table):
        return block.title
    return block.text if block.style == "headline" else ""


def links(letters: Letters, said: Mapping[str, str]) -> str:
    """Letters of doubts as links to them, which a screen reader reads out with the doubt itself.

    Args:
        said: letter -> the doubt in words, for a pointer that rests on it.
    """
    if not letters:
        return ""
    found = (
        f'<a href="#doubt-{one}" aria-label="doubt {one}" aria-describedby="doubt-{one}" '
        f'title="{text(said.get(one, ""))}">{one}</a>'
        for one in letters
    )
    return f'<sup class="marks">{" ".join(found)}</sup>'


def rendered(
    blocks: Iterable[Block], said: Mapping[str, str] | None = None, sorts: bool = False
) -> Iterator[str]:
    """Lines and tables. ``sorts``: the heads of tables are buttons, for page.js."""
    for i, block in enumerate(blocks):
        if isinstance(block, Table):
            yield from _table(block, i, said or {}, sorts)
            continue
        style = f' class="{block.style}"' if block.style else ""
        words = f"<code>{command(block.text)}</code>" if block.style == "command" else text(block.text)
        words += links(block.letters, said or {})
        if block.style == "headline":
            yield f'<h2 id="part-{i}">{words}</h2>'
        elif block.text:
            yield f"<p{style}>{words}</p>"


def _table(table: Table, number: int, said: Mapping[str, str], sorts: bool) -> Iterator[str]:
    named = f'aria-labelledby="part-{number}"'
    yield f'<section><h2 id="part-{number}">{text(table.title)}{links(table.noted, said)}</h2>'
    yield f'<div class="wide" role="region" tabindex="0" {named}><table {named}><thead><tr>'
    for i, column in enumerate(table.columns):
        right = ' class="right"' if i in table.right else ""
        sort, name = ' aria-sort="none"' if sorts else "", text(column)
        yield f'<th scope="col"{right}{sort}>' + (
            f'<button type="button">{name}</button></th>' if sorts else f"{name}</th>"
        )
    yield "</tr></thead><tbody>"
    above = ""
    for r, row in enumerate(table.rows):
        if r == SHOWN:  # thousands of rows take seconds to lay out: the script shows them on request
            yield '</tbody><tbody class="rest">' if sorts else "</tbody><tbody>"
        # Whose row it is must be known when the rows have been sorted, and to a screen reader.
        again = not row[0] and bool(above)
        above = row[0] or above
        cells = []
        for c, cell in enumerate(row):
            style = "right" if c in table.right else "again" if again and not c else ""
            words = _cell(cell if c else above)
            marks = links(table.letters.get((r, c), ()), said)
            words = f"{marks} {words}" if marks and c in table.right else f"{words}{marks}"
            cells.append(f"<td{f' class={style}' if style else ''}>{words}</td>")
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</tbody></table></div></section>"


def _cell(words: str) -> str:
    """A path may be broken after a slash, and is copied whole all the same."""
    return text(words).replace("/", "/<wbr>")
