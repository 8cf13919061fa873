"""When start-up was over in a process, as far as the recording says."""

from __future__ import annotations

from frostline import format as fmt
from frostline.analysis.events import attached_after
from frostline.recording import Series

#: Who told a boundary: the supervisor (``--ready-*``, ``attach --policy``, ``policy --now``).
SUPERVISOR = 2


def serving_from(
    series: Series, ready: tuple[str, int, str] | None, first: int, start: int, stop: int
) -> int:
    """The boundary, READY, or the first step; 0 where nothing tells it.

    A boundary that somebody tells of late says that start-up is over, not that it was not before: a
    server that was attached to served from the attach on, unless it has told of its own boundary since
    and took no request before. Nor does ``policy --now``, or a clock (``--ready-after``), make start-up of
    the time in which there were requests.

    Args:
        ready: (how, when, in words) READY was told to the supervisor; None where none was asked for.
        first: when the first span began, 0 if there is none.
    """
    kind, at, _ = ready if ready and start <= ready[1] <= stop else ("", 0, "")
    told = [(m.time, m.values[0] == SUPERVISOR) for m in series.marks if m.kind == fmt.MARK_BOUNDARY]
    own = min((time for time, by_supervisor in told if not by_supervisor), default=0)
    if attached_after(series):
        return own if own and not 0 < first < own else start
    # The first boundary: a model that is added later does not begin the serving anew.
    boundary = min((time for time, _ in told), default=0) or at
    if not boundary or boundary == own:
        return boundary or first
    # A probe of --ready-url may be a request; a clock, or somebody's word, is known better by the first one.
    if kind in ("", "after") and first:
        return min(first, boundary)
    return boundary
