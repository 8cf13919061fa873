"""``frostline watch-threads``: from outside, when one thread alone was hot and everything else waited."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from frostline.analysis.passes import pauses_of
from frostline.analysis.verdict import milliseconds as ms
from frostline.commands._numbers import Range
from frostline.commands.run import seconds as duration
from frostline.commands.run import usage
from frostline.errors import FrostlineError
from frostline.reach import asking, overview, proc
from frostline.reach.watch import LATE, Cost, Found, Watch
from frostline.recording import Series, read_session
from frostline.report.safe import safe

#: A suspect is a pass if passes cover this much of it, and a pass was seen if suspects do.
COVERS = 0.5
#: Waiting threads named on a line; ``--json`` has them all.
SHOWN = 4
_HOW = {
    "gil": "woke {woke:,} times for next to nothing, as one that waits for the GIL does",
    "queue": "was runnable and had no CPU for {queued}",
    "still": "was active before",
}


@dataclass(frozen=True)
class Joined:
    """A suspect beside the passes of its process, where that is recorded."""

    #: ns of the suspect that passes cover; None where the process is not recorded.
    passes: int | None
    verdict: str


@dataclass(frozen=True)
class Unseen:
    """A pass that lasted long enough to be a suspect, and lies in none."""

    pid: int
    process: str
    start: int
    length: int
    generation: int
    #: Shares of it that its main thread had a CPU, and was runnable without one; None if not known.
    on_cpu: float | None
    queued: float | None


def _interval(text: str) -> int:
    found = duration(text)
    if not 0.001 <= found <= 0.025:
        what = f"an interval of {text} sees nothing: it must lie between 1ms and 25ms"
        raise usage("bad-interval", what, "Leave it out: 5ms is meant.")
    return int(found * 1e9)


@click.command(name="watch-threads", short_help="See from outside when one thread alone was hot.")
@click.argument("where", metavar="PID|SESSION")
@click.option("--tree", is_flag=True, help="Its descendants as well.")
@click.option("--seconds", "limit", type=Range(min=0.1), help="Until then; else until Ctrl-C.")
@click.option("--interval", default="5ms", show_default=True, metavar="TIME", help="Between two looks.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON at the end (suspects go to stderr).")
def watch_threads(where: str, tree: bool, limit: float | None, interval: str, as_json: bool) -> None:
    """Watch the threads of a process from outside: nothing in it changes, and it may be of any language.

    A window in which one thread alone is on a CPU for at least 50 ms, and everything else waits, is a
    suspect: so looks a pass of the collector, and so does any long stretch that holds the GIL. Where the
    process is recorded, the suspects are laid beside its passes.
    """
    every = _interval(interval)
    session, pids = _targets(where)
    watch = Watch(pids, tree, every)
    names = ", ".join(f"{name} (pid {pid})" for pid, name in list(watch.names.items())[:5])
    more = f" and {len(watch.names) - 5} more" if len(watch.names) > 5 else ""
    click.echo(safe(f"watching {names}{more}; Ctrl-C ends it"), err=True)
    found = _follow(watch, limit, as_json)
    stop = time.monotonic_ns()
    series = _recorded(session, watch) if session is not None else {}
    joined = [_join(one, series.get(one.pid)) for one in found]
    unseen = _unseen(found, series, watch, stop)
    if as_json:
        value = _as_json(watch, stop, session, found, joined, unseen)
        json.dump(value, sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        for line in _summary(watch, stop, session if series else None, found, joined, unseen):
            click.echo(safe(line))


def _targets(where: str) -> tuple[Path | None, dict[int, str]]:
    """(the session named, or that the process is recorded into; pid and name of what is watched)."""
    if where.isascii() and where.isdigit():
        pid = int(where)
        recorded = asking.session_of(pid)
        name = asking.name_of(pid) if recorded else proc.title(pid)
        return Path(recorded) if recorded else None, {pid: name}
    read = overview.read(where)
    rows = {row.pid: row.name for row in read.rows if row.alive}
    if not rows:
        raise FrostlineError("no-process", f"no process of {where} lives", "Name a session that runs.")
    return Path(where), rows


def _follow(watch: Watch, limit: float | None, as_json: bool) -> list[Found]:
    """Watches to the end, and tells each suspect when it is over."""
    found: list[Found] = []
    until = time.monotonic() + limit if limit is not None else float("inf")
    shown = time.monotonic()
    terminal = sys.stderr is not None and sys.stderr.isatty()
    try:
        while watch.processes and time.monotonic() < until:
            time.sleep(min(watch.wait(), max(0.0, until - time.monotonic())))
            for one in watch.round():
                found.append(one)
                click.echo(safe(_line(one)), err=as_json)
            if terminal and time.monotonic() - shown >= 1:
                shown = time.monotonic()
                click.echo(f"\r\x1b[K{_progress(watch, found)}\r", err=True, nl=False)
    except KeyboardInterrupt:
        pass
    if terminal:
        click.echo("\r\x1b[K", err=True, nl=False)
    for one in watch.finish():
        found.append(one)
        click.echo(safe(_line(one)), err=as_json)
    return found


def _progress(watch: Watch, found: list[Found]) -> str:
    cost = watch.cost()
    watched = (time.monotonic_ns() - watch.start) / 1e9
    threads = sum(len(process.threads) for process in watch.processes.values())
    return (
        f"{watched:,.0f} s, {threads:,} threads of {len(watch.processes):,} processes, every "
        f"{cost.used / 1e6:.0f} ms, {len(found):,} suspects, {cost.share:.1%} of a CPU"
    )


def _line(one: Found) -> str:
    suspect = one.suspect
    at = time.time() - (time.monotonic_ns() - suspect.start) / 1e9
    clock = time.strftime("%H:%M:%S", time.localtime(at)) + f".{int(at % 1 * 1000):03d}"
    who = "its main thread" if one.is_main else f"thread {one.thread}"
    text = f"{clock} {one.process} (pid {one.pid}): suspect, {who} alone was hot for "
    text += f"{ms(_whole(suspect.length))} (edges +-{suspect.blur / 1e6:.0f} ms)"
    waiters = [
        f"{name} {_HOW[waiter.how].format(woke=waiter.woke, queued=ms(_whole(waiter.queued)))}"
        for name, waiter in zip(one.waiters, suspect.waiters, strict=True)
    ]
    if waiters:
        more = f" and {len(waiters) - SHOWN:,} more" if len(waiters) > SHOWN else ""
        text += f"; meanwhile waited: {'; '.join(waiters[:SHOWN])}{more}"
    return text


def _whole(ns: int) -> int:
    return round(ns / 1e6) * 1_000_000


# --- beside the session -----------------------------------------------------------------
def _recorded(session: Path, watch: Watch) -> dict[int, Series]:
    """The recordings of the processes watched, the last series of each."""
    try:
        read = read_session(session)
    except FrostlineError:
        return {}
    return {one.pid: one for one in sorted(read.series, key=lambda s: s.series) if one.pid in watch.names}


def _join(one: Found, series: Series | None) -> Joined:
    if series is None:
        return Joined(None, "not recorded: cannot tell")
    pauses = pauses_of(series).union
    start, stop = np.array([one.suspect.start]), np.array([one.suspect.stop])
    covered = int(pauses.overlap(start, stop)[0])
    return Joined(covered, "a pass" if covered >= COVERS * one.suspect.length else "not a pass")


def _unseen(found: list[Found], series: dict[int, Series], watch: Watch, stop: int) -> list[Unseen]:
    """Passes long enough to be seen that lie in no suspect."""
    missing = []
    for pid, one in series.items():
        pauses = pauses_of(one)
        for i in (pauses.length >= 60_000_000).nonzero()[0].tolist():
            start, end = int(pauses.start[i]), int(pauses.stop[i])
            if start < watch.start or end > stop:
                continue
            mine = [f.suspect for f in found if f.pid == pid]
            seen = sum(max(0, min(end, s.stop) - max(start, s.start)) for s in mine)
            if seen < COVERS * (end - start):
                generation = int(one.passes["generation"][i])
                on, queued = watch.mains[pid].shares(start, end) or (None, None)
                missing.append(Unseen(pid, watch.names[pid], start, end - start, generation, on, queued))
    return missing


def _summary(
    watch: Watch,
    stop: int,
    session: Path | None,
    found: list[Found],
    joined: list[Joined],
    unseen: list[Unseen],
) -> list[str]:
    """What came of it. ``session``: the recording that the suspects were laid beside, where there is one."""
    watched = (stop - watch.start) / 1e9
    total = sum(one.suspect.length for one in found)
    lines = [""]
    if found:
        longest = max(one.suspect.length for one in found)
        lines.append(
            f"{len(found):,} suspects in {watched:,.1f} s, {ms(_whole(total))} together, the longest "
            f"{ms(_whole(longest))}."
        )
    else:
        lines.append(f"No window of 50 ms in {watched:,.1f} s in which one thread alone was hot.")
    if session is not None:
        recorded = [one for one in joined if one.passes is not None]
        passes = sum(one.verdict == "a pass" for one in recorded)
        suspects = (
            f"{passes:,} of {len(recorded):,} suspects are passes, {len(recorded) - passes:,} are not; "
            if recorded
            else ""
        )
        lines.append(
            f"Beside the recording ({session}): {suspects}{len(unseen):,} passes of 60 ms and more were not "
            "seen."
        )
        for one, its in zip(found, joined, strict=True):
            if its.verdict == "not a pass":
                at = (one.suspect.start - watch.start) / 1e9
                lines.append(f"  not a pass: {one.process} at {at:,.3f} s, {ms(_whole(one.suspect.length))}")
        for pass_ in unseen:
            at = (pass_.start - watch.start) / 1e9
            lines.append(
                f"  not seen: generation {pass_.generation} of {pass_.process} at {at:,.3f} s, "
                f"{ms(pass_.length)}{_why_not(pass_)}"
            )
    elif found:
        lines.append(
            "Whether they are passes of the collector cannot be told from outside: "
            "`frostline attach PID`, or `frostline run`, and watch again."
        )
    lines.append(_cost_words(watch.cost()))
    return lines


def _why_not(missing: Unseen) -> str:
    """What its main thread did meanwhile: who has no CPU is not hot."""
    if missing.on_cpu is None or missing.queued is None:
        return ""
    return (
        f": its main thread had a CPU for ~{missing.on_cpu:.0%} of it, waited for one ~{missing.queued:.0%}"
    )


def _cost_words(cost: Cost) -> str:
    late = sum(cost.late[LATE.index(5) + 1 :])
    text = f"Watching took {cost.share:.1%} of one CPU, {cost.rounds:,} looks, "
    text += f"one every {cost.used / 1e6:.0f} ms"
    if cost.used > cost.asked * 1.1:
        text += f" at the end (asked for {cost.asked / 1e6:.0f} ms: it keeps to a tenth of a CPU)"
    text += f"; {late:,} were over 5 ms late, the latest {cost.latest / 1e6:.0f} ms"
    if late > 0.05 * cost.rounds:
        text += ": the machine was too busy for sharp edges"
    return text + "."


def _as_json(
    watch: Watch,
    stop: int,
    session: Path | None,
    found: list[Found],
    joined: list[Joined],
    unseen: list[Unseen],
) -> dict[str, Any]:
    cost = watch.cost()
    return {
        "schema": 1,
        "start": watch.start,
        "stop": stop,
        "session": str(session) if session is not None else None,
        "processes": [{"pid": pid, "name": name} for pid, name in watch.names.items()],
        "suspects": [
            {
                "pid": one.pid,
                "process": one.process,
                "tid": one.suspect.tid,
                "thread": one.thread,
                "is_main": one.is_main,
                "start": one.suspect.start,
                "stop": one.suspect.stop,
                "edges": one.suspect.blur,
                "share": one.suspect.share,
                "waiting": [
                    {"thread": name, **waiter._asdict()}
                    for name, waiter in zip(one.waiters, one.suspect.waiters, strict=True)
                ],
                **asdict(its),
            }
            for one, its in zip(found, joined, strict=True)
        ],
        "not_seen": [asdict(one) for one in unseen],
        "cost": {
            "cpu_share": cost.share,
            "looks": cost.rounds,
            "interval_asked": cost.asked,
            "interval_used": cost.used,
            "late": {
                **{f"under_{most}_ms": count for most, count in zip(LATE, cost.late, strict=False)},
                "more": cost.late[-1],
            },
            "latest": cost.latest,
        },
    }
