"""What is said of the gaps between a process's steps: frozen dataclasses. Times in ns."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from frostline.recording.layout import Array, Int64

if TYPE_CHECKING:
    from frostline.analysis.model import Walked

#: What a gap is, by ``Rank.kind``.
UNEXPLAINED, CONSISTENT, SUPPLY = range(3)
#: The rank at the end of a role: ``Worker dp0``, ``Worker_TP1``, ``EngineCore_0``, ``W dp0-tp1``.
_RANK = re.compile(r"[ _-][a-z]{0,4}\d+(?:[-_][a-z]{1,4}\d+)*$", re.IGNORECASE)


@dataclass(frozen=True)
class Consistent:
    """Gaps of one rank that the rule finds consistent with passes of one process."""

    process: str
    role: str
    pid: int
    session: int
    #: The rank's own passes: there a pass *is* the stop.
    own: bool
    gaps: int
    #: Length of those gaps, and their share of the rank's gaps (supply gaps left out).
    total: int
    share: float
    #: What of those gaps its passes cover.
    covered: int
    #: Share of circular shifts of its passes that cover as much of the gaps, or more.
    by_chance: float
    #: ``by_chance`` is small enough, given how many processes were tried; else the gaps stay unexplained.
    claimed: bool
    passes: int
    generations: tuple[int, int, int]
    longest: int
    walked: Walked
    reclaimed: int
    #: Ranks whose own gaps lie between: what they waited for, this rank waited for.
    via: tuple[str, ...]
    #: How far the clocks of the two may differ (another host).
    clock_error: int
    #: One entry a gap: the pass (index among its process's), or -1.
    by: Int64 = field(repr=False, compare=False)


@dataclass(frozen=True)
class RankBucket:
    """Gaps of one rank in one range of lengths: ``low <= length < high``; ``high`` is 0 for no limit."""

    low: int
    high: int
    count: int
    total: int
    #: Consistent with passes of a process that was claimed.
    explained: int
    explained_total: int
    supply: int
    supply_total: int


@dataclass(frozen=True)
class LongGap:
    """One gap."""

    start: int
    length: int
    kind: int
    #: In words: what it is consistent with, or what it is.
    verdict: str
    #: The process that covers most of it and its pass, in words; empty if none.
    process: str = ""
    pass_text: str = ""


@dataclass(frozen=True)
class Rank:
    """The gaps between the steps of one process, from ``floor`` on."""

    process: str
    role: str
    pid: int
    session: int
    #: Labels of the spans that count as its steps.
    labels: tuple[str, ...]
    floor: int
    #: Median gap, of any length.
    median: int
    #: From the first step after start-up to the end of the last, and stretches of work in it.
    wall: int
    steps: int
    count: int
    total: int
    #: For half of it or more no request was in flight, and one that came ended it; or it opens on an
    #: empty step and closes on a prefill. None where that is not known.
    supply: int | None
    supply_total: int
    #: In words how it is known, or why it is not.
    supply_how: str
    supply_unknown: str
    explained: int
    explained_total: int
    #: Neither consistent with a pass nor shown to be one of supply.
    unexplained: int
    unexplained_total: int
    longest_explained: int
    longest_unexplained: int
    #: Of the unexplained time, that in which a request was in flight; None where requests were not recorded.
    in_flight: int | None
    #: Python processes without a recorder that lived during an unexplained gap: (name, pid).
    no_recorder: tuple[tuple[str, int], ...]
    #: What may make gaps of what is none, in words.
    doubt: str
    #: Processes with passes that are long enough to explain a gap.
    tried: int
    buckets: tuple[RankBucket, ...]
    consistent: tuple[Consistent, ...]
    #: One by one, the longest first; at most ``idle.LISTED``.
    longest: tuple[LongGap, ...]
    start: Int64 = field(repr=False, compare=False)
    stop: Int64 = field(repr=False, compare=False)
    #: One entry a gap: UNEXPLAINED, CONSISTENT or SUPPLY.
    kind: Array = field(repr=False, compare=False)

    @property
    def asked(self) -> int:
        """Gap time in which, as far as is known, there was something to do: supply gaps left out."""
        return self.total - self.supply_total

    @property
    def group(self) -> str:
        """The role without its rank: what several ranks have in common."""
        return _RANK.sub("", self.role) or self.role
