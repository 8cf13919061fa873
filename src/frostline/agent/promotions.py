"""Which types gen-1 passes promote: a census of generation 1 just before some of them (D5).

What they leave is what the next full pass waits for, so its types are where that pass comes from; the line
that a pass interrupts is not. Loaded only where it was asked for (``--sample-promotions N``).

The census never runs in the collector's callback, where it would lengthen the pause and see a generation
that is being taken apart (case 08). The callback sees that the next pass will be one of generation 1, and
makes the main thread run a signal's handler at its next safe point. There generation 1 is still whole.
Where a gen-1 pass comes first (the main thread was in C), that sample is not taken.

The collector is off while the list of objects is held: a pass then would keep all of them alive. It is
bounded by what it costs: every second sample is left out from then on after one that took over 5 ms of CPU
time, and after each 64.

Where the program has tracemalloc on, some of the objects are asked of it: the line that allocated them (B9).
"""

import _signal  # type: ignore[import-not-found]
import _thread
import _tracemalloc
import gc
import time

from frostline import format as layout
from frostline import probe
from frostline.probe import hooks
from frostline.probe.callback import is_ours
from frostline.probe.recorder import Recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Objects that are looked at in one census, spread over the generation; types written of it.
LOOKED, TYPES = 4000, 6
#: Of these, objects that tracemalloc is asked about, and pairs of type and line that are written.
ASKED, SITES = 200, 6
_SLOW = 5_000_000
_OFTEN = 64
#: Names that one process may need: types that are made as the program goes are not to fill its file.
_NAMES = 1000
SIGNUM = _signal.SIGRTMAX - 4


class _Trip:
    """As ``policy.moments.TRIP``: a subscript, after which the interpreter does not look for signals."""

    __getitem__: "Any" = _thread.interrupt_main


TRIP = _Trip()
_previous: "Any" = None


