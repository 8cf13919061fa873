"""The verdict: the collector, not the collector, or cannot tell."""

from __future__ import annotations

import numpy as np

from frostline import format as fmt
from frostline.analysis.held import is_finding
from frostline.analysis.model import Held, LabelStats, MissedProcess, Options, ProcessReport, Verdict
from frostline.analysis.starved import Starved
from frostline.analysis.steps import TOUCHING, Counted, request_label

#: Under this share of the slow steps the collector is not what makes them slow.
MINOR = 0.1
#: Processes that are named under the headline, beside the one in it.
SHOWN_HELD = 5
#: Labels whose 99th percentile is told with and without the touched; fewer spans have none to speak of.
SHOWN_TAIL = 1
WORTH_P99 = 20
#: Of this much of it the touched make no difference, and the table of steps says so.
SAME = 0.9
#: What spans of a label are called; others go by the label in quotes.
NOUNS = {"request": "requests", "task": "tasks", "step": "steps"}

COLLECTOR = "collector"
NOT_COLLECTOR = "not-the-collector"
DAMAGED = "the recording is damaged"
NO_STEPS = "no steps were recorded"
CANNOT_TELL = "cannot-tell"


def milliseconds(ns: float) -> str:
    """``20 ms``, ``1.5 ms``, ``0.02 ms``: as many digits as say something."""
    ms = ns / 1e6
    if ms >= 100 or ms == int(ms):
        return f"{ms:,.0f} ms"
    return f"{ms:.1f} ms" if ms >= 1 else f"{ms:.2g} ms"


def decide(
    processes: tuple[ProcessReport, ...],
    missed: tuple[MissedProcess, ...],
    counted: Counted,
    options: Options,
    refused: tuple[str, ...] = (),
    damaged: int = 0,
    idle: tuple[Starved, ...] = (),
) -> Verdict:
    """The verdict over all processes; ``refused`` are spans that were asked for and not put on, and why,
    ``damaged`` is the number of files that could not be read whole, ``idle`` what ranks wait for
    between their steps.

    It is "the collector" if that explains a tenth of the slow steps, or of the slow requests, or if
    it held up some process's work for long, or if what ranks idle between their steps is consistent
    with it: what was lost can only add to that. Else, where what was lost could turn the verdict, it
    is "cannot tell".
    """
    found = [p for p in processes if is_finding(p.held, options)]
    found.sort(key=lambda p: -(p.held.total if p.held else 0))
    held = [_also(p) for p in found[1:]]
    if len(held) > SHOWN_HELD:
        held[SHOWN_HELD:] = [f"and {len(held) - SHOWN_HELD:,} more"]
    by_count = _explains(counted)
    waits = next((one for one in idle if one.sentence), None)
    sure = bool(found or by_count or waits)
    why_not = "" if sure else _cannot_tell(processes, missed, counted, refused) or _no_recorder(idle)
    if damaged and not sure and (not why_not or why_not.startswith(NO_STEPS)):
        files = "one of its files is" if damaged == 1 else f"{damaged:,} of its files are"
        why_not = f"{DAMAGED}: {files} missing or not whole"
        why_not += _longest(processes) if processes else ""
    lines: list[str] = []
    if why_not:
        kind, sentence = CANNOT_TELL, f"cannot tell, because {why_not}"
    elif found:
        kind, sentence = COLLECTOR, _stopped(found[0], options)
        lines.append(_waiting(found[0]))
        if counted.slow or counted.slow_requests:
            lines.append(f"it explains {_explained(counted)}{_elsewhere(counted)}")
    elif by_count:
        kind, sentence = COLLECTOR, f"the collector explains {_explained(counted)}{_elsewhere(counted)}"
        worst = max(
            (p for p in processes if p.held), key=lambda p: p.held.total if p.held else 0, default=None
        )
        if worst is not None:
            lines.append(_also(worst, "it stopped"))
    elif waits is not None:
        kind, sentence = COLLECTOR, waits.sentence
        if counted.steps + counted.requests:
            lines.append(f"the work itself: {_innocent(counted, processes, options)}{_elsewhere(counted)}")
    else:
        kind, sentence = NOT_COLLECTOR, f"not the collector: {_innocent(counted, processes, options)}"
        sentence += _elsewhere(counted)
        lines += _how_long(processes, counted)
    lines += [one.sentence for one in idle if one.sentence and one.sentence != sentence]
    if kind == NOT_COLLECTOR:
        lines += [one.rest for one in idle if one.rest]
    usual = _usual(processes)
    return Verdict(
        kind=kind,
        sentence=sentence,
        lines=tuple(lines),
        explained=counted.explained,
        slow=counted.slow,
        elsewhere=counted.elsewhere,
        steps=counted.steps,
        threshold=options.long_floor,
        factor=options.long_factor,
        median=usual[1].p50 if usual else 0,
        paused=_paused(processes),
        requests=counted.requests,
        slow_requests=counted.slow_requests,
        explained_requests=counted.explained_requests,
        held=tuple(held),
        details=_details(processes),
        tail=_tail(processes),
    )


