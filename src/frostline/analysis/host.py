"""Host signals joined to processes and slow steps (B13): what they show of what no pass explains."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from frostline.analysis.hostcause import COLUMN, TICK, US, Causes, window_of
from frostline.analysis.hostmodel import (
    DESCHEDULED,
    KINDS,
    OPEN,
    Gpu,
    HostCause,
    HostProcessReport,
    HostReport,
)
from frostline.analysis.looks import with_looks
from frostline.analysis.model import LongStep, ProcessReport, Verdict
from frostline.format import host as layout
from frostline.recording import Session
from frostline.recording.host import HostLog, HostProcess, Track
from frostline.recording.layout import Int64

_HOST = {name: i for i, (name, _) in enumerate(layout.HOST_FIELDS)}
_CGROUP = {name: i for i, (name, _) in enumerate(layout.CGROUP_FIELDS)}
_GPU = {name: i for i, (name, _) in enumerate(layout.GPU_FIELDS)}
#: Kinds named in the headline's line.
_SHOWN = 3


def with_host(
    session: Session, processes: tuple[ProcessReport, ...]
) -> tuple[tuple[ProcessReport, ...], HostReport | None]:
    """The processes with their host signals, and each slow step with what they show of it."""
    if not session.host:
        # What another tool's callback took needs no samples.
        return tuple(with_looks(_judged(process, None, None)) for process in processes), None
    by_process: dict[tuple[int, int, int], tuple[HostLog, HostProcess]] = {}
    for log in session.host:
        for one in log.processes:
            key = (one.session, one.pid, one.start_ticks)
            # Two helpers may have watched it: the one that looked more often counts.
            if key not in by_process or len(one.track) > len(by_process[key][1].track):
                by_process[key] = (log, one)
    found = []
    for process in processes:
        log_and_one = by_process.get((process.session, process.pid, process.series.process_start))
        found.append(with_looks(_judged(process, *(log_and_one or (None, None)))))
    return tuple(found), _machine(session.host)


def _judged(process: ProcessReport, log: HostLog | None, one: HostProcess | None) -> ProcessReport:
    open_ = [step for step in process.long_steps if not step.explained]
    if log is None or one is None:
        if not any(step.by_callback for step in open_):
            return process
        log, one = HostLog(), HostProcess(0, 0, False, (), Track(_empty(), _empty(), _empty()))
        causes = Causes(log, one, ())
        steps = tuple(
            replace(step, host=causes.judge(step)) if step.by_callback else step
            for step in process.long_steps
        )
        return replace(process, long_steps=steps)
    causes = Causes(log, one, process.long_steps)
    steps = tuple(_with_cause(step, causes) for step in process.long_steps)
    return replace(process, long_steps=steps, host=_report(log, one, steps))


def _with_cause(step: LongStep, causes: Causes) -> LongStep:
    """Of a step that passes explain too, where its thread had no CPU for half of it: so the pass was long."""
    cause = causes.judge(step)
    if step.explained and cause.kind not in DESCHEDULED:
        return step
    return replace(step, host=cause)


def _empty() -> Int64:
    return np.zeros(0, np.int64)


def _report(log: HostLog, one: HostProcess, steps: tuple[LongStep, ...]) -> HostProcessReport | None:
    track = one.track
    if len(track) < 2:
        return None
    values = track.values
    grew = [int(values[-1, i] - values[0, i]) for i in range(values.shape[1])]
    throttled = throttled_time = 0
    for index in one.cgroups:
        _, of = log.cgroups.get(index, ("", None))
        if of is not None and len(of):
            window = window_of(of, int(max(of.time[0], track.time[0])), int(min(of.time[-1], track.time[-1])))
            if window is not None and US * window.grew(_CGROUP["throttled_us"]) > throttled_time:
                throttled = window.grew(_CGROUP["throttled"])
                throttled_time = US * window.grew(_CGROUP["throttled_us"])
    private = values[:, COLUMN["private_dirty_kib"]]
    told = private[private > 0]
    main, others = US * grew[COLUMN["main_cpu_us"]], US * grew[COLUMN["others_cpu_us"]]
    return HostProcessReport(
        sampled=int(track.time[-1] - track.time[0]),
        samples=len(track),
        fast=one.fast,
        # Threads that ended between two looks are in the process's ticks only.
        cpu=max(main + others, TICK * (grew[COLUMN["user_ticks"]] + grew[COLUMN["system_ticks"]])),
        queue=US * (grew[COLUMN["main_queue_us"]] + grew[COLUMN["others_queue_us"]]),
        main_cpu=main,
        main_queue=US * grew[COLUMN["main_queue_us"]],
        migrations=grew[COLUMN["migrations"]],
        voluntary=grew[COLUMN["voluntary"]],
        involuntary=grew[COLUMN["involuntary"]],
        minor_faults=grew[COLUMN["minor_faults"]],
        major_faults=grew[COLUMN["major_faults"]],
        read=grew[COLUMN["read_bytes"]],
        written=grew[COLUMN["write_bytes"]],
        resident=1024 * int(values[-1, COLUMN["resident_kib"]]),
        resident_most=1024 * int(values[:, COLUMN["resident_kib"]].max()),
        private_dirty=1024 * int(told[-1]) if len(told) else 0,
        threads=int(values[:, COLUMN["threads"]].max()),
        throttled=throttled,
        throttled_time=throttled_time,
        slow=_by_kind(steps),
    )


def _by_kind(steps: tuple[LongStep, ...]) -> tuple[tuple[str, int, int], ...]:
    """Each stall once, as the headline counts; steps that a pass elsewhere may explain left out."""
    sums: dict[str, tuple[int, int]] = {}
    for step in steps:
        if step.host is not None and not (step.explained or step.nested or step.elsewhere):
            count, excess = sums.get(step.host.kind, (0, 0))
            sums[step.host.kind] = count + 1, excess + step.excess
    return tuple(sorted(((k, n, e) for k, (n, e) in sums.items()), key=lambda one: -one[2]))


def headline(verdict: Verdict, processes: tuple[ProcessReport, ...]) -> Verdict:
    """The verdict with a line on what the host shows of the slow steps that no pass explains."""
    every = [
        (step.host.kind, any(label.primary for label in process.labels if label.label == step.label))
        for process in processes
        for step in process.long_steps
        if step.host is not None and not (step.explained or step.nested or step.elsewhere)
    ]
    # As in the headline: labels with few steps only where there is nothing else.
    counted = [kind for kind, primary in every if primary] or [kind for kind, _ in every]
    sums = {kind: counted.count(kind) for kind in set(counted)}
    total = sum(sums.values())
    if not total or not any(kind not in OPEN for kind in sums):
        return verdict
    ordered = sorted(sums.items(), key=lambda one: (one[0] in OPEN, -one[1], one[0]))
    words = [f"{count:,} {KINDS[kind]}" for kind, count in ordered[:_SHOWN]]
    rest = sum(count for _, count in ordered[_SHOWN:])
    if rest:
        words.append(f"{rest:,} others")
    what = "the slow step" if total == 1 else f"the {total:,} slow steps"
    line = f"of {what} that no pass explains, by what the host shows: {'; '.join(words)}"
    return replace(verdict, lines=(*verdict.lines, line))


def cause_words(cause: HostCause | None) -> str:
    """To stand after "not the collector"; empty where the host shows nothing."""
    if cause is None or cause.kind == "unsampled":
        return ""
    if cause.kind in OPEN:
        return f"; cannot tell what it was: {cause.text}"
    return f": {cause.text}"


# --- the machine ------------------------------------------------------------------------
def _machine(logs: list[HostLog]) -> HostReport | None:
    """The log that sampled longest stands for the machine."""
    log = max(logs, key=lambda one: one.stop - one.start)
    track = log.host
    if track is None or len(track) < 2:
        return None
    length = int(track.time[-1] - track.time[0])
    grew = [int(one) for one in track.values[-1] - track.values[0]]
    ticks = sum(grew[_HOST[f"{name}_ticks"]] for name in ("user", "system", "idle", "iowait", "steal"))

    def share(name: str) -> float:
        return min(1.0, US * grew[_HOST[name]] / length)

    return HostReport(
        sampled=length,
        rounds=log.rounds,
        cost=log.cost / length if log.cost else None,
        cpu_pressure=share("cpu_some_us"),
        io_pressure=share("io_some_us"),
        memory_pressure=share("memory_some_us"),
        steal=grew[_HOST["steal_ticks"]] / max(1, ticks),
        idle=grew[_HOST["idle_ticks"]] / max(1, ticks),
        load_most=int(track.values[:, _HOST["load_1000"]].max()) / 1000,
        gpus=tuple(_gpu(name, of) for name, of in log.gpus if len(of)),
    )


def _gpu(name: str, track: Track) -> Gpu:
    # Each value holds until the next sample.
    weight = np.diff(track.time, append=track.time[-1] + 1).astype(np.float64)
    weight /= weight.sum()
    reasons = track.values[:, _GPU["throttle"]]
    shares = [(text, float(weight[(reasons & bit) != 0].sum())) for bit, text in layout.THROTTLE]
    sm, power = track.values[:, _GPU["sm_mhz"]], track.values[:, _GPU["power_mw"]]
    return Gpu(
        name=name,
        sm_mhz_least=int(sm.min()),
        sm_mhz_most=int(sm.max()),
        power_mw=int((power * weight).sum()),
        power_mw_most=int(power.max()),
        busy_percent=round(float((track.values[:, _GPU["busy_percent"]] * weight).sum())),
        celsius_most=int(track.values[:, _GPU["celsius"]].max()),
        throttle=tuple((text, part) for text, part in shares if part > 0),
    )
