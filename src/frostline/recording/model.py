"""What is read from a recording: marks and series."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from frostline import format as fmt
from frostline.recording.layout import COUNTED, PASS, Array

Key = tuple[int, int, int]


@dataclass(frozen=True)
class Mark:
    """One event, with its texts looked up."""

    time: int
    stop: int
    kind: int
    flags: int
    thread: int
    tid: int
    file: str
    line: int
    function: str
    values: tuple[int, int, int, int, int]

    @property
    def label(self) -> str:
        return next((label for kind, label, _ in fmt.MARK_KINDS if kind == self.kind), str(self.kind))


@dataclass
class Series:
    """Everything read from one series. Times are CLOCK_MONOTONIC of the session's host, ns."""

    pid: int
    series: int
    interpreter: int
    parent: int = 0
    pid_namespace: int = 0
    process_start: int = 0
    hexversion: int = 0
    build: int = 0
    #: (monotonic, realtime, error) in ns.
    anchor: tuple[int, int, int] = (0, 0, 0)
    text: dict[str, tuple[str, ...]] = field(default_factory=dict)
    words: dict[str, int] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    passes: Array = field(default_factory=lambda: np.empty(0, PASS))
    marks: tuple[Mark, ...] = ()
    spans: dict[str, Array] = field(default_factory=dict)
    #: The collector's counters, as the helper read them from outside; in order of time.
    counted: Array = field(default_factory=lambda: np.empty(0, COUNTED))
    #: threading.get_ident() -> the index that passes and spans hold.
    threads: dict[int, int] = field(default_factory=dict)
    #: Records that were lost, by what is known of them: region label -> count.
    unfinished: dict[str, int] = field(default_factory=dict)
    damaged: dict[str, int] = field(default_factory=dict)
    #: Young passes that were dropped to stay within the retention limit.
    dropped_passes: int = 0
    #: Segments are missing that must have existed: what they held was counted by nobody.
    incomplete: bool = False
    bytes: int = 0
    segments: int = 0
    live: bool = False
    #: Which session of several merged ones it is from, from 0.
    session: int = 0

    @property
    def key(self) -> Key:
        return (self.pid, self.series, self.interpreter)

    @property
    def python(self) -> str:
        """Such as ``3.11.7``, from ``sys.hexversion``."""
        version = self.hexversion
        return f"{version >> 24}.{version >> 16 & 255}.{version >> 8 & 255}" if version else "unknown"

    @property
    def version(self) -> tuple[int, int, int]:
        return (self.hexversion >> 24, self.hexversion >> 16 & 255, self.hexversion >> 8 & 255)

    @property
    def free_threaded(self) -> bool:
        return bool(self.build & fmt.BUILD_FREE_THREADED)

    def first_text(self, key: str) -> str:
        values = self.text.get(key, ())
        return values[0] if values else ""

    def name(self, number: int) -> str:
        """Text of a name id; ids whose record was lost stay recognisable."""
        if not number:
            return ""
        return self.names.get(number, f"name {number} (lost)")

    @property
    def last_time(self) -> int:
        """The newest instant that any record names."""
        last = max(self.series, self.words.get("closed", 0))
        if len(self.passes):
            last = max(last, int(self.passes["stop"].max()))
        if self.spans and len(self.spans["stop"]):
            last = max(last, int(self.spans["stop"].max()))
        return max((last, *(mark.stop for mark in self.marks)))
