"""Spans by label, the slow ones among them, and what of each the process's own passes cover (B3)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from frostline import format as fmt
from frostline.analysis.intervals import Union, quantiles, union
from frostline.analysis.model import LabelStats, LongStep, Options
from frostline.analysis.passes import pass_text
from frostline.analysis.pauses import Pauses
from frostline.analysis.threads import native_ids
from frostline.recording import Series
from frostline.recording.layout import Array, Int64

#: Slow steps that are kept one by one for each process; all are counted.
LISTED = 20_000
#: ns. A pause of any generation that is long enough to touch a request; full passes always are.
TOUCHING = 5_000_000
#: Spans looked at in one go.
_CHUNK = 1_000_000


@dataclass
class Slow:
    """Slow steps of one process as columns, over all labels, in order of start."""

    label: Int64
    kind: Int64
    thread: Int64
    start: Int64
    stop: Int64
    baseline: Int64
    overlap: Int64
    explained: Array
    nested: Array
    elsewhere: Int64
    beside: Int64
    callbacks: Int64

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True)
class Steps:
    labels: tuple[LabelStats, ...]
    slow: Slow


def label_ids(label: Array) -> Int64:
    """The name ids that occur. Ten million spans are counted, not sorted: ids are small numbers."""
    last = int(label.max()) if len(label) else 0
    ids: Int64 = (
        np.flatnonzero(np.bincount(label, minlength=last + 1)) if last < 1_000_000 else np.unique(label)
    )
    return ids


def ids_of(series: Series, texts: set[str]) -> list[int]:
    """The name ids of these labels."""
    return [n for n in label_ids(series.spans["label"]).tolist() if series.name(n) in texts]


def _groups(series: Series) -> list[tuple[str, Int64 | slice]]:
    """(label, indices) for each label; ids with the same text are one label."""
    label = series.spans["label"]
    if not len(label):
        return []
    first, last = int(label.min()), int(label.max())
    if first == last:  # ten million steps of one label: no index array
        return [(series.name(first), slice(None))]
    texts: dict[str, list[int]] = {}
    ids = label_ids(label)
    for number in ids:
        texts.setdefault(series.name(int(number)), []).append(int(number))
    if len(ids) <= 32:
        return [
            (text, np.flatnonzero(label == n[0] if len(n) == 1 else np.isin(label, n)))
            for text, n in texts.items()
        ]
    order = np.argsort(label, kind="stable")
    ordered = label[order]
    found: list[tuple[str, Int64 | slice]] = []
    for text, n in texts.items():
        parts = [order[np.searchsorted(ordered, i, "left") : np.searchsorted(ordered, i, "right")] for i in n]
        found.append((text, np.sort(np.concatenate(parts)) if len(parts) > 1 else parts[0]))
    return found


def steps_of(series: Series, pauses: Pauses, options: Options) -> Steps:
    """Statistics by label and the slow steps.

    A step is slow if it took over ``long_floor`` and over ``long_factor`` times its label's
    median; it is *explained* if its process's own passes cover at least half of its excess over
    that median. Where passes fill the median itself (a collect in every step), the median of the
    steps without their pauses stands in for it.
    """
    labels: list[LabelStats] = []
    parts: list[dict[str, Array]] = []
    callbacks = callback_time(series)
    touching = (series.passes["generation"] == 2) | (pauses.length > TOUCHING)
    heavy = union(pauses.start[touching], pauses.stop[touching])
    for number, (text, which) in enumerate(_groups(series)):
        stats, part = _one_label(series, pauses.union, heavy, callbacks, options, text, which, number)
        labels.append(stats)
        parts.append(part)
    slow = _joined(parts)
    _mark_nested(slow)
    return Steps(tuple(labels), slow)


def _touched(heavy: Union, start: Int64, stop: Int64) -> Array:
    """Which spans one of these pauses lies in or cuts."""
    found = np.zeros(len(start), bool)
    for at in range(0, len(start) if len(heavy.start) else 0, _CHUNK):
        part = slice(at, at + _CHUNK)
        found[part] = heavy.meets(start[part], stop[part])
    return found


def _one_label(
    series: Series,
    passes: Union,
    heavy: Union,
    callbacks: Union,
    options: Options,
    text: str,
    which: Int64 | slice,
    number: int,
) -> tuple[LabelStats, dict[str, Array]]:
    start, stop = series.spans["start"][which], series.spans["stop"][which]
    duration = stop - start
    count = len(duration)
    # The lower median: of 0, 0, 25 and 50 ms it is 0, and the two slow ones are seen.
    median, p99, longest = quantiles(duration, (0.5, 0.99, 1.0))
    few = count < options.few
    baseline = 0 if few else median
    note = "too few to compare" if few else ""
    if not few and median > options.long_floor:
        net_median = quantiles(duration - passes.overlap(start, stop), (0.5,))[0]
        if net_median < median / 2:
            baseline = net_median
            note = "most of these steps hold a pass: compared with their median without pauses"
    bar = max(float(options.long_floor), options.long_factor * baseline)
    long = np.flatnonzero(duration > bar)
    overlap = passes.overlap(start[long], stop[long])
    excess = duration[long] - baseline
    # A pause that is for the most part another tool's callback is that tool's, not the collector's.
    others = callbacks.overlap(start[long], stop[long])
    explained = (overlap > 0) & (2 * overlap >= excess) & (2 * others <= overlap)
    kinds = series.spans["kind"][which]
    flags = series.spans["flags"][which]
    n = len(long)
    touched = _touched(heavy, start, stop)
    hit = int(np.count_nonzero(touched))
    stats = LabelStats(
        label=text,
        kind=int(kinds[0]),
        count=count,
        total=int(duration.sum()),
        p50=median,
        p99=p99,
        longest=longest,
        errors=int(np.count_nonzero(flags & fmt.SPAN_FLAG_ERROR)),
        slow=n,
        explained=int(np.count_nonzero(explained)),
        overlapped=int(np.count_nonzero(overlap)),
        elsewhere=0,
        in_part=int(np.count_nonzero((overlap > 0) & ~explained)),
        baseline=baseline,
        primary=False,
        few=few,
        presets=bool(flags[0] & fmt.SPAN_FLAG_PRESET),
        note=note,
        touched=hit,
        p99_rest=p99 if not hit else quantiles(duration[~touched], (0.99,))[0] if hit < count else -1,
    )
    part = {
        "label": np.full(n, number, np.int64),
        "kind": kinds[long].astype(np.int64),
        "thread": series.spans["thread"][which][long].astype(np.int64),
        "start": start[long],
        "stop": stop[long],
        "baseline": np.full(n, baseline, np.int64),
        "overlap": overlap,
        "explained": explained,
        "callbacks": others,
    }
    return stats, part


def _joined(parts: list[dict[str, Array]]) -> Slow:
    names = ("label", "kind", "thread", "start", "stop", "baseline", "overlap", "callbacks")
    empty = np.zeros(0, np.int64)
    columns = {name: np.concatenate([p[name] for p in parts]) if parts else empty for name in names}
    explained = np.concatenate([p["explained"] for p in parts]) if parts else np.zeros(0, bool)
    order = np.argsort(columns["start"], kind="stable")
    columns = {name: column[order] for name, column in columns.items()}
    n = len(order)
    return Slow(
        **columns,
        explained=explained[order],
        nested=np.zeros(n, bool),
        elsewhere=np.full(n, -1, np.int64),
        beside=np.full(n, -1, np.int64),
    )


def callback_time(series: Series) -> Union:
    """When other tools' callbacks ran: from our "start" to the pass, and from it to our "stop"."""
    passes = series.passes
    start, stop, begin, end = (passes[name] for name in ("start", "stop", "begin", "end"))
    before, after = begin > start, end > stop
    return union(np.concatenate((start[before], stop[after])), np.concatenate((begin[before], end[after])))


