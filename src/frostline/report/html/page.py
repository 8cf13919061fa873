"""Puts the page together: the verdict first, then the figures, then the tables of the text report."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path

from frostline import __version__
from frostline.analysis import Analysis
from frostline.report.blocks import Block, Table
from frostline.report.freezing import planned
from frostline.report.html.figures import Figure, figures
from frostline.report.html.requests import of_requests
from frostline.report.safe import safe
from frostline.report.text import report
from frostline.report.words import seconds, sentence, short_paths

#: Rows of a table that are shown at first; page.js has the same number.
SHOWN = 300
_ASSETS = Path(__file__).parent / "assets"
_VERDICTS = {
    "collector": ("The collector", "bad"),
    "not-the-collector": ("Not the collector", "good"),
    "cannot-tell": ("Cannot tell", "unsure"),
}
_ASIDE = re.compile(r"[:,(]")
#: Nothing is loaded from anywhere: the browser is told to refuse it.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def to_html(analysis: Analysis) -> str:
    """The whole page. Texts from the target are escaped, and stripped of what hides or turns text."""
    drawn = [*of_requests(analysis), *figures(analysis)]
    blocks = list(_after_the_head(report(analysis)))
    title = f"Frostline: {analysis.path.name}"
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        f"<title>{_text(title)}</title>",
        f"<style>{_asset('uplot.css')}\n{_asset('page.css')}</style>",
        "<noscript><style>.rest { display: table-row-group; }</style></noscript></head><body>",
        *_head(analysis),
        *_contents(blocks),
        "<main>",
        *_figures(drawn),
        *_blocks(blocks),
        "</main>",
        f"<footer>Frostline {_text(__version__)}. This file is complete: it loads nothing from anywhere. "
        "Figures are drawn with uPlot (MIT licence).</footer>",
        f'<script type="application/json" id="data">{_json(drawn)}</script>',
        f"<script>{_asset('uplot.js')}</script><script>{_asset('page.js')}</script>",
        "</body></html>",
    ]
    return "\n".join(parts)


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _text(text: str) -> str:
    return escape(safe(text))


def _json(value: object) -> str:
    """JSON that cannot end the element it stands in."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def _head(analysis: Analysis) -> Iterator[str]:
    verdict = analysis.verdict
    word, style = _VERDICTS.get(verdict.kind, ("Cannot tell", "unsure"))
    yield f'<header class="verdict {style}"><p class="kind">{word}</p>'
    yield f"<h1>{_text(sentence(verdict.sentence))}</h1>"
    for line in (*verdict.lines, *verdict.held):
        yield f"<p>{_text(line[:1].upper() + line[1:])}</p>"
    ours = planned(analysis)
    if ours:
        yield f"<p>{_text(ours)}</p>"
    yield f'<p class="basis">{_text(_basis(analysis))}</p>'
    if analysis.advice:
        first = analysis.advice[0]
        yield f'<div class="next"><p><strong>Next.</strong> {_text(short_paths(sentence(first.text)))}</p>'
        if first.how:
            yield f'<p class="quiet">How that was obtained: {_text(first.how)}</p>'
        if first.command:
            yield (
                f'<p class="command"><code>{_command(first.command)}</code>'
                '<button type="button" class="copy">Copy</button></p>'
            )
        yield "</div>"
    if analysis.doubts or analysis.losses:
        yield '<aside class="doubts"><h2>Doubts about these numbers</h2><ul>'
        for doubt in analysis.doubts:
            yield f"<li>{_text(doubt.text)} <code>{_text(doubt.slug)}</code></li>"
        for loss in analysis.losses:
            who = f"pid {loss.pid}: " if loss.pid else ""
            yield f"<li>Not in the recording: {_text(f'{who}{loss}')}</li>"
        yield "</ul></aside>"
    yield "</header>"


def _basis(analysis: Analysis) -> str:
    """What the verdict rests on, and how much of it is in doubt."""
    verdict = analysis.verdict
    processes = len({(p.session, p.pid) for p in analysis.processes})
    missed = sum(m.python for m in analysis.missed)
    doubts = len(analysis.doubts) + len(analysis.losses)
    steps = (
        f"{verdict.steps:,} steps and {verdict.requests:,} requests"
        if verdict.requests
        else f"{verdict.steps:,} steps"
    )
    state = "still running" if analysis.running else "ended"
    return (
        f"It rests on {processes:,} recorded {'process' if processes == 1 else 'processes'} "
        f"({missed:,} missed), {steps}, {seconds(analysis.stop - analysis.start)}, {state}; {doubts:,} "
        f"{'doubt' if doubts == 1 else 'doubts'}."
    )


