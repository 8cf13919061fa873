"""The policy in force in this interpreter: thresholds at the start, freeze at the boundary, thaw.

It works with and without a recording. Each act leaves a mark where there is one.
"""

import gc
import os
import time

from frostline import format as layout
from frostline import probe
from frostline.policy import moments, owners, roles
from frostline.policy.acts import before_freeze, note_boundary
from frostline.policy.acts import collect as collect
from frostline.policy.acts import mark as _mark
from frostline.policy.acts import real as real
from frostline.policy.acts import tune as tune
from frostline.policy.grammar import Policy, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from frostline.policy.keeping import Keeper

#: Who told the boundary: values of the boundary mark's ``a``.
BY_PROGRAM = 1
BY_SUPERVISOR = 2
BY_INTEGRATION = 3

#: Kinds that freeze at the boundary, and kinds that need the generational collector.
FREEZING = ("freeze", "follow", "periodic", "prefork")
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
        #: The process that froze first. Another one than this: what it froze is shared with it, page by page.
        self.first_by = 0
        #: Thresholds before the policy set its own, and as they were right after.
        self.thresholds: tuple[tuple[int, int, int], tuple[int, int, int]] | None = None
        #: The process in which the boundary was told last, and by whom so far, a bit for each BY_*.
        self.told_in = 0
        self.told = 0
        #: The process in which the program itself has told the boundary; an integration's adds nothing.
        self.told_by_program = 0
        #: How often it has.
        self.times_told = 0
        #: The process that put the policy in force.
        self.adopted_by = 0
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
    """Puts a policy in force, where it is for this process. The same one again changes nothing.

    Raises:
        ValueError: it is not a policy, or not one for this interpreter.
    """
    policy = parse(text)
    if policy.kind in _GENERATIONAL:
        from frostline.policy import keeping

        keeping.refuse_other_collectors(policy.kind)
    if not roles.concern(policy):
        abandon()
        return roles.put_aside(policy.text)
    if _engine.policy is not None and _engine.policy.text == policy.text:
        return
    if _engine.policy is None:
        # 3.12 has 375 immortal objects frozen at the start: what we freeze is counted from there.
        _engine.frozen_at_start = gc.get_freeze_count()
    _take_out(keep_frozen=policy.kind in FREEZING)
    _engine.policy = policy
    _engine.adopted_by = os.getpid()
    _say(policy.text)
    if policy.thresholds is not None:
        before = gc.get_threshold()
        tune(*policy.thresholds)
        _engine.thresholds = before, gc.get_threshold()
    if policy.kind in _GENERATIONAL or policy.kind == "periodic":
        from frostline.policy import keeping

        _engine.keeper = keeping.keeper(policy)
    elif policy.kind == "prefork":
        from frostline.policy import prefork

        _engine.keeper = prefork.Prefork(policy)
    if policy.kind in ("freeze", "follow", "idle", "prefork"):
        moments.watch(_due, _in_idle_moment)


def abandon() -> None:
    """Takes the policy out: thaws what is ours, gives the host's thresholds back. No collection."""
    roles.asked = ""
    _take_out(keep_frozen=False)
    if _engine.policy is not None:
        _engine.policy = None
        _say("off")


def _take_out(keep_frozen: bool) -> None:
    engine = _engine
    if engine.keeper is not None:
        engine.keeper.stop()
        engine.keeper.take_out()
        engine.keeper = None
    if engine.policy is not None and not keep_frozen:
        thaw(collect_after=False)
    if engine.thresholds is not None and gc.get_threshold() == engine.thresholds[1]:
        tune(*engine.thresholds[0])  # else the host has set its own since
    engine.thresholds = None


def _say(text: str) -> None:
    recorder = probe.recorder_of_this_process()
    if recorder is not None:
        recorder.policy = text  # for the headers of forked children
        recorder.mark(layout.MARK_POLICY, layout.MARK_FLAG_OURS, recorder.name_id(text))


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
    if roles.asked:
        adopt(roles.asked)  # by now the process has said what it is
    policy = _engine.policy
    late = told_by == BY_SUPERVISOR
    process = os.getpid()
    _engine.told = (_engine.told if _engine.told_in == process else 0) | 1 << told_by
    _engine.told_in = process
    if told_by == BY_PROGRAM:
        _engine.told_by_program = process
        _engine.times_told += 1
    elif told_by == BY_INTEGRATION and _engine.told_by_program == process:
        return None
    if policy is not None and policy.boundary and (policy.boundary == "ready") != late:
        policy = None  # another's word counts
    freezes = policy is not None and policy.kind in FREEZING and not late and not moments.in_flight()
    note_boundary(late, told_by, freezes)
    return None if policy is None else reached(policy, late, owner)


def reached(policy: Policy, late: bool, owner: object = None) -> "int | None":
    """What a policy does at the boundary."""
    if policy.kind not in FREEZING:
        if _engine.keeper is not None:
            _engine.keeper.begin(not late and not moments.in_flight())
        return None
    if not late:
        owners.claim(_engine.owners, owner, _given_up)
    elif _engine.frozen_by == os.getpid():
        return None  # this process has done it at the right moment
    if moments.in_flight() or (late and not moments.known_quiet()):
        splice(layout.MARK_FLAG_LATE if late else 0)
        if _engine.keeper is not None:
            _engine.keeper.begin(False)
        return -1
    if policy.kind in ("follow", "prefork"):
        return whole_heap()
    if collect(2) < 0:
        return None  # a pass was running: a freeze now would keep its garbage
    count = freeze_and_count()
    if _engine.keeper is not None:
        _engine.keeper.begin(True)
    return count


