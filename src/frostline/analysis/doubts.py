"""What may be wrong with the numbers, for printing beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from frostline import format as fmt
from frostline.analysis.commands import when_ready
from frostline.analysis.events import attached_after
from frostline.analysis.freezing import negligible
from frostline.analysis.frozen import PROGRAM
from frostline.analysis.looks import stopped
from frostline.analysis.model import Doubt, FullPass, MissedProcess, ProcessReport
from frostline.analysis.passes import AUTOMATIC
from frostline.analysis.verdict import milliseconds, some
from frostline.recording import Loss, Run

#: ns an object: 1,000 is the most that was seen on cold caches.
SLOWEST = 2_000
#: Lines that freeze without a collect, told one by one.
SHOWN = 3
#: ns. Looks that stopped a process for longer, all together, are told.
FELT = 20_000_000


def doubts(
    processes: tuple[ProcessReport, ...],
    missed: tuple[MissedProcess, ...],
    losses: tuple[Loss, ...],
    runs: tuple[Run, ...],
    running: bool,
    clock_error: int,
    ready: tuple[str, int, str] | None = None,
) -> tuple[Doubt, ...]:
    """What may be wrong with the numbers, for printing beside them."""
    found = [*_dead(processes), *_freezes(processes, ready)]
    python = [m for m in missed if m.python]
    if python:
        found.append(
            Doubt(
                "processes-missed",
                f"{_counted(len(python), 'Python process was', 'Python processes were')} not recorded: what "
                f"{'it waits for or causes' if len(python) == 1 else 'they wait for or cause'} is not here",
            )
        )
    late = {p.name: attached_after(p.series) for p in processes}
    if any(late.values()):
        longest = max(late.values()) / 1e9
        names = [name for name, age in late.items() if age]
        found.append(
            Doubt(
                "attached-late",
                f"{some(names)}: attached to while running, up to {longest:,.0f} s after the start. Passes "
                "before that, start-up's among them, are not in the recording",
                about=tuple(names),
            )
        )
    found.extend(_looked_at(processes))
    lost = sum(p.lost_passes for p in processes)
    if lost:
        about = tuple(p.name for p in processes if p.lost_passes)
        found.append(Doubt("passes-lost", f"{lost:,} passes are missing from the recording", about))
    spans = sum(p.lost_spans for p in processes)
    if spans:
        about = tuple(p.name for p in processes if p.lost_spans)
        found.append(Doubt("spans-lost", f"{spans:,} spans are missing from the recording", about))
    for process in processes:
        found.extend(_process_doubts(process))
    found.extend(_span_doubts(processes, runs))
    damaged = [loss for loss in losses if loss.slug == "records-damaged" and loss.count]
    if damaged:
        count = sum(loss.count for loss in damaged)
        text = f"{count:,} damaged records were left out"
        found.append(Doubt("records-damaged", text, whose(damaged, processes)))
    cut = [p.name for p in processes if p.series.incomplete]
    if cut:
        found.append(
            Doubt(
                "segment-missing",
                f"{some(cut)}: files of the recording are missing, and how many passes and spans they held "
                "is not known. Was the session copied whole?",
                about=tuple(cut),
            )
        )
    unread = [
        loss
        for loss in losses
        if loss.slug.startswith(("segment-", "region-")) and loss.slug != "segment-missing"
    ]
    if unread:
        files = len({loss.path for loss in unread})
        text = f"{files} files could not be read whole"
        found.append(Doubt("files-damaged", text, whose(unread, processes)))
    if running:
        found.append(Doubt("still-running", "the session is still being recorded: these numbers are so far"))
    if clock_error:
        found.append(
            Doubt(
                "clocks",
                f"sessions of different hosts were laid over each other by wall time, to within "
                f"{milliseconds(clock_error)} and whatever their clocks differ by",
            )
        )
    return tuple(found)


def whose(losses: Iterable[Loss], processes: Sequence[ProcessReport]) -> tuple[str, ...]:
    """Names of the processes that losses are about, in their order; none where no file tells."""
    recorded = {(p.pid, p.series.series) for p in processes}
    lost = {(loss.pid, loss.series) for loss in losses if loss.pid}
    # A series that was laid over another host's clock no longer has the number that its files have.
    pids = {pid for pid, series in lost if (pid, series) not in recorded}
    return tuple(p.name for p in processes if (p.pid, p.series.series) in lost or p.pid in pids)


def _dead(processes: tuple[ProcessReport, ...]) -> list[Doubt]:
    return [
        Doubt(
            "dead-collector",
            f"{p.name}: ITS COLLECTOR IS DEAD (forked while another thread was inside a pass): "
            "no pass can show, and no cycle is freed",
            about=(p.name,),
        )
        for p in processes
        if any(event.kind == "dead collector" for event in p.events)
    ]


def _looked_at(processes: tuple[ProcessReport, ...]) -> Iterator[Doubt]:
    """Stops for looks at the heap that a request could feel, in which no step of the process need lie."""
    stops = {p.name: stopped(p) for p in processes}
    felt = {name: looks for name, looks in stops.items() if sum(looks) > FELT}
    if felt:
        every = [length for looks in felt.values() for length in looks]
        looks = _counted(len(every), "look", "looks")
        yield Doubt(
            "looked-at",
            f"{some(list(felt))} stood still for {milliseconds(sum(every))}, {milliseconds(max(every))} at a "
            f"time at most, while Frostline looked at the heap as asked ({looks}): what waited for that is "
            "no doing of the server's, and no pass of its collector's",
            about=tuple(felt),
        )


def _freezes(processes: tuple[ProcessReport, ...], ready: tuple[str, int, str] | None) -> list[Doubt]:
    """Freezes that may hold garbage, and freezes that were asked for and never came."""
    found = [*_no_effect(processes), *_spliced(processes), *_not_collected(processes)]
    asked = [p for p in processes if p.policy.split(",")[0] == "freeze"]
    kinds = (fmt.MARK_FREEZE, fmt.MARK_BOUNDARY)
    waiting = [p for p in asked if not p.frozen_since and not any(m.kind in kinds for m in p.series.marks)]
    # multiprocessing's own helper has no heap to speak of, and nobody could tell it.
    waiting = [p for p in waiting if p.role != "resource tracker"]
    # Who was gone before the others were told has missed nothing.
    told = {p.session: p.boundary for p in reversed(asked) if p.boundary}
    waiting = [p for p in waiting if p.stop > told.get(p.session, 0)]
    # A supervisor whose workers were frozen has nothing to freeze itself.
    waiting = [p for p in waiting if not _supervises(p, processes)]
    if waiting:
        found.append(
            Doubt(
                "no-boundary",
                f"policy freeze was in force and no boundary came in {some([p.name for p in waiting])}: "
                f"nothing was frozen. {never_came(ready) or _say(waiting[0])}",
                about=tuple(p.name for p in waiting),
            )
        )
    return found


def _say(process: ProcessReport) -> str:
    option = when_ready(process, "").removesuffix(" URL")
    return f"Call frostline.startup_complete(){' or use' if option else ''}{option}"


def _supervises(process: ProcessReport, processes: tuple[ProcessReport, ...]) -> bool:
    """Its workers were frozen, it has no work of its own, and its passes cost nothing to speak of."""
    children = [
        p
        for p in processes
        if p.series.parent == process.pid != p.pid
        and p.session == process.session
        and p.role != "resource tracker"
    ]
    if not children or process.labels or not all(p.frozen_since for p in children):
        return False
    full = [p.pause for p in process.full_passes if p.kind == AUTOMATIC and p.start > children[0].start]
    return negligible(max(full, default=0), sum(full), process.wall)


def _no_effect(processes: tuple[ProcessReport, ...]) -> Iterator[Doubt]:
    """Freezes of ours after which nothing was frozen: the program has put something else in its place."""
    names = [p.name for p in processes if p.frozen.freezes and p.frozen.freezes[-1].objects == 0]
    if names:
        yield Doubt(
            "froze-nothing",
            f"gc.freeze() froze nothing in {some(names)}, by the interpreter's own count: something in the "
            "program has replaced it. What is said of frozen processes here is not so there",
            about=tuple(names),
        )


def _spliced(processes: tuple[ProcessReport, ...]) -> Iterator[Doubt]:
    """Splices of ours that no walk of the whole heap has put right since."""
    spliced = []
    for p in processes:
        open_ = [f for f in p.frozen.freezes if f.garbage and f.why != PROGRAM and not f.righted]
        if open_ and p.frozen.since:
            spliced.append((p, open_, any(f.late for f in open_)))
    if not spliced:
        return
    late = all(late for _, _, late in spliced)
    when = "frozen at READY without a collect" if late else "frozen without a collect before"
    known = [max(f.in_flight or 0 for f in open_) for _, open_, _ in spliced]
    serving = f" (up to {max(known):,} requests in flight)" if max(known) else ""
    yield Doubt(
        "frozen-garbage",
        f"{when} in {_counted(len(spliced), 'process', 'processes')}{serving}: what garbage there was is "
        f"frozen{_how_much([p for p, _, _ in spliced])}",
        about=tuple(p.name for p, _, _ in spliced),
    )


def _not_collected(processes: tuple[ProcessReport, ...]) -> Iterator[Doubt]:
    """The program's own freezes without a full pass just before (case 09)."""
    lines: dict[tuple[str, str], list[ProcessReport]] = {}
    for p in processes:
        for f in p.frozen.freezes:
            if f.garbage and f.why == PROGRAM and not f.righted:
                lines.setdefault((f.where, f.garbage), [])
                if p not in lines[f.where, f.garbage]:
                    lines[f.where, f.garbage].append(p)
    for (where, why), which in list(lines.items())[:SHOWN]:
        now = "was" if all(p.frozen.thaws for p in which) else "is"
        yield Doubt(
            "frozen-garbage",
            f"{where} froze without a collect before in {some([p.name for p in which])} ({why}): "
            f"what garbage there was {now} frozen{_how_much(which)}. "
            "Call gc.collect() just before gc.freeze()",
            about=tuple(p.name for p in which),
        )


