"""When a heap was frozen, by whom, and what became of it: the boundary, extensions, walks, thaws.

Under ``follow`` the line moves at many full passes, ``periodic`` freezes again and again, a program
may freeze once an engine, and somebody may ask for a freeze on the live process: no single freeze is
"the freeze". What counts is since when the heap was frozen and for how long; a walk of the whole heap
(thaw, collect, freeze) in between is a pass of Frostline's, and does not begin anything anew.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

import numpy as np

from frostline import format as fmt
from frostline.recording import Mark, Series

#: Why there was a freeze.
BOUNDARY = "boundary"
AGAIN = "boundary again"
MOVED = "moved"
WHOLE_HEAP = "whole heap"
PERIODIC = "periodic"
ASKED = "asked"
#: A forked worker keeps what it has inherited as it stands, before it builds anything.
INHERITED = "inherited"
#: Under ``prefork``, in the parent.
BEFORE_FORK = "before a fork"
PROGRAM = "program"

#: ns. A splice so short before a fork was made for it.
AT_ONCE = 50_000_000
#: Net allocations between a full pass and a freeze that are nothing to speak of: frames, arguments.
FEW = 200
NO_CREDIT = "no credit"
#: Reasons for which a full pass walked more than the budget of ``follow``.
_OVER = {
    fmt.LINE_OVER_BURST: "many survivors at once",
    fmt.LINE_OVER_GARBAGE: "most of it garbage",
    fmt.LINE_OVER_YIELD: "a good part reclaimed",
    fmt.LINE_OVER_EXHAUSTED: NO_CREDIT,
}


@dataclass(frozen=True)
class Freeze:
    """One ``gc.freeze()``."""

    time: int
    #: Why: BOUNDARY, AGAIN, MOVED, WHOLE_HEAP, PERIODIC, ASKED, INHERITED, BEFORE_FORK or PROGRAM.
    why: str
    #: ``file:line`` of the program's, empty for ours.
    where: str
    #: Frozen since the interpreter's start, its own left out; None if not counted.
    objects: int | None
    #: Why it may hold garbage, in words; empty where a full pass came just before.
    garbage: str
    #: The supervisor told of it, after READY.
    late: bool
    #: Requests open then; None where nobody tells of requests.
    in_flight: int | None
    #: When a walk of the whole heap put it right, and what that reclaimed; 0 if none did.
    righted: int = 0
    reclaimed: int = 0


@dataclass(frozen=True)
class Walk:
    """A walk of the whole heap: thawed, collected, frozen again. A planned pause of Frostline's."""

    time: int
    took: int
    reclaimed: int
    kept: int
    #: F: objects that the line had frozen since the walk before.
    moved: int
    #: It is a boundary's own, or the first before a fork, and belongs to start-up.
    boundary: bool


@dataclass(frozen=True)
class Over:
    """Full passes that walked more than the budget, for one reason."""

    reason: str
    count: int
    #: Objects that the largest of them walked.
    most: int


@dataclass(frozen=True)
class LineStory:
    """What the line of ``follow`` did."""

    moves: int = 0
    #: Objects that the moves froze.
    moved: int = 0
    exhausted: int = 0
    restored: int = 0
    guards: int = 0
    #: The budget in objects that was raised to; 0 if it was not.
    raised: int = 0
    over: tuple[Over, ...] = ()
    #: ``follow``: times that what lives of the frozen was counted at a safe point, what that took (ns) and
    #: the longest. No pass holds them.
    counts: int = 0
    counts_total: int = 0
    counts_longest: int = 0
    #: CPU ns of its own callback in stops, counts of the oldest generation above all, and the longest of
    #: them. No pass holds them either. Of the live words, as they were last.
    own_total: int = 0
    own_longest: int = 0
    #: ``idle``: times that its deadline passed.
    deadlines: int = 0
    switched_off: int = 0


@dataclass(frozen=True)
class Frozen:
    """The story of one process. All zero where nothing was ever frozen."""

    #: From when to when it was frozen, if that was most of the time from then on; else 0.
    since: int = 0
    until: int = 0
    #: [begin, end) of each time that it was frozen; walks of the whole heap do not interrupt it.
    spans: tuple[tuple[int, int], ...] = ()
    freezes: tuple[Freeze, ...] = ()
    #: When it was thawed, by us or by the program, walks of the whole heap left out.
    thaws: tuple[int, ...] = ()
    walks: tuple[Walk, ...] = ()
    line: LineStory = field(default_factory=LineStory)

    def at(self, time: int) -> bool:
        """Whether it was frozen then."""
        return any(begin <= time < end for begin, end in self.spans)

    @property
    def first(self) -> Freeze | None:
        """The freeze that made it frozen: the boundary's, or the program's own."""
        before = [f for f in self.freezes if f.time <= self.since]
        return before[-1] if before else None

    @property
    def planned(self) -> tuple[Walk, ...]:
        """Walks of the whole heap after the boundary."""
        return tuple(walk for walk in self.walks if not walk.boundary)


