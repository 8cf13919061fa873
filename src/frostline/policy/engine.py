"""The policy in force in this interpreter: thresholds at the start, freeze at the boundary, thaw.

It works with and without a recording. Each act leaves a mark where there is one.
"""

import gc
import os
import time

from frostline import format as layout
from frostline import probe
from frostline.policy import moments
from frostline.policy.grammar import Policy, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from frostline.policy.keeping import Keeper

#: Who told the boundary: values of the boundary mark's ``a``.
BY_PROGRAM = 1
BY_SUPERVISOR = 2
BY_INTEGRATION = 3

#: Kinds that freeze at the boundary, and kinds that need the generational collector.
_FREEZING = ("freeze", "follow", "periodic")
_GENERATIONAL = ("follow", "idle", "sync")


class _Engine:
    """State of the policy; one an interpreter, inherited by forked children as it is."""

    def __init__(self) -> None:
        self.policy: Policy | None = None
        self.frozen_at_start = 0
        #: Something of ours is frozen, here or in the process that forked this one.
        self.frozen = False
        #: The process that froze last. A child that was forked later has a heap of its own to freeze.
        self.frozen_by = 0
        #: The process in which the program itself has told the boundary; an integration's adds nothing.
        self.told_by_program = 0
        #: Frozen without a collect before, so garbage may be frozen: the next idle moment puts it right.
        self.spliced = False
        #: The whole heap is being walked.
        self.walking = False
        #: Who asked for the freeze: name, or id with a weak reference to it.
        self.owners: dict[object, object] = {}
        #: What a kind does beyond thresholds and freeze, None for those that do not.
        self.keeper: Keeper | None = None


_engine = _Engine()


def adopt(text: str) -> None:
    """Puts a policy in force. The same one again changes nothing.

    Raises:
        ValueError: it is not a policy, or not one for this interpreter.
    """
    if _engine.policy is not None and _engine.policy.text == text.strip():
        return
    policy = parse(text)
    if policy.kind in _GENERATIONAL:
        _refuse_other_collectors(policy.kind)
    if _engine.policy is None:
        # 3.12 has 375 immortal objects frozen at the start: what we freeze is counted from there.
        _engine.frozen_at_start = gc.get_freeze_count()
    if _engine.keeper is not None:
        _engine.keeper.stop()
        _engine.keeper.take_out()
        _engine.keeper = None
    _engine.policy = policy
    recorder = probe.recorder_of_this_process()
    if recorder is not None:
        recorder.mark(layout.MARK_POLICY, layout.MARK_FLAG_OURS, recorder.name_id(policy.text))
    if policy.thresholds is not None:
        tune(*policy.thresholds)
    if policy.kind in _GENERATIONAL or policy.kind == "periodic":
        from frostline.policy import keeping

        _engine.keeper = keeping.keeper(policy)
    if policy.kind in ("freeze", "follow", "idle"):
        moments.watch(_due, _in_idle_moment)


def _refuse_other_collectors(kind: str) -> None:
    if probe.INCREMENTAL:
        raise ValueError(
            f"policy {kind!r} needs the generational collector, and CPython 3.14.0 to 3.14.4 has the"
            " incremental one, where no full pass starts by itself; use freeze, or 3.14.5 or newer"
        )
    if probe.FREE_THREADED:
        raise ValueError(
            f"policy {kind!r} needs the generational collector, and a free-threaded build walks the whole"
            " heap in each pass; use freeze"
        )


def in_force() -> str:
    """The policy's text, ``"off"`` where there is none."""
    return _engine.policy.text if _engine.policy is not None else "off"


def keeper() -> "Keeper | None":
    """What keeps the policy going between boundaries, if the kind in force has one."""
    return _engine.keeper


