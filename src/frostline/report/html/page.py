"""Puts the page together: the verdict first, then the figures, then the tables of the text report."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping

from frostline.analysis import Analysis
from frostline.report.blocks import Block, Line, Table
from frostline.report.freezing import planned
from frostline.report.html.figures import Figure, figures
from frostline.report.html.parts import asset, command, document, heading, links, rendered, text
from frostline.report.html.requests import of_requests
from frostline.report.marks import RESTS, Note, letters, notes
from frostline.report.text import report
from frostline.report.words import seconds, sentence, short_paths

_VERDICTS = {
    "collector": ("The collector", "bad"),
    "not-the-collector": ("Not the collector", "good"),
    "cannot-tell": ("Cannot tell", "unsure"),
}
_ASIDE = re.compile(r"[:,(]")


def to_html(analysis: Analysis) -> str:
    """The whole page. Texts from the target are escaped, and stripped of what hides or turns text."""
    drawn = [*of_requests(analysis), *figures(analysis)]
    found = notes(analysis)
    said = {note.letter: note.texts[0] for note in found}
    printed = report(analysis)
    rests = next((b.letters for b in printed if isinstance(b, Line) and b.section == RESTS), ())
    blocks = list(_after_the_head(printed))
    body = [
        *_head(analysis, found, links(rests, said)),
        *_contents(blocks),
        "<main>",
        *_figures(drawn, found, said),
        *rendered(blocks, said, sorts=True),
        "</main>",
        f'<script type="application/json" id="data">{_json([_plain(figure) for figure in drawn])}</script>',
        f"<script>{asset('uplot.js')}</script><script>{asset('page.js')}</script>",
    ]
    about = "Figures are drawn with uPlot (MIT licence)."
    return document(f"Frostline: {analysis.path.name}", (asset("uplot.css"), asset("page.css")), body, about)


def _json(value: object) -> str:
    """JSON that cannot end the element it stands in."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def _plain(figure: Figure) -> Figure:
    return {key: value for key, value in figure.items() if key != "about"}


def _head(analysis: Analysis, found: tuple[Note, ...], marks: str) -> Iterator[str]:
    verdict = analysis.verdict
    word, style = _VERDICTS.get(verdict.kind, ("Cannot tell", "unsure"))
    yield f'<header class="verdict {style}"><p class="kind">{word}</p>'
    yield f"<h1>{text(sentence(verdict.sentence))}</h1>"
    for line in (*verdict.lines, *verdict.held):
        yield f"<p>{text(line[:1].upper() + line[1:])}</p>"
    ours = planned(analysis)
    if ours:
        yield f"<p>{text(ours)}</p>"
    yield f'<p class="basis">{_basis(analysis, found)}{marks}</p>'
    if analysis.advice:
        first = analysis.advice[0]
        yield f'<div class="next"><p><strong>Next.</strong> {text(short_paths(sentence(first.text)))}</p>'
        if first.how:
            yield f'<p class="quiet">How that was obtained: {text(first.how)}</p>'
        if first.command:
            yield (
                f'<p class="command"><code>{command(first.command)}</code>'
                '<button type="button" class="copy">Copy</button></p>'
            )
        yield "</div>"
    if found:
        yield '<aside class="doubts" id="doubts"><h2>Doubts about these numbers</h2><ul>'
        for note in found:
            yield from _items(note)
        yield "</ul></aside>"
    yield "</header>"


def _items(note: Note) -> Iterator[str]:
    """Entries of the list of doubts: of the losses of one name one each, and the first is linked to."""
    for i, words in enumerate(note.texts):
        id_ = "" if i else f' id="doubt-{note.letter}" tabindex="-1"'
        kind = "Not in the recording: " if note.loss else ""
        name = "" if note.loss else f" <code>{text(note.slug)}</code>"
        yield f"<li{id_}><b>{note.letter}</b> {kind}{text(words)}{name}</li>"


def _basis(analysis: Analysis, found: tuple[Note, ...]) -> str:
    """What the verdict rests on, and how much of it is in doubt."""
    verdict = analysis.verdict
    processes = len({(p.session, p.pid) for p in analysis.processes})
    missed = sum(m.python for m in analysis.missed)
    count = sum(len(note.texts) for note in found)
    doubts = f"{count:,} {'doubt' if count == 1 else 'doubts'}"
    steps = (
        f"{verdict.steps:,} steps and {verdict.requests:,} requests"
        if verdict.requests
        else f"{verdict.steps:,} steps"
    )
    state = "still running" if analysis.running else "ended"
    return (
        f"It rests on {processes:,} recorded {'process' if processes == 1 else 'processes'} "
        f"({missed:,} missed), {steps}, {seconds(analysis.stop - analysis.start)}, {state}; "
        + (f'<a href="#doubts">{doubts}</a>.' if found else f"{doubts}.")
    )


def _contents(blocks: list[Block]) -> Iterator[str]:
    """Links to the headings: on a phone the page is long."""
    yield '<nav aria-label="Contents" class="noprint"><a href="#figures">Figures</a>'
    for i, block in enumerate(blocks):
        if heading(block):
            yield f'<a href="#part-{i}">{text(_short(heading(block)))}</a>'
    yield "</nav>"


def _short(heading: str) -> str:
    """A heading without what it explains or counts."""
    return _ASIDE.split(heading, maxsplit=1)[0]


def _figures(drawn: list[Figure], found: tuple[Note, ...], said: Mapping[str, str]) -> Iterator[str]:
    yield '<section aria-label="Figures" class="figures" id="figures">'
    for i, figure in enumerate(drawn):
        yield f'<figure class="{figure["kind"]}" aria-labelledby="title-{i}">'
        yield f'<h2 id="title-{i}">{text(figure["title"])}</h2>'
        described = f'aria-labelledby="title-{i}" aria-describedby="caption-{i} keys"'
        yield f'<div class="plot" id="figure-{i}" tabindex="0" role="img" {described}></div>'
        marks = links(letters(found, *figure["about"]) if "about" in figure else (), said)
        yield f'<figcaption id="caption-{i}">{text(figure["caption"])}{marks}</figcaption></figure>'
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
