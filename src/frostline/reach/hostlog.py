"""The file of host signals: appended to as the run goes, sealed in parts, thinned to stay in its limit.

The format is described in ``frostline.format.host``. A part that is being written is plain text, so
that what was written survives the helper; a finished one is compressed.
"""

import json
import os
from collections.abc import Iterator
from typing import Any

from frostline.format import host as layout

#: Bytes of text after which a part is finished. Compressing it takes a few ms, and thinning two of them
#: a few MiB for a moment.
PART = 256 << 10
#: Bytes that all parts of a helper may take.
LIMIT = 8 << 20
#: Lines are written at least this often, ns.
FLUSH = 1_000_000_000

#: One group's rows of a round: (index, values).
Rows = list[tuple[int, list[int]]]


class Log:
    """Writes rounds of absolute values as changes."""

    def __init__(self, folder: str, stamp: tuple[int, int], limit: int = LIMIT, part: int = PART) -> None:
        """Args:
        folder: the session.
        stamp: the helper's pid, and when it began (monotonic ns).
        limit: bytes that the files may take together.
        part: bytes of text in a part.
        """
        self.folder = folder
        self._stamp = stamp
        self._limit, self._part_size = limit, part
        self._number = -1
        self._open = False
        self._size = 0
        self._lines: list[str] = []
        self._events: dict[str, dict[str, Any]] = {}
        self._last: dict[tuple[int, int], list[int]] = {}
        self._us = self._began = 0
        #: Microseconds of a round that was not written since nothing had changed.
        self._unwritten = -1
        self._flushed = 0
        #: Of each sealed part: (times thinned, bytes, number).
        self._sealed: list[tuple[int, int, int]] = []
        self.fresh = True

    # --- writing ----------------------------------------------------------------------
    def event(self, key: str, value: dict[str, Any], keep: bool = True) -> None:
        """Writes an event; one that is kept is told again at the start of each part, under its key."""
        if keep:
            self._events[key] = value
        self._lines.append(json.dumps(value, separators=(",", ":")))

    def forget(self, key: str) -> None:
        """What an event introduced has gone."""
        self._events.pop(key, None)

    def begin(self, now: int) -> None:
        """A new part: whatever comes in the next round is told in full."""
        self._number += 1
        self._last.clear()
        self._began, self._us, self._unwritten = now, 0, -1
        head = {"frostline_host": layout.VERSION, "start_ns": now, "thinned": 0}
        texts = [json.dumps(value, separators=(",", ":")) for value in (head, *self._events.values())]
        self._lines = texts
        self._size = 0
        self._open = True
        self.fresh = True

    def round(self, now: int, everything: bool, groups: list[Rows]) -> None:
        """Writes what has changed; of a round without a change nothing, until one with a change comes."""
        if not self._open:
            self.begin(now)
        us = (now - self._began) // 1000
        rows = [self._changes(number, group) for number, group in enumerate(groups)]
        while rows and not rows[-1]:
            rows.pop()
        if not rows and not self.fresh:
            # A slow round must be seen as one: others' values are as old as it otherwise.
            if everything:
                self._write(us, 1, [])
            else:
                self._unwritten = us
            return
        if self._unwritten >= 0:
            self._write(self._unwritten, 0, [])
        self._write(us, int(everything), rows)
        self.fresh = False
        if now - self._flushed >= FLUSH:
            self.flush(now)

    def _changes(self, number: int, group: Rows) -> list[list[int]]:
        found = []
        for index, values in group:
            last = self._last.get((number, index))
            change = values if last is None else [new - old for new, old in zip(values, last, strict=True)]
            self._last[(number, index)] = values
            end = len(change)
            while end and not change[end - 1]:
                end -= 1
            if end or last is None:
                found.append([index, *change[:end]])
        return found

    def _write(self, us: int, everything: int, rows: list[list[list[int]]]) -> None:
        self._lines.append(json.dumps([us - self._us, everything, *rows], separators=(",", ":")))
        self._us, self._unwritten = us, -1

    def flush(self, now: int) -> bool:
        """Writes what is waiting; begins a new part where this one is full, and says so."""
        self._flushed = now
        if self._lines and self._open:
            self._append(("\n".join(self._lines) + "\n").encode())
            self._lines = []
        if self._size < self._part_size:
            return False
        self._seal()
        self.begin(now)
        return True

    def _append(self, data: bytes) -> None:
        """Opened for each write: the session's folder may be taken away or unmounted meanwhile."""
        new = 0 if self._size else os.O_CREAT | os.O_EXCL
        flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | new
        descriptor = os.open(self._path(self._number, False), flags, 0o600)
        try:
            written = os.write(descriptor, data)
        finally:
            os.close(descriptor)
        if written < len(data):
            raise OSError(28, "no space left for host signals")
        self._size += written

    def close(self) -> None:
        """Writes what is waiting and seals the part."""
        if self._open and not self.flush(self._flushed):
            self._seal()
        self._open = False

    # --- sealing and thinning ---------------------------------------------------------
    def _path(self, number: int, sealed: bool) -> str:
        return os.path.join(self.folder, layout.file_name(*self._stamp, number, sealed))

    def _seal(self) -> None:
        self._open = False
        live = self._path(self._number, False)
        with open(live, "rb") as file:
            size = self._store(self._number, file.read())
        os.unlink(live)
        self._sealed.append((0, size, self._number))
        while sum(one[1] for one in self._sealed) > self._limit and self._thin():
            pass

    def _store(self, number: int, data: bytes) -> int:
        import gzip  # at the end, or once a part is full: not while the helper starts

        path = self._path(number, True)
        packed = gzip.compress(data, 5, mtime=0)
        with open(f"{path}.tmp", "wb") as file:
            file.write(packed)
        os.rename(f"{path}.tmp", path)
        return len(packed)

    def _thin(self) -> bool:
        """Joins the two oldest parts that were thinned least, at half their density.

        A level with one part waits for its next: so the older a part, the more it was thinned.
        """
        if len(self._sealed) < 2:
            return False
        levels = [one[0] for one in self._sealed]
        pairs = [level for level in set(levels) if levels.count(level) > 1]
        chosen = [one for one in self._sealed if one[0] == min(pairs)][:2] if pairs else self._sealed[:2]
        import gzip

        numbers = [one[2] for one in chosen]
        texts = []
        for number in numbers:
            with gzip.open(self._path(number, True), "rt", encoding="ascii") as file:
                texts.append(file.read())
        level = max(one[0] for one in chosen) + 1
        lines = thinned("".join(texts).splitlines(), level)
        size = self._store(numbers[0], ("\n".join(lines) + "\n").encode())
        os.unlink(self._path(numbers[1], True))
        at = self._sealed.index(chosen[0])
        self._sealed[at : at + 2] = [(level, size, numbers[0])]
        return True