def frozen(series: Series, end: int) -> Frozen:
    """The story of one series; ``end`` is when its recording ends."""
    acts = [m for m in series.marks if m.kind in (fmt.MARK_FREEZE, fmt.MARK_THAW)]
    lines = [m for m in series.marks if m.kind == fmt.MARK_LINE]
    if not acts and not lines:
        return Frozen()
    whole = [m for m in lines if m.values[0] == fmt.LINE_WHOLE_HEAP]
    spans = _spans(acts, whole, end)
    freezes = _freezes(series, acts, lines)
    since, until = _since(spans, end)
    return Frozen(
        since=since,
        until=until,
        spans=spans,
        freezes=freezes,
        thaws=tuple(m.time for m in acts if m.kind == fmt.MARK_THAW and not inside(m, whole)),
        walks=_walks(whole, freezes),
        line=_line(lines, series.words),
    )


def inside(mark: Mark, around: list[Mark]) -> bool:
    """Whether an instant lies in one of these intervals, which follow one another."""
    at = bisect_right(around, mark.time, key=lambda one: one.time) - 1
    return at >= 0 and mark.time <= around[at].stop


def _spans(acts: list[Mark], whole: list[Mark], end: int) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    begin = 0
    for mark in acts:
        if mark.kind == fmt.MARK_FREEZE:
            begin = begin or mark.stop
        elif begin and not inside(mark, whole):
            found.append((begin, mark.time))
            begin = 0
    if begin:
        found.append((begin, max(end, begin)))
    return tuple(found)


def _since(spans: tuple[tuple[int, int], ...], end: int) -> tuple[int, int]:
    """(since, until): the first time that lasted, if it was frozen for most of what came after.

    The thaw at shutdown ends it too, and does not undo it. One that was thawed again soon (around a
    fork) is none: it lasts if it held for most of the time up to the next one, or to the end.
    """
    if not spans:
        return 0, 0
    next_ = [begin for begin, _ in spans[1:]] + [end]
    lasting = [
        (a, b) for (a, b), after in zip(spans, next_, strict=True) if 2 * (min(b, end) - a) >= after - a
    ]
    if not lasting:
        return 0, 0
    since, until = lasting[0][0], lasting[-1][1]
    held = sum(min(b, end) - a for a, b in spans if a >= since)
    return (since, until) if 2 * held >= end - since else (0, 0)


def _freezes(series: Series, acts: list[Mark], lines: list[Mark]) -> tuple[Freeze, ...]:
    boundaries = [m.time for m in series.marks if m.kind == fmt.MARK_BOUNDARY]
    whole = [m for m in lines if m.values[0] == fmt.LINE_WHOLE_HEAP]
    moves = [m for m in lines if m.values[0] in (fmt.LINE_MOVED, fmt.LINE_OVER_BURST)]
    forked = any(m.kind == fmt.MARK_FORKED for m in series.marks)
    forks = [m.time for m in series.marks if m.kind == fmt.MARK_FORK]
    policies = policies_of(series)
    uncollected = _Uncollected(series)
    found: list[Freeze] = []
    last, begun = 0, False
    for mark in acts:
        if mark.kind != fmt.MARK_FREEZE:
            continue
        ours = bool(mark.flags & fmt.MARK_FLAG_OURS)
        splice = bool(mark.flags & fmt.MARK_FLAG_SPLICE)
        told = any(last < at <= mark.time for at in boundaries)
        walked = inside(mark, whole)
        if walked and not policy_at(policies, mark.time):
            told = False  # an audit's: no policy is there to act on a boundary
        if not ours:
            why = PROGRAM
        elif told:
            why, begun = AGAIN if begun else BOUNDARY, True
        elif walked:
            first = not found and policy_at(policies, mark.time).startswith("prefork")
            why = BEFORE_FORK if first else WHOLE_HEAP
        elif not splice and inside(mark, moves):
            why = MOVED
        else:
            why = _otherwise(mark, policy_at(policies, mark.time), forked and not begun, forks)
        garbage = ""
        if splice:
            garbage = "without a collect"
        elif not ours:
            garbage = uncollected.before(_without_census(series, mark.time), mark.values[2] - 1)
        told_of = mark.values[1] > 0
        later = (w for w in whole if w.time > mark.time) if garbage else iter(())
        right = next(later, None)
        found.append(
            Freeze(
                time=mark.time,
                why=why,
                where="" if ours else f"{mark.file}:{mark.line}" if mark.file else "an unknown caller",
                objects=mark.values[0] if mark.values[0] >= 0 else None,
                garbage=garbage,
                late=bool(mark.flags & fmt.MARK_FLAG_LATE),
                in_flight=mark.values[1] - 1 if told_of else None,
                righted=right.time if right else 0,
                reclaimed=max(0, right.values[1]) if right else 0,
            )
        )
        last = mark.time
    return tuple(found)


