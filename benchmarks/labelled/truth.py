"""What really happened: stalls with their causes, as whoever made them wrote it down.

One line of JSON a stall, in a file beside the recording. Nothing of Frostline is asked for it: the
program that made the stall notes when it began and ended (CLOCK_MONOTONIC, ns) and what it did.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Stall:
    """One stall of one process.

    Attributes:
        cause: what was done, one of a generator's own words.
        victim: pid of the process whose work stood still.
        label: of the step that took long because of it; "" where no step ran: a gap between steps.
        begin: when the cause began, ns of CLOCK_MONOTONIC; ``end``: when it was over.
        culprit: pid of the process whose collector was the cause, 0 where no collector was.
        coincides: pids of processes whose collector ran meanwhile and had nothing to do with it.
    """

    cause: str
    victim: int
    label: str
    begin: int
    end: int
    culprit: int = 0
    coincides: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.end <= self.begin:
            raise ValueError(f"{self.cause}: it ends at {self.end}, not after its begin at {self.begin}")
        if self.culprit in self.coincides:
            raise ValueError(f"{self.cause}: the culprit {self.culprit} does not merely coincide")


@dataclass(frozen=True)
class Labelled:
    """A session and what is known of it. ``source`` is who or what made it, for the tables."""

    source: str
    session: Path
    stalls: tuple[Stall, ...]


def write_truth(path: Path, stalls: Iterable[Stall]) -> None:
    path.write_text("".join(json.dumps(asdict(stall)) + "\n" for stall in stalls))


def read_truth(path: Path) -> tuple[Stall, ...]:
    """The stalls of a file that ``write_truth`` wrote.

    Raises:
        ValueError: a line that is no stall, with its number.
    """
    stalls = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            values = json.loads(line)
            stalls.append(Stall(**{**values, "coincides": tuple(values.get("coincides", ()))}))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path}, line {number}: {error}") from error
    return tuple(stalls)