def _how_much(which: list[ProcessReport]) -> str:
    """How much garbage was frozen: what a full pass after a thaw found bounds it, and nothing else does."""
    found, counted = 0, 0
    for p in which:
        thaw = next((at for at in p.frozen.thaws if at >= p.frozen.freezes[0].time), 0)
        after = next((f for f in p.full_passes if thaw and f.start >= thaw), None)
        if after is not None:
            counted += 1
            found += after.reclaimed
    if counted < len(which):
        return "; how much cannot be counted without a thaw and a full pass"
    return f"; it is among the {found:,} objects that the full pass after the thaw reclaimed"


def never_came(ready: tuple[str, int, str] | None) -> str:
    """Why the boundary that the supervisor was to tell never came; empty if none was asked for."""
    if ready is None or ready[1]:
        return ""
    kind, _, detail = ready
    option = "" if detail.startswith("--ready") else f"--ready-{kind}: "
    return f"{option}{detail or 'it never came'}"


def _descheduled(one: FullPass) -> bool:
    walked = one.walked.value or 0
    # What finalizers do with what was found takes time of its own.
    return walked >= 10_000 and one.reclaimed < walked / 100 and one.alone > SLOWEST * walked


def _counted(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def asked_spans(runs: Iterable[Run]) -> list[str]:
    """What ``--span`` asked for, without the labels."""
    asked = dict.fromkeys(span.partition("=")[0].strip() for run in runs for span in run.spans)
    return [target for target in asked if target]


def of(text: str, asked: Iterable[str]) -> bool:
    """Whether a refusal is of a span that was asked for: a preset's is nobody's mistake."""
    return any(text.startswith(target) for target in asked)


def _span_doubts(processes: tuple[ProcessReport, ...], runs: tuple[Run, ...]) -> Iterator[Doubt]:
    """Spans that were asked for and that no process put on a callable: refused, or never met."""
    refused = dict.fromkeys(text for process in processes for text in process.refused)
    wrapped = [text for process in processes for text in process.wrapped]
    for target in asked_spans(runs):
        if any(text.startswith(target) for text in wrapped):
            continue
        why = [text for text in refused if text.startswith(target)]
        if why:
            yield Doubt("span-refused", f"--span {why[0]}")
        else:
            yield Doubt("span-unused", f"--span {target} was asked for, and never put on a callable")


def _process_doubts(process: ProcessReport) -> list[Doubt]:
    found: list[Doubt] = []
    name = process.name
    others = sum(g.others for g in process.generations)
    if others > 0.2 * max(1, process.pause_total) and process.other_callbacks:
        found.append(
            Doubt(
                "other-callbacks",
                f"{name}: {milliseconds(others)} of {milliseconds(process.pause_total)} of its pauses were "
                f"other tools' callbacks: {', '.join(process.other_callbacks[:3])}",
                about=(name,),
            )
        )
    slow = [p for p in process.full_passes if _descheduled(p)]
    if slow:
        found.append(
            Doubt(
                "slow-walk",
                f"{name}: {_counted(len(slow), 'full pass', 'full passes')} took over "
                f"{SLOWEST / 1000:g} us for each object walked: the process was off the CPU, "
                "or its heap was swapped out",
                about=(name,),
                at=tuple(one.start for one in slow),
            )
        )
    if process.series.free_threaded:
        text = f"{name}: a free-threaded build, not recorded by this version"
        found.append(Doubt("free-threaded", text, about=(name,)))
    if (3, 14, 0) <= process.series.version < (3, 14, 5):
        text = f"{name}: the incremental collector of 3.14.0 to 3.14.4"
        found.append(Doubt("incremental", text, about=(name,)))
    return found