def times_told() -> int:
    """How often the program itself has told a boundary, forks counted on."""
    return _engine.times_told


def keep_inherited() -> None:
    """In a forked worker, before it builds anything: freezes what it has inherited, as it stands.

    Else the pass at its own boundary would copy every page of it, and run the finalizers of the parent's
    garbage a second time. Does nothing where this is no fork, or the policy does not freeze.
    """
    engine = _engine
    if engine.policy is not None and engine.policy.kind in FREEZING and engine.adopted_by != os.getpid():
        real("freeze")()
        engine.frozen = True
        engine.first_by = engine.frozen_by = engine.adopted_by
        _mark(layout.MARK_FREEZE, layout.MARK_FLAG_OURS, -1, time.monotonic_ns())


def splice(flags: int = 0) -> None:
    """Freezes without a collect: microseconds at any size, and garbage is frozen with the rest, until
    the next idle moment puts it right.
    """
    freeze_uncounted(layout.MARK_FLAG_SPLICE | flags, moments.counted() + 1)
    _engine.spliced = True


def puts_right() -> bool:
    """Whether the policy in force does so, in an idle moment."""
    return _engine.policy is not None and moments.watched() and _may_thaw()


def freeze_uncounted(flags: int = 0, open_requests: int = 0) -> None:
    """The second half of ``freeze`` where nobody needs the number. ``open_requests`` as the mark has them."""
    begun = time.monotonic_ns()
    _freeze()
    _mark(layout.MARK_FREEZE, layout.MARK_FLAG_OURS | flags, -1, begun, open_requests)


def _freeze() -> None:
    real("freeze")()
    process = os.getpid()
    if not _engine.frozen:
        _engine.first_by = process
    _engine.frozen = True
    _engine.frozen_by = process


def frozen() -> bool:
    """Something is frozen, by us or by the process that forked this one."""
    return _engine.frozen


def holds() -> bool:
    """As ``frozen``, and a collection went before."""
    return _engine.frozen and not _engine.spliced


def inherited() -> bool:
    """Some of what is frozen was frozen by the process that forked this one, and shares its pages."""
    return _engine.frozen and _engine.first_by not in (0, os.getpid())


def freeze_and_count() -> int:
    """The second half of ``freeze``: returns objects frozen since the start."""
    before_freeze()
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
    process has inherited through a fork stays frozen, since a walk would copy every page of it. Only
    ``follow`` thaws it at its second walk: its bound on what leaks is worth more to it.
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
    if _engine.frozen and _may_thaw():
        real("unfreeze")()
        _engine.frozen = False  # the next freeze is the first again, and all of it this process's own
        _mark(layout.MARK_THAW, layout.MARK_FLAG_OURS, -1, begun)
    spent = time.thread_time_ns()
    reclaimed = collect(2)
    spent = time.thread_time_ns() - spent
    if reclaimed < 0:
        # Another thread's pass has begun since. It is over the whole heap now that it is thawed.
        splice()
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


def _may_thaw() -> bool:
    """Whether a walk of the whole heap may thaw what is frozen."""
    policy = _engine.policy
    if not inherited():
        return True
    return policy is not None and policy.kind == "follow" and _engine.frozen_by == os.getpid()


def _due() -> bool:
    """Whether an idle moment has something to do."""
    if _engine.keeper is not None and _engine.keeper.due():
        return True
    return _engine.spliced and _may_thaw()


def _in_idle_moment() -> None:
    if _engine.spliced or _engine.keeper is None:
        whole_heap()
    else:
        _engine.keeper.idle()


def release(collect_after: bool = True, owner: object = None) -> bool:
    """Thaws what we froze once no owner is left; whether there was anything.

    A thaw alone frees nothing, so it collects.
    """
    _engine.owners.pop(owners.key(owner), None)
    if _engine.owners:
        return False
    return thaw(collect_after)


def thaw(collect_after: bool, inside_pass: bool = False) -> bool:
    """Thaws what we froze, whoever asked for it.

    A forked child shares pages with the process that froze first. The thaw hardly writes to them, a
    collection would copy them all, just as the workers of a pool end: none there.
    """
    _engine.owners.clear()
    _engine.told_by_program = 0
    if _engine.keeper is not None:
        _engine.keeper.stop()
        if not inside_pass:  # where the list may be walked just now, and an entry taken out skips another
            _engine.keeper.take_out()
    if not _engine.frozen:
        return False
    begun = time.monotonic_ns()
    shared = inherited()
    real("unfreeze")()
    _engine.frozen = False
    _engine.frozen_by = _engine.first_by = 0
    _engine.spliced = False
    _mark(layout.MARK_THAW, layout.MARK_FLAG_OURS, -1, begun)
    if collect_after and not shared:
        collect(2)
    return True


def _given_up() -> None:
    """The last owner has died. May run inside a pass, so no collect: a later full pass frees."""
    thaw(False, inside_pass=True)
