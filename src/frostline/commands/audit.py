"""``frostline audit``: what is frozen, by whom, what it may hold for good, and what was left out (D6)."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import click

from frostline.analysis import Analysis, ProcessReport
from frostline.analysis.audit import audit as audited
from frostline.analysis.audited import Audited, Finding, Now, predict, shared_with
from frostline.analysis.commands import attached
from frostline.commands import _control, _looking
from frostline.commands._newest import newest
from frostline.commands._numbers import Range
from frostline.commands.report import analysed
from frostline.commands.status import printable
from frostline.errors import FrostlineError
from frostline.reach import asking, looking, overview, proc, segments
from frostline.report import Block, Line, write
from frostline.report.audit import findings, garbage, predicted, table
from frostline.report.brief import noted

#: Seconds without a request that are an idle moment at least, and as many as are enough for any walk.
QUIET, QUIET_ENOUGH = 0.05, 2.0


@dataclass
class Row:
    """One process: what is known of it, and what it answered."""

    target: asking.Target
    process: ProcessReport | None
    analysis: Analysis | None
    now: Now | None = None
    #: Why it has not counted, or not looked for garbage.
    why_not: str = ""
    told: Audited | None = None
    garbage: dict[str, Any] | None = field(default=None)


class Wanted(NamedTuple):
    """What is to be done beside the table."""

    garbage: bool
    sought: str
    budget: float
    max_stop: float
    seconds: float
    serving: bool


@click.command(short_help="Audit the freeze: what is frozen, by whom, what it may leak, what was left out.")
@_looking.options
@click.option(
    "--garbage",
    "count",
    is_flag=True,
    help="Count the garbage that is frozen, say what it is, and free it: a walk of the whole heap, or two.",
)
@click.option(
    "--class",
    "sought",
    default="",
    metavar="MODULE:CLASS",
    help="With --garbage, which it implies: how many objects of a class stay though nothing uses them.",
)
@click.option(
    "--budget",
    type=Range(min=0.0, max=600.0),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="How long the look at frozen garbage lasts at most, between the walks.",
)
@click.option(
    "--max-stop",
    type=Range(min=0.0, max=3600.0),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="Walk nothing where one walk may stop the process for longer.",
)
def audit(
    where: str | None,
    tree: bool,
    seconds: float,
    serving: bool,
    save: Path | None,
    as_json: bool,
    count: bool,
    sought: str,
    budget: float,
    max_stop: float,
) -> int:
    """Say of every process of SESSION (the newest), or of PID, what is frozen, since when and by whom,
    whether a collection came before, how many requests were in flight, what has grown since, which
    processes were left out; what is wrong with it, and what to do.

    A live process counts what is frozen and what is not: that STOPS it for some 30 ms a million objects; one
    that has requests in flight is left alone, unless --serving. A session that has ended is audited by its
    recording.

    --garbage walks the whole heap: it thaws, collects, and freezes again, in an idle moment, in the process
    itself. It says first how long that will take. What has grown since the freeze is frozen, too. Where
    nobody tells of requests it is not known whether any is in flight: then it needs --serving.
    """
    wanted = Wanted(count or bool(sought), sought, budget, max_stop, seconds, serving)
    where = where or newest()
    targets = _targets(where, tree, wanted.garbage)
    rows = list(_live(where, targets)) if targets else list(_ended(Path(where)))
    _ask(rows, wanted)
    frozen = [row.process.name for row in rows if row.process is not None and _is_frozen(row)]
    for row in rows:
        others = tuple(name for name in frozen if row.process is None or name != row.process.name)
        row.told = _told(row, others)
    if wanted.garbage:
        for row in rows:
            if row.told is not None and not row.why_not:
                _count(row, row.told, wanted, quiet=as_json)
    missed = (
        [(t.pid, t.name, t.why_not) for t in targets if t.why_not] if targets else _missed(Path(where), rows)
    )
    plain = {
        "processes": [_plain(row) for row in rows],
        "missed": [{"pid": pid, "name": name, "why": why} for pid, name, why in missed],
    }
    if save is not None:
        _looking.keep(save, plain)
    if as_json:
        click.echo(json.dumps(plain, indent=1))
    else:
        write(_blocks(rows, missed, sought), sys.stdout)
    return int(any(row.why_not for row in rows) or any(target.why_not for target in targets))


def _targets(where: str, tree: bool, needed: bool) -> list[asking.Target]:
    """The live processes; none where the session has ended, unless one is needed."""
    try:
        return _control.targets(where, tree)
    except FrostlineError as error:
        if error.slug != "no-targets" or needed:
            raise
        return []


def _live(where: str, targets: list[asking.Target]) -> Iterator[Row]:
    """A row for each that can be asked, with what the recording has of it."""
    known: dict[str, Analysis | None] = {}
    for target in targets:
        if target.why_not:
            continue
        folder = where if Path(where).is_dir() else asking.session_of(target.pid)
        if folder not in known:
            known[folder] = _read(folder)
        analysis = known[folder]
        name = segments.parse_name(Path(target.mailbox).name)
        process = None
        if analysis is not None and name is not None:
            process = next((p for p in analysis.processes if p.series.key == name[:3]), None)
        yield Row(target, process, analysis)


def _read(folder: str) -> Analysis | None:
    """None where the session cannot be read from here: it lies in a container, or has been removed."""
    try:
        return analysed((Path(folder),)) if folder else None
    except FrostlineError:
        return None


def _ended(folder: Path) -> Iterator[Row]:
    analysis = analysed((folder,))
    for process in noted(analysis):
        yield Row(asking.Target(process.pid, process.name, "", ""), process, analysis)


def _missed(folder: Path, rows: list[Row]) -> list[tuple[int, str, str]]:
    """Python processes of an ended session without a recording."""
    analysis = next((row.analysis for row in rows if row.analysis is not None), None)
    if analysis is None:
        return []
    found = []
    for one in analysis.missed:
        if one.python:
            meaning, remedy = overview.explain(one.reason)
            found.append((one.pid, one.name, f"not recorded: {meaning or one.reason}. {remedy}".strip()))
    return found


def _ask(rows: list[Row], wanted: Wanted) -> None:
    """Each live one counts."""
    live = [row for row in rows if row.target.mailbox]
    text = "audit serving=1" if wanted.serving else "audit"
    for row, look in zip(live, _looking.ask([r.target for r in live], text, wanted.seconds), strict=True):
        if look.serving and wanted.garbage:
            look = _in_idle_moment(row.target, text, 0.0, wanted)
        row.why_not = look.why_not
        if look.found is not None:
            row.now = Now.of(look.found)


def _is_frozen(row: Row) -> bool:
    assert row.process is not None
    return row.now.frozen > 0 if row.now is not None else bool(row.process.frozen.since)


def _told(row: Row, others: tuple[str, ...]) -> Audited:
    if row.process is not None:
        start = row.analysis.start if row.analysis is not None else 0
        return audited(row.process, row.now, others, start)
    text = "its recording cannot be read from here: who froze, and when, is not known"
    finding = Finding("no-recording", False, text, "Audit it where its session folder is")
    name, now = f"{row.target.name} (pid {row.target.pid})", row.now
    if now is None:
        return Audited(name, row.target.pid, None, "not asked", findings=(finding,))
    return Audited(
        name,
        row.target.pid,
        now.frozen,
        "counted now",
        grown=now.tracked,
        grown_how="counted now",
        walk=predict(None, now.frozen + now.tracked),
        findings=(finding,),
    )


# --- frozen garbage -------------------------------------------------------------------
def _count(row: Row, told: Audited, wanted: Wanted, quiet: bool) -> None:
    """Looks for garbage among what is frozen, in an idle moment."""
    row.why_not = _shares(row)
    if row.why_not or told.walk is None or (not told.frozen and not wanted.sought):
        return
    if not quiet:
        click.echo(printable(predicted(told)), err=True)
    stop = told.walk.most + told.walk.look
    if stop > wanted.max_stop * 1e9:
        most = f"{stop / 1e9:,.1f} s"
        row.why_not = f"one walk may stop it for {most}, more than --max-stop {wanted.max_stop:g}"
        return
    text = f"audit garbage=1 budget={wanted.budget:g}"
    if wanted.sought:
        text += f" class={wanted.sought}"
    look = _in_idle_moment(row.target, text, stop / 1e9, wanted)
    row.why_not, row.garbage = look.why_not, look.found


def _shares(row: Row) -> str:
    """Why a walk in it would run finalizers that another process runs, too; empty where it would not."""
    process, analysis = row.process, row.analysis
    if process is None or analysis is None:
        return ""
    name = shared_with(process, analysis.processes)
    mine, before = proc.stat(row.target.pid), process.at_attach
    if not name and attached(process) and before is not None and before.frozen and mine is not None:
        # Frozen before we came. A fork has its parent's stack, which no other program has.
        above = proc.stat(mine.parent)
        if above is not None and above.image == mine.image != 0:
            name = f"pid {mine.parent}"
    if not name:
        return ""
    return f"it shares what was frozen with {name}, which forked it: finalizers would run twice. Ask that one"


def _in_idle_moment(target: asking.Target, text: str, walk: float, wanted: Wanted) -> looking.Look:
    """Asks when nothing has come in for about as long as the walk takes: such a lull is likely to last."""

    def ask(words: str) -> looking.Look:
        return next(looking.looks([target], words, wanted.seconds))

    if wanted.serving:
        return ask(f"{text} serving=1")
    until = time.monotonic() + wanted.seconds
    while True:
        before = ask("audit count=0")
        if before.found is None or before.found["in_flight"] < 0:
            return before if before.found is None else ask(text)
        time.sleep(min(max(QUIET, walk), QUIET_ENOUGH))
        look = ask(f"{text} entered={before.found['entered']}")
        if not look.serving or time.monotonic() >= until:
            return look


# --- what is shown --------------------------------------------------------------------
def _plain(row: Row) -> dict[str, Any]:
    value = asdict(row.told) if row.told is not None else {}
    return {**value, "asked": row.now is not None, "why_not": row.why_not, "garbage": row.garbage}


def _blocks(rows: list[Row], missed: list[tuple[int, str, str]], sought: str) -> Iterator[Block]:
    told = [row.told for row in rows if row.told is not None]
    yield from table(told)
    yield Line("")
    for row in rows:
        if row.told is None:
            continue
        yield from findings(row.told)
        if row.garbage is not None:
            yield from garbage(row.told.name, row.garbage, sought)
        if row.why_not:
            yield Line(f"{row.told.name}: NOT LOOKED AT: {row.why_not}", "bad", indent=2)
    for pid, name, why in missed:
        yield Line(f"{name} (pid {pid}): NOT AUDITED: {why}", "bad", indent=2)
    if not rows and not missed:
        yield Line("no process to audit")
