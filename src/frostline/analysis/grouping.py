"""What is said of groups and runs: frozen dataclasses, filled by ``groups``. Times in ns."""

from __future__ import annotations

from dataclasses import dataclass

from frostline.analysis.offsets import RunOffset
from frostline.analysis.runs import RunSeen

#: A step over this many times its group's median is counted.
OVER = 1.2


@dataclass(frozen=True)
class Group:
    """Spans of one label that tell the same, in one process of one run."""

    run: int
    process: str
    pid: int
    label: str
    #: SPAN_* of its first span.
    kind: int
    #: ``prefill``, ``decode``, ``mixed``, ``empty``, or nothing.
    stage: str
    #: Smallest and largest batch size of the row; -1 where none is told.
    batch_low: int
    batch_high: int
    name: str
    count: int
    total: int
    p50: int
    p99: int
    longest: int
    #: Outermost steps compared with the median of their label, stage, name and batch size (in finer
    #: buckets than the row's); those over OVER times it; and of these, explained by the process's passes.
    compared: int
    over: int
    explained: int
    #: ns by which the rest of ``over`` is longer than the mean of the steps that are not over.
    excess: int


@dataclass(frozen=True)
class Part:
    """What spans of one label take by themselves in the steps of another, in one process."""

    run: int
    process: str
    pid: int
    #: The step's label.
    step: str
    #: The nested label; empty for what the step takes by itself.
    part: str
    count: int
    #: ns, without what is nested in them in turn: over all parts they add up to the steps' time.
    total: int
    share: float
    #: Of the excess of the steps over OVER times their median that no pass explains; it adds up too.
    excess: int
    excess_share: float | None


@dataclass(frozen=True)
class Over:
    """Steps of one label over OVER times their group's median, in one process."""

    run: int
    process: str
    pid: int
    step: str
    compared: int
    over: int
    explained: int
    #: Of the rest: overlapped by passes that cover less than half of their excess.
    overlapped: int
    excess: int
    #: Where most of the excess lies, empty for the step itself, and which share of it.
    part: str
    part_share: float | None

    @property
    def rest(self) -> int:
        """Explained by no pass."""
        return self.over - self.explained


@dataclass(frozen=True)
class Grouping:
    """Everything about runs and groups."""

    runs: tuple[RunSeen, ...] = ()
    #: The number of the run of each process, in the order of the analysis.
    run_of: tuple[int, ...] = ()
    groups: tuple[Group, ...] = ()
    parts: tuple[Part, ...] = ()
    over: tuple[Over, ...] = ()
    offsets: tuple[RunOffset, ...] = ()
    #: What the offsets say, and how sure it is.
    sentences: tuple[str, ...] = ()
    #: Processes whose spans cross each other in one thread: nothing was taken apart there.
    crossing: tuple[str, ...] = ()
    #: Whether any span tells a stage, a batch size or a name.
    tells: bool = False