def _no_recorder(idle: tuple[Starved, ...]) -> str:
    """Why gaps that no recorded pass explains may be those of a process without a recorder."""
    for one in idle:
        if one.rest and one.no_recorder:
            names = some([name for name, _ in one.no_recorder])
            return f"{one.rest}; {names} had no recorder"
    return ""


def _explains(counted: Counted) -> bool:
    steps = counted.explained >= max(1, MINOR * counted.slow)
    return steps or counted.explained_requests >= max(1, MINOR * counted.slow_requests)


def _stopped(process: ProcessReport, options: Options) -> str:
    """The headline: how often the collector stopped one process, and for how long at the worst."""
    held = process.held
    assert held is not None
    text = f"the collector stopped {process.name} "
    if held.count == 1:
        return text + f"once, for {milliseconds(held.longest)}"
    over = milliseconds(options.long_floor)
    return text + f"{held.count:,} times for over {over}, up to {milliseconds(held.longest)} at a time"


def _waiting(process: ProcessReport) -> str:
    """What that was of the time, and who waited."""
    held = process.held
    assert held is not None
    time = f"{milliseconds(held.total)} in {_wall(held)} ({100 * held.share:.1f} %) while work was in flight"
    return f"{time}; {_waited(held)} waited for it"


def _also(process: ProcessReport, stopped: str = "it also stopped") -> str:
    """The same of a further process, on one line."""
    held = process.held
    assert held is not None
    times = "once" if held.count == 1 else f"{held.count:,} times"
    longest = milliseconds(held.longest)
    how = f", for {longest}" if held.count == 1 else f", up to {longest}: {milliseconds(held.total)}"
    share = f" in {_wall(held)} ({100 * held.share:.1f} %)"
    return f"{stopped} {process.name} {times}{how}{share}; {_waited(held)} waited"


def _wall(held: Held) -> str:
    wall = held.wall / 1e9
    return f"{wall:,.0f} s" if wall >= 10 else f"{wall:.1f} s" if wall >= 1 else milliseconds(held.wall)


def _waited(held: Held) -> str:
    # A request that lies unread in the socket meanwhile waits too, and is none of those in flight.
    least = "at least " if held.label == "request" else ""
    return f"{least}{held.waited:,} of {held.spans:,} {plural(held.label)}"


def plural(label: str) -> str:
    """``requests``; a label of the program's own stays as it is, in quotes."""
    return NOUNS.get(label, f"'{label}'")


def one_of(word: str) -> str:
    """``request`` of ``requests``; what is in quotes stays."""
    return word.removesuffix("s")


def _elsewhere(counted: Counted) -> str:
    if not counted.elsewhere:
        return ""
    verb = "is" if counted.elsewhere == 1 else "are"
    return f"; {counted.elsewhere:,} more {verb} consistent with a pass in another process"


def _explained(counted: Counted) -> str:
    """``3 of the 12 slow steps and 1 of the 4 slow requests``, kinds left out that have no slow one."""
    parts = []
    if counted.slow or not counted.slow_requests:
        parts.append(f"{counted.explained:,} of the {counted.slow:,} slow steps")
    if counted.slow_requests:
        parts.append(f"{counted.explained_requests:,} of the {counted.slow_requests:,} slow {_noun(counted)}")
    return " and ".join(parts)


