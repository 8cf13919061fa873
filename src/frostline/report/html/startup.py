"""The page of ``frostline startup``: icicles of each process's imports, then the tables; works offline."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html import escape

from frostline.analysis.startup import Import, Passes, StartUp
from frostline.analysis.verdict import milliseconds as ms
from frostline.report.blocks import Table
from frostline.report.html.parts import asset, document, rendered, text
from frostline.report.safe import safe
from frostline.report.startup import PROCESSES, headline, pass_words, startup
from frostline.report.words import seconds

WIDTH, ROW = 1160, 19
#: Narrower boxes are drawn as one, "n smaller".
_LEAST = 1.5
_LETTER = 6.7
_DEEPEST = 40
_ROWS = 100

_STYLE = """
body { max-width: 78rem; }
h3 { font-size: 1rem; margin: .8rem 0 .4rem; }
svg.icicle {
  width: 100%; min-width: 68rem; height: auto;
  font: 11px ui-monospace, "DejaVu Sans Mono", Consolas, monospace;
}
svg.icicle rect { stroke: var(--back); stroke-width: 1; }
svg.icicle text { fill: var(--fore); pointer-events: none; }
:root { --b0: #b9cfe6; --b1: #c9dcb8; --b2: #e3d3b0; --b3: #d4c6e6;
    --outside: #d5dce3; --rest: #e9edf1; --fullpass: #ee9a90; }
svg.icicle .here rect { stroke: var(--link); stroke-width: 3; }
.told { min-height: 1.6em; }
@media screen and (prefers-color-scheme: dark) {
  :root { --b0: #2d4f73; --b1: #3a5a2c; --b2: #5e4d22; --b3: #4d3a6b;
    --outside: #3b4651; --rest: #2a333c; --fullpass: #96342a; }
}
.b0 { fill: var(--b0); background: var(--b0); } .b1 { fill: var(--b1); background: var(--b1); }
.b2 { fill: var(--b2); background: var(--b2); } .b3 { fill: var(--b3); background: var(--b3); }
.outside { fill: var(--outside); background: var(--outside); } .rest { fill: var(--rest); }
.full { fill: var(--fullpass); background: var(--fullpass); }
.scroll { overflow-x: auto; }
@media print { .scroll { overflow: visible; } svg.icicle { min-width: 0; } }
.key span {
  display: inline-block; width: 1em; height: 1em; margin: 0 .3em 0 1em; vertical-align: -.15em;
  border: 1px solid var(--rule);
}
"""


@dataclass
class _Box:
    """A rectangle of the icicle, with what it says."""

    name: str
    told: str
    style: str
    #: Of the measure that is drawn: its own, and with its children.
    own: float
    children: list[_Box] = field(default_factory=list)
    all: float = 0


def to_html(found: list[StartUp], title: str, command: str) -> str:
    """The whole page. Texts from the target are escaped, and stripped of what hides or turns text."""
    body = [
        f"<header><h1>Where the start-up heap comes from</h1><p><code>{text(command)}</code></p></header>",
        "<main>",
        *_figures(found),
        *rendered(block.filled() if isinstance(block, Table) else block for block in startup(found, _ROWS)),
        "</main>",
        f"<script>{asset('icicle.js')}</script>",
    ]
    return document(title, (asset("page.css"), _STYLE), body)


def _figures(found: list[StartUp]) -> Iterator[str]:
    yield '<p class="key quiet"><span class="b0"></span><span class="b1"></span>an import, by its package'
    yield '<span class="full"></span>a full pass ran in it itself'
    yield '<span class="outside"></span>no import. A box stands under the import that caused it; '
    yield "rest the pointer on it for its figures.</p>"
    yield '<p class="quiet scripted noprint">With the keyboard: focus an icicle, arrows move (down to the '
    yield "widest box below), Home leads to the first; with a finger, touch a box.</p>"
    for one in found[:PROCESSES]:
        yield f"<section><h2>{text(one.process.name)}</h2>"
        if one.counted:
            yield "<h3>By tracked objects added</h3>"
            yield from _icicle(
                one, lambda module: max(0, module.objects), lambda phase: max(0, phase), "objects"
            )
        yield "<h3>By time</h3>"
        yield from _icicle(one, lambda module: module.own_time, None, "time")
        yield "</section>"


def _icicle(
    one: StartUp,
    measure: Callable[[Import], float],
    of_objects: Callable[[int], float] | None,
    what: str,
) -> Iterator[str]:
    boxes = [_boxes(top, one, measure) for top in one.imports]
    for phase in one.phases:
        own = of_objects(phase.objects) if of_objects is not None else phase.time
        told = _told(f"{phase.name}: no import", one, phase.objects, None, phase.time, phase.passes)
        boxes.append(_Box(phase.name, told, _style(phase.passes, "outside"), own))
    root = _Box("all of start-up", headline(one), "outside", 0, boxes)
    _add_up(root)
    if not root.all:
        yield '<p class="quiet">Nothing to draw.</p>'
        return
    drawn: list[str] = []
    depth = _draw(root, drawn)
    height = (depth + 1) * ROW
    label = f'aria-label="{text(f"Icicle of {one.process.name} by {what}")}"'
    yield f'<div class="scroll" role="region" tabindex="0" {label}>'
    yield f'<svg class="icicle" viewBox="0 0 {WIDTH} {height}" role="img" {label}>'
    yield "\n".join(drawn)
    yield '</svg></div><p class="told quiet scripted noprint" role="status"></p>'


def _boxes(top: Import, one: StartUp, measure: Callable[[Import], float]) -> _Box:
    """The boxes of one import of the top, without recursion."""
    root = _box(top, one, measure)
    waiting = [(top, root)]
    while waiting:
        module, box = waiting.pop()
        for child in module.children:
            below = _box(child, one, measure)
            box.children.append(below)
            waiting.append((child, below))
    return root


def _box(module: Import, one: StartUp, measure: Callable[[Import], float]) -> _Box:
    package = sum(module.module.partition(".")[0].encode("utf-8", "replace")) % 4
    told = _told(module.module, one, module.all_objects, module.objects, module.time, module.all_passes)
    return _Box(module.module, told, _style(module.passes, f"b{package}"), float(measure(module)))


def _style(passes: Passes, otherwise: str) -> str:
    return "full" if passes.counts[2] else otherwise


def _told(name: str, one: StartUp, grown: int, own: int | None, time: int, passes: Passes) -> str:
    parts = [ms(time) if time < 10**10 else seconds(time)]
    if one.counted:
        parts.append(f"{grown:,} objects at most" + (f", {own:,} of its own" if own is not None else ""))
    return f"{name}\n{'; '.join(parts)}\n{pass_words(passes)}"


def _add_up(root: _Box) -> None:
    order = [root]
    for box in order:
        order.extend(box.children)
    for box in reversed(order):
        box.all = box.own + sum(child.all for child in box.children)


def _draw(root: _Box, out: list[str]) -> int:
    """Appends the rectangles; returns the deepest level."""
    scale = WIDTH / root.all
    deepest = 0
    #: (box, where it begins, how deep it is, which rectangle it stands under)
    waiting: list[tuple[_Box, float, int, int]] = [(root, 0.0, 0, -1)]
    while waiting:
        box, left, level, above = waiting.pop()
        deepest = max(deepest, level)
        own = len(out)
        _rectangle(out, left, level, above, box.all * scale, box.style, box.name, box.told)
        if level + 1 >= _DEEPEST:
            continue
        small, count = 0.0, 0
        for child in box.children:
            width = child.all * scale
            if width < _LEAST:
                small, count = small + width, count + 1
                continue
            waiting.append((child, left, level + 1, own))
            left += width
        if small >= _LEAST:
            deepest = max(deepest, level + 1)
            told = f"{count:,} smaller ones under {box.name}"
            _rectangle(out, left, level + 1, own, small, "rest", f"{count:,} smaller", told)
    return deepest


def _rectangle(
    out: list[str], left: float, level: int, above: int, width: float, style: str, name: str, told: str
) -> None:
    fits = int((width - 6) / _LETTER)
    shown = safe(name)
    if len(shown) > fits:
        # Of a module's name the end tells more: its package stands above it.
        cut = f"{shown[: fits - 2]}.." if " " in shown else f"..{shown[len(shown) - fits + 2 :]}"
        shown = cut if fits >= 6 else ""
    top = level * ROW
    # line by line: safe() takes the line ends out
    title = "&#10;".join(text(line) for line in told.split("\n"))
    place = f'x="{left:.1f}" y="{top}" width="{max(width, 0.5):.1f}" height="{ROW}"'
    out.append(
        f'<g data-up="{above}"><rect {place} class="{style}">'
        f"<title>{title}</title></rect>"
        + (f'<text x="{left + 3:.1f}" y="{top + 13}">{escape(shown)}</text>' if shown else "")
        + "</g>"
    )
