"""The recorder of one interpreter: its life through forks, its marks and its names.

What runs at each pass and each span is in ``callback``.
"""

import _signal  # type: ignore[import-not-found]
import _thread
import gc
import sys
import time

from frostline import format as layout
from frostline import probe
from frostline.probe.callback import make_hot_functions
from frostline.probe.writer import Region, Series, pack_mark, pack_name, wiped_on_fork

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from frostline.agent.census import Taker

_WORD = layout.WORD
_TEXT_LIMIT = 240


class Recorder:
    """Records this interpreter. Made once; follows the process through forks.

    ``record_span``, ``mark`` and ``name_id`` may be called from any thread, from a signal
    handler, and while a pass runs. They do nothing once recording is off.
    """

    def __init__(self, session: str, policy: str = "off", retention: int = 0, interpreter: int = 0) -> None:
        self.session = session
        self.policy = policy
        self.retention = retention
        self.interpreter = interpreter
        self.series: Series | None = None
        #: Ours, not the word of the file: a child that is forked shares the file with its parent, and a
        #: parent that ends first has closed it when the child looks.
        self.writing = False
        #: ns at which the fork that is going on began, 0 if none is.
        self.forking = 0
        self.frozen_at_attach = 0
        #: ns that the process had lived when the recording began; 0 where that was at its start.
        self.age = 0
        self.names: dict[str, int] = {}
        self._ids = iter(range(1, 1 << 31))
        self._other_callbacks: set[int] = set()
        self.tails = 0
        #: A policy's callback behind ours: no other tool's.
        self.policy_callback: Callable[[str, dict[str, int]], None] | None = None
        #: That of ``agent.promotions``, likewise.
        self.sampler: Callable[[str, dict[str, int]], None] | None = None
        #: Counts the heap at moments that were asked for.
        self.census: Taker | None = None
        self.control = False
        #: An exception of the host's that landed in our callback, on its way back to the host.
        self.foreign: BaseException | None = None
        self.alive = wiped_on_fork()
        make_hot_functions(self)
        self._open(None)

    # Set by make_hot_functions; declared for the type checker.
    on_collection: "Callable[[str, dict[str, int]], None]"
    on_tail: "Callable[[str, dict[str, int]], None]"
    record_span: "Callable[[int, int, int, int, int, int, int, int], None]"
    use: "Callable[[Series | None], None]"
    position: "Callable[[], tuple[Region | None, int]]"
    flag_since: "Callable[[tuple[Region | None, int], int, object], int]"
    in_flight: "Callable[[], int]"
    grow: "Callable[[Region, str], Region | None]"
    look_around: "Callable[[], int]"
    forget_pass: "Callable[[], None]"

    # --- life ----------------------------------------------------------------------
    def _open(self, parent: "Series | None") -> None:
        """Opens a series and starts to write; on failure the recorder is off and the host goes on."""
        try:
            series = Series(self.session, self.policy, self.interpreter, parent)
        except OSError:
            self.switch_off(layout.OFF_ERROR, 0)
            return
        self.series = series
        series.words[_WORD["retention"]] = self.retention
        if probe.FREE_THREADED:
            # A range iterator is no atomic counter without the GIL: refuse rather than lose records.
            self.switch_off(layout.OFF_FREE_THREADED, 0)
            return
        series.words[_WORD["state"]] = layout.STATE_RECORDING
        self.writing = True
        self.use(series)

    def attach(self, age: int = 0) -> None:
        """Puts the callback in and records the collector's state (row B4).

        ``age``: nanoseconds that the process had lived, where it was attached to.
        """
        if not self.recording or self.on_collection in gc.callbacks:
            return
        gc.callbacks.insert(0, self.on_collection)
        self.age = age
        self.frozen_at_attach = gc.get_freeze_count()
        # 5 us a thousand objects, once: from here on net growth says how large the heap is.
        self.mark(layout.MARK_ATTACH, a=age, b=len(gc.get_objects()) + 1)
        self._state(0, self.frozen_at_attach)
        self.look_around()

    def forked(self) -> None:
        """This process has forked."""
        self.forking = 0
        if self.recording:
            self.mark(layout.MARK_FORK)

    def reopen_in_child(self, enabled: "bool | None" = None) -> None:
        """After a fork: a file of the child's own, and no pass in flight.

        ``enabled``: whether the host has the collector on, where that is not what it says just now.
        """
        parent = self.series
        dead = self.in_flight()
        self.use(None)
        self.series = None
        if parent is None or not self.writing:
            return
        self._open(parent)
        if self.series is None:
            return
        # Ids that wrappers hold stay valid: the child's own file says again what they mean.
        for text, number in list(self.names.items()):
            self._write_name(text, number)
        self.series.words[_WORD["handler"]] = int(self.control)  # signal handlers survive a fork
        # The parent may freeze or thaw before we come to run: what we hold is what it held at the fork.
        ago = max(0, time.monotonic_ns() - self.forking) if self.forking else 0
        self.forking = 0
        self.mark(layout.MARK_FORKED, a=parent.pid, b=parent.series, c=ago)
        self._state(0, -1, enabled)
        if dead and dead != _thread.get_ident():
            # Another thread of the parent was inside a pass. CPython's "collecting" flag was copied
            # and the thread that would clear it does not exist here.
            self.mark(layout.MARK_DEAD_COLLECTOR)

    @property
    def recording(self) -> bool:
        return self.writing and self.series is not None

    def lost_passes(self) -> int:
        """Passes that were seen and could not be recorded so far."""
        series = self.series
        return 0 if series is None else int(series.words[_WORD["lost_passes"]])

    def switch_off(self, reason: int, errno: int) -> None:
        """Stops writing for good and leaves the reason where a reader finds it."""
        self.writing = False
        self.use(None)
        series = self.series
        if series is not None:
            series.words[_WORD["off_errno"]] = errno
            series.words[_WORD["off_reason"]] = reason
            series.words[_WORD["state"]] = layout.STATE_OFF

    def close(self) -> None:
        """The orderly end: last state, callback out. Never called from a callback."""
        if not self.recording:
            return
        if self.census is not None:
            self.census.at_close()
        present = self.on_collection in gc.callbacks
        self._state(layout.MARK_FLAG_CLOSING, gc.get_freeze_count())
        self.mark(layout.MARK_CLOSE, a=int(present))
        self.remove_callbacks()
        series = self.series
        assert series is not None
        series.words[_WORD["closed"]] = time.monotonic_ns()
        series.words[_WORD["state"]] = layout.STATE_CLOSED
        self.writing = False
        self.use(None)

    def remove_callbacks(self) -> None:
        ours = (self.on_collection, self.on_tail, self.sampler)
        gc.callbacks[:] = [c for c in gc.callbacks if all(c is not own for own in ours)]

    def ensure_callback(self) -> None:
        """Puts our callbacks back where the host replaced the list."""
        callbacks = gc.callbacks
        if not self.recording or (callbacks and callbacks[-1] is self.on_collection):
            return
        ours = (self.policy_callback, self.sampler)
        if callbacks and any(callbacks[-1] is own for own in ours) and self.on_collection in callbacks:
            return
        if self.on_collection not in callbacks:
            if self.in_flight():
                # Taken out in the middle of a pass. An insert would make the interpreter call another
                # entry twice; at the end ours gets an unpaired "stop" at worst.
                self.forget_pass()
                callbacks.append(self.on_collection)
                self.mark(layout.MARK_REINSTALLED)
                return
            callbacks.insert(0, self.on_collection)
            self.mark(layout.MARK_REINSTALLED)
        elif self.in_flight():
            return
        if callbacks[-1] is not self.on_collection and callbacks[-1] is not self.on_tail:
            while self.on_tail in callbacks:
                callbacks.remove(self.on_tail)
            callbacks.append(self.on_tail)
        self.look_around()

    # --- records -------------------------------------------------------------------
    def _reserve(self, kind: int) -> "tuple[Region, int] | None":
        """A region with a free slot in it, and the slot. None when recording is off or has no room."""
        series = self.series
        if series is None:
            return None
        region = series.regions[kind]
        while True:
            slot = next(region.slots, -1)
            if slot >= 0:
                return region, slot
            grown = self.grow(region, "lost_marks")
            if grown is None:
                return None
            region = grown

    def name_id(self, text: str) -> int:
        """The number that stands for a text in records; written once a process."""
        number = self.names.get(text)
        if number is None:
            number = next(self._ids)
            self._write_name(text, number)
            self.names[text] = number
        return number

    def _write_name(self, text: str, number: int) -> None:
        place = self._reserve(layout.REGION_NAMES)
        if place is None:
            return
        region, slot = place
        encoded = text.encode("utf-8", "replace")
        flags = 0
        if len(encoded) > _TEXT_LIMIT:
            encoded = encoded[-_TEXT_LIMIT:]  # of a path the end tells more
            flags = layout.NAME_TRUNCATED
        offset = region.base + slot * layout.NAME_SIZE
        pack_name(region.buffer, offset, number, flags, len(encoded), encoded, slot + 1)

    def mark(
        self,
        kind: int,
        flags: int = 0,
        a: int = 0,
        b: int = 0,
        c: int = 0,
        d: int = 0,
        e: int = 0,
        *,
        begun: int = 0,
        caller: "FrameType | None" = None,
        site: "tuple[int, int]" = (0, 0),
    ) -> None:
        """Writes a mark. ``caller`` is the frame to name, ``begun`` the start where it took time.

        ``site`` is a file's name id and a line, where there is no frame.
        """
        place = self._reserve(layout.REGION_MARKS)
        if place is None:
            return
        region, slot = place
        now = time.monotonic_ns()
        (file, line), function = site, 0
        if caller is not None:
            code = caller.f_code
            file = self.name_id(code.co_filename)
            function = self.name_id(code.co_name)
            line = caller.f_lineno or 0
        pack_mark(
            region.buffer,
            region.base + slot * layout.MARK_SIZE,
            begun or now,
            now,
            kind,
            flags,
            _thread.get_ident(),
            _thread.get_native_id(),
            file,
            line,
            function,
            a,
            b,
            c,
            d,
            e,
            slot + 1,
        )

    def _state(self, flags: int, frozen: int, enabled: "bool | None" = None) -> None:
        """The collector's whole state as marks: a generation each, thresholds, freeze count."""
        counts = gc.get_count()
        for generation, stats in enumerate(gc.get_stats()):
            self.mark(
                layout.MARK_STATE,
                flags,
                generation,
                stats["collections"],
                stats["collected"],
                stats["uncollectable"],
                counts[generation],
            )
        self.mark(
            layout.MARK_STATE,
            flags,
            3,
            *gc.get_threshold(),
            int(gc.isenabled() if enabled is None else enabled),
        )
        ours = (self.on_collection, self.on_tail, self.policy_callback, self.sampler)
        others = sum(all(c is not own for own in ours) for c in gc.callbacks)
        self.mark(layout.MARK_STATE, flags, 4, frozen, others, gc.get_debug())

    def note_other_callbacks(self) -> None:
        """Names each foreign callback once."""
        for callback in gc.callbacks:
            if (
                callback is self.on_collection
                or callback is self.on_tail
                or callback is self.policy_callback
                or callback is self.sampler
                or id(callback) in self._other_callbacks
            ):
                continue
            self._other_callbacks.add(id(callback))
            owner = getattr(callback, "__module__", None) or type(callback).__module__
            name = getattr(callback, "__qualname__", None) or type(callback).__qualname__
            self.mark(layout.MARK_OTHER_CALLBACK, a=self.name_id(f"{owner}.{name}"))


def before_fork() -> None:
    """What the parent holds from here on the child may not: it says when it was forked."""
    recorder = probe.recorder_of_this_process()
    if recorder is not None:
        recorder.forking = time.monotonic_ns()


def interpreter_id() -> int:
    """0 for the main interpreter; asked without a module that a bare one has not loaded.

    In the main thread only a sub-interpreter is refused a signal handler, even the one that is there.
    """
    if _thread.get_ident() != main_thread():
        return 0
    current = _signal.getsignal(_signal.SIGURG)
    if current is None:
        return 0  # a handler of C code: not ours to touch
    try:
        _signal.signal(_signal.SIGURG, current)
    except ValueError:
        try:
            import _interpreters as interpreters  # type: ignore[import-not-found]
        except ImportError:
            import _xxsubinterpreters as interpreters  # type: ignore[import-not-found]
        identity = interpreters.get_current()
        return int(identity[0] if isinstance(identity, tuple) else identity)
    return 0


def main_thread() -> int:
    """Ident of the main thread: ``threading`` knows it, else nobody has started a second one."""
    threading = sys.modules.get("threading")
    if threading is None:
        return _thread.get_ident()
    return int(threading.main_thread().ident or 0)
