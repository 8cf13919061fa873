"""The requests of ``frostline load`` as one table, for CSV and Parquet: the columns of its JSON lines."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from frostline.experiment.load.client import Sent, word
from frostline.experiment.load.files import ended, gaps_of, rung_of
from frostline.recording.layout import Array
from frostline.report.schema import Column, Schema
from frostline.report.tables import PIECE, Coded, Known, Piece, Rows

SCHEMA = Schema(
    "requests",
    "one row a request, in order of the plan",
    (
        Column("rung", "int", "number of the `--rate`, from 0"),
        Column("measured", "flag", "0 of the warm-up, and of what an interrupt kept from being sent"),
        Column("intended", "int", "when the plan meant it to be sent"),
        Column("sent", "int", "when it was sent"),
        Column("first", "int", "first chunk that carries text; of plain HTTP the first of the body"),
        Column("last_token", "int", "of a stream, the last event with a choice, with text in it or none"),
        Column("last", "int", "the last byte, or when it failed; empty of a timeout"),
        Column("deadline", "int", "when it counts if it failed, and its end did not come later"),
        Column("status", "text", "`ok`, `timeout`, `cut` (by Ctrl-C), or what the error was"),
        Column("tokens", "int", "of a stream's answer"),
        Column("gaps", "ints", "ns from one chunk of text to the next, from `first` on"),
    ),
)


def rows_of(sent: Sent) -> Rows:
    """The table; times are ns of CLOCK_MONOTONIC."""
    return Rows(SCHEMA.file, SCHEMA, _pieces(sent))


def _pieces(sent: Sent) -> Iterator[Piece]:
    begin, gaps = gaps_of(sent)
    rung, last = rung_of(sent), ended(sent)
    status, words = _words(sent)
    for at in range(0, len(sent.intended), PIECE):
        here = slice(at, at + PIECE)
        ends = begin[at : at + PIECE + 1].tolist()
        times = {"sent": sent.sent, "first": sent.first, "last_token": sent.last_token, "last": last}
        known = times | {"tokens": sent.tokens}
        yield {
            "rung": rung[here],
            "measured": sent.measured[here],
            "intended": sent.intended[here],
            **{name: Known(column[here], column[here] >= 0) for name, column in known.items()},
            "deadline": sent.intended[here] + sent.deadline,
            "status": Coded(status[here], words),
            "gaps": [
                gaps[one:other].tolist() if one < other else None for one, other in itertools.pairwise(ends)
            ],
        }


def _words(sent: Sent) -> tuple[Array, list[str]]:
    """What each request's status is called, by number, and the words."""
    # As one number: a code has three digits.
    both, which = np.unique(sent.status * 1_000 + sent.code % 1_000, return_inverse=True)
    called = [word(one // 1_000, one % 1_000) for one in both.tolist()]
    words = sorted(set(called))
    return np.array([words.index(one) for one in called], np.int32)[which], words
