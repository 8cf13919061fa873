"""Reads what the processes of a session told of the cycles that they made, as far as it is whole."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from frostline.format import cycles as fmt
from frostline.recording.model import Key
from frostline.recording.segment import open_file

#: A look that somebody asked a live process for: the ``why`` of no line.
ASKED = "asked"


@dataclass(frozen=True)
class FoundKind:
    """Cycles of one kind in one look; see ``heap.cycles.Kind``."""

    path: str
    count: int
    objects: int
    hanging: int
    size: int
    largest: int
    #: Objects in the one that the path is of, and of these those on cycles still when it is cut; -1 unknown.
    one: int
    left: int
    #: Weak references to them before a pass of ours; 0 for one of the program's own.
    weak: int
    pattern: str
    remedy: str
    site: str
    finalized: bool


@dataclass(frozen=True)
class Look:
    """What one look found. In seconds: ``pause`` of the pass or passes, ``stopped`` of all that it cost."""

    why: str
    #: CLOCK_MONOTONIC, ns; 0 where that is not known.
    at: int
    #: Native id of the thread of the pass; 0 where that is not known.
    tid: int
    generation: int
    #: Objects that the pass reclaimed, and of these those looked at.
    found: int
    looked_at: int
    pause: float
    stopped: float
    kinds: tuple[FoundKind, ...]
    #: Cycles of kinds beyond those listed.
    others: int
    #: Objects that were not asked for finalizers before it: the time was up.
    unseen: int
    #: The time was up before everything was looked at.
    cut: bool
    #: Types with finalizers among what a pass outside the main thread found: they ran in its thread.
    finalizers: dict[str, int]
    #: Of a call of a span: its label, which call, whether it ended, passes that ran in it, and whether other
    #: threads or tasks ran meanwhile.
    span: str = ""
    call: int = 0
    finished: bool = True
    passes: int = 0
    others_ran: bool = False


@dataclass
class LookLog:
    """The looks at one interpreter of one process, in the order in which they were told."""

    key: Key
    looks_at: str
    forked: bool
    looks: list[Look] = field(default_factory=list)
    #: It came to its exit, and its last look was made.
    ended: bool = False
    #: Passes that were not looked at, for time or for room.
    skipped: int = 0
    #: What tracemalloc cost: see ``agent.tracing``.
    tracemalloc: dict[str, float] = field(default_factory=dict)
    #: Lines that make no sense: a torn or damaged file.
    damaged: int = 0
    #: It told as much as it may: later passes are missing.
    full: bool = False


def read_looks(folder: Path) -> dict[Key, LookLog]:
    """The logs of a session's folder; a file that cannot be read, or is none of ours, is left out."""
    found: dict[Key, LookLog] = {}
    for path in sorted(folder.glob(f"{fmt.PREFIX}*{fmt.SUFFIX}")):
        log = _read(path)
        if log is not None:
            found[log.key] = log
    return found


def _read(path: Path) -> LookLog | None:
    try:
        with os.fdopen(open_file(path), "rb") as file:
            data = file.read(2 * fmt.MOST)
        head, *lines = data.decode("utf-8", "replace").split("\n")
        first = json.loads(head)
        if first[fmt.MAGIC] != fmt.VERSION:
            return None
        key = int(first["pid"]), int(first["series"]), int(first["interpreter"])
        log = LookLog(key, str(first["looks_at"]), bool(first["forked"]))
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    for number, line in enumerate(lines):
        if not line and number == len(lines) - 1:
            break
        try:
            _take(log, json.loads(line))
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            log.damaged += 1  # of the last one: the process was killed in the middle of it
    log.full = len(data) >= fmt.MOST
    return log


def _take(log: LookLog, value: dict[str, Any]) -> None:
    skipped = int(value["skipped"])
    if "end" in value:
        cost = value["tracemalloc"]
        log.tracemalloc = {str(name): float(figure) for name, figure in cost.items()} if cost else {}
        log.ended = True
    else:
        log.looks.append(look_of(value))
    log.skipped = max(log.skipped, skipped)


def look_of(value: dict[str, Any]) -> Look:
    """A look, of a line of such a file or of what ``frostline cycles`` on a live process is answered.

    Raises:
        ValueError, TypeError, KeyError, OverflowError: it is none.
    """
    kinds = tuple(
        FoundKind(
            path=str(kind["path"]),
            count=int(kind["count"]),
            objects=int(kind["objects"]),
            hanging=int(kind["hanging"]),
            size=int(kind["bytes"]),
            largest=int(kind["largest"]),
            one=int(kind.get("one", 0)),
            left=int(kind.get("left", -1)),
            weak=int(kind.get("weak", 0)),
            pattern=str(kind["pattern"]),
            remedy=str(kind["remedy"]),
            site=str(kind["site"]),
            finalized=bool(kind["finalized"]),
        )
        for kind in value["kinds"]
    )
    return Look(
        why=str(value.get("why", ASKED)),
        at=int(value.get("at", 0)),
        tid=int(value.get("tid", 0)),
        generation=int(value["generation"]),
        found=int(value["found"]),
        looked_at=int(value["looked_at"]),
        pause=float(value["pause"]),
        stopped=float(value["stopped"]),
        kinds=kinds,
        others=int(value["others"]),
        unseen=int(value["unseen"]),
        cut=bool(value["cut"]),
        finalizers={str(name): int(count) for name, count in value.get("finalizers", {}).items()},
        span=str(value.get("span", "")),
        call=int(value.get("call", 0)),
        finished=bool(value.get("finished", True)),
        passes=int(value.get("passes", 0)),
        others_ran=bool(value.get("others_ran", False)),
    )
