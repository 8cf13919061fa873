"""What an audit of the freeze (D6) knows of one process: what is frozen, since when, by whom, what has grown.

From the recording, and where the process lives and was asked, from what it counted itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from frostline import format as fmt
from frostline.analysis.events import attached_after
from frostline.analysis.frozen import (
    AGAIN,
    ASKED,
    BEFORE_FORK,
    BOUNDARY,
    INHERITED,
    MOVED,
    PERIODIC,
    PROGRAM,
    WHOLE_HEAP,
    Freeze,
)
from frostline.analysis.model import ProcessReport, Walked
from frostline.analysis.passes import FROSTLINE
from frostline.analysis.verdict import milliseconds as ms

#: A full pass that walked less says nothing of what an object costs.
WALKED = 20_000
#: ns an object, seen on other machines: 45 to 90 under a million objects, up to 1,000 in colder caches.
NS_LEAST, NS_MOST = 45, 1_000
#: ns for the look at finalizers before a walk that keeps what it finds: an object (390 ms for 664,000 of
#: vLLM's), and at most.
NS_LOOK, MOST_LOOK = 600, 500_000_000
#: 3.12 has some hundred objects of its own frozen; where nobody counted them, fewer than this are those.
OWN_MOST = 1_000
AT_FREEZE = "counted at its last freeze"
_PACKAGE = re.compile(r"/(?:site|dist)-packages/([^/:]+)")
_WHO = {
    BOUNDARY: "Frostline, at the boundary",
    AGAIN: "Frostline, at a boundary again",
    MOVED: "Frostline's policy",
    WHOLE_HEAP: "Frostline, in a walk of the whole heap",
    PERIODIC: "Frostline, by the clock",
    ASKED: "Frostline, as asked while it ran",
    INHERITED: "Frostline, as inherited",
    BEFORE_FORK: "Frostline, before a fork",
}


@dataclass(frozen=True)
class Now:
    """What a live process counted, or told, of itself. Counts are without the interpreter's own."""

    frozen: int
    tracked: int
    #: Requests open, and that have come so far; -1 and 0 where nobody tells of requests.
    in_flight: int
    entered: int
    policy: str
    spliced: bool
    inherited: bool

    @classmethod
    def of(cls, found: dict[str, Any]) -> Now:
        """From the answer of ``audit``."""
        return cls(
            frozen=int(found["frozen"]),
            tracked=sum(found["tracked"]),
            in_flight=int(found["in_flight"]),
            entered=int(found["entered"]),
            policy=str(found["policy"]),
            spliced=bool(found["spliced"]),
            inherited=bool(found["inherited"]),
        )


@dataclass(frozen=True)
class Finding:
    """One sentence of the verdict, without a full stop, and what to do next. ``good``: nothing is wrong."""

    name: str
    good: bool
    text: str
    do: str = ""


@dataclass(frozen=True)
class Prediction:
    """How long a walk of so many objects stops a process, ns, and how that was obtained.

    ``look``: at most so long it is looked for finalizers before, where what the walk finds is kept.
    """

    objects: int
    least: int
    most: int
    look: int
    how: str

    def words(self, objects: int) -> str:
        """The walk of so many of them."""
        least, most = (time * objects / max(1, self.objects) for time in (self.least, self.most))
        return ms(least) if ms(least) == ms(most) else f"{ms(least)} to {ms(most)}"


@dataclass(frozen=True)
class Audited:
    """One process. None is unknown; counts are without what the interpreter had frozen itself."""

    name: str
    pid: int
    frozen: int | None
    #: How ``frozen`` was obtained.
    how: str
    #: ns after the session's first record, of the freeze that made it frozen.
    at: int | None = None
    #: Who froze it.
    by: str = ""
    #: Why garbage may be among it; empty where a full pass came just before.
    garbage_why: str = ""
    #: Requests open then: as they were told, else by the spans of requests.
    in_flight: int | None = None
    #: Tracked and not frozen: what has grown since, where it is frozen. ``at_most``: an upper bound.
    grown: int | None = None
    grown_how: str = ""
    at_most: bool = False
    #: Of what was frozen, gone by reference count since.
    died: int | None = None
    #: Objects that the host's last full pass walked, as the report has them.
    walked: int | None = None
    walked_exact: bool = False
    walked_at_most: bool = False
    #: What one walk over all of it would take.
    walk: Prediction | None = None
    findings: tuple[Finding, ...] = ()


def who(one: Freeze) -> str:
    """Who froze: Frostline and why, or the program's line, with the package that it is of."""
    if one.why != PROGRAM:
        return _WHO[one.why] + (", late" if one.late else "")
    package = _PACKAGE.search(one.where)
    return f"{package.group(1) if package else 'the program'} itself, {one.where}"