def _mark_nested(slow: Slow) -> None:
    """Marks slow steps inside another slow step of their thread: one stall is one slow step.

    Only where one thread ran both from begin to end does "inside" follow from the times; what a
    coroutine overlaps may be another request.
    """
    sync = np.flatnonzero(slow.kind == fmt.SPAN_SYNC)
    order = sync[np.lexsort((-slow.stop[sync], slow.start[sync], slow.thread[sync]))]
    thread, reach = -1, -1
    for i in order:
        if slow.thread[i] != thread:
            thread, reach = int(slow.thread[i]), int(slow.stop[i])
        elif slow.stop[i] <= reach:
            slow.nested[i] = True
        else:
            reach = int(slow.stop[i])


def request_label(labels: tuple[LabelStats, ...] | list[LabelStats]) -> LabelStats | None:
    """The coroutine that most time is spent in: the outermost, which is a request in a front end."""
    coroutines = [label for label in labels if label.kind == fmt.SPAN_ASYNC and not label.few]
    return max(coroutines, key=lambda label: label.total, default=None)


def choose_primary(steps: Steps) -> Steps:
    """Says which labels enter the headline: each stall once.

    Steps that one thread ran from begin to end, if the process has any; requests and other
    coroutines only where it has none, since many of them wait in one stall. Labels with too few
    steps to compare, only where there is nothing else.
    """

    def usable(kinds: set[int], few: bool) -> set[str]:
        return {s.label for s in steps.labels if s.kind in kinds and (few or not s.few)}

    sync = {fmt.SPAN_SYNC}
    rest = {fmt.SPAN_ASYNC, fmt.SPAN_GENERATOR, fmt.SPAN_SPLIT}
    chosen = usable(sync, False) or usable(rest, False) or usable(sync, True) or usable(rest, True)
    return Steps(tuple(replace(s, primary=s.label in chosen) for s in steps.labels), steps.slow)


