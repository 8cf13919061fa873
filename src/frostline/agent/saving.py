"""What passes of a program reclaim, kept for a look and then freed; see ``agent.cycles``."""

import _signal  # type: ignore[import-not-found]
import _thread
import gc
import os
import sys
import time

from frostline import format as layout
from frostline import probe
from frostline.agent import tracing
from frostline.agent.lines import Lines
from frostline.format import cycles as told
from frostline.format import request
from frostline.heap import cycles, finalized, plain, saved
from frostline.policy import acts, moments
from frostline.probe import hooks
from frostline.probe.callback import is_ours

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from frostline.probe.recorder import Recorder

#: Looks may take so many seconds of a process, and this share of its time once they have.
FREE, SHARE = 5.0, 0.2
#: No pass is of this generation.
NONE = 3
SIGNUM = _signal.SIGRTMAX - 5
#: So often the callback is put behind those of other tools at most.
_MOST_TAILS = 4


class Kept:
    """What one pass reclaimed. ``pause`` in seconds; ``tid``: native id of its thread."""

    __slots__ = ("found", "generation", "objects", "pause", "tid")

    def __init__(self, objects: "list[object]", info: "dict[str, int]", pause: float) -> None:
        self.objects = objects
        self.found = info["collected"]
        self.generation = info["generation"]
        self.pause = pause
        self.tid = _thread.get_native_id()


