"""What held up work: a frozen dataclass. Times in ns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Held:
    """Pauses over ``Options.long_floor`` while work of one process was in flight, after start-up."""

    count: int
    total: int
    longest: int
    #: From the end of start-up, or the first span, to the end of the recording.
    wall: int
    #: Spans of this label, and how many of them overlap one of the pauses.
    label: str
    waited: int
    spans: int

    @property
    def share(self) -> float:
        return self.total / self.wall