def _contents(blocks: list[Block]) -> Iterator[str]:
    """Links to the headings: on a phone the page is long."""
    yield '<nav aria-label="Contents" class="noprint"><a href="#figures">Figures</a>'
    for i, block in enumerate(blocks):
        if _heading(block):
            yield f'<a href="#part-{i}">{_text(_short(_heading(block)))}</a>'
    yield "</nav>"


def _heading(block: Block) -> str:
    if isinstance(block, Table):
        return block.title
    return block.text if block.style == "headline" else ""


def _short(heading: str) -> str:
    """A heading without what it explains or counts."""
    return _ASIDE.split(heading, maxsplit=1)[0]


def _cell(text: str) -> str:
    """A path may be broken after a slash, and is copied whole all the same."""
    return _text(text).replace("/", "/<wbr>")


def _command(text: str) -> str:
    return " ".join(f"<span>{_text(word)}</span>" for word in text.split(" "))


def _figures(drawn: list[Figure]) -> Iterator[str]:
    yield '<section aria-label="Figures" class="figures" id="figures">'
    for i, figure in enumerate(drawn):
        yield f'<figure class="{figure["kind"]}" aria-labelledby="title-{i}">'
        yield f'<h2 id="title-{i}">{_text(figure["title"])}</h2>'
        described = f'aria-labelledby="title-{i}" aria-describedby="caption-{i} keys"'
        yield f'<div class="plot" id="figure-{i}" tabindex="0" role="img" {described}></div>'
        yield f'<figcaption id="caption-{i}">{_text(figure["caption"])}</figcaption></figure>'
    yield '<p class="quiet noprint" id="keys">Drag to zoom, double-click for all of it; with the keyboard: '
    yield "focus a figure, arrows move, + and - zoom, 0 shows all.</p></section>"
    yield "<noscript><p>The figures need JavaScript; the tables do not.</p></noscript>"


def _after_the_head(blocks: Iterable[Block]) -> Iterator[Block]:
    """The text report's blocks from the first table on; what stands before is in the head."""
    seen = False
    for block in blocks:
        seen = seen or isinstance(block, Table)
        if isinstance(block, Table):
            yield block.filled()
        elif seen and block.text:
            yield block


def _blocks(blocks: list[Block]) -> Iterator[str]:
    for i, block in enumerate(blocks):
        if isinstance(block, Table):
            yield from _table(block, i)
            continue
        style = f' class="{block.style}"' if block.style else ""
        text = f"<code>{_command(block.text)}</code>" if block.style == "command" else _text(block.text)
        if block.style == "headline":
            yield f'<h2 id="part-{i}">{text}</h2>'
        else:
            yield f"<p{style}>{text}</p>"


def _table(table: Table, number: int) -> Iterator[str]:
    named = f'aria-labelledby="part-{number}"'
    yield f'<section><h2 id="part-{number}">{_text(table.title)}</h2>'
    yield f'<div class="wide" role="region" tabindex="0" {named}><table {named}><thead><tr>'
    for i, column in enumerate(table.columns):
        right = ' class="right"' if i in table.right else ""
        yield f'<th scope="col"{right} aria-sort="none"><button type="button">{_text(column)}</button></th>'
    yield "</tr></thead><tbody>"
    above = ""
    for n, row in enumerate(table.rows):
        if n == SHOWN:  # thousands of rows take seconds to lay out: the script shows them on request
            yield '</tbody><tbody class="rest">'
        # Whose row it is must be known when the rows have been sorted, and to a screen reader.
        again = not row[0] and bool(above)
        above = row[0] or above
        cells = [f"<td{' class=again' if again else ''}>{_cell(above if again else row[0])}</td>"]
        cells += [
            f"<td{' class=right' if i in table.right else ''}>{_cell(cell)}</td>"
            for i, cell in enumerate(row)
            if i
        ]
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</tbody></table></div></section>"
