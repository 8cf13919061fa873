"""What a policy does to the collector, each act marked as ours where there is a recording."""

import gc
import time

from frostline import format as layout
from frostline import probe
from frostline.policy import moments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


#: Seconds. The second collect of a walk, over a heap that is frozen, says nothing of the next walk.
SHORT = 0.01


def collect(generation: int) -> int:
    """A collection of ours, marked as such. Returns what it reclaimed, -1 if a pass was running."""
    recorder = probe.recorder_of_this_process()
    recording = recorder is not None and recorder.recording
    place = recorder.position() if recorder is not None and recording else None
    before = _collections()
    begun = time.monotonic()
    found: int = int(real("collect")(generation))  # type: ignore[call-overload]
    took = time.monotonic() - begun
    if recorder is not None and place is not None:
        recorder.flag_since(place, layout.PASS_FROSTLINE | layout.PASS_EXPLICIT, generation)
    if _collections() == before:
        return -1
    if generation == 2 and took > SHORT:
        moments.walked(took)
    return found


def tune(threshold0: int, threshold1: int, threshold2: int) -> None:
    """Sets thresholds."""
    real("set_threshold")(threshold0, threshold1, threshold2)
    recorder = probe.recorder_of_this_process()
    if recorder is not None:
        recorder.mark(layout.MARK_THRESHOLD, layout.MARK_FLAG_OURS, threshold0, threshold1, threshold2)


def note_boundary(late: bool, told_by: int, freezes: bool) -> None:
    """The boundary into the recording, where there is one; ``freezes``: a collection and a freeze follow."""
    recorder = probe.recorder_of_this_process()
    if recorder is None:
        return
    from frostline.probe import imports

    imports.sweep()  # start-up has imported what will be used: wrap what came in past the hook
    recorder.mark(layout.MARK_BOUNDARY, layout.MARK_FLAG_LATE if late else 0, told_by)
    series = recorder.series
    if series is not None:
        series.words[layout.WORD["boundary"]] = time.monotonic_ns()
    if recorder.census is not None:
        recorder.census.told(late, freezes)


def before_freeze() -> None:
    """A freeze comes, right after a collection: a census that was asked for is taken now."""
    recorder = probe.recorder_of_this_process()
    if recorder is not None and recorder.census is not None:
        recorder.census.before_freeze()


def _collections() -> int:
    total = 0
    for generation in gc.get_stats():
        total += generation["collections"]
    return total


#: Stand-ins of ours, one behind the other, at most.
_STAND_INS = 4


def real(name: str) -> "Callable[..., object]":
    """The interpreter's own function, not a stand-in of ours: the recorder's, or those of the pytest plugin."""
    function = getattr(gc, name)
    for _ in range(_STAND_INS):  # a host's own may answer to any name, without an end
        behind = getattr(function, "__wrapped__", None)
        if behind is None:
            break
        function = behind
    return function  # type: ignore[no-any-return]


def mark(kind: int, flags: int, count: int, begun: int, open_requests: int = 0) -> None:
    """A mark of a freeze or a thaw; ``open_requests`` is one more than there are, 0 where that is not said."""
    recorder = probe.recorder_of_this_process()
    if recorder is not None:
        recorder.mark(kind, flags, count, open_requests, begun=begun)
