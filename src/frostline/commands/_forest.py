"""One figure of an experiment: each arm's ratio with its interval, block by block, as a page of its own."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from html import escape

from frostline.experiment.ablation.judging import Outcome
from frostline.experiment.statistics import IMPROVED, NO_EFFECT, REGRESSED
from frostline.report import Block, plain
from frostline.report.safe import safe

_COLORS = {IMPROVED: "#18794e", REGRESSED: "#b42318", NO_EFFECT: "#475467"}
_LEFT, _WIDTH, _ROW, _RIGHT = 260, 520, 34, 340
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:68rem;padding:0 1rem}
pre{overflow-x:auto;white-space:pre-wrap;background:#f5f7fa;padding:1rem;font-size:13px}svg{max-width:100%;height:auto}
text{font:13px system-ui,sans-serif}"""


def page(outcome: Outcome, blocks: Iterable[Block]) -> str:
    """A page that loads nothing: the figure, and below it what the command printed."""
    text = escape("\n".join(plain(blocks)))
    return "\n".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            f"<title>Frostline: ablation</title><style>{_STYLE}</style></head><body>",
            "<h1>What each arm changes</h1>",
            *_figure(outcome),
            f"<pre>{text}</pre></body></html>",
        )
    )


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
    height = _ROW * (len(judged) + 2)

    def x(ratio: float) -> float:
        return _LEFT + _WIDTH / 2 * (1 + math.log(ratio) / reach)

    yield (
        f'<svg viewBox="0 0 {_LEFT + _WIDTH + _RIGHT} {height}" role="img" aria-label="Ratio of each arm to '
        'the control, with its 95 % interval; the grey band is the noise of two equal arms.">'
    )
    yield f'<line x1="{x(1):.1f}" x2="{x(1):.1f}" y1="0" y2="{height - _ROW}" stroke="#98a2b3"/>'
    for number, one in enumerate(judged):
        y = _ROW * number + _ROW / 2
        effect, color = one.effect, _COLORS.get(one.verdict, "#b54708")
        yield f'<text x="4" y="{y + 4:.1f}">{escape(safe(one.arm))}: {escape(safe(one.metric))}</text>'
        if effect.noise:
            left, right = x(1 / effect.noise), x(effect.noise)
            yield (
                f'<rect x="{left:.1f}" y="{y - 9:.1f}" width="{right - left:.1f}" height="18" '
                'fill="#eaecf0"/>'
            )
        if effect.low is not None and effect.high is not None:
            yield (
                f'<line x1="{x(effect.low):.1f}" x2="{x(effect.high):.1f}" y1="{y:.1f}" y2="{y:.1f}" '
                f'stroke="{color}" stroke-width="3"/>'
            )
        yield f'<circle cx="{x(effect.ratio):.1f}" cy="{y:.1f}" r="5" fill="{color}"/>'
        better = "higher" if one.higher_is_better else "lower"
        yield (
            f'<text x="{_LEFT + _WIDTH + 12}" y="{y + 4:.1f}" fill="{color}">{effect.ratio:.3f} '
            f"{one.verdict} ({better} is better)</text>"
        )
    for value in _ticks(reach):
        yield (
            f'<text x="{x(value):.1f}" y="{height - 8}" text-anchor="middle" fill="#475467">{value:g}</text>'
        )
    yield "</svg>"
    yield (
        "<p>Ratio to the control, logarithmic. Point: over the blocks; line: 95 % interval by inverting the "
        "exact sign-flip test; grey: what two equal arms would differ by, 95 % of the time.</p>"
    )


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
