"""Passes of one series: pauses, kinds, statistics by generation, the list of full passes."""

from __future__ import annotations

import numpy as np

from frostline import format as fmt
from frostline.analysis.intervals import quantiles, union
from frostline.analysis.model import FullPass, GenerationStats, Walked
from frostline.analysis.pauses import Pauses
from frostline.analysis.triggers import reason
from frostline.analysis.walked import HOW_EXACT, HOW_FULL, HOW_YOUNG, HeapModel, heap_model
from frostline.recording import Series
from frostline.recording.layout import Array, Int64

AUTOMATIC = "automatic"
EXPLICIT = "explicit"
FROSTLINE = "Frostline"
UNSEEN = "explicit, caller unseen"
UNKNOWN = "unknown"
#: What ``kind_codes`` numbers.
KINDS = (AUTOMATIC, EXPLICIT, FROSTLINE, UNSEEN, UNKNOWN)


def pauses_of(series: Series, parent: HeapModel | None = None) -> Pauses:
    """A pause is ["start" reached us, "stop" reached the last callback], as the process feels it.

    Of it, the pass itself is ["start" reached the last callback, "stop" reached us], or what
    the interpreter says (3.15); the rest is other tools' callbacks (case 53).
    """
    passes = series.passes
    start: Int64 = passes["start"]
    end: Int64 = passes["stop"]
    alone: Int64 = end - start
    # Views and a broadcast zero where there are no other callbacks: millions of passes are cheap.
    others: Int64 = np.broadcast_to(np.int64(0), len(passes))
    if bool(np.any(passes["begin"])) or bool(np.any(passes["end"])):
        end = np.where(passes["end"] > 0, passes["end"], passes["stop"])
        begin = np.where(passes["begin"] > 0, passes["begin"], start)
        alone = passes["stop"] - begin
        others = (begin - start) + (end - passes["stop"])
    said = passes["duration"] >= 0
    # The interpreter's own figure lies inside what we saw; a larger one would be a damaged record.
    own = np.rint(passes["duration"][said].astype(np.float64) * 1e9).astype(np.int64)
    alone[said] = np.minimum(own, (end - start)[said])
    enabled = (passes["flags"] & fmt.PASS_DISABLED) == 0
    marked = (passes["flags"] & (fmt.PASS_EXPLICIT | fmt.PASS_FROSTLINE)) != 0
    due = (passes["count0"] > passes["threshold0"]) | _scheduled(series)
    automatic = enabled & (passes["threshold0"] > 0) & due & ~marked
    heap = heap_model(series, parent, alone)
    return Pauses(start, end, alone, others, automatic, marked, union(start, end), heap)


def _scheduled(series: Series) -> Array:
    """Passes of 3.12+ that a threshold started, although count 0 is no longer over it.

    There a pass is only scheduled when count 0 passes its threshold, and runs when the C call that
    allocated is over. What that call freed again brings count 0 back, to nothing if it freed all of
    it; the generation is then chosen by the older counts. So a young pass of the generation that they
    choose was automatic. For a full one, which is what C code asks for by itself (PyGC_Collect),
    count 0 must not be far below, too.
    """
    passes = series.passes
    if series.version < (3, 12):
        return np.zeros(len(passes), bool)
    generation = passes["generation"]
    if (3, 14, 0) <= series.version < (3, 14, 5):  # the incremental collector calls each one 1
        incremental: Array = (generation == 1) & (2 * passes["count0"] > passes["threshold0"])
        return incremental
    young = (generation == 1) & (passes["count1"] > passes["threshold1"])
    full = (generation == 2) & (passes["count2"] > passes["threshold2"])
    chosen: Array = young | (full & (2 * passes["count0"] > passes["threshold0"]))
    return chosen


def kind_of(series: Series, pauses: Pauses, i: int) -> str:
    """Why pass ``i`` ran: counters and flags were read at its start."""
    flags = int(series.passes["flags"][i])
    if flags & fmt.PASS_FROSTLINE:
        return FROSTLINE
    if flags & fmt.PASS_EXPLICIT:
        return EXPLICIT
    if pauses.automatic[i]:
        return AUTOMATIC
    return UNSEEN if series.passes["threshold0"][i] >= 0 else UNKNOWN


def kind_codes(series: Series, pauses: Pauses) -> Array:
    """``kind_of`` of every pass, as indices into KINDS."""
    flags = series.passes["flags"]
    codes: Array = np.where(series.passes["threshold0"] >= 0, KINDS.index(UNSEEN), KINDS.index(UNKNOWN))
    codes[pauses.automatic] = KINDS.index(AUTOMATIC)
    codes[(flags & fmt.PASS_EXPLICIT) != 0] = KINDS.index(EXPLICIT)
    codes[(flags & fmt.PASS_FROSTLINE) != 0] = KINDS.index(FROSTLINE)
    return codes


