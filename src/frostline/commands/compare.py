"""``frostline compare``: sessions that you have, in pairs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from frostline.commands._outcome import many
from frostline.commands.report import Named, analysed
from frostline.errors import FrostlineError
from frostline.experiment.comparing import Comparison, Row
from frostline.experiment.comparing import compare as compared
from frostline.report import Block, Line, Table, write


@click.command(short_help="Compare recordings in pairs: A B, or A B A2 B2 ...")
@click.argument("sessions", nargs=-1, required=True, type=Named(path_type=Path), metavar="A B [A2 B2]...")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def compare(sessions: tuple[Path, ...], as_json: bool) -> None:
    """Compare sessions of the same server in pairs: A B, or A B A2 B2 and so on; of one pair each.

    From the end of start-up, where that is known. With fewer than six pairs nothing is concluded.
    """
    if len(sessions) % 2:
        raise FrostlineError(
            "compare-pairs",
            f"{len(sessions)} sessions are not pairs",
            "Give them as A B, or A B A2 B2 ...",
            exit_code=2,
        )
    pairs = [(analysed((a,)), analysed((b,))) for a, b in zip(sessions[::2], sessions[1::2], strict=True)]
    if any(not one.processes for pair in pairs for one in pair):
        raise FrostlineError(
            "compare-nothing",
            "one of the sessions has no process in it",
            "`frostline status SESSION` says why.",
        )
    found = compared(pairs)
    if as_json:
        json.dump(asdict(found) | {"concluded": found.concluded}, sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        write(_blocks(found), sys.stdout)


def _blocks(found: Comparison) -> Iterator[Block]:
    head = found.rows[0]
    pairs = many(found.pairs, "pair")
    if not found.concluded:
        yield Line(
            f"{pairs}: nothing is concluded. It takes {found.least} at least (2 / 2^n <= 0.05); "
            "`frostline ablate` makes them, in balanced order.",
            "bad",
        )
    else:
        yield Line(
            f"Time paused, all processes together: {head.effect.verdict} over {pairs} "
            f"(x {head.effect.ratio:.3f}, p {head.effect.p:.3f}).",
            "headline",
        )
    if found.one_sided and found.pairs > 1:
        yield Line("In every pair the same one began first: a drift over time would look the same.", "bad")
    yield Table(
        "A and B: medians of the sessions, ratio over the pairs",
        ("process", "", "A", "B", "B / A", "95 %", "p"),
        tuple(_cells(row) for row in found.rows),
        frozenset((2, 3, 4, 5, 6)),
        ("p", "95 %"),
    )
    if found.unknown:
        passes = many(found.unknown, "full pass", "full passes")
        yield Line(f"Of {passes} it is not known what was walked.", "quiet")
    yield Line(
        "Only the first row is judged; of the others some differ by chance. This shows pauses and steps of "
        "these recordings, not whose policy made the difference.",
        "quiet",
    )


def _cells(row: Row) -> tuple[str, ...]:
    effect = row.effect
    nothing = row.a == row.b == 0
    between = f"{effect.low:.3f} to {effect.high:.3f}" if effect.low is not None else "open"
    return (
        row.role or "all",
        f"{row.what}{', ' + row.unit if row.unit else ''}",
        _number(row.a),
        _number(row.b),
        "-" if nothing else f"{effect.ratio:.3f}" if row.a and row.b else "fell to 0" if row.a else "from 0",
        "-" if nothing else between,
        "-" if nothing else f"{effect.p:.3f}",
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
