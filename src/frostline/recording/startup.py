"""Reads what the processes of a session told of their imports, as far as it is whole."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from frostline.format import startup as fmt
from frostline.recording.model import Key
from frostline.recording.segment import open_file

#: No file of ours is larger: MOST events of a name that fits into a line.
_MAX_BYTES = 256 * 1024 * 1024


class ImportEvent(NamedTuple):
    """The beginning or, where ``module`` is empty, the end of an import."""

    time: int
    thread: int
    #: ``gc.get_count()[0]`` at that moment.
    count0: int
    module: str


@dataclass
class ImportLog:
    """The imports of one interpreter of one process, in the order in which they were told."""

    key: Key
    #: ``threading.get_ident()`` of the thread that started the recording.
    thread: int
    events: list[ImportEvent] = field(default_factory=list)
    #: (when, objects tracked then): counted, now and then.
    counted: list[tuple[int, int]] = field(default_factory=list)
    #: Lines that make no sense: a torn or damaged file.
    damaged: int = 0
    #: It told as many as it may: later imports are missing.
    full: bool = False


def read_imports(folder: Path) -> dict[Key, ImportLog]:
    """The logs of a session's folder; a file that cannot be read, or is none of ours, is left out."""
    found: dict[Key, ImportLog] = {}
    for path in sorted(folder.glob(f"{fmt.PREFIX}*{fmt.SUFFIX}")):
        log = _read(path)
        if log is not None:
            found[log.key] = log
    return found


def _read(path: Path) -> ImportLog | None:
    try:
        with os.fdopen(open_file(path), "rb") as file:
            head = file.readline(4096).split()
            if len(head) != 6 or head[:2] != [fmt.MAGIC.encode(), str(fmt.VERSION).encode()]:
                return None
            pid, series, interpreter, thread = (int(word) for word in head[2:])
            log = ImportLog((pid, series, interpreter), thread)
            lines = file.read(_MAX_BYTES).decode("utf-8", "replace").split("\n")
    except (OSError, ValueError):
        return None
    if lines[-1]:
        log.damaged += 1  # the process was killed in the middle of it
    last = 0
    for line in lines[:-1]:
        event = _event(line)
        # Threads write side by side, so an event can stand behind a slightly later one.
        if event is None or event.time < last - 10**9:
            log.damaged += 1
            continue
        last = max(last, event.time)
        if line[0] == "C":
            log.counted.append((event.time, event.count0))
        else:
            log.events.append(event)
    log.full = len(log.events) + len(log.counted) >= fmt.MOST
    log.events.sort(key=lambda event: event.time)
    return log


def _event(line: str) -> ImportEvent | None:
    parts = line.split(" ", 4)
    if len(parts) != 5 or parts[0] not in ("B", "C", "E") or (parts[0] == "B") != bool(parts[4]):
        return None
    try:
        time, thread, count = (int(word) for word in parts[1:4])
    except ValueError:
        return None
    return ImportEvent(time, thread, count, parts[4]) if 0 < time < 2**62 else None