@dataclass
class Counted:
    """What the headline counts, of steps that one thread ran and of requests."""

    steps: int = 0
    slow: int = 0
    explained: int = 0
    requests: int = 0
    slow_requests: int = 0
    explained_requests: int = 0
    #: Neither explained; consistent with a pass in another process.
    elsewhere: int = 0
    #: The labels of the requests.
    words: set[str] = field(default_factory=set)

    def add(self, steps: Steps) -> None:
        """Counts one process: its primary labels, and its requests where these are steps."""
        labels, slow = steps.labels, steps.slow
        request = request_label(labels)
        primary = any(s.primary and s.kind == fmt.SPAN_ASYNC for s in labels)
        for index, label in enumerate(labels):
            asked = label.kind == fmt.SPAN_ASYNC and (label.primary or (not primary and label is request))
            if not label.primary and not asked:
                continue
            which = (slow.label == index) & ~slow.nested
            count, explained = int(np.count_nonzero(which)), int(np.count_nonzero(which & slow.explained))
            self.elsewhere += int(np.count_nonzero(which & (slow.elsewhere >= 0)))
            if asked:
                self.words.add(label.label)
                self.requests += label.count
                self.slow_requests += count
                self.explained_requests += explained
            else:
                self.steps += label.count
                self.slow += count
                self.explained += explained


def first_step(series: Series, labels: tuple[LabelStats, ...]) -> int:
    """When the first span began, of labels that are no part of start-up (``load_model``); 0 if none."""
    starts = series.spans["start"]
    if not len(starts):
        return 0
    usual = {label.label for label in labels if not label.few}
    if usual and len(usual) < len(labels):
        starts = starts[np.isin(series.spans["label"], ids_of(series, usual))]
    return int(starts.min())


def list_slow(
    series: Series, pauses: Pauses, steps: Steps, name: str, names: list[str]
) -> tuple[LongStep, ...]:
    """The slow steps one by one, the longest first; at most LISTED of them."""
    slow = steps.slow
    duration = slow.stop - slow.start
    order = np.argsort(-duration, kind="stable")[:LISTED]
    reach = np.maximum.accumulate(pauses.stop) if len(pauses.stop) else pauses.stop
    first = np.searchsorted(reach, slow.start, "right")
    last = np.searchsorted(pauses.start, slow.stop, "left")
    length = pauses.length
    tids = native_ids(series)
    found: list[LongStep] = []
    for i in order:
        lo, hi = int(first[i]), int(last[i])
        text = ""
        if hi > lo and slow.overlap[i] > 0:
            worst = lo + int(np.argmax(length[lo:hi]))
            text = pass_text(series, pauses, worst)
        found.append(
            LongStep(
                process=name,
                pid=series.pid,
                label=steps.labels[int(slow.label[i])].label,
                kind=int(slow.kind[i]),
                start=int(slow.start[i]),
                duration=int(duration[i]),
                baseline=int(slow.baseline[i]),
                overlap=int(slow.overlap[i]),
                explained=bool(slow.explained[i]),
                nested=bool(slow.nested[i]),
                pass_text=text,
                passes=max(0, hi - lo) if slow.overlap[i] > 0 else 0,
                elsewhere=names[int(slow.elsewhere[i])] if slow.elsewhere[i] >= 0 else "",
                beside=names[int(slow.beside[i])] if slow.beside[i] >= 0 else "",
                callbacks=int(slow.callbacks[i]),
                tid=tids.get(int(slow.thread[i]), 0),
            )
        )
    return tuple(found)
