"""Holds a session to its budget: one check for each limit and process.

Counts come from the record and do not depend on the machine's load: passes, objects walked, objects
reclaimed. Times do; so a pause that is over its limit only because its thread had no CPU is told apart
(``preempted``), as far as host samples prove it. Frostline's own passes (a boundary's collect, idle
walks, a thaw) are planned for moments without requests: no limit of pauses and passes counts them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from frostline import format as fmt
from frostline.analysis.model import Analysis, MissedProcess, ProcessReport
from frostline.analysis.passes import EXPLICIT, kind_of
from frostline.analysis.threads import native_ids
from frostline.analysis.verdict import milliseconds as ms
from frostline.format.naming import means
from frostline.gate.baseline import Baseline, Garbage, by_role, garbage_of, reclaiming, since_of
from frostline.gate.limits import Budget, Limits
from frostline.gate.offender import Offender, offender, where
from frostline.gate.preempted import track_of, waited
from frostline.recording.layout import Array

HELD, BROKEN, PREEMPTED, UNKNOWN = "held", "broken", "preempted", "unknown"
#: More of the young passes may not be unknown where the objects that each walked are limited.
_FEW = 0.1
#: Lines named that call for full passes.
_SITES = 6
#: Pauses that are looked at closely for want of a CPU, the longest first.
_CLOSELY = 1000


@dataclass(frozen=True)
class Check:
    """One limit of one process (or of one role, where garbage is counted)."""

    limit: str
    #: Its name as the report has it, with its pid.
    process: str
    role: str
    outcome: str
    #: What was found and what is allowed, in words; a bound says that it is one.
    found: str
    allowed: str = ""
    #: Why it cannot be told, or what the figure rests on.
    how: str = ""
    #: The pass that is to blame, and how many more there are.
    worst: Offender | None = None
    more: int = 0

    def fails(self, strict: bool) -> bool:
        return self.outcome == BROKEN or (strict and self.outcome in (PREEMPTED, UNKNOWN))


@dataclass(frozen=True)
class _Judged:
    """A process, from when on it is judged, and the host's own passes in that time."""

    analysis: Analysis
    process: ProcessReport
    since: int
    which: Array
    #: Why what holds may hold only since something was not recorded; empty if nothing is missing.
    gap: str

    def check(self, limit: str, outcome: str, found: str, allowed: str = "", **more: object) -> Check:
        one = Check(limit, self.process.name, self.process.role, outcome, found, allowed)
        one = replace(one, **more)  # type: ignore[arg-type]
        if outcome == HELD and self.gap:
            return replace(one, outcome=UNKNOWN, how=self.gap)
        return one

    def worst(self, index: int) -> Offender:
        return offender(self.analysis, self.process, index, self.since)


def judge(analysis: Analysis, budget: Budget, baseline: Baseline | None = None) -> tuple[Check, ...]:
    """Every check, the processes in the report's order. Empty where nothing of the session can be judged."""
    found: list[Check] = []
    for process in analysis.processes:
        since = since_of(process, budget.since_serving)
        if not since:
            continue
        own = (process.series.passes["flags"] & fmt.PASS_FROSTLINE) != 0
        which = (process.pauses.start >= since) & ~own
        found += _of_process(_Judged(analysis, process, since, which, _gap(process)), budget.of(process.role))
    if budget.no_new_cycles:
        found += _garbage(analysis, budget, baseline)
    if not found:
        return ()
    found += [_missed(one) for one in analysis.missed if one.python]
    roles = {process.role for process in analysis.processes}
    for wanted, _ in budget.roles:
        if not any(means(wanted, role) for role in roles):
            text = "no process of this role is in the session"
            found.append(Check("role", wanted, wanted, UNKNOWN, text, how="renamed, or not started"))
    return tuple(found)


def _missed(one: MissedProcess) -> Check:
    return Check("recorded", one.name, "", UNKNOWN, f"it was not recorded [{one.reason}]", how=one.detail)


def _gap(process: ProcessReport) -> str:
    series = process.series
    if series.words.get("off_reason", 0):
        return "the recorder was off there for some of the time"
    if process.lost_passes:
        return f"{process.lost_passes:,} passes are not in the recording"
    if series.dropped_passes:
        return f"{series.dropped_passes:,} young passes were dropped to stay within the retention limit"
    return "segments are missing" if series.incomplete else ""


