"""Reads a trace of torch's profiler piece by piece: of hundreds of megabytes only numbers are kept.

Kineto's ``ts`` is microseconds since ``baseTimeNanoseconds`` (none before torch 2.4: 0) on the wall
clock, with three decimals: 5e12 of them are more than a float64 holds for certain, so they are read
as text.
"""

from __future__ import annotations

import codecs
import gzip
import json
import re
import zlib
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from frostline.errors import FrostlineError
from frostline.recording.layout import Int64

#: Bytes that are read at once.
CHUNK = 4 * 1024 * 1024
#: Categories of events during which a device works.
DEVICE = frozenset(("kernel", "gpu_memcpy", "gpu_memset"))
#: Of a trace without a device: the calls of a process's operators stand for it.
OPERATOR = "cpu_op"
#: Categories that only a traced process has.
_HOST = frozenset(("cpu_op", "cuda_runtime", "cuda_driver", "python_function", "user_annotation"))
#: Torch's own slice for a pass (``record_python_gc_info``).
TORCH_PASS = "Python GC"
#: A text that ends this close to an error may only have been cut there.
_NEAR = 64
_NUMBER = re.compile(r"[-+.eE0-9]*")
_BLANK = re.compile(r"[ \t\n\r]*")


@dataclass
class Intervals:
    """Starts and stops as they come, ns since the trace's base."""

    starts: array[int] = field(default_factory=lambda: array("q"))
    stops: array[int] = field(default_factory=lambda: array("q"))

    def add(self, start: int, stop: int) -> None:
        self.starts.append(start)
        self.stops.append(stop)

    def since(self, base: int) -> tuple[Int64, Int64]:
        """(start, stop), with ``base`` added."""
        return np.array(self.starts, np.int64) + base, np.array(self.stops, np.int64) + base


