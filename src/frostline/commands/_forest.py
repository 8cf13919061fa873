"""One figure of an experiment: each arm's ratio with its interval, block by block, as a page of its own."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

from frostline.experiment.ablation.judging import Judged, Outcome
from frostline.experiment.statistics import IMPROVED, NO_EFFECT, REGRESSED
from frostline.report import Block, Line
from frostline.report.html.parts import asset, document, rendered, text

_CLASSES = {IMPROVED: "improved", REGRESSED: "regressed", NO_EFFECT: "none"}
#: Of one row's figure, CSS pixels.
_WIDTH, _HEIGHT = 280, 26
_STYLE = """
.forest svg { display: block; width: 17.5rem; }
.forest td, .forest th { vertical-align: middle !important; }
.forest small { color: var(--quiet); font-weight: 400; }
.forest circle { fill: var(--unsure); } .forest .span { stroke: var(--unsure); stroke-width: 3; }
.forest .improved circle { fill: var(--good); } .forest .improved .span { stroke: var(--good); }
.forest .regressed circle { fill: var(--bad); } .forest .regressed .span { stroke: var(--bad); }
.forest .none circle { fill: var(--quiet); } .forest .none .span { stroke: var(--quiet); }
.forest .noise { fill: var(--rule); } .forest .one { stroke: var(--quiet); }
.forest tfoot text { fill: var(--quiet); font: 12px system-ui, sans-serif; }
.forest tfoot td { border: 0 !important; }
@media (max-width: 40rem) { .forest svg { width: 13rem; } .forest tfoot text { font-size: 15px; } }
"""


def page(outcome: Outcome, blocks: Iterable[Block]) -> str:
    """A page that loads nothing: the figure, and below it what the command printed."""
    body = (
        "<header><h1>What each arm changes</h1></header><main>",
        *_figure(outcome),
        *rendered(_in_words(blocks)),
        "</main>",
    )
    return document("Frostline: ablation", (asset("page.css"), _STYLE), body)


def _in_words(blocks: Iterable[Block]) -> Iterator[Block]:
    for block in blocks:
        # A terminal sets the sentence of an arm without an effect in bold: it heads nothing.
        if isinstance(block, Line) and block.style == "headline":
            block = replace(block, style="")
        yield block


def _figure(outcome: Outcome) -> Iterator[str]:
    judged = outcome.judged
    if not judged:
        yield "<p>No block is complete.</p>"
        return
    ends = [
        abs(math.log(value))
        for one in judged
        for value in (one.effect.ratio, one.effect.low, one.effect.high, one.effect.noise)
        if value
    ]
    reach = max(0.02, *ends) * 1.1
    yield '<figure class="forest" aria-labelledby="forest" aria-describedby="read">'
    yield '<h2 id="forest">Ratio to the control</h2>'
    yield '<div class="wide" role="region" tabindex="0" aria-labelledby="forest">'
    heads = (("arm", ""), ("less, or more", ""), ("ratio", "right"), ("95 %", "right"), ("verdict", ""))
    style = "".join(f'<th scope="col"{f" class={kind}" if kind else ""}>{name}</th>' for name, kind in heads)
    yield f'<table aria-labelledby="forest"><thead><tr>{style}</tr></thead><tbody>'
    for one in judged:
        yield from _row(one, reach)
    yield f'</tbody><tfoot><tr><td></td><td>{_axis(reach)}</td><td colspan="3"></td></tr></tfoot>'
    yield "</table></div>"
    yield (
        '<figcaption id="read">Ratio to the control, logarithmic, the upright line is 1. Point: over the '
        "blocks; line: 95 % interval by inverting the exact sign-flip test; grey: what two equal arms would "
        "differ by, 95 % of the time.</figcaption></figure>"
    )


def _x(ratio: float, reach: float) -> float:
    """Where a ratio stands in a figure whose edges are ``exp(reach)`` from 1 either way."""
    return _WIDTH / 2 * (1 + math.log(ratio) / reach)


def _row(one: Judged, reach: float) -> Iterator[str]:
    effect, middle = one.effect, _HEIGHT / 2
    drawn = [f'<line class="one" x1="{_WIDTH / 2}" x2="{_WIDTH / 2}" y1="0" y2="{_HEIGHT}"/>']
    if effect.noise:
        left, right = _x(1 / effect.noise, reach), _x(effect.noise, reach)
        place = f'x="{left:.1f}" y="{middle - 8}" width="{right - left:.1f}" height="16"'
        drawn.insert(0, f'<rect class="noise" {place}/>')
    between = "open"
    if effect.low is not None and effect.high is not None:
        between = f"{effect.low:.3f} to {effect.high:.3f}"
        left, right = _x(effect.low, reach), _x(effect.high, reach)
        drawn.append(f'<line class="span" x1="{left:.1f}" x2="{right:.1f}" y1="{middle}" y2="{middle}"/>')
    drawn.append(f'<circle cx="{_x(effect.ratio, reach):.1f}" cy="{middle}" r="5"/>')
    better = "higher" if one.higher_is_better else "lower"
    yield (
        f'<tr class="{_CLASSES.get(one.verdict, "open")}"><th scope="row">{text(one.arm)}<br>'
        f"<small>{text(one.metric)}, {better} is better</small></th><td>{_svg(''.join(drawn))}</td>"
        f'<td class="right">{effect.ratio:.3f}</td><td class="right">{between}</td>'
        f"<td>{text(one.verdict)}</td></tr>"
    )


def _axis(reach: float) -> str:
    return _svg(
        "".join(
            f'<text x="{_x(value, reach):.1f}" y="14" text-anchor="middle">{value:g}</text>'
            for value in _ticks(reach)
        )
    )


def _svg(drawn: str) -> str:
    """What is drawn stands in the other cells in figures: a screen reader is spared it."""
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" aria-hidden="true">{drawn}</svg>'


def _ticks(reach: float) -> list[float]:
    """Ratios to write below, symmetric about 1."""
    for step in (0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 100, 1000):
        if reach / math.log1p(step) <= 3:
            break
    found = [1.0]
    for many in range(1, 4):
        value = (1 + step) ** many
        if math.log(value) <= reach:
            found += [round(value, 3), round(1 / value, 3)]
    return found
