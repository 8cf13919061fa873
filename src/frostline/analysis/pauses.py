"""The pauses of one series, as arrays with one entry a pass."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from frostline.analysis.intervals import Union
from frostline.analysis.walked import HeapModel
from frostline.recording.layout import Array, Int64


@dataclass(frozen=True)
class Pauses:
    """Per pass: when the process stopped, for how long, and what of that was the pass."""

    start: Int64
    stop: Int64
    alone: Int64
    others: Int64
    automatic: Array
    explicit: Array
    union: Union
    heap: HeapModel

    @cached_property
    def length(self) -> Int64:
        return self.stop - self.start
