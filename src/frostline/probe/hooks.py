"""Where the host calls us: start, exit, fork, exec, the functions of ``gc``, and the poke.

Everything here is installed by ``start`` and only where a recording or a policy was asked for.
The stand-ins for ``gc.collect`` and its neighbours name the caller; they change nothing, and
what they miss (C code, references taken earlier) is still recorded as a pass.
"""

import _signal  # type: ignore[import-not-found]
import _thread
import atexit
import gc
import os
import sys
import time

from frostline import format as layout
from frostline import probe
from frostline.probe import callback
from frostline.probe.recorder import Recorder, before_fork, interpreter_id, main_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

#: The interpreter's own functions, for whoever must not be recorded as the host.
_real_disable = gc.disable
_real_enable = gc.enable

_WORD = layout.WORD
_callable = callable


class StandIn:
    """Takes the place of a function of ``gc``. No descriptor, so ``class K: c = gc.collect`` works."""

    def __init__(self, real: "Callable[..., Any]", recorder: Recorder) -> None:
        self.__wrapped__ = real
        self.__name__ = real.__name__
        self.__qualname__ = real.__qualname__
        self.__module__ = "gc"
        self.__doc__ = real.__doc__
        self._recorder = recorder

    def __reduce__(self) -> str:
        return self.__name__  # pickles as gc.collect does: by its name

    def __repr__(self) -> str:
        return repr(self.__wrapped__)


class _Collect(StandIn):
    def __call__(self, *args: "Any", **keywords: "Any") -> "Any":
        recorder = self._recorder
        if not recorder.recording:
            return self.__wrapped__(*args, **keywords)
        recorder.ensure_callback()
        place = recorder.position()
        lost = recorder.lost_passes()
        begun = time.monotonic_ns()
        result = -1
        try:
            result = self.__wrapped__(*args, **keywords)
            return result
        finally:
            _quietly(self._write, recorder, place, lost, begun, result, args, keywords)

    def _write(
        self,
        recorder: Recorder,
        place: "Any",
        lost: int,
        begun: int,
        result: int,
        args: "Any",
        keywords: "Any",
    ) -> None:
        generation = args[0] if args else keywords.get("generation", 2)
        passes = recorder.flag_since(place, layout.PASS_EXPLICIT, generation)
        skipped = not passes and recorder.lost_passes() == lost  # a full disk is no running pass
        recorder.mark(
            layout.MARK_COLLECT,
            layout.MARK_FLAG_SKIPPED if skipped else 0,
            generation,
            result,
            passes,
            begun=begun,
            caller=_caller(),
        )


class _Switch(StandIn):
    """``enable`` and ``disable``: a mark only where the state changes, since some libraries toggle."""

    def __call__(self) -> None:
        before = gc.isenabled()
        self.__wrapped__()
        if gc.isenabled() != before:
            kind = layout.MARK_DISABLE if before else layout.MARK_ENABLE
            _quietly(_write_mark, self._recorder, kind, 0)


class _SetThreshold(StandIn):
    def __call__(self, *args: "Any") -> None:
        self.__wrapped__(*args)
        _quietly(_write_mark, self._recorder, layout.MARK_THRESHOLD, 0, *gc.get_threshold())


class _Freeze(StandIn):
    def __call__(self) -> None:
        young = gc.get_count()[0]
        if self._recorder.census is not None:
            self._recorder.census.before_own_freeze()
        self.__wrapped__()
        _quietly(self._write, young)

    def _write(self, young: int) -> None:
        moments = sys.modules.get("frostline.policy.moments")
        told = moments.counted() + 1 if moments is not None else 0
        # Counting what was frozen walks the permanent generation (10-30 ms a million): never here.
        _write_mark(self._recorder, layout.MARK_FREEZE, 0, -1, told, young + 1)


class _Unfreeze(StandIn):
    def __call__(self) -> None:
        self.__wrapped__()
        _quietly(_write_mark, self._recorder, layout.MARK_THAW, 0, -1)


STAND_INS = (
    ("collect", _Collect),
    ("freeze", _Freeze),
    ("unfreeze", _Unfreeze),
    ("set_threshold", _SetThreshold),
    ("enable", _Switch),
    ("disable", _Switch),
)


def _quietly(function: "Callable[..., Any]", *args: "Any") -> None:
    """Runs a part of ours inside a call of the host's; what goes wrong is ours alone."""
    try:
        function(*args)
    except Exception as error:
        if not callback.is_ours(error):
            raise
        recorder = probe.recorder_of_this_process()
        if recorder is not None and recorder.series is not None:
            recorder.series.count("lost_marks")


