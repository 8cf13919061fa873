"""Marks of one series: explicit collects by call site, the collector's state, what happened when."""

from __future__ import annotations

import itertools
from collections import defaultdict

import numpy as np

from frostline import format as fmt
from frostline.analysis.frozen import inside, policies_of, policy_at
from frostline.analysis.looks import command
from frostline.analysis.model import CallSite, Event, State
from frostline.analysis.pauses import Pauses
from frostline.format.meanings import LINES
from frostline.recording import Mark, Series

#: ns. Finalizers that keep the collector off for longer are an event.
FINALIZERS = 500_000_000
#: More acts of a policy than this are told of in sum.
SEVERAL = 4

#: Acts of the line that freeze.
_ACTS = (fmt.LINE_MOVED, fmt.LINE_OVER_BURST, fmt.LINE_WHOLE_HEAP)
#: Acts of a policy that has no line.
_PLAIN = (fmt.LINE_AWAITS, fmt.LINE_TOLD)
_BOUNDARY_FROM = {1: "the program", 2: "the supervisor", 3: "an integration"}
#: Marks that are no event of their own: they are shown in tables instead.
_QUIET = {
    fmt.MARK_STATE,
    fmt.MARK_IDENTITY,
    fmt.MARK_WRAPPED,
    fmt.MARK_REFUSED,
    fmt.MARK_OTHER_CALLBACK,
    fmt.MARK_COLLECT,
    fmt.MARK_PROMOTED,
    fmt.MARK_ALLOCATED,
    fmt.MARK_CENSUS,
}


def call_sites(series: Series) -> tuple[CallSite, ...]:
    """Explicit ``gc.collect()`` calls by the line they are on, the costliest first (case 16).

    A call that did nothing since a pass was running is *skipped*; its 0 is no finding (case 51).
    """
    groups: dict[tuple[str, int, str, int, bool], list[Mark]] = defaultdict(list)
    for mark in series.marks:
        if mark.kind == fmt.MARK_COLLECT:
            ours = bool(mark.flags & fmt.MARK_FLAG_OURS)
            groups[(mark.file, mark.line, mark.function, mark.values[0], ours)].append(mark)
    sites: list[CallSite] = []
    for (file, line, function, generation, ours), marks in groups.items():
        ran = [m for m in marks if not is_skipped(m)]
        times = [m.stop - m.time for m in marks]
        sites.append(
            CallSite(
                file=file,
                line=line,
                function=function,
                generation=generation,
                count=len(marks),
                total=sum(times),
                longest=max(times),
                reclaimed=sum(m.values[1] for m in ran if m.values[1] > 0),
                skipped=len(marks) - len(ran),
                raised=sum(m.values[1] < 0 for m in ran),
                ours=ours,
            )
        )
    return tuple(sorted(sites, key=lambda site: (-site.total, site.file, site.line)))


def is_skipped(mark: Mark) -> bool:
    """The collect did nothing: another pass was running, or none ran inside the call."""
    return bool(mark.flags & fmt.MARK_FLAG_SKIPPED)


def unseen_explicit(series: Series, pauses: Pauses) -> tuple[int, int]:
    """Passes that were not automatic and lie in no recorded collect: from C, or an older reference."""
    odd = ~pauses.automatic & ~pauses.explicit & (series.passes["threshold0"] >= 0)
    if not bool(np.any(odd)):
        return 0, 0
    calls = [mark for mark in series.marks if mark.kind == fmt.MARK_COLLECT]
    start = np.array([mark.time for mark in calls], np.int64)
    stop = np.array([mark.stop for mark in calls], np.int64)
    at = pauses.start[odd]
    length = pauses.length[odd]
    if len(calls):
        before = np.searchsorted(start, at, "right") - 1
        inside = (before >= 0) & (at <= stop[np.maximum(before, 0)])
        length = length[~inside]
    return len(length), int(length.sum())


def state(series: Series, closing: bool) -> State | None:
    """The collector's state at attach, or at an orderly close (B4)."""
    marks = [
        mark
        for mark in series.marks
        if mark.kind == fmt.MARK_STATE and bool(mark.flags & fmt.MARK_FLAG_CLOSING) == closing
    ]
    if not marks:
        return None
    # The same state may be taken twice (attach, later a fork): the first attach, the last close.
    by_kind: dict[int, Mark] = {}
    for mark in marks if closing else reversed(marks):
        by_kind[mark.values[0]] = mark
    stats: list[tuple[int, int, int] | None] = []
    counts: list[int | None] = []
    for generation in (0, 1, 2):
        one = by_kind.get(generation)
        stats.append((one.values[1], one.values[2], one.values[3]) if one else None)
        counts.append(one.values[4] if one else None)
    settings = by_kind.get(3)
    rest = by_kind.get(4)
    frozen = rest.values[1] if rest and rest.values[1] >= 0 else None
    return State(
        time=marks[-1 if closing else 0].time,
        stats=tuple(stats),
        counts=tuple(counts),
        thresholds=(settings.values[1], settings.values[2], settings.values[3]) if settings else None,
        enabled=bool(settings.values[4]) if settings else None,
        frozen=frozen,
        others=rest.values[2] if rest else None,
        debug=rest.values[3] if rest else None,
    )


def attached_after(series: Series) -> int:
    """ns that the process had lived when `frostline attach` came; 0 for one recorded from its start."""
    return max((mark.values[0] for mark in series.marks if mark.kind == fmt.MARK_ATTACH), default=0)


