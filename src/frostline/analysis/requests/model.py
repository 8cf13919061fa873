"""What is said of one run of a load client beside a session: frozen dataclasses."""

from __future__ import annotations

from dataclasses import dataclass, field

from frostline.recording.layout import Array, Int64

#: The value of a request that has no answer and no deadline: longer than any.
NEVER = 2**62
RESPONSE, TTFT, GAPS = "response", "TTFT", "gap between chunks"


@dataclass(frozen=True)
class Share:
    """What one process's passes have to do with the items of a measure. Times in ns."""

    process: str
    pid: int
    #: |union of its passes in [intended, last]|, summed over the requests; None for other measures.
    attributed: int | None
    #: Items that a full pass, or a pause over 5 ms, of it meets; p99 of the others.
    touched: int
    p99_rest: int | None
    #: Slow items of whose excess over the median its passes cover at least half.
    consistent: int
    #: How much of the excess of all slow items they cover, at most all of each.
    covered: int
    #: ``covered`` as a share of that excess, and the mean of the same over circular shifts.
    share: float
    chance: float
    #: The share of shifts that cover as much or more.
    by_chance: float
    #: ``consistent`` is not 0, and that is beyond chance with as many processes and measures looked at.
    claimed: bool = False


@dataclass(frozen=True)
class Measure:
    """One time that a client measures. ns; None where that quantile is a request without an answer."""

    name: str
    count: int
    p50: int | None
    p99: int | None
    p999: int | None
    longest: int | None
    #: Over ``Options.long_floor`` and ``long_factor`` times the median; ``excess`` is over the median.
    slow: int = 0
    excess: int = 0
    #: Met by a full pass, or a pause over 5 ms, of any process; -1 where it was not looked at.
    touched: int = -1
    p99_touched: int | None = None
    p99_rest: int | None = None
    #: Slow items of whose excess passes of any process cover at least half.
    consistent: int = 0
    shares: tuple[Share, ...] = ()


@dataclass(frozen=True)
class Columns:
    """One entry a request that lies in the recorded time, in order of the intended time; ns, -1 unknown."""

    intended: Int64
    sent: Int64
    first: Int64
    #: Where it is not ``last``.
    last_token: Int64
    last: Int64
    tokens: Int64
    status: tuple[str, ...]
    #: ``NEVER`` for a failure without a deadline.
    response: Int64
    touched: Array
    #: |union of passes of all processes in [intended, last]|.
    attributed: Int64
    #: The process whose passes take most of it (index into ``Analysis.processes``), -1 for none.
    most: Int64
    most_attributed: Int64


@dataclass(frozen=True)
class RequestReport:
    """One run of a load client."""

    name: str
    format: str
    loop: str
    #: Requests that lie in the recorded time, how many of them failed, and how many the client cut off.
    count: int
    failed: int
    cut: int
    #: Left out: outside of the recorded time, of the warm-up, never sent, unreadable.
    outside: int
    outside_failed: int
    warm_up: int
    unsent: int
    unread: int
    #: Of the whole file, what failed because the client had no file or port left: in the figures too.
    own: int
    start: int
    stop: int
    #: How far the client's clock may be off, ns; 0 for the clock of the recording itself.
    clock_error: int
    #: p99 of sent - intended, None where that is not known, and the bound that makes a run invalid; so does
    #: any of ``own``.
    late_p99: int | None
    late_bound: int
    valid: bool
    #: |union of passes of all processes in [intended, last]|, summed over the requests.
    attributed: int
    measures: tuple[Measure, ...]
    notes: tuple[str, ...]
    columns: Columns = field(repr=False)