def _write_mark(recorder: Recorder, kind: int, flags: int, *values: int) -> None:
    recorder.mark(kind, flags, *values, caller=_caller())


def _caller() -> "FrameType | None":
    """The nearest frame that is not of this package's recorder."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename in callback.OURS:
        frame = frame.f_back
    return frame


def _stand_in(recorder: Recorder) -> None:
    callback.OURS.add(_caller.__code__.co_filename)
    for name, kind in STAND_INS:
        current = getattr(gc, name)
        if not isinstance(current, StandIn):
            setattr(gc, name, kind(current, recorder))
    for name in ("execv", "execve"):
        function = getattr(os, name)
        if not hasattr(function, "__wrapped__"):
            setattr(os, name, _announce_exec(function, recorder))


def _announce_exec(real: "Callable[..., Any]", recorder: Recorder) -> "Callable[..., Any]":
    """``os.execvp`` and its family end in these two; the new program opens a series of its own."""

    def execute(*args: "Any", **keywords: "Any") -> "Any":
        _quietly(_write_mark, recorder, layout.MARK_EXEC, 0)
        return real(*args, **keywords)

    execute.__name__ = execute.__qualname__ = real.__name__
    execute.__doc__ = real.__doc__
    execute.__module__ = "os"
    execute.__wrapped__ = execute.__frostline__ = real  # type: ignore[attr-defined]
    return execute


# --- fork, multiprocessing, exit ----------------------------------------------------
def _after_fork_in_child() -> None:
    recorder = probe.recorder_of_this_process()
    # Other tools' at-fork functions run before ours and allocate: a pass there has found the wiped
    # page, and opened the child's series, already. (Ordinary bytes are never wiped.)
    # The collector rests meanwhile, or a pass between the check and the opening does it a second time.
    enabled = gc.isenabled()
    _real_disable()
    try:
        if recorder is not None and (isinstance(recorder.alive, bytearray) or not recorder.alive[0]):
            _quietly(recorder.reopen_in_child, enabled)
    finally:
        if enabled:
            _real_enable()


def _after_fork_in_parent() -> None:
    recorder = probe.recorder_of_this_process()
    if recorder is not None:
        _quietly(recorder.forked)


def close() -> None:
    """The orderly end, at the interpreter's exit."""
    recorder = probe.recorder_of_this_process()
    for name in ("frostline.probe.main_module", "frostline.agent.cycles"):
        if name in sys.modules:
            _quietly(sys.modules[name].finish)
    if recorder is not None:
        _quietly(recorder.close)


def in_multiprocessing_child(_: object) -> None:
    """Runs in each child that multiprocessing forks, once it knows its name."""
    recorder = probe.recorder_of_this_process()
    process = sys.modules.get("multiprocessing.process")
    util = sys.modules.get("multiprocessing.util")
    if recorder is None or process is None or util is None:
        return
    _quietly(identify, recorder, process.current_process().name, -1, layout.IDENTITY_MULTIPROCESSING)
    if probe.MULTIPROCESSING_RUNS_ATEXIT:
        atexit.register(close)
    else:
        util.Finalize(None, close, exitpriority=-1000)


def _watch_multiprocessing(util: "Any") -> None:
    util.register_after_fork(in_multiprocessing_child, in_multiprocessing_child)


class Prepare:
    """In front of ``multiprocessing.spawn.prepare``: a spawned child runs no after-fork functions."""

    def __init__(self, real: "Callable[[dict[str, Any]], Any]") -> None:
        self.__wrapped__ = real

    def __call__(self, data: "dict[str, Any]") -> "Any":
        recorder = probe.recorder_of_this_process()
        name = data.get("name")
        if recorder is not None and isinstance(name, str):
            # Before the real one: that imports the child's main module, which can take a minute.
            _quietly(identify, recorder, name, -1, layout.IDENTITY_MULTIPROCESSING)
        return self.__wrapped__(data)


def _watch_spawn(spawn: "Any") -> None:
    if not isinstance(spawn.prepare, Prepare):
        spawn.prepare = Prepare(spawn.prepare)


def identify(recorder: Recorder, role: "str | None", rank: int, source: int) -> None:
    """Records who this process is (row A7); the reader makes the name."""
    recorder.mark(layout.MARK_IDENTITY, 0, recorder.name_id(role) if role else 0, rank, source)


