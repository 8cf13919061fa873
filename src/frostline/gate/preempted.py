"""How much of a pass its thread stood in the run queue: what a noisy machine adds to a pause.

A pause is a time by the clock, so a neighbour on the core makes it longer. Where the host was sampled
(``docs/host.md``) the samples bound that time from below. Only the run queue counts: a thread that
sleeps in a pass sleeps in a finalizer, and that is the pass's own doing.
"""

from __future__ import annotations

from frostline.analysis.hostcause import COLUMN, TICK, US, window_of
from frostline.analysis.model import Analysis, ProcessReport
from frostline.recording.host import Track


def track_of(analysis: Analysis, process: ProcessReport) -> Track | None:
    """Its host samples, of the helper that looked most often; None where there are none."""
    found: Track | None = None
    for log in analysis.host_logs:
        for one in log.processes:
            same = one.session == process.session and one.pid == process.pid
            if same and one.start_ticks == process.series.process_start and len(one.track) > 1:
                found = one.track if found is None or len(one.track) > len(found) else found
    return found


def waited(track: Track | None, start: int, stop: int, main: bool) -> int | None:
    """ns that the thread was runnable without a CPU between two instants, at least. None: not sampled.

    Of the samples around them it is the growth of the wait, less what may have been beside the pass;
    and where the thread never slept in between, all that it was not on a CPU (less a tick of the
    kernel's, whose sums are as late as that).
    """
    window = window_of(track, start, stop) if track is not None else None
    if window is None:
        return None
    who = "main" if main else "others"
    cpu = min(window.length, US * window.grew(COLUMN[f"{who}_cpu_us"]))
    queue = min(window.length - cpu, US * window.grew(COLUMN[f"{who}_queue_us"]))
    least = queue - (window.length - (stop - start))
    if main and not window.grew(COLUMN["voluntary"]):
        least = max(least, min(queue, stop - start - cpu - TICK))
    # Sums of all other threads together may be of threads that had nothing to do with it.
    return max(0, least) if main else 0
