"""What ``frostline run`` and its helper wrote beside the segments: JSON that may be damaged too."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from frostline.recording.host import HostLog
from frostline.recording.loss import Loss, Losses
from frostline.recording.model import Series
from frostline.recording.process import is_alive, is_dead
from frostline.recording.segment import open_file

_MAX_JSON = 16 * 1024 * 1024


@dataclass(frozen=True)
class ProcessSeen:
    """One process as the helper saw it from outside."""

    pid: int
    parent: int
    first_seen: int
    last_seen: int
    arguments: tuple[str, ...]
    title: str
    executable: str
    python: bool
    recorded: bool
    missed: str
    detail: str
    exit: int | None
    start_ticks: int = 0
    session: int = 0


@dataclass(frozen=True)
class Run:
    """One ``frostline run`` that wrote into the session."""

    pid: int
    command: tuple[str, ...]
    policy: str
    started: int
    started_realtime: int
    boot_id: str
    host: str
    cpus: int
    #: What ``--span`` asked for.
    spans: tuple[str, ...] = ()
    #: Which of several merged sessions it is from, from 0.
    session: int = 0


@dataclass
class Session:
    """What was read. ``losses`` says what was not."""

    path: Path
    #: Of merged sessions those behind the first.
    others: list[Path] = field(default_factory=list)
    series: list[Series] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    processes: list[ProcessSeen] = field(default_factory=list)
    #: (kind, at, detail) of a READY that the helper saw.
    ready: tuple[str, int, str] | None = None
    #: The option of ``run`` that told it, as it was typed.
    ready_option: str = ""
    losses: tuple[Loss, ...] = ()
    #: A process that was being recorded lived when this was read.
    running: bool = False
    #: Pid namespaces of helpers that had not ended, and were not certainly dead, when this was read.
    helpers: list[int] = field(default_factory=list)
    #: (pid, series) -> (spans, young passes) that the helper dropped to stay within the limit.
    dropped: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    #: (monotonic, realtime, half of the bracket), ns, sampled by the helper; of merged sessions the first's.
    anchors: list[tuple[int, int, int]] = field(default_factory=list)
    #: Largest error of the clock when sessions were merged, ns; 0 for one session.
    clock_error: int = 0
    #: Host signals, one log for each helper.
    host: list[HostLog] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        return sum(series.bytes for series in self.series)


def read_notes(session: Session, folder: Path, losses: Losses) -> None:
    for path in sorted(folder.glob("run-*.json")):
        data = _json(path, losses)
        if data is not None:
            session.runs.append(
                Run(
                    pid=_int(data, "pid"),
                    command=_texts(data, "command"),
                    policy=_text(data, "policy"),
                    started=_int(data, "started_monotonic_ns"),
                    started_realtime=_int(data, "started_realtime_ns"),
                    boot_id=_text(data, "boot_id"),
                    host=_text(data, "host"),
                    cpus=_int(data, "cpus"),
                    spans=tuple(part for part in _text(data, "spans").split(";") if part),
                )
            )
            for warning in _list(data, "warnings"):
                losses.add("run-warning", str(warning)[:500], path)
    for path in sorted(folder.glob("helper-*.json")):
        data = _json(path, losses)
        if data is None:
            continue
        if data.get("ended") is False:
            start, namespace = _int(data, "start_ticks"), _int(data, "pid_namespace")
            if is_dead(_int(data, "pid"), start, namespace):
                message = "the helper died: processes that were started later may be missing"
                losses.add("helper-died", message, path)
            else:
                session.helpers.append(namespace)
        _add_dropped(session, data.get("dropped"))
        session.anchors += _anchors(data)
        for item in _list(data, "processes"):
            if isinstance(item, dict):
                session.processes.append(_process(item))
        ready = data.get("ready")
        if isinstance(ready, dict):
            session.ready = (_text(ready, "kind"), _int(ready, "at_ns"), _text(ready, "detail"))
            session.ready_option = _text(ready, "option")
        for warning in _list(data, "warnings"):
            losses.add("helper-warning", str(warning)[:500], path)


def is_running(session: Session) -> bool:
    """Whether something is still being recorded: a process really lives, by pid and start.

    A helper takes up to a second to end after the last process, so its word alone says nothing,
    but in another pid namespace, or before it has seen a process, there is no other.
    """
    open_ = [s for s in session.series if not s.words.get("closed")]
    if any(is_alive(s.pid, s.process_start, s.pid_namespace) for s in open_):
        return True
    if not session.helpers:
        return False
    namespace = session.helpers[0]
    if not session.series and not session.processes:
        return True
    if any(is_alive(p.pid, p.start_ticks, namespace) for p in session.processes):
        return True
    return any(not is_dead(s.pid, s.process_start, s.pid_namespace) for s in open_)


def _process(item: dict[str, Any]) -> ProcessSeen:
    code = item.get("exit")
    return ProcessSeen(
        pid=_int(item, "pid"),
        parent=_int(item, "parent"),
        first_seen=_int(item, "first_seen_ns"),
        last_seen=_int(item, "last_seen_ns"),
        arguments=_texts(item, "argv"),
        title=_text(item, "title"),
        executable=_text(item, "executable"),
        python=item.get("python") is True,
        recorded=item.get("recorded") is True,
        missed=_text(item, "missed"),
        detail=_text(item, "detail"),
        exit=code if isinstance(code, int) and not isinstance(code, bool) else None,
        start_ticks=_int(item, "start_ticks"),
    )


def _json(path: Path, losses: Losses) -> dict[str, Any] | None:
    try:
        descriptor = open_file(path)
        with os.fdopen(descriptor, "rb") as file:
            raw = file.read(_MAX_JSON + 1)
        if len(raw) > _MAX_JSON:
            raise ValueError("it is larger than any that we write")
        data = json.loads(raw)
        if not isinstance(data, dict):
            raise ValueError("it holds no object")
    except (OSError, ValueError, RecursionError) as error:
        losses.add("note-damaged", f"cannot read this file: {str(error)[:200]}", path)
        return None
    return data


def _anchors(data: dict[str, Any]) -> list[tuple[int, int, int]]:
    found = []
    for item in _list(data, "anchors"):
        if not isinstance(item, list) or len(item) != 3 or not all(type(value) is int for value in item):
            continue
        if 0 < item[0] < 1 << 62 and 0 < item[1] < 1 << 62 and 0 <= item[2] < 1 << 40:
            found.append((item[0], item[1], item[2]))
    return found


def _add_dropped(session: Session, dropped: object) -> None:
    for name, counts in dropped.items() if isinstance(dropped, dict) else ():
        pid, _, series = str(name).partition("-")
        if pid.isdecimal() and series.isdecimal() and isinstance(counts, dict):
            key = (int(pid), int(series))
            spans, young = session.dropped.get(key, (0, 0))
            session.dropped[key] = (spans + _int(counts, "spans"), young + _int(counts, "young_passes"))


def _list(data: dict[str, Any], key: str) -> list[Any]:
    value = data.get(key)
    return value if isinstance(value, list) else []


def _int(data: dict[str, Any], key: str) -> int:
    value = data.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else 0


def _text(data: dict[str, Any], key: str) -> str:
    value = data.get(key)
    return value if isinstance(value, str) else ""


def _texts(data: dict[str, Any], key: str) -> tuple[str, ...]:
    value = data.get(key)
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