def identify_program(recorder: Recorder, role: object, rank: object) -> None:
    """What a program says of itself. Ranks come from environments too, as text; nothing is raised."""
    try:
        number = -1
        text = None if role is None else str(role)
        if rank is not None:
            try:
                number = int(rank)  # type: ignore[call-overload]
            except (TypeError, ValueError):
                text = f"{text or ''} {rank}".strip()
            if not -1 <= number < 2**63:
                number = -1
        identify(recorder, text, number, layout.IDENTITY_PROGRAM)
    except Exception:
        pass  # a __str__ of the host's that raises: its name is not worth its life


# --- the poke -----------------------------------------------------------------------
previous_handler: "Any" = None


def on_poke(signum: int, frame: "FrameType | None") -> None:
    """SIGURG: somebody may have left a request in our live words."""
    recorder = probe.recorder_of_this_process()
    series = recorder.series if recorder is not None else None
    if recorder is not None and series is not None:
        words = series.words
        if words[_WORD["request"]] != words[_WORD["reply"]] and not callback.importing(frame):
            _quietly(_answer, recorder)
    if recorder is not None and recorder.foreign is not None:
        foreign, recorder.foreign = recorder.foreign, None
        raise foreign
    if _callable(previous_handler):
        previous_handler(signum, frame)


def _answer(recorder: Recorder) -> None:
    from frostline.agent import control

    control.answer(recorder)


def _install_handler(recorder: Recorder) -> None:
    global previous_handler
    series = recorder.series
    if series is None or not recorder.recording:
        return
    try:
        previous = _signal.signal(_signal.SIGURG, on_poke)
    except (ValueError, OSError):
        return  # a sub-interpreter, or not the main thread: no control here, and the words say so
    if previous is not on_poke:
        previous_handler = previous
    series.words[_WORD["handler"]] = 1
    recorder.control = True


# --- start --------------------------------------------------------------------------
#: Whether ``start`` has done its work here: what it registers for forks stays for good.
started = False


def start(session: "str | None" = None, policy: "str | None" = None, age: int = 0) -> "Recorder | None":
    """Starts to record this interpreter, once. Reads FROSTLINE_*; arguments win over it.

    ``age``: nanoseconds that the process had lived, where it is attached to; 0 at its start.

    Raises nothing that an interpreter's start should see; a failure leaves the recorder off.
    """
    global started
    session = session or os.environ.get("FROSTLINE_OUTPUT")
    if started or not session or not probe.SUPPORTED:
        return probe.recorder_of_this_process()
    started = True
    os.register_at_fork(
        before=before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
    )
    return begin(session, policy, age)


def begin(session: str, policy: "str | None", age: int) -> Recorder:
    """The part of ``start`` that ``agent.detaching`` undoes, and a second attach does again."""
    environment = os.environ
    policy = policy or environment.get("FROSTLINE_POLICY") or "off"
    retention = environment.get("FROSTLINE_RETENTION", "")
    limit = min(int(retention), 2**63 - 1) if retention.isascii() and retention.isdecimal() else 0
    recorder = Recorder(os.path.abspath(session), policy, limit, interpreter_id())
    probe.set_recorder(recorder)
    recorder.attach(age)
    atexit.register(close)
    if not recorder.recording:
        return recorder
    _stand_in(recorder)
    role, rank = environment.get("FROSTLINE_ROLE"), environment.get("FROSTLINE_RANK")
    if role or rank:
        identify_program(recorder, role, rank or None)
    if environment.get("FROSTLINE_CONTROL", "on") != "off" and _thread.get_ident() == main_thread():
        _install_handler(recorder)
    for part in ("promotions", "cycles", "census"):  # loaded only where they are asked for
        text = environment.get(f"FROSTLINE_{part.upper()}")
        if text:
            _quietly(__import__(f"frostline.agent.{part}", fromlist=("start",)).start, recorder, text)
    from frostline.probe import imports

    imports.watch("multiprocessing.util", _watch_multiprocessing)
    imports.watch("multiprocessing.spawn", _watch_spawn)
    imports.arm(environment.get("FROSTLINE_SPANS", ""), environment.get("FROSTLINE_PRESETS", "auto"))
    if environment.get("FROSTLINE_STARTUP"):
        from frostline.agent import startup

        _quietly(startup.start, recorder)
    return recorder
