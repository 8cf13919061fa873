"""From a session to an analysis: every process, then what holds across them."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from frostline import format as fmt
from frostline.analysis import events as marks
from frostline.analysis.advice import advise
from frostline.analysis.budgets import budgets
from frostline.analysis.censuses import censuses
from frostline.analysis.doubts import asked_spans, doubts, never_came, of
from frostline.analysis.elsewhere import look_elsewhere, of_collector
from frostline.analysis.frozen import Frozen, frozen
from frostline.analysis.groups import grouped
from frostline.analysis.held import held_up
from frostline.analysis.host import headline, with_host
from frostline.analysis.idle import idle_ranks
from frostline.analysis.model import Analysis, MissedProcess, Options, ProcessReport, State
from frostline.analysis.passes import AUTOMATIC, full_passes, generation_stats, longest_from, pauses_of
from frostline.analysis.pauses import Pauses
from frostline.analysis.promotions import promotions
from frostline.analysis.rhythm import rhythm
from frostline.analysis.runs import launchers
from frostline.analysis.serving import serving_from
from frostline.analysis.starved import starved
from frostline.analysis.steps import (
    Counted,
    Steps,
    choose_primary,
    first_step,
    list_slow,
    steps_of,
)
from frostline.analysis.threads import outside_main
from frostline.analysis.triggers import forecast
from frostline.analysis.verdict import decide
from frostline.analysis.walked import HeapModel
from frostline.format.naming import process_name, process_role
from frostline.recording import ProcessSeen, Series, Session
from frostline.recording.loss import DAMAGE
from frostline.recording.process import is_dead

#: ns. Whom the supervisor sees, it tells of the boundary about a second later, or as late as the
#: first children of the same parent were told.
TOLD_WITHIN = 2_000_000_000

_SOURCES = (fmt.IDENTITY_PROGRAM, fmt.IDENTITY_TITLE, fmt.IDENTITY_MULTIPROCESSING, fmt.IDENTITY_MODULE)


def analyse(session: Session, options: Options | None = None) -> Analysis:
    """Everything that a report says about a session. Reads no file."""
    options = options or Options()
    seen = {(p.session, p.pid): p for p in session.processes}
    heaps: dict[int, HeapModel] = {}
    every: list[tuple[Series, Pauses, Steps]] = []
    for series in sorted(session.series, key=lambda s: s.series):
        parent = series.first_text("parent_series")
        pauses = pauses_of(series, heaps.get(int(parent)) if parent.isdecimal() else None)
        heaps[series.series] = pauses.heap
        every.append((series, pauses, choose_primary(steps_of(series, pauses, options))))
    names = _names([series for series, _, _ in every], seen)
    stopped = [of_collector(pauses) for _, pauses, _ in every]
    processes: list[ProcessReport] = []
    known: dict[int, ProcessReport] = {}
    counted = Counted()
    launched = launchers(session)
    for index, (series, pauses, steps) in enumerate(every):
        others = [
            (i, stopped[i])
            for i, (s, _, _) in enumerate(every)
            if s.pid != series.pid or s.session != series.session
        ]
        steps = look_elsewhere(series, steps, others, options)
        counted.add(steps)
        outside = seen.get((series.session, series.pid))
        report = _process(series, pauses, steps, names, index, outside, session, options)
        run = launched(series)
        if run is not None:
            report = replace(report, launched=run.command, launched_spans=run.spans)
        report = _inherited(report, known)
        known[series.series] = report
        processes.append(report)
    reports, host = with_host(session, tuple(processes))
    missed = _missed(session)
    asked = asked_spans(session.runs)
    refused = tuple(text for text in dict.fromkeys(t for p in reports for t in p.refused) if of(text, asked))
    damaged = len({loss.path for loss in session.losses if loss.slug in DAMAGE})
    ranks = idle_ranks(reports, missed, session.clock_error, options)
    verdict = decide(reports, missed, counted, options, refused, damaged, starved(ranks, options))
    verdict = headline(verdict, reports)
    never = never_came(session.ready)
    came = session.ready_option if session.ready and session.ready[1] else ""
    records = sum(
        len(s.passes) + len(s.marks) + len(s.names) + len(s.spans.get("start", ())) for s in session.series
    )
    return Analysis(
        path=session.path,
        verdict=verdict,
        advice=advise(
            reports, missed, verdict, str(session.path), options, refused, never, came, session.running
        ),
        processes=reports,
        missed=missed,
        doubts=doubts(
            reports,
            missed,
            session.losses,
            tuple(session.runs),
            session.running,
            session.clock_error,
            session.ready,
        ),
        losses=session.losses,
        runs=tuple(session.runs),
        options=options,
        running=session.running,
        ready=session.ready,
        clock_error=session.clock_error,
        start=min((p.start for p in reports), default=0),
        stop=max((p.stop for p in reports), default=0),
        records=records,
        bytes=session.bytes,
        anchors=_anchors(session),
        ranks=ranks,
        budgets=budgets(reports, ranks),
        grouping=grouped(session, reports),
        host=host,
        host_logs=tuple(session.host),
    )


def _anchors(session: Session) -> tuple[tuple[int, int, int], ...]:
    """The helper's, and one of each series of the (first) session."""
    own = [series.anchor for series in session.series if series.anchor[1] and not series.session]
    return tuple(sorted({*session.anchors, *own}))