def _otherwise(mark: Mark, policy: str, worker: bool, forks: list[int]) -> str:
    """Why we froze where neither a boundary nor a mark of the line says it.

    What is asked of a live process is a splice; ``prefork`` splices with requests in flight, at a fork.
    ``worker``: forked, and its own boundary has not come.
    """
    if mark.flags & fmt.MARK_FLAG_SPLICE:
        at = bisect_right(forks, mark.time)
        forks_now = at < len(forks) and forks[at] - mark.time < AT_ONCE
        return BEFORE_FORK if policy.startswith("prefork") and forks_now else ASKED
    if worker:
        return INHERITED
    if policy.startswith("prefork"):
        return BEFORE_FORK
    return PERIODIC if policy.startswith("periodic") else ASKED


def policies_of(series: Series) -> list[tuple[int, str]]:
    """(since when, which) of the policies that were in force, in order; an empty text for none."""
    found = [(0, series.first_text("policy"))]
    found += [(m.time, series.name(m.values[0])) for m in series.marks if m.kind == fmt.MARK_POLICY]
    # "off, 'folow' refused": FROSTLINE_POLICY was none, and the header says what was asked for.
    return [(time, "" if text.partition(",")[0] == "off" else text) for time, text in found]


def policy_at(policies: list[tuple[int, str]], time: int) -> str:
    """The policy in force at an instant, of ``policies_of``."""
    return policies[max(0, bisect_right(policies, time, key=lambda one: one[0]) - 1)][1]


def _without_census(series: Series, time: int) -> int:
    """When a freeze would have come without the census just before it, which may have had a young pass."""
    marks = [m for m in series.marks if m.kind == fmt.MARK_CENSUS and m.stop <= time]
    return marks[-1].time if marks and time - marks[-1].stop < AT_ONCE else time


class _Uncollected:
    """Why garbage may be among what the program froze."""

    def __init__(self, series: Series) -> None:
        self.stops = series.passes["stop"]
        self.full = np.flatnonzero(series.passes["generation"] == 2)

    def before(self, time: int, allocated: int) -> str:
        """In words; empty right after a full pass. ``allocated`` net since the last pass, -1 if not known."""
        count = int(np.searchsorted(self.stops, time, "right"))
        at = int(np.searchsorted(self.full, count)) - 1
        if at < 0:
            return "no full pass before it"
        young = count - int(self.full[at]) - 1
        if young:
            return f"{young:,} young {'pass' if young == 1 else 'passes'} since the last full one"
        return f"{allocated:,} containers made since the last full pass" if allocated > FEW else ""


def _walks(whole: list[Mark], freezes: tuple[Freeze, ...]) -> tuple[Walk, ...]:
    told = [f.time for f in freezes if f.why in (BOUNDARY, AGAIN, BEFORE_FORK)]
    return tuple(
        Walk(
            time=mark.time,
            took=mark.stop - mark.time,
            reclaimed=max(0, mark.values[1]),
            kept=max(0, mark.values[3]),
            moved=max(0, mark.values[2]),
            boundary=any(mark.time <= at <= mark.stop for at in told),
        )
        for mark in whole
    )


def _line(lines: list[Mark], words: dict[str, int]) -> LineStory:
    def count(*kinds: int) -> int:
        return sum(m.values[0] in kinds for m in lines)

    moves = [m.values[1] for m in lines if m.values[0] in (fmt.LINE_MOVED, fmt.LINE_OVER_BURST)]
    over = []
    for kind, reason in _OVER.items():
        walked = [m.values[1] for m in lines if m.values[0] == kind]
        if walked:
            over.append(Over(reason, len(walked), max(walked)))
    raised = [m.values[1] for m in lines if m.values[0] == fmt.LINE_BUDGET_RAISED]
    counts = [m.stop - m.time for m in lines if m.values[0] in (fmt.LINE_MEASURED, fmt.LINE_RESTORED)]
    return LineStory(
        moves=len(moves),
        moved=sum(moves),
        exhausted=count(fmt.LINE_EXHAUSTED),
        restored=count(fmt.LINE_RESTORED),
        guards=count(fmt.LINE_GUARD),
        raised=raised[-1] if raised else 0,
        over=tuple(over),
        counts=len(counts),
        counts_total=sum(counts),
        counts_longest=max(counts, default=0),
        own_total=words.get("line_own_ns", 0),
        own_longest=words.get("line_own_longest_ns", 0),
        deadlines=count(fmt.LINE_DEADLINE),
        switched_off=count(fmt.LINE_SWITCHED_OFF),
    )
