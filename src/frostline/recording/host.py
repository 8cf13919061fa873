"""Reads the host signals of a session (``frostline.format.host``): damaged files as far as they are sound."""

from __future__ import annotations

import gzip
import json
import os
import re
import zlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from frostline.format import host as layout
from frostline.recording.layout import Int64
from frostline.recording.loss import Losses
from frostline.recording.segment import open_file

_NAME = re.compile(
    rf"^{layout.PREFIX}(\d+)-(\d+)\.(\d+)({re.escape(layout.SEALED)}|{re.escape(layout.LIVE)})$"
)
#: Bytes of text that one file may hold, and files of a session.
_MOST = 64 << 20
_MOST_FILES = 4096
_LARGE = 1 << 62


@dataclass
class Track:
    """Samples of one thing: instants (monotonic ns) and one row of values for each.

    Between two instants that stand side by side nothing is known but the difference, and where that
    is zero in every field, that nothing has changed.
    """

    time: Int64
    values: Int64
    #: One entry for each pair of neighbours: nothing changed in between.
    flat: Any = field(repr=False)

    def __len__(self) -> int:
        return len(self.time)


@dataclass
class HostProcess:
    """A process as it was sampled; columns are ``format.host.PROCESS_FIELDS``."""

    #: In its own pid namespace, as its recording says.
    pid: int
    start_ticks: int
    #: It timed steps, and was looked at up to 20 times a second from some time on.
    fast: bool
    cgroups: tuple[int, ...]
    track: Track
    session: int = 0


@dataclass
class HostLog:
    """What one helper sampled."""

    #: The helper: its pid, and when it began (monotonic ns of its host). Two copies of a log have one.
    helper: tuple[int, int] = (0, 0)
    processes: list[HostProcess] = field(default_factory=list)
    #: By index: (folder, track). Columns: ``CGROUP_FIELDS``.
    cgroups: dict[int, tuple[str, Track]] = field(default_factory=dict)
    host: Track | None = None
    #: (name, track). Columns: ``GPU_FIELDS``.
    gpus: list[tuple[str, Track]] = field(default_factory=list)
    #: CPU time that the sampling took, ns, and in how many rounds; as last told.
    cost: int = 0
    rounds: int = 0
    start: int = 0
    stop: int = 0

    def shift(self, by: int, session: int) -> None:
        """Moves every instant by ``by`` ns, and says which of the merged sessions it is from."""
        tracks = [one.track for one in self.processes]
        tracks += [track for _, track in (*self.cgroups.values(), *self.gpus)]
        if self.host is not None:
            tracks.append(self.host)
        for track in tracks:
            track.time = track.time + by
        for process in self.processes:
            process.session = session
        self.start += by
        self.stop += by


class _Points:
    """A track while it is read."""

    def __init__(self, size: int) -> None:
        self.size = size
        # Packed: hundreds of thousands of rows as lists of numbers would take five times as much.
        self.times = array("q")
        self.rows = array("q")
        self.last: list[int] | None = None
        self.info: dict[str, Any] = {}
        self.ended = False

    def add(self, at: int, previous: int, change: list[int], fresh: bool) -> None:
        change = change + [0] * (self.size - len(change))
        new = (
            change if fresh or self.last is None else [a + b for a, b in zip(self.last, change, strict=True)]
        )
        if any(abs(one) >= _LARGE for one in new):
            raise ValueError("a count makes no sense")
        self.hold(previous if previous < at else 0)
        self.times.append(at)
        self.rows.extend(new)
        self.last = new

    def hold(self, at: int) -> None:
        """It was looked at, and nothing had changed."""
        if self.last is not None and self.times and at > self.times[-1]:
            self.times.append(at)
            self.rows.extend(self.last)

    def track(self) -> Track:
        time = np.array(self.times, np.int64)
        values = np.array(self.rows, np.int64).reshape(len(time), self.size)
        flat = ~np.any(np.diff(values, axis=0), axis=1) if len(time) > 1 else np.zeros(0, bool)
        return Track(time, values, flat)