def _process(
    series: Series,
    pauses: Pauses,
    steps: Steps,
    names: list[tuple[str, str]],
    index: int,
    seen: ProcessSeen | None,
    session: Session,
    options: Options,
) -> ProcessReport:
    name, role = names[index]
    start, stop, closed = _window(series, seen, session)
    full = full_passes(series, pauses)
    at_attach = marks.state(series, closing=False)
    at_close = marks.state(series, closing=True)
    unseen, unseen_total = marks.unseen_explicit(series, pauses)
    frozen_since = None
    if at_attach and at_close and at_attach.frozen is not None and at_close.frozen is not None:
        frozen_since = at_close.frozen - at_attach.frozen
    boundaries = [m.time for m in series.marks if m.kind == fmt.MARK_BOUNDARY]
    serving = serving_from(series, session.ready, first_step(series, steps.labels), start, stop)
    story = frozen(series, stop)
    longest, longest_text = longest_from(series, pauses, 0)
    serving_longest, serving_text = longest_from(series, pauses, serving or stop)
    return ProcessReport(
        name=name,
        role=role,
        pid=series.pid,
        interpreter=series.interpreter,
        session=series.session,
        series=series,
        start=start,
        stop=stop,
        closed=closed,
        command=series.text.get("argv", ()) or (seen.arguments if seen else ()),
        python=series.python,
        policy=_policy(series),
        generations=generation_stats(series, pauses, max(1, stop - start)),
        longest=longest,
        longest_text=longest_text,
        pause_total=pauses.union.total,
        full_passes=full,
        automatic_full=sum(p.kind == AUTOMATIC for p in full),
        call_sites=marks.call_sites(series),
        unseen_explicit=unseen,
        unseen_explicit_total=unseen_total,
        events=marks.events(series),
        at_attach=at_attach,
        at_close=at_close,
        frozen_since_attach=frozen_since,
        frozen=story,
        boundary=max(boundaries, default=0),
        serving=serving,
        serving_longest=serving_longest,
        serving_longest_text=serving_text,
        held=held_up(series, pauses, steps.labels, serving, stop, options),
        held_ours=held_up(
            series,
            pauses,
            steps.labels,
            story.since or serving or stop,
            story.until or stop,
            options,
            ours=True,
        ),
        labels=tuple(sorted(steps.labels, key=lambda label: (-label.slow, -label.total, label.label))),
        long_steps=list_slow(series, pauses, steps, name, [n for n, _ in names]),
        threads=outside_main(series, pauses),
        other_callbacks=marks.named(series, fmt.MARK_OTHER_CALLBACK),
        refused=marks.named(series, fmt.MARK_REFUSED),
        wrapped=marks.named(series, fmt.MARK_WRAPPED),
        lost_passes=_lost(series, "passes", at_attach, at_close),
        lost_spans=_lost(series, "spans", None, None),
        forecast=forecast(series, pauses),
        launched=(),
        pauses=pauses,
        rhythm=rhythm(series, pauses),
        promotions=promotions(series),
        censuses=censuses(series),
    )


def _inherited(report: ProcessReport, known: dict[int, ProcessReport]) -> ProcessReport:
    """A child that was gone before it could be told has its parent's freeze, made before the fork."""
    parent = report.series.first_text("parent_series")
    above = known.get(int(parent)) if parent.isdecimal() else None
    if report.frozen_since or above is None:
        return report
    siblings = (p for p in known.values() if p.boundary and p.series.first_text("parent_series") == parent)
    within = 2 * max((p.boundary - p.start for p in siblings), default=0) + TOLD_WITHIN
    if report.stop - report.start > within:
        return report
    # What the parent does before the child comes to run is not in the child.
    forked = (mark.time - mark.values[2] for mark in report.series.marks if mark.kind == fmt.MARK_FORKED)
    when = next(forked, report.start)
    if not above.frozen_since or not above.frozen_since <= when < above.frozen_until:
        return report
    ends = report.stop + 1
    return replace(report, frozen=Frozen(report.start, ends, ((report.start, ends),)))