def _innocent(counted: Counted, processes: tuple[ProcessReport, ...], options: Options) -> str:
    kinds = (
        (counted.steps, counted.slow, "steps"),
        (counted.requests, counted.slow_requests, _noun(counted)),
    )
    if counted.explained or counted.explained_requests:
        return f"it explains only {_explained(counted)}"
    slow = " and ".join(f"slow {one_of(w)}" if n == 1 else f"{n:,} slow {w}" for _, n, w in kinds if n)
    quick = " and ".join(f"{n:,} {word}" for n, slow_ones, word in kinds if n and not slow_ones)
    if slow:
        return f"no pass explains the {slow}" + (f", and none of the {quick} is slow" if quick else "")
    usual = _usual(processes)
    if usual is None or max(label.longest for _, label in _counting(processes)) <= options.long_floor:
        return f"none of the {quick} recorded takes over {milliseconds(options.long_floor)}"
    # "None is slow" would be false to whoever waits: they may all take as long.
    label = usual[1]
    return (
        f"the {label.count:,} {plural(label.label)} take about {milliseconds(label.p50)} each, "
        f"none over {options.long_factor:g} x that; passes are {_share(_paused(processes))} of the time"
    )


def _how_long(processes: tuple[ProcessReport, ...], counted: Counted) -> list[str]:
    """Of labels of which none is slow: what they take."""
    if counted.slow or counted.slow_requests:
        return []
    labels = sorted(_counting(processes), key=lambda pair: -pair[1].total)[:3]
    return [
        f"{plural(label.label)} of {process.name}: median {milliseconds(label.p50)}, "
        f"p99 {milliseconds(label.p99)}, longest {milliseconds(label.longest)}"
        for process, label in labels
    ]


def _tail(processes: tuple[ProcessReport, ...]) -> tuple[str, ...]:
    """p99 of what the headline counts, with and without the spans that a pause touched (case 23).

    The wall times contain the pauses already: the touched are left out, nothing is subtracted.
    """
    found: list[tuple[int, str]] = []
    for process, label in _counting(processes):
        if not label.touched or label.count < WORTH_P99 or label.p99_rest > SAME * label.p99:
            continue
        what = f"p99 of {plural(label.label)} of {process.name}: {milliseconds(label.p99)}"
        if label.p99_rest < 0:
            text = f"{what}; full passes and pauses over 5 ms touched every one of the {label.count:,}"
        else:
            text = (
                f"{what}, {milliseconds(label.p99_rest)} without the {label.touched:,} of {label.count:,} "
                "that a full pass, or a pause over 5 ms, touched"
            )
            if label.kind == fmt.SPAN_ASYNC and label.p50 > TOUCHING:
                text += " (the longer one takes, the likelier it is touched)"
        found.append((-label.total, text))
    return tuple(text for _, text in sorted(found)[:SHOWN_TAIL])


def _counting(processes: tuple[ProcessReport, ...]) -> list[tuple[ProcessReport, LabelStats]]:
    """The labels that the headline counts."""
    found = []
    for process in processes:
        request = request_label(process.labels)
        found += [(process, label) for label in process.labels if label.primary or label is request]
    return found


def _usual(processes: tuple[ProcessReport, ...]) -> tuple[ProcessReport, LabelStats] | None:
    """The label that most time is spent in."""
    return max(_counting(processes), key=lambda pair: pair[1].total, default=None)


def _paused(processes: tuple[ProcessReport, ...]) -> float:
    """Passes' share of the time since start-up, in the process with steps where it is largest."""
    shares = [0.0]
    for process in processes:
        if process.labels:
            since = process.serving if process.start < process.serving < process.stop else process.start
            stop = min(process.stop, 2**62)  # a damaged word
            ends = np.array([min(since, stop)], np.int64), np.array([stop], np.int64)
            shares.append(int(process.pauses.union.overlap(*ends)[0]) / max(1, process.stop - since))
    return max(shares)


def _share(share: float) -> str:
    return f"{100 * share:.1f} %" if share >= 0.0005 or not share else "under 0.1 %"


