"""The report as text: the verdict first, then what it rests on, then what to type next."""

from __future__ import annotations

from collections.abc import Iterator

from frostline.analysis import Advice, Analysis
from frostline.analysis.verdict import milliseconds as ms
from frostline.report.blocks import Block, Line
from frostline.report.budgets import budgets
from frostline.report.censuses import heaps
from frostline.report.freezing import freezing, planned
from frostline.report.groups import groups
from frostline.report.host import host
from frostline.report.idle import gaps
from frostline.report.marks import LONGEST, RESTS, Note, marked, notes
from frostline.report.passes import explicit, full, generations
from frostline.report.processes import events, processes, state
from frostline.report.promotion import promoted, rhythm
from frostline.report.requests import requests
from frostline.report.steps import labels, slow
from frostline.report.threads import threads
from frostline.report.words import longest_line, seconds, sentence, short_paths

#: Rows shown of what can be long; ``--csv`` and ``--json`` have them all.
SHOWN_LABELS = 5
#: Of losses of one name.
SHOWN_LOSSES = 5


def report(analysis: Analysis) -> list[Block]:
    """Everything, in the order in which it is needed, with a letter at each number that is in doubt."""
    found = notes(analysis)
    return marked(_sections(analysis, found), found)


def _sections(analysis: Analysis, found: tuple[Note, ...]) -> Iterator[Block]:
    yield from _verdict(analysis)
    yield from processes(analysis)
    yield from generations(analysis)
    yield from budgets(analysis)
    yield from labels(analysis)
    yield from slow(analysis)
    yield from gaps(analysis)
    yield from requests(analysis)
    yield from groups(analysis)
    yield from host(analysis)
    yield from full(analysis)
    yield from rhythm(analysis)
    yield from promoted(analysis)
    yield from explicit(analysis)
    yield from threads(analysis)
    yield from freezing(analysis)
    yield from heaps(analysis)
    yield from state(analysis)
    yield from events(analysis)
    yield from _doubts(found)
    yield from _advice(analysis)


def _verdict(analysis: Analysis) -> Iterator[Block]:
    verdict = analysis.verdict
    style = {"collector": "bad", "not-the-collector": "good"}.get(verdict.kind, "headline")
    yield Line(sentence(verdict.sentence), style)
    for line in (*verdict.lines, *verdict.held):
        yield Line(line[:1].upper() + line[1:], style, indent=2)
    if analysis.advice:
        yield _next(analysis.advice)
    for line in verdict.tail:
        yield Line(f"{line}.")
    longest = max(analysis.processes, key=lambda p: p.longest, default=None)
    if longest is not None:
        text = longest_line("Longest pause", longest, longest.longest, longest.longest_text)
        yield Line(text, section=LONGEST, who=longest.name)
        later = max(analysis.processes, key=lambda p: p.serving_longest)
        if later.serving and later.serving_longest != longest.longest:
            words = later.serving_longest_text
            text = longest_line("After start-up", later, later.serving_longest, words)
            yield Line(text, section=LONGEST, who=later.name)
    ours = planned(analysis)
    if ours:
        yield Line(ours)
    missed = [m for m in analysis.missed if m.python]
    count = len({(p.session, p.pid) for p in analysis.processes})
    text = f"{count} {'process' if count == 1 else 'processes'} recorded, {len(missed)} missed"
    state = ", still running" if analysis.running else ""
    over = seconds(analysis.stop - analysis.start)
    yield Line(f"{text}, {analysis.records:,} records over {over}{state}.", section=RESTS)
    if verdict.slow or verdict.slow_requests:
        factor = analysis.options.long_factor
        yield Line(
            f"Slow: over {ms(verdict.threshold)} and over {factor:g} x its label's median. "
            f"Explained: passes of its own process cover half of the excess.",
            "quiet",
        )
    for line in verdict.details[:SHOWN_LABELS]:
        yield Line(line, indent=2)
    if len(verdict.details) > SHOWN_LABELS:
        more = len(verdict.details) - SHOWN_LABELS
        yield Line(f"and {more} more {'label' if more == 1 else 'labels'}, see Steps", "quiet", indent=2)


def _next(every: tuple[Advice, ...]) -> Line:
    """The one thing to do, at the top: why and how are under Next."""
    first = every[0]
    if first.command:
        return Line(f"Next: {first.command}", "command")
    return Line(f"Next: {short_paths(first.text)}.")


def _doubts(found: tuple[Note, ...]) -> Iterator[Block]:
    doubts = [note for note in found if not note.loss]
    if doubts:
        yield Line("")
        yield Line("Doubts", "headline")
        for note in doubts:
            yield Line(f"[{note.letter}] {note.texts[0]} [{note.slug}]", "bad", indent=2)
    losses = [note for note in found if note.loss]
    if losses:
        yield Line("")
        yield Line("Not in the recording", "headline")
    for note in losses:  # some of each name: a letter in a row must lead to words
        for text in note.texts[:SHOWN_LOSSES]:
            yield Line(f"[{note.letter}] {text}", indent=2)
        more = len(note.texts) - SHOWN_LOSSES
        if more > 0:
            yield Line(f"[{note.letter}] and {more:,} more of these, see --json", "quiet", indent=2)


def _advice(analysis: Analysis) -> Iterator[Block]:
    if analysis.advice:
        yield Line("")
        yield Line("Next", "headline")
    for advice in analysis.advice:
        yield Line(short_paths(sentence(advice.text)), indent=2)
        if advice.how:
            yield Line(f"(how that was obtained: {advice.how})", "quiet", indent=2)
        if advice.command:
            yield Line(advice.command, "command", indent=4)
