"""Cyclic garbage by role: what passes reclaimed after start-up, and the file that a later run is held to."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from frostline import format as fmt
from frostline.analysis.model import Analysis, ProcessReport
from frostline.errors import FrostlineError
from frostline.recording.layout import Array

_VERSION = 1
_KEY = "frostline_gate_baseline"
_LARGE = 1 << 62
_NUMBERS = re.compile(r"(?:[\s_:#-]+(?:dp|tp|pp|ep|rank)?\d+)+$", re.IGNORECASE)


@dataclass(frozen=True)
class Garbage:
    """Of the processes of one role: objects reclaimed, by how many passes, and steps and requests timed."""

    reclaimed: int
    passes: int
    work: int
    processes: int


@dataclass(frozen=True)
class Baseline:
    """Garbage by role. ``since_serving``: only what came after start-up was counted."""

    since_serving: bool
    roles: dict[str, Garbage]

    def allowed(self, role: str, now: Garbage, margin: float) -> int:
        """Objects that the same amount of work may leave to the collector; 0 for a role that is not in it."""
        base = self.roles.get(role)
        if base is None:
            return 0
        scale = now.work / base.work if now.work and base.work else 1.0
        return int(base.reclaimed * scale * (1 + margin))


def since_of(process: ProcessReport, since_serving: bool) -> int:
    """From when on a process is judged (ns); 0 where it never served, or nothing told that it did."""
    if not since_serving:
        return process.start
    return process.serving if process.start <= process.serving <= process.stop else 0


def reclaiming(process: ProcessReport, since: int) -> Array:
    """Which passes free what the program made while it was judged.

    Frostline's own count too (under ``idle`` they are the only ones), but for those of the boundary,
    which free what start-up left, and those after the last thaw, which belong to the end.
    """
    passes = process.series.passes
    start = process.pauses.start
    ours = (passes["flags"] & fmt.PASS_FROSTLINE) != 0
    mine = [m for m in process.series.marks if m.flags & fmt.MARK_FLAG_OURS]
    frozen = min((m.time for m in mine if m.kind == fmt.MARK_FREEZE and m.time >= since), default=0)
    thawed = max((m.time for m in mine if m.kind == fmt.MARK_THAW), default=_LARGE)
    chosen: Array = (start >= since) & ~(ours & ((start <= frozen) | (start >= thawed)))
    return chosen


def garbage_of(processes: Iterable[ProcessReport], since_serving: bool) -> Garbage:
    """Of those that are judged at all."""
    reclaimed = passes = work = many = 0
    for process in processes:
        since = since_of(process, since_serving)
        if not since:
            continue
        which = reclaiming(process, since)
        many += 1
        passes += int(np.count_nonzero(which))
        reclaimed += int(process.series.passes["collected"][which].sum(dtype=np.int64))
        starts = process.series.spans.get("start")
        work += int(np.count_nonzero(starts >= since)) if starts is not None else 0
    return Garbage(reclaimed, passes, work, many)


def family(role: str) -> str:
    """A role without rank and number, which change from run to run: ``Worker dp0``, ``SpawnProcess-7``."""
    return _NUMBERS.sub("", role) or role


def by_role(analysis: Analysis) -> dict[str, list[ProcessReport]]:
    """The processes of each role (``family``), in the order in which roles first appear."""
    found: dict[str, list[ProcessReport]] = {}
    for process in analysis.processes:
        found.setdefault(family(process.role), []).append(process)
    return found


def measure(analysis: Analysis, since_serving: bool) -> Baseline:
    """What a session would be held to."""
    roles = {role: garbage_of(of, since_serving) for role, of in by_role(analysis).items()}
    return Baseline(since_serving, {role: found for role, found in roles.items() if found.processes})


def write_baseline(baseline: Baseline, path: Path) -> None:
    """As JSON, to be kept in the repository.

    Raises:
        FrostlineError: ``gate-unwritable``.
    """
    roles = {role: asdict(found) for role, found in sorted(baseline.roles.items())}
    value = {_KEY: _VERSION, "since_serving": baseline.since_serving, "roles": roles}
    write_file(path, json.dumps(value, indent=1) + "\n")


def write_file(path: Path, text: str) -> None:
    """Raises ``gate-unwritable``."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise FrostlineError(
            "gate-unwritable", f"cannot write {path}: {error.strerror}", "Another file, in a folder of yours."
        ) from error


def read_baseline(path: Path, since_serving: bool) -> Baseline:
    """Raises ``bad-baseline`` where it is none, or was written for another part of the time."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        if value[_KEY] != _VERSION:
            raise ValueError(f"version {value[_KEY]!r}, this is {_VERSION}")
        roles = {str(role): _garbage(one) for role, one in value["roles"].items()}
        found = Baseline(value["since_serving"] is True, roles)
    except OSError as error:
        raise _bad(path, f"cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _bad(path, f"is no baseline of a gate: {str(error)[:100]}") from error
    if found.since_serving != since_serving:
        raise _bad(path, f"was written with{'' if found.since_serving else 'out'} --since-serving")
    return found


def _garbage(one: dict[str, Any]) -> Garbage:
    values = [one[name] for name in ("reclaimed", "passes", "work", "processes")]
    if not all(type(value) is int and 0 <= value < _LARGE for value in values):
        raise ValueError("a count makes no sense")
    return Garbage(*values)


def _bad(path: Path, what: str) -> FrostlineError:
    return FrostlineError(
        "bad-baseline", f"{path} {what}", f"frostline gate SESSION --write-baseline {path}   (same options)"
    )