def predict(process: ProcessReport | None, objects: int) -> Prediction:
    """The stop of one walk over ``objects`` that keeps what it finds."""
    known = [] if process is None else [p for p in process.full_passes if (p.walked.value or 0) >= WALKED]
    each = sorted(p.alone / (p.walked.value or 1) for p in known)
    look = min(objects * NS_LOOK, MOST_LOOK)
    if not each:
        how = (
            f"no full pass of its own over {WALKED:,} objects is recorded: by {NS_LEAST} to {NS_MOST:,} ns "
            "an object, as seen elsewhere"
        )
        return Prediction(objects, objects * NS_LEAST, objects * NS_MOST, look, how)
    middle, most = each[len(each) // 2], each[-1]
    how = f"by {middle:,.0f} ns an object in {'a full pass' if len(each) == 1 else 'full passes'} of its own"
    if len(each) > 1 and round(middle) != round(most):
        how = f"by {middle:,.0f} to {most:,.0f} ns an object, median and slowest of {len(each):,} of its own"
    return Prediction(objects, int(objects * middle), int(objects * most), look, how)


def facts(process: ProcessReport, now: Now | None, start: int = 0) -> Audited:
    """All but the findings. ``now``: what it counted itself, None where it was not asked; ``start``: the
    session's first instant.
    """
    story = process.frozen
    frozen, how = _frozen(process, now)
    grown, grown_how, at_most = _grown(process, now)
    first = story.first or (story.freezes[0] if story.freezes else None)
    theirs = [p for p in process.full_passes if p.kind != FROSTLINE]
    last = theirs[-1].walked if theirs else Walked(None)
    return Audited(
        name=process.name,
        pid=process.pid,
        frozen=frozen,
        how=how,
        at=None if first is None else first.time - start,
        by="" if first is None else who(first),
        garbage_why="" if first is None else first.garbage,
        in_flight=None if first is None else in_flight(process, first),
        grown=grown,
        grown_how=grown_how,
        at_most=at_most,
        died=_died(process, frozen, how),
        walked=last.value,
        walked_exact=last.exact,
        walked_at_most=last.at_most,
        walk=predict(process, (frozen or 0) + (grown or 0)) if frozen or grown else None,
    )


def in_flight(process: ProcessReport, one: Freeze) -> int | None:
    """Requests open at a freeze: as they were told; of the program's own freeze else by the spans of
    requests that lay over it. None where neither is there.
    """
    if one.in_flight is not None or one.why != PROGRAM:
        return one.in_flight
    spans = process.series.spans
    if not spans or not len(spans["start"]):
        return None
    requests = spans["kind"] == fmt.SPAN_ASYNC
    for label in process.labels:
        if label.label == "request":
            named = [number for number, text in process.series.names.items() if text == label.label]
            requests |= np.isin(spans["label"], named)
    if not bool(requests.any()):
        return None
    open_ = requests & (spans["start"] <= one.time) & (spans["stop"] > one.time)
    # What spans half of the process's life serves requests, and is none.
    open_ &= 2 * (spans["stop"] - spans["start"]) < process.wall
    return int(np.count_nonzero(open_))


def shared_with(process: ProcessReport, processes: Iterable[ProcessReport]) -> str:
    """The process of which it has inherited frozen objects through a fork; empty where it has none.

    What is garbage among them is garbage in both: a pass in either runs its finalizers.
    """
    known = {(p.session, str(p.series.series)): p for p in processes}
    seen = set()
    while (key := (process.session, process.series.first_text("parent_series"))) in known and key not in seen:
        seen.add(key)
        forked = (m.time - m.values[2] for m in process.series.marks if m.kind == fmt.MARK_FORKED)
        when = next(forked, process.start)
        process = known[key]
        if process.frozen.at(when):
            return process.name
    return ""


def _frozen(process: ProcessReport, now: Now | None) -> tuple[int | None, str]:
    if now is not None:
        return now.frozen, "counted now"
    story, close = process.frozen, process.at_close
    if story.thaws and not story.at(process.stop - 1):
        return 0, "thawed"
    if close is not None and close.frozen is not None:
        return _less_own(process, close.frozen), "counted at its end"
    counted = [f.objects for f in story.freezes if f.objects is not None]
    if counted:
        return counted[-1], AT_FREEZE
    return (None, "nobody has counted it") if story.freezes else (0, "no freeze is recorded")


def _less_own(process: ProcessReport, count: int) -> int:
    """A freeze count without what the interpreter had frozen before any program ran."""
    attached = process.at_attach
    if attached is not None and attached.frozen is not None and not attached_after(process.series):
        return max(0, count - attached.frozen)
    return 0 if process.series.version[:2] == (3, 12) and count < OWN_MOST else count


def _grown(process: ProcessReport, now: Now | None) -> tuple[int | None, str, bool]:
    """What is tracked and not frozen, how that is known, and whether it is an upper bound."""
    if now is not None:
        return now.tracked, "counted now", False
    taken = [one for one in process.censuses if not one.why_not and one.moment == "close"]
    if taken:
        return taken[-1].objects, "by the census at its end", False
    since = process.frozen.since
    # Ours, right behind a freeze, says nothing of what has come since.
    theirs = (p for p in process.full_passes if p.kind != FROSTLINE and p.start >= since)
    known = [p for p in theirs if p.walked.value is not None]
    if not known:
        return None, "nobody has counted it, and no full pass has shown it", False
    last = known[-1]
    return (
        max(0, (last.walked.value or 0) - last.reclaimed),
        "what its last full pass left",
        last.walked.at_most,
    )


def _died(process: ProcessReport, frozen: int | None, how: str) -> int | None:
    """Of what the last freeze held; only where that was counted then and has been since."""
    freezes = process.frozen.freezes
    if not frozen or not freezes or freezes[-1].objects is None or how == AT_FREEZE:
        return None
    return max(0, freezes[-1].objects - frozen)
