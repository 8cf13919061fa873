"""The policy in force in this interpreter: thresholds at the start, freeze at the boundary, thaw.

It works with and without a recording. Each act leaves a mark where there is one.
"""

import gc
import os
import time

from frostline import format as layout
from frostline import probe
from frostline.policy.grammar import Policy, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: Who told the boundary: values of the boundary mark's ``a``.
BY_PROGRAM = 1
BY_SUPERVISOR = 2
BY_INTEGRATION = 3


class _Engine:
    """State of the policy; one an interpreter, inherited by forked children as it is."""

    def __init__(self) -> None:
        self.policy: Policy | None = None
        self.frozen_at_start = 0
        #: Something of ours is frozen, here or in the process that forked this one.
        self.frozen = False
        #: The process that froze last. A child that was forked later has a heap of its own to freeze.
        self.frozen_by = 0


_engine = _Engine()


def adopt(text: str) -> None:
    """Puts a policy in force. The same one again changes nothing.

    Raises:
        ValueError: it is not a policy.
    """
    if _engine.policy is not None and _engine.policy.text == text.strip():
        return
    policy = parse(text)
    if _engine.policy is None:
        # 3.12 has 375 immortal objects frozen at the start: what we freeze is counted from there.
        _engine.frozen_at_start = gc.get_freeze_count()
    _engine.policy = policy
    recorder = probe.recorder_of_this_process()
    if recorder is not None:
        recorder.mark(layout.MARK_POLICY, layout.MARK_FLAG_OURS, recorder.name_id(policy.text))
    if policy.thresholds is not None:
        tune(*policy.thresholds)


def in_force() -> str:
    """The policy's text, ``"off"`` where there is none."""
    return _engine.policy.text if _engine.policy is not None else "off"


def boundary(told_by: int) -> "int | None":
    """Start-up has ended. Freezes under ``freeze``; returns the number frozen, None if it froze nothing.

    A supervisor's boundary comes after READY: requests may be in flight, so there is no blocking
    collect, only the splice (microseconds), and -1 is returned since counting would take time too.
    """
    policy = _engine.policy
    late = told_by == BY_SUPERVISOR
    recorder = probe.recorder_of_this_process()
    if recorder is not None:
        from frostline.probe import imports

        imports.sweep()  # start-up has imported what will be used: wrap what came in past the hook
        recorder.mark(layout.MARK_BOUNDARY, layout.MARK_FLAG_LATE if late else 0, told_by)
        series = recorder.series
        if series is not None:
            series.words[layout.WORD["boundary"]] = time.monotonic_ns()
    if policy is None or policy.kind != "freeze":
        return None
    if late:
        if _engine.frozen_by == os.getpid():
            return None  # this process has done it at the right moment
        splice(layout.MARK_FLAG_LATE)
        return -1
    if collect(2) < 0:
        return None  # a pass was running: a freeze now would keep its garbage
    begun = time.monotonic_ns()
    _freeze()
    count = gc.get_freeze_count() - _engine.frozen_at_start
    _mark(layout.MARK_FREEZE, layout.MARK_FLAG_OURS, count, begun)
    return count


def splice(flags: int = 0) -> None:
    """Freezes without a collect: microseconds at any size, and garbage is frozen with the rest."""
    begun = time.monotonic_ns()
    _freeze()
    _mark(layout.MARK_FREEZE, layout.MARK_FLAG_OURS | layout.MARK_FLAG_SPLICE | flags, -1, begun)


def _freeze() -> None:
    _real("freeze")()
    _engine.frozen = True
    _engine.frozen_by = os.getpid()


def release(collect_after: bool = True) -> bool:
    """Thaws what we froze; whether there was anything. A thaw alone frees nothing, so it collects."""
    if not _engine.frozen:
        return False
    begun = time.monotonic_ns()
    _real("unfreeze")()
    _engine.frozen = False
    _engine.frozen_by = 0
    _mark(layout.MARK_THAW, layout.MARK_FLAG_OURS, -1, begun)
    if collect_after:
        collect(2)
    return True


def collect(generation: int) -> int:
    """A collection of ours, marked as such. Returns what it reclaimed, -1 if a pass was running."""
    recorder = probe.recorder_of_this_process()
    if recorder is None or not recorder.recording:
        before = _collections()
        found = int(_real("collect")(generation))  # type: ignore[call-overload]
        return found if _collections() != before else -1
    place = recorder.position()
    before = _collections()
    found = int(_real("collect")(generation))  # type: ignore[call-overload]
    recorder.flag_since(place, layout.PASS_FROSTLINE | layout.PASS_EXPLICIT)
    return found if _collections() != before else -1


def tune(threshold0: int, threshold1: int, threshold2: int) -> None:
    """Sets thresholds."""
    _real("set_threshold")(threshold0, threshold1, threshold2)
    recorder = probe.recorder_of_this_process()
    if recorder is not None:
        recorder.mark(layout.MARK_THRESHOLD, layout.MARK_FLAG_OURS, threshold0, threshold1, threshold2)


def _collections() -> int:
    total = 0
    for generation in gc.get_stats():
        total += generation["collections"]
    return total


def _real(name: str) -> "Callable[..., object]":
    """The interpreter's own function, not the recorder's stand-in for it."""
    function = getattr(gc, name)
    return getattr(function, "__wrapped__", function)  # type: ignore[no-any-return]


def _mark(kind: int, flags: int, count: int, begun: int) -> None:
    recorder = probe.recorder_of_this_process()
    if recorder is not None:
        recorder.mark(kind, flags, count, begun=begun)
