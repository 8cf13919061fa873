"""What an analysis says: frozen dataclasses. All times in ns of one CLOCK_MONOTONIC unless said."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from frostline.analysis.budgets import Budget
from frostline.analysis.censuses import Census
from frostline.analysis.doubtmodel import Doubt as Doubt
from frostline.analysis.frozen import Frozen
from frostline.analysis.grouping import Grouping
from frostline.analysis.heldmodel import Held as Held
from frostline.analysis.hostmodel import HostCause, HostProcessReport, HostReport
from frostline.analysis.pauses import Pauses
from frostline.analysis.promotions import Promotions
from frostline.analysis.ranks import Rank
from frostline.analysis.rhythm import Rhythm
from frostline.analysis.threads import ThreadPasses
from frostline.analysis.triggers import Forecast
from frostline.recording import Loss, Run, Series
from frostline.recording.host import HostLog

if TYPE_CHECKING:
    from frostline.analysis.requests import RequestReport


@dataclass(frozen=True)
class Options:
    """What counts as slow.

    A step is slow if it takes over ``long_factor`` times its label's median and over
    ``long_floor`` ns. A label with fewer than ``few`` steps has no median to speak of: there the
    floor alone decides, and the label does not enter the headline while others do.
    """

    long_factor: float = 3.0
    long_floor: int = 20_000_000
    few: int = 4


@dataclass(frozen=True)
class Walked:
    """Objects that passes walked. ``value`` is None where nothing sound is known."""

    value: int | None
    exact: bool = False
    how: str = ""
    #: Passes of which nothing sound is known: they are not in the sum.
    unknown: int = 0
    #: An upper bound: it can be less, not more.
    at_most: bool = False


@dataclass(frozen=True)
class GenerationStats:
    """Passes of one generation in one process. Pauses as the process felt them."""

    generation: int
    count: int
    automatic: int
    total: int
    p50: int
    p99: int
    longest: int
    share: float
    walked: Walked
    reclaimed: int
    uncollectable: int
    #: Reclaimed over walked; None where walked is unknown or nothing was walked.
    yield_: float | None
    #: The passes themselves, without other tools' callbacks; and those callbacks.
    passes_alone: int
    others: int
    #: Of ``count`` and ``total``, Frostline's own: planned, at a boundary, an idle moment, a step, a thaw.
    ours: int = 0
    ours_total: int = 0


@dataclass(frozen=True)
class FullPass:
    """One pass of the oldest generation."""

    start: int
    pause: int
    alone: int
    kind: str
    reclaimed: int
    walked: Walked
    file: str
    line: int
    function: str
    tid: int
    counts: tuple[int, int, int]
    thresholds: tuple[int, int, int]
    #: Why an automatic one started: a rule of ``triggers``.
    why: str = ""


@dataclass(frozen=True)
class CallSite:
    """Explicit ``gc.collect()`` calls from one line."""

    file: str
    line: int
    function: str
    generation: int
    count: int
    total: int
    longest: int
    reclaimed: int
    skipped: int
    raised: int
    ours: bool


@dataclass(frozen=True)
class Event:
    """Something that happened to the collector or the process."""

    time: int
    kind: str
    text: str
    #: One of many of its kind, told of in sum under "Freezing".
    minor: bool = False


@dataclass(frozen=True)
class State:
    """The collector's state at one moment (B4). None where it was not recorded."""

    time: int
    #: (collections, collected, uncollectable) by generation, as ``gc.get_stats()``: monotonic.
    stats: tuple[tuple[int, int, int] | None, ...]
    counts: tuple[int | None, ...]
    thresholds: tuple[int, int, int] | None
    enabled: bool | None
    frozen: int | None
    others: int | None
    debug: int | None


@dataclass(frozen=True)
class LongStep:
    """One slow step, and what overlapped it."""

    process: str
    pid: int
    label: str
    kind: int
    start: int
    duration: int
    baseline: int
    overlap: int
    explained: bool
    nested: bool
    #: The longest pass in it: generation, pause, automatic or explicit, trigger. Empty if none.
    pass_text: str
    passes: int
    #: Another process whose passes held it up, as far as can be told: "consistent with", no more.
    elsewhere: str = ""
    #: Another process whose passes cover half of the excess, which may be chance.
    beside: str = ""
    #: What other tools' callbacks took of it, inside its pauses.
    callbacks: int = 0
    #: Native id of its thread, 0 where that was not told.
    tid: int = 0
    #: What the host shows of it, where no pass explains it, or where one took long for want of a CPU;
    #: None where nothing was sampled.
    host: HostCause | None = None

    @property
    def excess(self) -> int:
        return max(1, self.duration - self.baseline)

    @property
    def by_callback(self) -> bool:
        """Its pauses cover half of the excess, and are for the most part another tool's callback."""
        return 2 * self.overlap >= self.excess and 2 * self.callbacks > self.overlap


@dataclass(frozen=True)
class LabelStats:
    """Spans of one label in one process."""

    label: str
    kind: int
    count: int
    total: int
    p50: int
    p99: int
    longest: int
    errors: int
    slow: int
    explained: int
    #: Overlapped by passes of its own process, explained or not.
    overlapped: int
    #: Not explained, but consistent with a pass in another process.
    elsewhere: int
    #: Neither of these, though passes overlap it: by too little.
    in_part: int
    #: What slow steps are compared with; the median, unless pauses fill the median itself.
    baseline: int
    #: It enters the headline.
    primary: bool
    few: bool
    presets: bool
    note: str = ""
    #: Overlapped by a full pass, or by any pause over TOUCHING ns; the 99th percentile of the others,
    #: -1 where there are no others.
    touched: int = 0
    p99_rest: int = -1