def _noun(counted: Counted) -> str:
    if len(counted.words) == 1:
        (word,) = counted.words
        return plural(word)
    return "coroutines"


def _cannot_tell(
    processes: tuple[ProcessReport, ...],
    missed: tuple[MissedProcess, ...],
    counted: Counted,
    refused: tuple[str, ...],
) -> str:
    if not processes:
        gone = [m for m in missed if m.python]
        if gone:
            return f"no process was recorded; missed: {some([m.name for m in gone])}"
        return "no process was recorded"
    free = [p for p in processes if p.series.free_threaded]
    if free and len(free) == len(processes):
        return "these are free-threaded builds, which this version does not record"
    steps = counted.steps + counted.requests
    if not steps:
        # What was asked for and refused is the reason, and what to correct.
        why = f": --span {'; --span '.join(refused[:2])}" if refused else ""
        return f"{NO_STEPS}{why}{_longest(processes)}"
    lost_spans = sum(p.lost_spans for p in processes)
    slow = counted.slow + counted.slow_requests
    if not slow:
        if lost_spans > 0.01 * steps:
            return f"{lost_spans:,} spans were lost, and the slow ones may be among them"
        return ""
    lost = [p for p in processes if (p.lost_passes or p.series.incomplete) and _slow(p)]
    if lost:
        has = "which has" if len(lost) == 1 else "which have"
        return f"passes were lost in {some([p.name for p in lost])}, {has} slow steps"
    off = [
        p for p in processes if p.series.words.get("off_reason", 0) not in (0, fmt.OFF_REMOVED) and _slow(p)
    ]
    if off:
        return f"recording stopped before the end in {some([p.name for p in off])}"
    gone = [m for m in missed if m.python and _may_matter(m, processes)]
    if gone:
        verb = "was" if len(gone) == 1 else "were"
        return f"{some([m.name for m in gone])} {verb} not recorded"
    return ""


def _may_matter(missed: MissedProcess, processes: tuple[ProcessReport, ...]) -> bool:
    """Whether enough slow steps fall into its life that its passes could turn the verdict."""
    if not missed.last_seen:
        return True
    open_ = [s for p in processes for s in p.long_steps if not s.explained and not s.nested]
    during = sum(s.start < missed.last_seen and s.start + s.duration > missed.first_seen for s in open_)
    return during >= MINOR * len(open_)


def _slow(process: ProcessReport) -> int:
    return sum(label.slow for label in process.labels)


def _longest(processes: tuple[ProcessReport, ...]) -> str:
    serving = max(processes, key=lambda p: p.serving_longest)
    if serving.serving_longest:
        pause = milliseconds(serving.serving_longest)
        return f"; the longest pause after start-up was {pause}, in {serving.name}"
    worst = max(processes, key=lambda p: p.longest)
    if not worst.longest:
        return ""
    return f"; the longest pause was {milliseconds(worst.longest)}, in {worst.name}"


def some(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown


def _details(processes: tuple[ProcessReport, ...]) -> tuple[str, ...]:
    """One line for each label of each process that has slow steps."""
    lines: list[tuple[int, str]] = []
    for process in processes:
        for label in process.labels:
            if label.slow:
                lines.append((-label.slow if label.primary else 1, _detail(process, label)))
    return tuple(line for _, line in sorted(lines, key=lambda pair: pair[0]))


def _detail(process: ProcessReport, label: LabelStats) -> str:
    # Of a coroutine others ran in between: its passes overlapped it, which is not yet "explains".
    what = f"{label.explained:,} of {label.slow:,} slow {label.label!r}"
    if label.kind == 1:
        text = f"{what} explained"
    else:
        text = f"{what} covered for half of their excess (others ran in between)"
    nothing = label.slow - label.explained - label.in_part - label.elsewhere
    if label.in_part:
        text += f", {label.in_part:,} overlapped by too little"
    if label.elsewhere:
        text += f", {label.elsewhere:,} consistent with a pass in another process"
    if nothing:
        text += f", {nothing:,} with no pass at all"
    if label.note:
        text += f" ({label.note})"
    return f"{process.name}: {text}"