@dataclass
class Trace:
    """What a merge needs to know of a trace. Instants are ns since ``base``."""

    base: int = 0
    #: Where the first event stands, in bytes (of the text that is compressed, if it is).
    place: int = -1
    events: int = 0
    #: First and last instant of any slice.
    low: int = 0
    high: int = 0
    slices: int = 0
    #: Slices whose time is no number: they are left as they are and not looked at.
    odd: int = 0
    #: Device (a pid of the trace, as text) -> when it works.
    devices: dict[str, Intervals] = field(default_factory=dict)
    #: The same -> the pid as it stands in the trace, and what it is called there.
    pids: dict[str, int | str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    #: Pid -> the passes that torch itself has recorded.
    passes: dict[int, Intervals] = field(default_factory=dict)
    #: Pids of the processes that were profiled.
    hosts: set[int] = field(default_factory=set)
    #: Pid -> when its operators ran.
    operators: dict[int, Intervals] = field(default_factory=dict)

    def workers(self) -> dict[str, Intervals]:
        """Whose work can have gaps: the devices, or in a trace without one the processes that were
        profiled, by their operators: with torch on the CPU they are what computes."""
        return self.devices or {str(pid): works for pid, works in self.operators.items()}


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The bytes of a trace, decompressed if need be."""
    with path.open("rb") as raw:
        compressed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        if compressed:
            with gzip.open(raw, "rb") as unpacked:
                yield cast(BinaryIO, unpacked)
        else:
            yield raw


def scan(path: Path) -> Trace:
    """Reads a trace once, from end to end.

    Raises:
        FrostlineError: ``bad-trace``.
    """
    found = Trace()
    try:
        with opened(path) as file:
            _scan(_Text(file), found)
    except (ValueError, RecursionError, OSError, EOFError, zlib.error) as error:
        raise bad(path, str(error)) from error
    if not found.slices:
        raise bad(path, "it has no slices")
    return found


def bad(path: Path, why: str) -> FrostlineError:
    return FrostlineError(
        "bad-trace",
        f"{path} is no trace that torch's profiler wrote: {why[:200]}",
        "Give the JSON file of torch.profiler's export_chrome_trace or tensorboard_trace_handler.",
    )


def ns(value: object) -> int:
    """Microseconds as a trace writes them, in whole ns.

    Raises:
        ValueError, TypeError, ArithmeticError: it is no number.
    """
    if isinstance(value, str):
        whole, _, rest = value.partition(".")
        if whole.isdecimal() and (rest.isdecimal() or not rest):
            return int(whole) * 1000 + int(f"{rest}000"[:3])
        return int(Decimal(value) * 1000)
    return int(value) * 1000  # type: ignore[call-overload, no-any-return]


def _scan(text: _Text, found: Trace) -> None:
    if text.next() != "{":
        raise ValueError("it is no JSON object")
    text.at += 1
    while (sign := text.next()) != "}":
        if sign == ",":
            text.at += 1
        key = text.value()
        if not isinstance(key, str) or text.next() != ":":
            raise ValueError("it is no JSON object")
        text.at += 1
        if key != "traceEvents":
            value = text.value()
            if key == "baseTimeNanoseconds":
                found.base = int(value or 0)
        elif text.next() != "[":
            raise ValueError("its traceEvents are no list")
        else:
            text.at += 1
            found.place = text.offset
            _take(text, found)
    text.at += 1
    if text.next():
        raise ValueError("there is text after its end")
    if found.place < 0:
        raise ValueError("it has no traceEvents")


def _take(text: _Text, found: Trace) -> None:
    """All events. This loop is what a merge spends its time in."""
    low, high = 2**63, -(2**63)
    for event in text.items():
        found.events += 1
        if not isinstance(event, dict):
            continue
        kind = event.get("ph")
        if kind == "M" and event.get("name") == "process_labels":
            found.labels[str(event.get("pid"))] = str(_argument(event, "labels"))
        if kind != "X" or "ts" not in event:
            continue
        try:
            start = ns(event["ts"])
            stop = start + ns(event.get("dur", 0))
            if not -(2**62) < start <= stop < 2**62:
                raise OverflowError
        except (ValueError, TypeError, ArithmeticError):
            found.odd += 1
            continue
        found.slices += 1
        low, high = min(low, start), max(high, stop)
        category, pid = event.get("cat"), event.get("pid")
        if category in DEVICE:
            name = str(pid)
            if name not in found.devices:
                found.devices[name] = Intervals()
                found.pids[name] = pid if isinstance(pid, int) else name
            found.devices[name].add(start, stop)
        elif isinstance(pid, int):
            if category in _HOST:
                found.hosts.add(pid)
            if category == OPERATOR:
                if pid not in found.operators:
                    found.operators[pid] = Intervals()
                found.operators[pid].add(start, stop)
            if event.get("name") == TORCH_PASS:
                found.passes.setdefault(pid, Intervals()).add(start, stop)
    found.low, found.high = low, high


def _argument(event: dict[str, Any], name: str) -> object:
    arguments = event.get("args")
    return arguments.get(name, "") if isinstance(arguments, dict) else ""


class _Text:
    """The text of a file from one place on: what has been read is dropped, a piece at a time."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decode = codecs.getincrementaldecoder("utf-8")().decode
        self._parse = json.JSONDecoder(parse_float=str).raw_decode
        self._dropped = 0
        self._ended = False
        self.text = ""
        #: Where the next character stands in ``text``.
        self.at = 0

    @property
    def offset(self) -> int:
        """The same in bytes of the file."""
        return self._dropped + len(self.text[: self.at].encode())

    def more(self) -> bool:
        """Reads on; False at the end. A value that does not fit is met with ever larger pieces."""
        rest = self.text[self.at :]
        raw = b"" if self._ended else self._file.read(max(CHUNK, len(rest)))
        self._dropped = self.offset
        self.text, self.at = rest + self._decode(raw, not raw), 0
        self._ended = not raw
        return not self._ended

    def next(self) -> str:
        """The next character that is no blank, which is not taken; nothing at the end."""
        while True:
            blank = _BLANK.match(self.text, self.at)
            assert blank is not None
            self.at = blank.end()
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.more():
                return ""

    def value(self) -> Any:
        """Takes the next JSON value; numbers with a fraction come as text."""
        self.next()
        while True:
            try:
                value, end = self._parse(self.text, self.at)
            except json.JSONDecodeError as error:
                if not self._may_be_cut(error) or not self.more():
                    raise
                continue
            if not self._ended and _NUMBER.fullmatch(self.text, end):
                self.more()  # a number that ends with the text may go on, also behind a point or an e
                continue
            self.at = end
            return value

    def _may_be_cut(self, error: json.JSONDecodeError) -> bool:
        return error.pos >= len(self.text) - _NEAR or error.msg.startswith("Unterminated string")

    def items(self) -> Iterator[Any]:
        """The values of a list whose bracket has been taken, up to its end."""
        if self.next() != "]":
            yield self.value()
            while (sign := self.next()) == ",":
                self.at += 1
                yield self.value()
            if sign != "]":
                raise ValueError("its list of events is broken off" if not sign else "its list of events")
        self.at += 1
