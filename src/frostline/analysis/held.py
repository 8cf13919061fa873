"""Work held up: pauses while a span was in flight, whatever the span's own length.

A pass stops every thread of its process. Of a request of twenty seconds it may be a tenth, and of
a step of five milliseconds it may miss every one, falling between two; what was in flight waited
for it all the same. So this counts time, where the rule for slow steps counts steps.
"""

from __future__ import annotations

import numpy as np

from frostline import format as fmt
from frostline.analysis.intervals import union
from frostline.analysis.model import Held, LabelStats, Options
from frostline.analysis.pauses import Pauses
from frostline.analysis.steps import ids_of, request_label
from frostline.recording import Series

#: Spans looked at in one go: the arrays in between stay small.
_CHUNK = 1_000_000
#: One pause over this many times the floor of a slow step is a finding by itself.
LONG = 5
#: So are pauses over the floor that take more than this share of the time since start-up.
SHARE = 0.05


def held_up(
    series: Series,
    pauses: Pauses,
    labels: tuple[LabelStats, ...],
    since: int,
    stop: int,
    options: Options,
    ours: bool = False,
) -> Held | None:
    """What held up the work of this process from ``since`` to ``stop``; None if nothing did.

    Frostline's own passes are left out: the boundary's belongs to start-up, the thaw's to the end. With
    ``ours`` they alone are counted: walks of the whole heap, full passes at idle moments and steps.
    So are spans of labels too few to compare (``load_model``), unless there are no others.
    """
    which = (pauses.length > options.long_floor) & (pauses.start >= since)
    which &= ((series.passes["flags"] & fmt.PASS_FROSTLINE) != 0) == ours
    which &= pauses.start <= stop
    which &= 2 * pauses.others <= pauses.length  # else it is another tool's callback
    if not len(series.spans["start"]) or not bool(which.any()):
        return None
    usual = [label for label in labels if not label.few] or list(labels)
    label = request_label(usual) or max(usual, key=lambda one: (one.primary, one.total))
    stopped = union(pauses.start[which], pauses.stop[which])
    everything = len(usual) == len(labels)
    work = ids_of(series, {one.label for one in usual})
    mine = ids_of(series, {label.label})
    count = len(stopped.start)
    begun = np.zeros(count + 1, np.int64)
    ended = np.zeros(count + 1, np.int64)
    waited = spans = 0
    # No sorting of millions of spans: each falls between the few pauses, and is counted there.
    for at in range(0, len(series.spans["start"]), _CHUNK):
        starts, stops, ids = (series.spans[name][at : at + _CHUNK] for name in ("start", "stop", "label"))
        begun_after = np.searchsorted(stopped.stop, starts, "right")
        ended_before = np.searchsorted(stopped.start, stops, "left")
        of_label = np.isin(ids, mine) & (stops > since)
        spans += int(np.count_nonzero(of_label))
        waited += int(np.count_nonzero(of_label & (ended_before > begun_after)))
        if not everything:
            chosen = np.isin(ids, work)
            begun_after, ended_before = begun_after[chosen], ended_before[chosen]
        begun += np.bincount(begun_after, minlength=count + 1)
        ended += np.bincount(ended_before, minlength=count + 1)
    busy = np.cumsum(begun)[:count] > np.cumsum(ended)[:count]
    if not bool(busy.any()):
        return None
    of_pass = np.searchsorted(stopped.start, pauses.start[which], "right") - 1
    lengths = pauses.length[which][busy[of_pass]]
    return Held(
        count=len(lengths),
        total=int((stopped.stop - stopped.start)[busy].sum()),
        longest=int(lengths.max()),
        wall=max(1, stop - max(since, int(series.spans["start"].min()))),
        label=label.label,
        waited=waited,
        spans=spans,
    )


def is_finding(held: Held | None, options: Options) -> bool:
    """Whether that alone makes the collector the answer."""
    return held is not None and (held.longest > LONG * options.long_floor or held.share > SHARE)