class Saver:
    """One an interpreter.

    Attributes:
        least: passes of this generation and older ones are kept.
        kept: by the passes so far, ``size`` objects; to be looked at.
        span: a call of a span is open: all passes are kept, and looked at when it ends.
        looking: the program is stopped for a look, and nothing is kept.
        budget: seconds that one look takes at most.
        owed: what was let go is still to be freed by a pass of this generation, -1 if none.
        skipped: passes that were not looked at, for time or for room.
        spent: seconds that looks have taken.
        main: ident of the main thread.
    """

    __slots__ = (
        "_begun", "_least", "_left", "_lines", "_looks_at", "_pid", "budget", "forked", "kept", "least", "looking",
        "main", "off", "on_pass", "owed", "recorder", "size", "skipped", "span", "spent",
    )  # fmt: skip

    def __init__(self, recorder: "Recorder", looks_at: str, budget: float) -> None:
        self.recorder = recorder
        self._looks_at = looks_at
        self.budget = budget
        # Automatic passes of the incremental collector say that they are of generation 1.
        full = 1 if probe.INCREMENTAL else 2
        self._least = {told.FULL: full, told.ALL: 0}.get(looks_at, NONE)
        self.forked = False
        self._lines = Lines()
        self.on_pass, self.off = _make_callback(self)
        self._begin()

    def _begin(self) -> None:
        """In a process, or in a child that was forked from one: nothing has been kept."""
        self.least = self._least
        self.kept: list[Kept] = []
        self.size = self.skipped = 0
        self.span = self.looking = False
        self.owed = -1
        self.spent = 0.0
        self._begun = time.monotonic()
        self._pid = os.getpid()
        self.main = _thread.get_ident()
        self._left = 0
        self._lines.close()
        series = self.recorder.series
        if series is None:
            return
        head = {
            told.MAGIC: told.VERSION,
            "pid": series.pid,
            "series": series.series,
            "interpreter": series.interpreter,
            "forked": self.forked,
            "looks_at": self._looks_at,
        }
        name = told.file_name(series.pid, series.series, series.interpreter)
        self._lines.open(f"{self.recorder.session}/{name}", plain.dumps(head))
        self._left = told.MOST

    def in_child(self) -> None:
        """After a fork: the file, the flag and what was kept are the parent's, and so is the heap: it is
        frozen, since a pass over it would run finalizers here that run in the parent too.
        """
        self.off()
        saved.freeing = False
        self.forked = True
        begun = time.monotonic_ns()
        acts.real("freeze")()
        acts.mark(layout.MARK_FREEZE, layout.MARK_FLAG_OURS | layout.MARK_FLAG_SPLICE, -1, begun)
        self._begin()

    @property
    def writes(self) -> bool:
        """Whether a look would be told."""
        return self._left > 0 and self.recorder.recording

    def write(self, value: "dict[str, object]") -> None:
        """One line; after a failure, or when the file is as large as it may be, no look is made any more."""
        written = 0
        try:
            if self.writes:
                written = self._lines.write(plain.dumps(value | {"skipped": self.skipped}))
        finally:
            self._left = self._left - written if written else 0
            if self._left <= 0:
                self.least = self._least = NONE

    # --- in the callback ---------------------------------------------------------------
    def wants(self, generation: int) -> bool:
        """Whether what this pass reclaims is to be kept."""
        if saved.freeing:
            return False
        if self.owed >= 0:
            if generation >= self.owed:
                self.owed = -1
            return False
        if generation < (0 if self.span else self.least):
            return False
        late = self.spent > FREE and self.spent > SHARE * (time.monotonic() - self._begun)
        if self.looking or self.size >= saved.LIMIT or (late and not self.span):
            self.skipped += 1
            return False
        return True

    # --- at a safe point ---------------------------------------------------------------
    def safe_point(self) -> None:
        """What was kept is looked at, unless a pass is running, or the program wants none just now."""
        if self.recorder.in_flight():
            moments.TRIP[SIGNUM]  # the signal landed inside a pass
        elif not (self.looking or self.span or deferred()):
            self.look()

    def look(self) -> None:
        """Looks at what passes of the program's own have reclaimed, a line for each, and frees it."""
        if os.getpid() != self._pid:
            self.in_child()  # C code has forked: no at-fork function ran
        kept, self.kept, self.size = self.kept, [], 0
        if not kept:
            return
        lines: list[dict[str, object]] = []
        freed = 0.0
        with Stop(self) as stop:
            generation = 0
            for one in kept:
                garbage = garbage_of(one.objects, one.found, one.pause)
                # In a look at spans only what began in one that has ended since: of none.
                if self._looks_at != told.SPANS:
                    found = self.described(garbage, told.BY_PASS, one.tid)
                    lines.append(found | {"generation": one.generation, "stopped": stop.lap()})
                generation = max(generation, one.generation)
                garbage.objects.clear()
            # Where a pass is running, the next one of that generation frees it.
            older = 2 if probe.INCREMENTAL else min(2, generation + 1)
            self.owed = older if saved.free(older) < 0 else -1
            freed = stop.lap()
        for line in lines:
            self.write(line | {"stopped": line["stopped"] + freed})  # type: ignore[operator]
            freed = 0.0

    def described(self, garbage: saved.Saved, why: str, tid: int) -> "dict[str, object]":
        """A line of garbage; the caller adds ``generation`` and ``stopped``, the seconds that it has cost."""
        # A finalizer runs in the thread of the pass that finds its object: elsewhere it may be the wrong one.
        ran = finalized.finalizers(garbage.objects) if tid != os.getpid() else {}
        found = cycles.as_plain(cycles.cycles_of(garbage, self.budget))
        return found | {"why": why, "at": time.monotonic_ns(), "tid": tid, "finalizers": ran}

    def exit(self) -> None:
        """At the interpreter's exit, before it takes anything down: the last look."""
        self.off()
        if not self.recorder.recording or self.recorder.in_flight():
            return
        self.look()
        if self._looks_at in (told.FULL, told.ALL):
            with Stop(self) as stop:
                if self.owed >= 0:
                    saved.free(2)  # else what has been told would be found once more
                garbage = saved.saved_pass()
                if not garbage.busy:
                    found = self.described(garbage, told.BY_EXIT, _thread.get_native_id())
                    self.write(found | {"generation": 2, "stopped": stop.lap()})
                garbage.objects.clear()  # what frees it is the interpreter's own last pass
        self.write({"end": time.monotonic_ns(), "tracemalloc": tracing.end()})
        self.least = self._least = NONE
        self._lines.close()