def pass_text(series: Series, pauses: Pauses, i: int) -> str:
    """One pass in words, such as ``gen 2, 40.0 ms, automatic, triggered at app.py:12``."""
    row = series.passes[i]
    kind = kind_of(series, pauses, i)
    text = f"gen {int(row['generation'])}, {pauses.length[i] / 1e6:.1f} ms, {kind}"
    file = series.name(int(row["trigger_file"]))
    return f"{text}, triggered at {file}:{int(row['trigger_line'])}" if file and kind == AUTOMATIC else text


def longest_from(series: Series, pauses: Pauses, since: int) -> tuple[int, str]:
    """(ns, in words) of the longest pause that began at ``since`` or later.

    With a ``since``, Frostline's own are left out: the boundary's collect belongs to start-up, and
    the one after the thaw to the end.
    """
    counted = pauses.start >= since
    if since:
        counted &= (series.passes["flags"] & fmt.PASS_FROSTLINE) == 0
    length = np.where(counted, pauses.length, -1)
    i = int(length.argmax()) if len(length) else 0
    if not len(length) or length[i] < 0:
        return 0, ""
    return int(length[i]), f"gen {int(series.passes['generation'][i])}, {kind_of(series, pauses, i)}"


def generation_stats(series: Series, pauses: Pauses, wall: int) -> tuple[GenerationStats, ...]:
    """One row for each generation that had a pass."""
    found: list[GenerationStats] = []
    length = pauses.length
    for generation in (0, 1, 2):
        which = series.passes["generation"] == generation
        count = int(np.count_nonzero(which))
        if not count:
            continue
        these = length[which]
        p50, p99, longest = quantiles(these, (0.5, 0.99, 1.0))
        total = int(these.sum())
        walked = sum_walked(pauses.heap, which, generation)
        reclaimed = int(series.passes["collected"][which].sum(dtype=np.int64))
        ours = which & ((series.passes["flags"] & fmt.PASS_FROSTLINE) != 0)
        found.append(
            GenerationStats(
                generation=generation,
                count=count,
                automatic=int(np.count_nonzero(pauses.automatic & which)),
                total=total,
                p50=p50,
                p99=p99,
                longest=longest,
                share=total / max(1, wall),
                walked=walked,
                reclaimed=reclaimed,
                uncollectable=int(series.passes["uncollectable"][which].astype(np.int64).sum()),
                yield_=reclaimed / walked.value if walked.value else None,
                passes_alone=int(pauses.alone[which].sum()),
                others=int(pauses.others[which].sum()),
                ours=int(np.count_nonzero(ours)),
                ours_total=int(length[ours].sum()),
            )
        )
    return tuple(found)


def sum_walked(heap: HeapModel, which: Array, generation: int) -> Walked:
    """What passes walked together, None if over a tenth are unknown; ``generation`` is the oldest of them."""
    walked = heap.walked[which]
    known = walked >= 0
    unknown = len(walked) - int(np.count_nonzero(known))
    if 10 * unknown > len(walked):
        return Walked(None)
    exact = not unknown and bool(np.all(heap.exact[which]))
    how = HOW_EXACT if exact else (HOW_FULL if generation == 2 else HOW_YOUNG)
    return Walked(int(walked[known].sum()), exact, how, unknown, at_most=how is HOW_FULL)


def full_passes(series: Series, pauses: Pauses) -> tuple[FullPass, ...]:
    """The passes of generation 2, in order, with the frame each interrupted (the trigger)."""
    found: list[FullPass] = []
    length = pauses.length
    for i in np.flatnonzero(series.passes["generation"] == 2):
        row = series.passes[i]
        objects = int(pauses.heap.walked[i])
        exact = bool(pauses.heap.exact[i])
        how = HOW_EXACT if exact else HOW_FULL
        found.append(
            FullPass(
                start=int(row["start"]),
                pause=int(length[i]),
                alone=int(pauses.alone[i]),
                kind=kind_of(series, pauses, int(i)),
                reclaimed=int(row["collected"]),
                walked=Walked(objects, exact, how, at_most=not exact) if objects >= 0 else Walked(None),
                file=series.name(int(row["trigger_file"])),
                line=int(row["trigger_line"]),
                function=series.name(int(row["trigger_function"])),
                tid=int(row["tid"]),
                counts=(int(row["count0"]), int(row["count1"]), int(row["count2"])),
                thresholds=(int(row["threshold0"]), int(row["threshold1"]), int(row["threshold2"])),
                why=reason(series, pauses, int(i)),
            )
        )
    return tuple(found)