# --- thinning ---------------------------------------------------------------------------
class _Joined:
    """Rounds of one or more parts as one series: sums carried over, half of the rounds left out."""

    def __init__(self, level: int) -> None:
        self.level = level
        self.out: list[str] = []
        self.start = 0
        self.at = self.kept_at = 0
        #: By group and index: what it is now, and what was last written of it.
        self.now: dict[tuple[int, int], list[int]] = {}
        self.written: dict[tuple[int, int], list[int]] = {}
        self.seen: set[str] = set()
        self.fresh: set[tuple[int, int]] = set()
        self.pending = False
        self.pending_all = 0
        self.turn = 0

    def event(self, value: dict[str, Any]) -> None:
        if "frostline_host" in value:
            if not self.out:
                self.start = value["start_ns"]
                self._emit({**value, "thinned": self.level})
            self.at = (value["start_ns"] - self.start) // 1000
            self.fresh = set(self.now)  # the next row of each is told in full
            return
        if self.pending:
            self.keep()  # what ends here is told to its end
        text = json.dumps(value, separators=(",", ":"))
        if text not in self.seen or "cost" in value:
            self.seen.add(text)
            self._emit(value)

    def _emit(self, value: object) -> None:
        self.out.append(json.dumps(value, separators=(",", ":")))

    def round(self, value: list[Any], keep: bool) -> None:
        if keep and self.pending_all and not value[1]:
            self.keep()  # what is looked at seldom keeps its time
        self.at += value[0]
        for number, group in enumerate(value[2:]):
            for index, *change in group:
                key = (number, index)
                size = len(layout.GROUPS[number][1])
                change += [0] * (size - len(change))
                if key in self.fresh or key not in self.now:
                    self.fresh.discard(key)
                    self.now[key] = change
                else:
                    self.now[key] = [a + b for a, b in zip(self.now[key], change, strict=True)]
        self.pending, self.pending_all = True, self.pending_all | value[1]
        if keep:
            self.keep()

    def keep(self) -> None:
        """Writes the round that is pending."""
        rows: list[list[list[int]]] = [[] for _ in layout.GROUPS]
        for (number, index), values in self.now.items():
            last = self.written.get((number, index))
            if last is values:
                continue
            change = values if last is None else [new - old for new, old in zip(values, last, strict=True)]
            self.written[(number, index)] = values
            end = len(change)
            while end and not change[end - 1]:
                end -= 1
            if end or last is None:
                rows[number].append([index, *change[:end]])
        while rows and not rows[-1]:
            rows.pop()
        self._emit([self.at - self.kept_at, self.pending_all, *rows])
        self.kept_at, self.pending, self.pending_all = self.at, False, 0


def thinned(lines: list[str], level: int) -> list[str]:
    """One part of one or more parts' lines, with every second round left out.

    First of the rounds in which only what is fast was looked at; once these are no more than the
    others, all of them, and every second of the others. The first round of each part and the last of
    all stay where they are. A line that cannot be read is left out.
    """
    values = list(_values(lines))
    rounds = [i for i, value in enumerate(values) if isinstance(value, list)]
    edges = {i for i in rounds if i == rounds[-1] or i == 0 or isinstance(values[i - 1], dict)}
    fast = sum(not values[i][1] for i in rounds if i not in edges)
    many = 2 * fast > len(rounds) - len(edges)
    joined = _Joined(level)
    turn = 0
    for i, value in enumerate(values):
        if isinstance(value, dict):
            joined.event(value)
            continue
        counted = bool(value[1]) != many
        turn += counted
        joined.round(value, i in edges or (turn % 2 == 0 if counted else many))
    if joined.pending:
        joined.keep()
    return joined.out


def _values(lines: list[str]) -> Iterator[Any]:
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:
            continue