class Stop:
    """``with``: the program is stopped for a look. The collector rests where no other thread runs."""

    __slots__ = ("_begun", "_enabled", "_lap", "_saver")

    def __init__(self, saver: Saver) -> None:
        self._saver = saver
        self._begun = self._lap = 0
        self._enabled = False

    def __enter__(self) -> "Stop":
        self._begun = self._lap = time.monotonic_ns()
        self._saver.looking = True
        self._enabled = len(sys._current_frames()) == 1 and gc.isenabled()
        if self._enabled:
            hooks._real_disable()
        return self

    def lap(self) -> float:
        """Seconds since the last one, or since it began."""
        now = time.monotonic_ns()
        took, self._lap = (now - self._lap) / 1e9, now
        return took

    def __exit__(self, *_: object) -> None:
        if self._enabled:
            hooks._real_enable()
        saver = self._saver
        saver.looking = False
        saver.spent += (time.monotonic_ns() - self._begun) / 1e9
        kind = request.LOOKS.index(request.LOOK_CYCLES)
        saver.recorder.mark(layout.MARK_LOOK, layout.MARK_FLAG_OURS, kind, begun=self._begun)


def garbage_of(objects: "list[object]", found: int, pause: float) -> saved.Saved:
    """What passes of the program's own have reclaimed, as ``saved_pass`` hands it out."""
    garbage = saved.Saved(finalized.Suspects())
    garbage.objects = objects
    garbage.found = max(found, len(objects))
    garbage.pause = pause
    return garbage


def deferred() -> bool:
    """Whether the program wants no pass just now, as in a graph capture."""
    regions = sys.modules.get("frostline.policy.regions")
    return regions is not None and regions.host_threshold() >= 0


def _make_callback(saver: Saver) -> "tuple[Any, Any]":
    """The callback, and what takes the flag off wherever it was left on."""
    get_debug, set_debug, garbage = gc.get_debug, gc.set_debug, gc.garbage
    clock, save_all, limit = time.monotonic, gc.DEBUG_SAVEALL, saved.LIMIT
    get_ident, trip, wake, signum = _thread.get_ident, moments.TRIP, _signal.pthread_kill, SIGNUM
    callbacks = gc.callbacks
    #: What stood in ``gc.garbage`` when the flag was put on; -1 while it is off.
    before = -1
    begun = 0.0
    # It stands in the list once more behind each of the others that came later: signals are looked for in
    # those, and a look would be made in the pass. So the last call of a stop is the one that asks for it.
    # (Behind the recorder's own tail none is needed: it says that a pass is in flight.)
    tails = calls = 0
    on_tail = saver.recorder.on_tail

    def on_pass(phase: str, info: "dict[str, int]") -> None:
        nonlocal before, begun, tails, calls
        try:
            if phase == "start":
                if calls < 0:
                    return  # one of the calls behind others
                calls = -1
                # Where it is on already the program, or a look of ours, keeps what it finds. Where another
                # tool has taken our "stop" away, it goes off at the stop of this pass.
                if before < 0 and not get_debug() & save_all and saver.wants(info["generation"]):
                    before = len(garbage)
                    begun = clock()
                    set_debug(get_debug() | save_all)
                return
            calls = 1 if calls < 0 else calls + 1
            if before >= 0:
                set_debug(get_debug() & ~save_all)
                # One slice each: no other thread can put anything between.
                objects = garbage[before:]
                del garbage[before:]
                before = -1
                if objects:
                    del objects[limit:]
                    saver.size += len(objects)
                    saver.kept.append(Kept(objects, info, clock() - begun))
            if saver.kept and not saver.span:
                last = callbacks[-1]
                if last is not on_pass and last is not on_tail and tails < _MOST_TAILS:
                    tails += 1
                    callbacks.append(on_pass)  # called at the end of this stop too
                elif calls > tails:
                    # Nothing may follow after which signals are looked for: the look would be in here.
                    if get_ident() == saver.main:
                        trip[signum]
                    else:
                        wake(saver.main, signum)  # it may wait in C, and for as long as it likes
        except RecursionError:
            pass  # near the limit any call fails: the flag goes off at the next stop
        except KeyboardInterrupt:
            _thread.interrupt_main()  # Ctrl-C arrived while we ran: the interpreter would swallow it here
        except BaseException as error:
            if not isinstance(error, Exception) or not is_ours(error):
                raise  # a signal handler of the host's raised: it is the host's to see
            saver.least = NONE

    def off() -> None:
        nonlocal before
        if before >= 0:
            set_debug(get_debug() & ~save_all)
            del garbage[before:]
            before = -1

    return on_pass, off