def _of_process(judged: _Judged, limits: Limits) -> list[Check]:
    found = []
    if limits.max_pause is not None:
        found.append(_pause(judged, limits.max_pause))
    if limits.max_total is not None:
        found.append(_total(judged, limits.max_total))
    if limits.max_walked is not None:
        found.append(_walked(judged, limits.max_walked))
    if limits.max_full is not None:
        found.append(_full(judged, limits.max_full))
    return found


class _Waits:
    """What each pass waited for a CPU, at least."""

    def __init__(self, judged: _Judged) -> None:
        self.process = judged.process
        self.track = track_of(judged.analysis, judged.process)
        self._tids = native_ids(judged.process.series)

    def of(self, index: int) -> int | None:
        pauses, series = self.process.pauses, self.process.series
        main = self._tids.get(int(series.passes["thread"][index])) == series.pid
        return waited(self.track, int(pauses.start[index]), int(pauses.stop[index]), main)


def _pause(judged: _Judged, limit: int) -> Check:
    length = judged.process.pauses.length
    allowed = f"{ms(limit)} allowed"
    over = np.flatnonzero(judged.which & (length > limit))
    if not len(over):
        longest = int(length[judged.which].max()) if judged.which.any() else 0
        return judged.check("max-pause", HELD, f"longest pause {ms(longest)}", allowed)
    over = over[np.argsort(-length[over], kind="stable")]
    waits = _Waits(judged)
    seen = {int(i): waits.of(int(i)) for i in over[:_CLOSELY]}
    real = [int(i) for i in over if length[i] - (seen.get(int(i)) or 0) > limit]
    if not real:
        i = int(over[0])
        text = f"a pause of {ms(int(length[i]))}"
        how = f"of it {ms(seen[i] or 0)} at least in the run queue, without a CPU: the machine, not the pass"
        return judged.check(
            "max-pause", PREEMPTED, text, allowed, how=how, worst=judged.worst(i), more=len(over) - 1
        )
    i = real[0]
    if seen.get(i) is None:
        how = "by the clock alone: the host was not sampled then, so a wait for a CPU would be in it"
    else:
        how = f"host samples prove {ms(seen[i] or 0)} of it as a wait for a CPU"
    text = f"a pause of {ms(int(length[i]))}"
    return judged.check(
        "max-pause", BROKEN, text, allowed, how=how, worst=judged.worst(i), more=len(real) - 1
    )


def _total(judged: _Judged, limit: float) -> Check:
    length = np.where(judged.which, judged.process.pauses.length, 0)
    wall = max(1, judged.process.stop - judged.since)
    total = int(length.sum())
    text = f"{100 * total / wall:.2f} % of {wall / 1e9:.1f} s in passes"
    allowed = f"{100 * limit:g} % allowed"
    if total <= limit * wall:
        return judged.check("max-total", HELD, text, allowed)
    waits = _Waits(judged)
    order = np.argsort(-length, kind="stable")[:_CLOSELY]
    lost = sum(waits.of(int(i)) or 0 for i in order if length[i])
    worst = judged.worst(int(order[0]))
    more = int(np.count_nonzero(judged.which)) - 1
    if total - lost <= limit * wall:
        how = f"of it {ms(lost)} at least in the run queue, without a CPU: the machine, not the passes"
        return judged.check("max-total", PREEMPTED, text, allowed, how=how, worst=worst, more=more)
    if waits.track is None:
        how = "by the clock alone: the host was not sampled, so waits for a CPU would be in it"
    else:
        how = f"host samples prove {ms(lost)} of it as waits for a CPU"
    return judged.check("max-total", BROKEN, text, allowed, how=how, worst=worst, more=more)


def _walked(judged: _Judged, limit: int) -> Check:
    heap, passes = judged.process.pauses.heap, judged.process.series.passes
    walked = np.where(judged.which, heap.walked, 0)
    allowed = f"{limit:,} allowed in one pass"
    over = np.flatnonzero(walked > limit)
    if len(over):
        i = int(walked.argmax())
        worst = judged.worst(i)
        how = "as the interpreter says"
        if not heap.exact[i]:
            how = (
                "an upper bound, before CPython 3.15: where much dies between passes it can be far above "
                "what was walked; max-full needs none"
            )
        return judged.check(
            "max-walked", BROKEN, f"{worst.walked} walked", allowed, how=how, worst=worst, more=len(over) - 1
        )
    unknown = judged.which & (heap.walked < 0)
    full = int(np.count_nonzero(unknown & (passes["generation"] == 2)))
    known = heap.walked[judged.which & (heap.walked >= 0)]
    most = int(known.max()) if len(known) else 0
    if full or np.count_nonzero(unknown) > _FEW * np.count_nonzero(judged.which):
        text = f"at most {most:,} walked by passes of which that is known"
        if not len(known):
            text = "what passes walked is known of none"
        how = f"of {np.count_nonzero(unknown):,} passes it is not ({full} full ones)"
        return judged.check("max-walked", UNKNOWN, text, allowed, how=how)
    return judged.check("max-walked", HELD, f"at most {most:,} walked", allowed)