def boundary(told_by: int, owner: object = None) -> "int | None":
    """Start-up has ended. Freezes where the policy does; returns the number frozen, None if it froze nothing.

    With requests in flight, or told by a supervisor (whose boundary comes after READY), there is no
    blocking collect, only the splice (microseconds), and -1 is returned: counting would take time too.
    """
    policy = _engine.policy
    late = told_by == BY_SUPERVISOR
    if told_by == BY_PROGRAM:
        _engine.told_by_program = os.getpid()
    elif told_by == BY_INTEGRATION and _engine.told_by_program == os.getpid():
        return None
    recorder = probe.recorder_of_this_process()
    if recorder is not None:
        from frostline.probe import imports

        imports.sweep()  # start-up has imported what will be used: wrap what came in past the hook
        recorder.mark(layout.MARK_BOUNDARY, layout.MARK_FLAG_LATE if late else 0, told_by)
        series = recorder.series
        if series is not None:
            series.words[layout.WORD["boundary"]] = time.monotonic_ns()
    if policy is None:
        return None
    if policy.kind not in _FREEZING:
        if _engine.keeper is not None:
            _engine.keeper.begin(not late and not moments.in_flight())
        return None
    if not late:
        _own(owner)
    elif _engine.frozen_by == os.getpid():
        return None  # this process has done it at the right moment
    if moments.in_flight() or (late and not moments.known_quiet()):
        splice(layout.MARK_FLAG_LATE if late else 0)
        _engine.spliced = True
        if _engine.keeper is not None:
            _engine.keeper.begin(False)
        return -1
    if policy.kind == "follow":
        return whole_heap()
    if collect(2) < 0:
        return None  # a pass was running: a freeze now would keep its garbage
    count = freeze_and_count()
    if _engine.keeper is not None:
        _engine.keeper.begin(True)
    return count


def splice(flags: int = 0) -> None:
    """Freezes without a collect: microseconds at any size, and garbage is frozen with the rest."""
    begun = time.monotonic_ns()
    _freeze()
    flags |= layout.MARK_FLAG_OURS | layout.MARK_FLAG_SPLICE
    _mark(layout.MARK_FREEZE, flags, -1, begun, moments.counted() + 1)


def _freeze() -> None:
    real("freeze")()
    _engine.frozen = True
    _engine.frozen_by = os.getpid()


def freeze_and_count() -> int:
    """The second half of ``freeze``: returns objects frozen since the start."""
    begun = time.monotonic_ns()
    _freeze()
    count = frozen_since_start()
    _mark(layout.MARK_FREEZE, layout.MARK_FLAG_OURS, count, begun)
    return count


def frozen_since_start() -> int:
    """By count, 10 to 30 ms a million objects: never in a callback."""
    return max(0, gc.get_freeze_count() - _engine.frozen_at_start)


def frozen_at_start() -> int:
    """The interpreter's own freeze count before the first policy."""
    return _engine.frozen_at_start


def froze() -> None:
    """The line has moved, in the collector's "stop"."""
    _engine.frozen = True


def whole_heap() -> "int | None":
    """Thaws, collects, freezes and counts: no garbage is left. Returns the count, None if a pass was running.

    A walk of everything: at a boundary, in an idle moment, or forced; never in a callback. What this
    process has inherited through a fork stays frozen: to thaw it would copy every page of it.
    """
    keeper = _engine.keeper
    if _engine.walking:
        return None  # another thread is at it, or a finalizer asks in the middle of it
    _engine.walking = True
    try:
        if keeper is not None:
            keeper.before_whole_heap()
        return _walk_whole_heap(keeper)
    finally:
        _engine.walking = False
        if keeper is not None:
            keeper.ended_whole_heap()


def _walk_whole_heap(keeper: "Keeper | None") -> "int | None":
    begun = time.monotonic_ns()
    if collect(0) < 0:
        return None  # a pass is running, in another thread or around us: nothing can be collected
    if _engine.frozen and _engine.frozen_by in (0, os.getpid()):
        real("unfreeze")()
        _mark(layout.MARK_THAW, layout.MARK_FLAG_OURS, -1, begun)
    spent = time.thread_time_ns()
    reclaimed = collect(2)
    spent = time.thread_time_ns() - spent
    if reclaimed < 0:
        # Another thread's pass has begun since. It is over the whole heap now that it is thawed.
        splice()
        _engine.spliced = True
        return None
    count = freeze_and_count()
    _engine.spliced = False
    collect(2)  # walks nothing, and sets the interpreter's long-lived total to about 0
    if keeper is not None:
        keeper.after_whole_heap(count, reclaimed, spent, begun)
    else:
        from frostline.policy import keeping

        keeping.note_whole_heap(count, reclaimed, begun)
    return count