def events(series: Series) -> tuple[Event, ...]:
    """What happened to the collector and the process, in order, in words."""
    found: list[Event] = []
    hidden = _finalizers(series)
    follows = sum(mark.kind in (fmt.MARK_LINE, fmt.MARK_FREEZE) for mark in series.marks) > SEVERAL
    acts = [m for m in series.marks if m.kind == fmt.MARK_LINE and m.values[0] in _ACTS]
    policies = policies_of(series)
    for mark in series.marks:
        if mark.kind not in _QUIET and mark.time not in hidden:
            periodic = policy_at(policies, mark.time).startswith("periodic")
            minor = _minor(mark, follows, periodic, acts)
            found.append(Event(mark.time, mark.label, _words(series, mark), minor))
    return tuple(found)


def _minor(mark: Mark, follows: bool, periodic: bool, acts: list[Mark]) -> bool:
    """What a policy does over and over: moves of the line, and the freezes and thresholds with them."""
    if mark.kind == fmt.MARK_LINE:
        return mark.values[0] not in (fmt.LINE_GUARD, fmt.LINE_SWITCHED_OFF)
    ours = bool(mark.flags & fmt.MARK_FLAG_OURS)
    if mark.kind in (fmt.MARK_FREEZE, fmt.MARK_THAW):
        if not ours or not follows or mark.flags & (fmt.MARK_FLAG_SPLICE | fmt.MARK_FLAG_LATE):
            return False
        # One that is asked for, the boundary's and the thaw at the end are told of one by one.
        return (periodic and mark.kind == fmt.MARK_FREEZE) or inside(mark, acts)
    return ours and follows and mark.kind == fmt.MARK_THRESHOLD


def _finalizers(series: Series) -> set[int]:
    """Times of the pair of disable and enable that ``weakref.finalize`` makes at every exit."""
    pair = (fmt.MARK_DISABLE, fmt.MARK_ENABLE)
    marks = [m for m in series.marks if m.kind in pair and m.file.endswith("/weakref.py")]
    hidden: set[int] = set()
    for off, on in itertools.pairwise(marks):
        if (off.kind, on.kind) == pair and on.time - off.time < FINALIZERS:
            hidden |= {off.time, on.time}
    return hidden


def _words(series: Series, mark: Mark) -> str:
    a, b, c, d, e = mark.values
    by = "by Frostline" if mark.flags & fmt.MARK_FLAG_OURS else _at(mark)
    if mark.kind == fmt.MARK_FREEZE:
        count = f"{a:,} objects frozen since the start" if a >= 0 else "not counted"
        splice = (
            ", without a collect before: garbage may be frozen" if mark.flags & fmt.MARK_FLAG_SPLICE else ""
        )
        late = ", requests may have been in flight" if mark.flags & fmt.MARK_FLAG_LATE else ""
        if mark.flags & fmt.MARK_FLAG_SPLICE and b > 0:
            late = (
                f", frozen while serving: {b - 1:,} {'request' if b == 2 else 'requests'} in flight"
                if b > 1
                else ", no request open"
            )
        elif b > 1:
            late = f", frozen while serving: {b - 1:,} {'request' if b == 2 else 'requests'} in flight"
        return f"gc.freeze() {by}: {count}{splice}{late}"
    if mark.kind == fmt.MARK_THAW:
        count = f"{a:,} objects thawed" if a >= 0 else "not counted"
        return f"gc.unfreeze() {by}: {count}"
    if mark.kind == fmt.MARK_THRESHOLD:
        return f"thresholds set to {a}, {b}, {c} {by}"
    if mark.kind in (fmt.MARK_ENABLE, fmt.MARK_DISABLE):
        word = "enabled" if mark.kind == fmt.MARK_ENABLE else "disabled"
        return f"collector {word} {by}"
    if mark.kind == fmt.MARK_BOUNDARY:
        who = _BOUNDARY_FROM.get(a, "somebody")
        late = ", late: requests may have been in flight" if mark.flags & fmt.MARK_FLAG_LATE else ""
        splice = ", frozen without a collect" if mark.flags & fmt.MARK_FLAG_SPLICE else ""
        return f"start-up ended, says {who}{late}{splice}"
    if mark.kind == fmt.MARK_POLICY:
        return f"policy in force: {series.name(a) or 'off'}"
    if mark.kind == fmt.MARK_FORKED:
        return f"this process is a fork of pid {a}"
    if mark.kind == fmt.MARK_DEAD_COLLECTOR:
        return "the collector does not run here: the process was forked while a pass was running"
    if mark.kind == fmt.MARK_LINE:
        text = dict(LINES).get(a, "a policy acted")
        if a in _PLAIN:
            return text
        return f"{text}: {b:,}; F {c:,} of at most {e:,}, H {d:,}"
    if mark.kind == fmt.MARK_LOOK:
        return f"stopped for {(mark.stop - mark.time) / 1e6:,.0f} ms: frostline {command(mark)}, as asked"
    if mark.kind == fmt.MARK_REINSTALLED:
        return "the program had removed our callback from gc.callbacks; it was put back"
    meaning = next((text for kind, _, text in fmt.MARK_KINDS if kind == mark.kind), "")
    return meaning.partition(";")[0]


def _at(mark: Mark) -> str:
    return f"at {mark.file}:{mark.line}" if mark.file else "by an unknown caller"


def named(series: Series, kind: int) -> tuple[str, ...]:
    """The texts of ``wrapped``, ``refused`` or ``callback`` marks, once each."""
    found: dict[str, None] = {}
    for mark in series.marks:
        if mark.kind == kind:
            first, second = series.name(mark.values[0]), ""
            if kind in (fmt.MARK_WRAPPED, fmt.MARK_REFUSED):
                second = series.name(mark.values[1])
            found[f"{first}: {second}" if second and second != first else first] = None
    return tuple(found)