@dataclass(frozen=True)
class ProcessReport:
    """One interpreter of one process."""

    name: str
    role: str
    pid: int
    interpreter: int
    session: int
    series: Series
    start: int
    stop: int
    closed: bool
    command: tuple[str, ...]
    python: str
    policy: str
    generations: tuple[GenerationStats, ...]
    longest: int
    longest_text: str
    pause_total: int
    full_passes: tuple[FullPass, ...]
    automatic_full: int
    call_sites: tuple[CallSite, ...]
    unseen_explicit: int
    unseen_explicit_total: int
    events: tuple[Event, ...]
    at_attach: State | None
    at_close: State | None
    frozen_since_attach: int | None
    #: When it was frozen, by whom, and what became of it.
    frozen: Frozen
    boundary: int
    #: When start-up ended, as far as is known: the boundary, READY, or the first step; else 0.
    serving: int
    #: Longest pause that began after it, and in words what it was.
    serving_longest: int
    serving_longest_text: str
    #: None if no pause over the floor met work in flight.
    held: Held | None
    #: The same of Frostline's own, from the freeze (or the end of start-up) to the thaw.
    held_ours: Held | None
    labels: tuple[LabelStats, ...]
    long_steps: tuple[LongStep, ...]
    #: Passes outside the main thread.
    threads: tuple[ThreadPasses, ...]
    other_callbacks: tuple[str, ...]
    refused: tuple[str, ...]
    wrapped: tuple[str, ...]
    lost_passes: int
    lost_spans: int
    #: The next full pass, None where the counts cannot say.
    forecast: Forecast | None
    #: The command of the ``frostline run`` that it descends from, as far as is known.
    launched: tuple[str, ...]
    #: One entry a pass, in the order of ``series.passes``.
    pauses: Pauses = field(repr=False)
    #: Full passes that come sooner as the load grows, None where that is not so.
    rhythm: Rhythm | None = None
    #: Types that gen-1 passes promote, None where it was not asked for.
    promotions: Promotions | None = None
    #: How the host treated it; None where it was not sampled.
    host: HostProcessReport | None = None
    #: What that one's ``--span`` asked for.
    launched_spans: tuple[str, ...] = ()
    #: Of its heap, taken by itself as asked (``--census``).
    censuses: tuple[Census, ...] = ()

    @property
    def frozen_since(self) -> int:
        """From when it was frozen, if that was most of the time from then on; else 0."""
        return self.frozen.since

    @property
    def frozen_until(self) -> int:
        """Until when, for good; 0 if never."""
        return self.frozen.until

    @property
    def while_frozen(self) -> tuple[FullPass, ...]:
        """Full passes that ran while the heap was frozen, Frostline's own left out."""
        if not self.frozen.since:
            return ()
        return tuple(p for p in self.full_passes if p.kind != "Frostline" and self.frozen.at(p.start))

    @property
    def wall(self) -> int:
        return max(1, self.stop - self.start)


@dataclass(frozen=True)
class MissedProcess:
    """A process of the tree that is not in the recording."""

    pid: int
    name: str
    command: tuple[str, ...]
    reason: str
    detail: str
    python: bool
    #: When it was seen; 0 where that is not known.
    first_seen: int = 0
    last_seen: int = 0


@dataclass(frozen=True)
class Verdict:
    """``kind`` is ``collector``, ``not-the-collector`` or ``cannot-tell``."""

    kind: str
    sentence: str
    #: What the sentence rests on, one sentence each.
    lines: tuple[str, ...] = ()
    explained: int = 0
    slow: int = 0
    elsewhere: int = 0
    steps: int = 0
    #: Slow is over ``threshold`` ns *and* over ``factor`` times the label's median. Of the label
    #: that most time is spent in that median is ``median``: all of its steps may be over ``threshold``.
    threshold: int = 0
    factor: float = 0.0
    median: int = 0
    #: Share of the time since start-up that passes took, in the process where it is largest.
    paused: float = 0.0
    #: The same for requests: coroutines, of which many wait in one stall.
    requests: int = 0
    slow_requests: int = 0
    explained_requests: int = 0
    #: One sentence for each further process whose work the collector held up.
    held: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    #: One sentence for each label that the headline counts: its p99 with and without the touched.
    tail: tuple[str, ...] = ()


@dataclass(frozen=True)
class Advice:
    """What to type next, and why. ``saving`` is in ns over the recording, None if none is claimed."""

    text: str
    command: str = ""
    saving: int | None = None
    how: str = ""


@dataclass(frozen=True)
class Analysis:
    """One session, or several merged ones."""

    path: Path
    verdict: Verdict
    advice: tuple[Advice, ...]
    processes: tuple[ProcessReport, ...]
    missed: tuple[MissedProcess, ...]
    doubts: tuple[Doubt, ...]
    losses: tuple[Loss, ...]
    runs: tuple[Run, ...]
    options: Options
    running: bool
    ready: tuple[str, int, str] | None
    clock_error: int
    start: int
    stop: int
    records: int
    bytes: int
    #: (monotonic, realtime, error) in ns, in order: what other clocks are aligned by.
    anchors: tuple[tuple[int, int, int], ...] = ()
    #: The gaps between steps of each process that has any.
    ranks: tuple[Rank, ...] = ()
    #: Pause budgets: by process, then (the last, ``process`` empty) on the union of those with work.
    budgets: tuple[Budget, ...] = ()
    #: Runs of load clients that were given beside it (``--requests``).
    requests: tuple[RequestReport, ...] = ()
    #: Steps compared with their like, and runs with each other.
    grouping: Grouping = field(default_factory=Grouping)
    #: The machine, where it was sampled.
    host: HostReport | None = None
    #: What that rests on, for tables and figures.
    host_logs: tuple[HostLog, ...] = field(default=(), repr=False)