def _lost(series: Series, what: str, at_attach: State | None, at_close: State | None) -> int:
    """Records known to be missing: by the recorder's count, by damage, by the interpreter's own count."""
    lost = series.words.get(f"lost_{what}", 0) + series.damaged.get(what, 0)
    if what == "spans":
        return lost + series.words.get("dropped_spans", 0)
    if at_attach is None or at_close is None or series.free_threaded:
        return lost
    if (3, 14, 0) <= series.version < (3, 14, 5):
        return lost
    counted = 0
    for before, after in zip(at_attach.stats, at_close.stats, strict=True):
        if before is None or after is None:
            return lost
        counted += after[0] - before[0]
    inside = int(np.count_nonzero(series.passes["stop"] <= at_close.time))
    # A pass may be running at either reading: one more or less is no loss.
    short = counted - inside - series.dropped_passes
    return max(lost, short if short > 1 else 0)


def _window(series: Series, seen: ProcessSeen | None, session: Session) -> tuple[int, int, bool]:
    """(start, end, closed in an orderly way) of what was recorded."""
    closed = series.words.get("closed", 0)
    last = series.last_time
    if closed:
        return series.series, max(last, closed), True
    if seen is not None:
        last = max(last, seen.last_seen)
    now = time.monotonic_ns()
    alive = series.live and not is_dead(series.pid, series.process_start, series.pid_namespace)
    if alive and last <= now <= last + 86_400 * 10**9:
        last = now
    return series.series, max(series.series, last), False


def _policy(series: Series) -> str:
    policy = series.first_text("policy")
    for mark in series.marks:
        if mark.kind == fmt.MARK_POLICY:
            policy = series.name(mark.values[0])
    return policy or "off"


def _names(every: list[Series], seen: dict[tuple[int, int], ProcessSeen]) -> list[tuple[str, str]]:
    """(name, role) of each series; those that would look alike say what tells them apart."""
    found: list[tuple[str, str]] = []
    count: dict[tuple[int, int], int] = {}
    for series in every:
        outside = seen.get((series.session, series.pid))
        best: dict[int, tuple[str, int]] = {}
        for mark in series.marks:
            if mark.kind == fmt.MARK_IDENTITY:
                role, rank = series.name(mark.values[0]), mark.values[1]
                old = best.get(mark.values[2], ("", -1))
                best[mark.values[2]] = (role or old[0], rank if rank >= 0 else old[1])
        texts = [best.get(source, ("", -1))[0] for source in _SOURCES]
        rank = max((rank for _, rank in best.values()), default=-1)
        module = texts[3] or series.first_text("module") or _module(series.text.get("argv", ()))
        argv = series.text.get("argv", ()) or (outside.arguments if outside else ())
        title = texts[1] or (outside.title if outside else "")
        forked = any(mark.kind == fmt.MARK_FORKED for mark in series.marks)
        role = process_role(texts[0], rank, title, texts[2], module, argv, forked)
        name = process_name(series.pid, texts[0], rank, title, texts[2], module, argv, forked)
        key = (series.session, series.pid)
        count[key] = count.get(key, 0) + 1
        if count[key] > 1:
            told = f"interpreter {series.interpreter}" if series.interpreter else f"program {count[key]}"
            name = name[:-1] + f", {told})"
        if series.session:
            name = name[:-1] + f", session {series.session + 1})"
        found.append((name, role))
    return found


def _module(argv: tuple[str, ...]) -> str:
    """What runs, from a command line: the module after ``-m``, else the first word that is no option."""
    rest = list(argv[1:])
    while rest:
        word = rest.pop(0)
        if word == "-m" and rest:
            return rest[0]
        if word == "-c":
            return ""
        if word in ("-X", "-W"):
            del rest[:1]
        elif not word.startswith("-"):
            return word
    return ""


def _missed(session: Session) -> tuple[MissedProcess, ...]:
    recorded = {(series.session, series.pid) for series in session.series}
    found: list[MissedProcess] = []
    for one in session.processes:
        if (one.session, one.pid) in recorded or not (one.python or one.missed or one.recorded):
            continue
        name = process_name(one.pid, title=one.title, module=_module(one.arguments), arguments=one.arguments)
        found.append(
            MissedProcess(
                pid=one.pid,
                name=name,
                command=one.arguments,
                # It was recorded, and the helper saw it: a copy that was cut short has lost the files.
                reason="segment-missing" if one.recorded else one.missed or "no recording",
                detail=one.detail,
                python=one.python or one.recorded,
                first_seen=one.first_seen,
                last_seen=one.last_seen,
            )
        )
    return tuple(found)
