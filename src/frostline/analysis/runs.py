"""Runs: which process belongs to which start of the server (B6, B11).

A run is one ``frostline run``, and what it started; of processes that none started (the environment
alone, an attach) those of one session are one run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from frostline.recording import Run, Series, Session


@dataclass(frozen=True)
class RunSeen:
    """One run. ``number`` counts from 1, by session and then by time."""

    number: int
    #: Which of several merged sessions it is in, from 0, and its folder.
    session: int
    path: str
    command: tuple[str, ...]
    policy: str
    #: ns; of a run that ``frostline run`` did not start its first process's start.
    started: int
    processes: int


def launchers(session: Session) -> Callable[[Series], Run | None]:
    """Which ``frostline run`` started a process: an ancestor's or its own, since ``run`` keeps its pid.

    Without such an ancestor it is the last run of its session that began before the process did.
    """
    parents = {(s.session, s.pid): s.parent for s in session.series}
    # From outside, unless the parent had gone before the helper looked.
    parents.update({(p.session, p.pid): p.parent for p in session.processes if p.parent > 1})
    every = sorted(session.runs, key=lambda run: run.started)

    def launched(series: Series) -> Run | None:
        runs = [run for run in every if run.session == series.session]
        pid, seen = series.pid, set[int]()
        while pid and pid not in seen:
            mine = [run for run in runs if run.pid == pid and run.started <= series.series]
            if mine:
                return mine[-1]
            seen.add(pid)
            pid = parents.get((series.session, pid), 0)
        before = [run for run in runs if run.started <= series.series] or runs
        return before[-1] if before else None

    return launched


def runs_of(session: Session, series: list[Series]) -> tuple[tuple[RunSeen, ...], list[int]]:
    """The runs, and the number of the run of each series."""
    launched = launchers(session)
    paths = [session.path, *session.others]
    of: list[tuple[int, int, int]] = []
    known: dict[tuple[int, int, int], Run | None] = {}
    for one in series:
        run = launched(one)
        key = (one.session, run.started, run.pid) if run else (one.session, 0, 0)
        known.setdefault(key, run)
        of.append(key)
    order = {key: number for number, key in enumerate(sorted(known), start=1)}
    found = []
    for key, number in order.items():
        run = known[key]
        started = run.started if run else min(s.series for s, k in zip(series, of, strict=True) if k == key)
        found.append(
            RunSeen(
                number=number,
                session=key[0],
                path=str(paths[key[0]]) if key[0] < len(paths) else "",
                command=run.command if run else (),
                policy=run.policy if run else "",
                started=started,
                processes=sum(k == key for k in of),
            )
        )
    return tuple(found), [order[key] for key in of]