class _Reader:
    """Follows rounds and events over all parts of one helper."""

    def __init__(self) -> None:
        self.points: dict[tuple[int, int], _Points] = {}
        self.fresh: set[tuple[int, int]] = set()
        self.start = self.us = 0
        self.begun = 0
        #: When everything, and when what is fast, was last looked at.
        self.all_at = self.fast_at = 0
        self.cost = self.rounds = 0

    def event(self, value: dict[str, Any]) -> None:
        if "frostline_host" in value:
            if value["frostline_host"] != layout.VERSION:
                raise ValueError(f"version {value['frostline_host']!r}, this is {layout.VERSION}")
            self.start, self.us = _number(value["start_ns"]), 0
            self.begun = self.begun or self.start
            self.fresh = set(self.points)
        elif "cost" in value:
            self.cost, self.rounds = _number(value["cost"]), _number(value["rounds"])
        elif "end" in value:
            points = self.points.get((0, _number(value["end"])))
            if points is not None:
                points.hold(self._seen(0, points))
                points.ended = True
        else:
            for group, (name, _) in enumerate(layout.GROUPS):
                if name in value:
                    self._of(group, _number(value[name])).info = _checked(value)

    def _of(self, group: int, index: int) -> _Points:
        key = (group, index)
        if key not in self.points:
            self.points[key] = _Points(len(layout.GROUPS[group][1]))
        return self.points[key]

    def _seen(self, group: int, points: _Points) -> int:
        """When it was looked at last."""
        often = group in (1, 2) or (group == 0 and points.info.get("fast") is True)
        return self.fast_at if often else self.all_at

    def round(self, value: list[Any]) -> None:
        self.us += _number(value[0])
        at = _number(self.start + 1000 * self.us)
        if at <= self.fast_at:
            raise ValueError("time goes back")
        for group, rows in enumerate(value[2 : 2 + len(layout.GROUPS)]):
            for index, *change in rows:
                points = self._of(group, _number(index))
                key = (group, index)
                if len(change) > points.size or points.ended:
                    continue  # a later version's field; a process that has gone
                numbers = [_number(one) for one in change]
                points.add(at, self._seen(group, points), numbers, key in self.fresh)
                self.fresh.discard(key)
        self.fast_at = at
        if value[1]:
            self.all_at = at

    def log(self) -> HostLog:
        found = HostLog(cost=self.cost, rounds=self.rounds, start=self.begun, stop=self.fast_at)
        for (group, index), points in sorted(self.points.items()):
            if not points.ended:
                points.hold(self._seen(group, points))
            if not points.times:
                continue
            track, info = points.track(), points.info
            if group == 0:
                found.processes.append(
                    HostProcess(
                        pid=info.get("pid", 0),
                        start_ticks=info.get("start_ticks", 0),
                        fast=info.get("fast") is True,
                        cgroups=info.get("cgroups", ()),
                        track=track,
                    )
                )
            elif group == 1:
                found.cgroups[index] = (str(info.get("path", ""))[:4096], track)
            elif group == 2:
                found.host = track
            else:
                found.gpus.append((str(info.get("name", "GPU"))[:96], track))
        return found


def read_host(folder: Path, losses: Losses) -> list[HostLog]:
    """One log for each helper that sampled."""
    parts: dict[tuple[int, int], dict[int, Path]] = {}
    for path in sorted(folder.glob(f"{layout.PREFIX}*"))[:_MOST_FILES]:
        name = _NAME.match(path.name)
        if name is None:
            continue
        mine = parts.setdefault((int(name[1]), int(name[2])), {})
        # While a part is being sealed it is there twice: the whole one counts.
        if name[4] == layout.SEALED or int(name[3]) not in mine:
            mine[int(name[3])] = path
    return [_read(who, parts[who], losses) for who in sorted(parts, key=lambda who: who[1])]


def _read(who: tuple[int, int], parts: dict[int, Path], losses: Losses) -> HostLog:
    reader = _Reader()
    for _, path in sorted(parts.items()):
        try:
            for line in _lines(path):
                value = json.loads(line)
                if isinstance(value, dict):
                    reader.event(value)
                elif isinstance(value, list) and len(value) >= 2:
                    reader.round(value)
                else:
                    raise ValueError("neither an event nor a round")
        except (OSError, EOFError, zlib.error, ValueError, TypeError, KeyError, RecursionError) as error:
            # Sums need every line: what follows in this part is left out, the next begins anew.
            losses.add("host-damaged", f"host signals are read up to here only: {str(error)[:200]}", path)
    log = reader.log()
    log.helper = who
    return log


def _lines(path: Path) -> Iterator[bytes]:
    """Whole lines: the last one of a part that is being written may be cut short."""
    try:
        descriptor = open_file(path)
    except FileNotFoundError:  # sealed meanwhile
        path = path.with_name(path.name + layout.SEALED[len(layout.LIVE) :])
        descriptor = open_file(path)
    sealed = path.name.endswith(layout.SEALED)
    with os.fdopen(descriptor, "rb") as raw:
        file = gzip.GzipFile(fileobj=raw) if sealed else raw
        size = 0
        while size < _MOST:
            line = file.readline(_MOST - size)
            size += len(line)
            if not line.endswith(b"\n"):
                return
            yield line
    raise ValueError("it is larger than any that we write")


def _checked(value: dict[str, Any]) -> dict[str, Any]:
    """What an event says of a process, a cgroup or a GPU, with numbers where they are to be."""
    cgroups = value.get("cgroups", [])
    if not isinstance(cgroups, list):
        raise ValueError("cgroups are no list")
    numbers: dict[str, Any] = {n: _number(value[n]) for n in ("pid", "start_ticks") if n in value}
    return {**value, **numbers, "cgroups": tuple(_number(one) for one in cgroups)}


def _number(value: Any) -> int:
    if type(value) is not int or abs(value) >= _LARGE:
        raise ValueError(f"no number: {value!r:.40}")
    return value