class Sampler:
    """What the callback and the handler share."""

    __slots__ = ("armed", "every", "names", "on_pass", "taken")

    def __init__(self, every: int) -> None:
        self.every = every
        #: The next pass is one of generation 1, and is to be sampled.
        self.armed = False
        self.taken = 0
        self.names: set[str] = set()
        self.on_pass = _make_callback(self)

    def sample(self) -> None:
        """The census, at a safe point of the main thread."""
        recorder = probe.recorder_of_this_process()
        if not self.armed or recorder is None or not recorder.recording:
            return
        if recorder.in_flight():
            TRIP[SIGNUM]  # the signal landed inside a pass
            return
        self.armed = False
        begun, worked = time.monotonic_ns(), time.thread_time_ns()
        enabled = gc.isenabled()
        if enabled:
            hooks._real_disable()
        try:
            objects = gc.get_objects(1)
            size = len(objects)
            kinds = list(map(type, objects[:: size // LOOKED + 1]))
            asked, asking = _sites(objects)
            del objects
        finally:
            if enabled:
                hooks._real_enable()
        # By id: a metaclass may make anything of a type's hash. ``kinds`` keeps them alive.
        tally: dict[int, int] = {}
        for kind in kinds:
            tally[id(kind)] = tally.get(id(kind), 0) + 1
        by_id = {id(kind): kind for kind in kinds}
        top = sorted(tally, key=tally.__getitem__, reverse=True)[:TYPES]
        cost = time.monotonic_ns() - begun
        for number in top:
            name = recorder.name_id(self._name(by_id[number]))
            recorder.mark(layout.MARK_PROMOTED, 0, name, tally[number], len(kinds), size, cost, begun=begun)
        if not top:
            recorder.mark(layout.MARK_PROMOTED, 0, 0, 0, 0, size, cost, begun=begun)
        if asked:
            self._write_sites(recorder, asked, asking, begun)
        self.taken += 1
        if time.thread_time_ns() - worked > _SLOW or self.taken % _OFTEN == 0:
            self.every *= 2

    def _write_sites(
        self, recorder: Recorder, asked: "list[tuple[type, str, int]]", asking: int, begun: int
    ) -> None:
        """The commonest pairs of type and line, one mark each, and one of what tracemalloc did not know."""
        tally: dict[tuple[int, str, int], int] = {}
        by_id: dict[int, type] = {}
        for kind, file, line in asked:
            by_id[id(kind)] = kind
            key = (id(kind), file, line) if file else (0, "", 0)
            tally[key] = tally.get(key, 0) + 1
        unknown = tally.pop((0, "", 0), 0)
        top = sorted(tally, key=tally.__getitem__, reverse=True)[:SITES]
        for number, file, line in top:
            name = recorder.name_id(self._name(by_id[number]))
            site = (recorder.name_id(self._kept(file)), line)
            counts = (name, tally[number, file, line], len(asked), unknown, asking)
            recorder.mark(layout.MARK_ALLOCATED, 0, *counts, begun=begun, site=site)
        if not top:
            recorder.mark(layout.MARK_ALLOCATED, 0, 0, 0, len(asked), unknown, asking, begun=begun)

    def _name(self, kind: type) -> str:
        # Past what a metaclass may have made of these two.
        return self._kept(f"{_MODULE(kind)}.{_QUALNAME(kind)}")

    def _kept(self, name: str) -> str:
        if name not in self.names:
            if len(self.names) >= _NAMES:
                return "(other)"
            self.names.add(name)
        return name


def _sites(objects: "list[object]") -> "tuple[list[tuple[type, str, int]], int]":
    """(type, file, line) of some of the objects, and ns that asking took.

    Nothing where tracemalloc is off; an empty file where it does not know: allocated before it was on, or
    an instance of a class in Python on 3.11, whose tracemalloc looks for those in the wrong place.
    """
    if not objects or not _tracemalloc.is_tracing():
        return [], 0
    begun = time.monotonic_ns()
    found = []
    for one in objects[:: len(objects) // ASKED + 1]:
        frames = _tracemalloc._get_object_traceback(one)
        file, line = frames[0] if frames else ("", 0)
        found.append((type(one), file, line))
    return found, time.monotonic_ns() - begun


_MODULE: "Any" = type.__dict__["__module__"].__get__
_QUALNAME: "Any" = type.__dict__["__qualname__"].__get__
_sampler: "Sampler | None" = None


def _make_callback(sampler: Sampler) -> "Any":
    counts = gc.get_count
    thresholds = gc.get_threshold
    trip, signum = TRIP, SIGNUM
    due = 0

    def on_pass(phase: str, info: "dict[str, int]") -> None:
        nonlocal due
        try:
            if info["generation"]:
                sampler.armed = False  # too late for this one
            elif phase == "stop" and counts()[1] > thresholds()[1]:
                due += 1
                if due >= sampler.every:
                    due = 0
                    sampler.armed = True
                    trip[signum]
        except RecursionError:
            pass  # near the limit any call fails
        except KeyboardInterrupt:
            _thread.interrupt_main()  # Ctrl-C arrived while we ran: the interpreter would swallow it here
        except BaseException as error:
            if not isinstance(error, Exception) or not is_ours(error):
                raise  # a signal handler of the host's raised: it is the host's to see
            sampler.every = 1 << 62

    return on_pass


def _on_signal(signum: int, frame: "Any") -> None:
    if _sampler is not None:
        hooks._quietly(_sampler.sample)
    if callable(_previous):
        _previous(signum, frame)


def start(recorder: Recorder, text: str) -> bool:
    """Samples before each Nth gen-1 pass, N as text. False where it cannot be done here.

    Not where generation 1 is another thing or empty (the incremental collector), and not in a process
    whose signals are not ours to handle (a sub-interpreter, a thread).
    """
    global _sampler, _previous
    every = int(text) if text.isascii() and text.isdecimal() else 0
    if not 0 < every < 1 << 31 or probe.INCREMENTAL or probe.FREE_THREADED or _sampler is not None:
        return False
    try:
        previous = _signal.signal(SIGNUM, _on_signal)
    except (ValueError, OSError):
        return False
    _previous = previous
    _sampler = Sampler(every)
    recorder.sampler = _sampler.on_pass
    gc.callbacks.append(_sampler.on_pass)
    return True


def stop(recorder: Recorder) -> None:
    """The signal back to whom it belonged; the callback goes with the recorder's own."""
    global _sampler
    if _sampler is None:
        return
    _sampler = None
    if _signal.getsignal(SIGNUM) is _on_signal:
        _signal.signal(SIGNUM, _previous if _previous is not None else _signal.SIG_DFL)
