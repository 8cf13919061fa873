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
from frostline.analysis.steps import request_label, spans_of
from frostline.recording import Series

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
) -> Held | None:
    """What held up the work of this process after ``since``; None if nothing did.

    Frostline's own passes are left out: the boundary's belongs to start-up, the thaw's to the end.
    So are spans of labels too few to compare (``load_model``), unless there are no others.
    """
    which = (pauses.length > options.long_floor) & (pauses.start >= since)
    which &= (series.passes["flags"] & fmt.PASS_FROSTLINE) == 0
    starts, stops = series.spans["start"], series.spans["stop"]
    if not len(starts) or not bool(which.any()):
        return None
    usual = [label for label in labels if not label.few] or list(labels)
    if len(usual) < len(labels):
        chosen = spans_of(series, {label.label for label in usual})
        starts, stops = starts[chosen], stops[chosen]
    stopped = union(pauses.start[which], pauses.stop[which])
    # No sorting of millions of spans: each falls between the few pauses, and is counted there.
    begun_after = np.searchsorted(stopped.stop, starts, "right")
    ended_before = np.searchsorted(stopped.start, stops, "left")
    count = len(stopped.start)
    begun = np.cumsum(np.bincount(begun_after, minlength=count + 1))[:count]
    ended = np.cumsum(np.bincount(ended_before, minlength=count + 1))[:count]
    busy = begun > ended
    if not bool(busy.any()):
        return None
    of_pass = np.searchsorted(stopped.start, pauses.start[which], "right") - 1
    lengths = pauses.length[which][busy[of_pass]]
    label = _who_waits(usual)
    mine = spans_of(series, {label.label})
    mine &= series.spans["stop"] > since
    starts, stops = series.spans["start"][mine], series.spans["stop"][mine]
    touched = np.searchsorted(stopped.start, stops, "left") > np.searchsorted(stopped.stop, starts, "right")
    return Held(
        count=len(lengths),
        total=int((stopped.stop - stopped.start)[busy].sum()),
        longest=int(lengths.max()),
        wall=max(1, stop - max(since, int(series.spans["start"].min()))),
        label=label.label,
        waited=int(np.count_nonzero(touched)),
        spans=len(starts),
    )


def is_finding(held: Held | None, options: Options) -> bool:
    """Whether that alone makes the collector the answer."""
    return held is not None and (held.longest > LONG * options.long_floor or held.share > SHARE)


def _who_waits(labels: list[LabelStats]) -> LabelStats:
    return request_label(labels) or max(labels, key=lambda label: (label.primary, label.total))