def _full(judged: _Judged, limit: int) -> Check:
    series, allowed = judged.process.series, f"{limit} allowed"
    full = np.flatnonzero(judged.which & (series.passes["generation"] == 2))
    text = f"{len(full)} full pass{'' if len(full) == 1 else 'es'}"
    if len(full) > limit:
        i = int(full[judged.process.pauses.length[full].argmax()])
        how = f"a count, by what began them: {_began_by(judged, full)}"
        return judged.check(
            "max-full", BROKEN, text, allowed, worst=judged.worst(i), more=len(full) - 1, how=how
        )
    if (3, 14, 0) <= series.version < (3, 14, 5):
        how = "CPython 3.14.0 to 3.14.4 collect in increments, which have no full pass: use max-walked"
        return judged.check("max-full", UNKNOWN, text, allowed, how=how)
    return judged.check("max-full", HELD, text, allowed)


def _began_by(judged: _Judged, full: Array) -> str:
    """``3 x automatic, 2 x explicit at app.py:12``, the most frequent first."""
    counts: Counter[str] = Counter()
    for i in full.tolist():
        kind = kind_of(judged.process.series, judged.process.pauses, i)
        file, line, _ = where(judged.process, i) if kind == EXPLICIT else ("", 0, "")
        counts[f"{kind} at {file}:{line}" if file else kind] += 1
    shown = [f"{many:,} x {what}" for what, many in counts.most_common(_SITES)]
    rest = len(counts) - len(shown)
    return ", ".join(shown) + (f", and {rest:,} other lines" if rest else "")


# --- garbage ------------------------------------------------------------------------------
def _garbage(analysis: Analysis, budget: Budget, baseline: Baseline | None) -> list[Check]:
    found = []
    for role, processes in by_role(analysis).items():
        now = garbage_of(processes, budget.since_serving)
        if now.processes:
            found.append(_of_role(analysis, budget, baseline, role, processes, now))
    return found


def _of_role(
    analysis: Analysis,
    budget: Budget,
    baseline: Baseline | None,
    role: str,
    processes: list[ProcessReport],
    now: Garbage,
) -> Check:
    allowed = baseline.allowed(role, now, budget.margin) if baseline else 0
    text = f"{now.reclaimed:,} objects in cycles were reclaimed, by {now.passes:,} passes"
    how = "a count; what no pass has come by for is not in it"
    base = baseline.roles.get(role) if baseline else None
    if baseline and base is None:
        words = "0 allowed: the baseline has no such role"
    elif base and base.work and now.work:
        words = f"{allowed:,} allowed: {base.reclaimed:,} for {base.work:,} spans then, {now.work:,} now"
        words += f", and {100 * budget.margin:g} %"
    else:
        words = f"{allowed:,} allowed"
    most, index, most_of, freeing = None, -1, -1, 0
    for process in processes:
        since = since_of(process, budget.since_serving)
        which = reclaiming(process, since) if since else np.zeros(0, bool)
        counts = process.series.passes["collected"]
        freeing += int(np.count_nonzero(counts[which])) if which.any() else 0
        mine = int(counts[which].sum(dtype=np.int64)) if which.any() else 0
        if mine > most_of and which.any():
            most, most_of = process, mine
            index = int(np.where(which, counts, -1).argmax())
    shown = most or processes[0]
    if now.reclaimed > allowed:
        worst = None
        if most is not None:
            worst = offender(analysis, most, index, since_of(most, budget.since_serving), cycles=True)
        return Check("no-new-cycles", shown.name, role, BROKEN, text, words, how, worst, freeing - 1)
    gap = next((gap for process in processes if (gap := _gap(process))), "")
    return Check("no-new-cycles", shown.name, role, UNKNOWN if gap else HELD, text, words, gap or how)