def _due() -> bool:
    """Whether an idle moment has something to do."""
    if _engine.keeper is not None and _engine.keeper.due():
        return True
    return _engine.spliced


def _in_idle_moment() -> None:
    if _engine.spliced or _engine.keeper is None:
        whole_heap()
    else:
        _engine.keeper.idle()


def release(collect_after: bool = True, owner: object = None) -> bool:
    """Thaws what we froze once no owner is left; whether there was anything.

    A thaw alone frees nothing, so it collects.
    """
    _engine.owners.pop(_key(owner), None)
    if _engine.owners:
        return False
    return thaw(collect_after)


def thaw(collect_after: bool, inside_pass: bool = False) -> bool:
    """Thaws what we froze, whoever asked for it."""
    _engine.owners.clear()
    _engine.told_by_program = 0
    if _engine.keeper is not None:
        _engine.keeper.stop()
        if not inside_pass:  # where the list may be walked just now, and an entry taken out skips another
            _engine.keeper.take_out()
    if not _engine.frozen:
        return False
    begun = time.monotonic_ns()
    real("unfreeze")()
    _engine.frozen = False
    _engine.frozen_by = 0
    _engine.spliced = False
    _mark(layout.MARK_THAW, layout.MARK_FLAG_OURS, -1, begun)
    if collect_after:
        collect(2)
    return True


def _key(owner: object) -> object:
    return owner if owner is None or isinstance(owner, (str, int)) else ("object", id(owner))


def _own(owner: object) -> None:
    """Remembers who asked, without keeping it alive. One that dies without ``shutdown`` has given up."""
    key = _key(owner)
    engine = _engine
    held: Any = None
    if isinstance(key, tuple):
        from _weakref import ref

        def gone(_: object) -> None:
            # May run inside a pass, so no collect: the thaw is a splice, and a later full pass frees.
            if engine.owners.pop(key, None) is not None and not engine.owners:
                thaw(False, inside_pass=True)

        try:
            held = ref(owner, gone)
        except TypeError:
            held = None  # no weak references to it: only shutdown(owner) ends its claim
    _engine.owners[key] = held if held is not None else True


def collect(generation: int) -> int:
    """A collection of ours, marked as such. Returns what it reclaimed, -1 if a pass was running."""
    recorder = probe.recorder_of_this_process()
    if recorder is None or not recorder.recording:
        before = _collections()
        found = int(real("collect")(generation))  # type: ignore[call-overload]
        return found if _collections() != before else -1
    place = recorder.position()
    before = _collections()
    found = int(real("collect")(generation))  # type: ignore[call-overload]
    recorder.flag_since(place, layout.PASS_FROSTLINE | layout.PASS_EXPLICIT, generation)
    return found if _collections() != before else -1


def tune(threshold0: int, threshold1: int, threshold2: int) -> None:
    """Sets thresholds."""
    real("set_threshold")(threshold0, threshold1, threshold2)
    recorder = probe.recorder_of_this_process()
    if recorder is not None:
        recorder.mark(layout.MARK_THRESHOLD, layout.MARK_FLAG_OURS, threshold0, threshold1, threshold2)


def _collections() -> int:
    total = 0
    for generation in gc.get_stats():
        total += generation["collections"]
    return total


def real(name: str) -> "Callable[..., object]":
    """The interpreter's own function, not the recorder's stand-in for it."""
    function = getattr(gc, name)
    return getattr(function, "__wrapped__", function)  # type: ignore[no-any-return]


def _mark(kind: int, flags: int, count: int, begun: int, open_requests: int = 0) -> None:
    recorder = probe.recorder_of_this_process()
    if recorder is not None:
        recorder.mark(kind, flags, count, open_requests, begun=begun)
