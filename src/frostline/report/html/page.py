"""Puts the page together: the verdict first, then the figures, then the tables of the text report."""

from __future__ import annotations

import json
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

_ASSETS = Path(__file__).parent / "assets"
_VERDICTS = {
    "collector": ("The collector", "bad"),
    "not-the-collector": ("Not the collector", "good"),
    "cannot-tell": ("Cannot tell", "unsure"),
}
#: Nothing is loaded from anywhere: the browser is told to refuse it.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def to_html(analysis: Analysis) -> str:
    """The whole page. Texts from the target are escaped, and stripped of what hides or turns text."""
    drawn = [*of_requests(analysis), *figures(analysis)]
    title = f"Frostline: {analysis.path.name}"
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        f"<title>{_text(title)}</title>",
        f"<style>{_asset('uplot.css')}\n{_asset('page.css')}</style></head><body>",
        *_head(analysis),
        "<main>",
        *_figures(drawn),
        *_blocks(report(analysis)),
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
                f'<p class="command"><code>{_text(first.command)}</code>'
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


def _figures(drawn: list[Figure]) -> Iterator[str]:
    yield '<section aria-label="Figures" class="figures">'
    for i, figure in enumerate(drawn):
        yield f'<figure class="{figure["kind"]}" aria-labelledby="title-{i}">'
        yield f'<h2 id="title-{i}">{_text(figure["title"])}</h2>'
        label = _text(f"{figure['title']}. {figure['caption']}")
        yield f'<div class="plot" id="figure-{i}" tabindex="0" role="img" aria-label="{label}"></div>'
        yield f"<figcaption>{_text(figure['caption'])}</figcaption></figure>"
    yield '<p class="quiet noprint">Drag to zoom, double-click for all of it; with the keyboard: focus a '
    yield "figure, arrows move, + and - zoom, 0 shows all.</p></section>"
    yield "<noscript><p>The figures need JavaScript; the tables do not.</p></noscript>"


def _blocks(blocks: Iterable[Block]) -> Iterator[str]:
    """The text report's blocks from the first table on; what stands before is in the head."""
    seen = False
    for block in blocks:
        if isinstance(block, Table):
            seen = True
            yield from _table(block.filled())
        elif seen and block.text:
            tag = "h2" if block.style == "headline" else "p"
            style = f' class="{block.style}"' if block.style else ""
            text = f"<code>{_text(block.text)}</code>" if block.style == "command" else _text(block.text)
            yield f"<{tag}{style}>{text}</{tag}>"


def _table(table: Table) -> Iterator[str]:
    yield f'<section><h2>{_text(table.title)}</h2><div class="wide" tabindex="0"><table><thead><tr>'
    for i, column in enumerate(table.columns):
        right = ' class="right"' if i in table.right else ""
        yield f'<th scope="col"{right} aria-sort="none"><button type="button">{_text(column)}</button></th>'
    yield "</tr></thead><tbody>"
    for row in table.rows:
        cells = "".join(
            f"<td{' class=right' if i in table.right else ''}>{_text(cell)}</td>"
            for i, cell in enumerate(row)
        )
        yield f"<tr>{cells}</tr>"
    yield "</tbody></table></div></section>"
