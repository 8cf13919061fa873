"""Recording begins in a process that was started without us: ``frostline attach``.

Called once, in the main thread, between two bytecodes (``reach.injected``). What it changes
``detaching`` puts back.
"""

import gc
import os
import sys
import time

from frostline import probe
from frostline.probe import hooks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

    from frostline.probe.recorder import Recorder

_BOOTTIME = 7

#: The environment as it was, by name; None where a name was not there. Empty while not attached.
environment_before: "dict[str, str | None]" = {}
#: Whether the program had a policy of its own before.
own_policy = False
#: Whether it had FROSTLINE_POLICY: what it starts goes on to need that.
own_variable = False


def inside_callback() -> bool:
    """Whether some thread is in a function of ``gc.callbacks``: the list is being walked, not ours to change."""
    codes = set()
    for callback in gc.callbacks:
        function = getattr(callback, "__func__", callback)
        if not hasattr(function, "__code__"):
            function = type(callback).__call__ if callable(callback) else None
        codes.add(getattr(function, "__code__", None))
    codes.discard(None)
    at: "FrameType | None" = None
    frames = list(sys._current_frames().values())
    try:
        while frames:
            at = frames.pop()
            while at is not None and codes:
                if at.f_code in codes:
                    return True
                at = at.f_back
        return False
    finally:
        # Our own frame is one of them: a cycle, which would keep the program's frames, and freeze with them.
        at = None
        frames.clear()


def attach(settings: "dict[str, str]", fallback: str, children: bool) -> str:
    """Starts to record, and applies the policy of ``settings``.

    Args:
        settings: environment variables; OUTPUT names the session.
        fallback: the folder that PYTHONPATH needs for children of other environments.
        children: whether what the process starts from now on is to be recorded too.

    Returns what became of it, a word: "attached", "already", or why not.
    """
    global own_policy, own_variable
    if probe.FREE_THREADED:
        return "free-threaded"
    recorder = probe.recorder_of_this_process()
    if recorder is not None:
        return "already" if recorder.recording else "stopped"
    if os.environ.get("FROSTLINE_DISABLE"):
        return "disabled"
    engine = sys.modules.get("frostline.policy.engine")
    own_policy = engine is not None and engine.in_force() != "off"
    own_variable = "FROSTLINE_POLICY" in os.environ
    changed = dict(settings)
    theirs = os.environ.get("PYTHONPATH")
    changed["PYTHONPATH"] = fallback + ":" + theirs if theirs else fallback
    environment_before.clear()
    for name, value in changed.items():
        environment_before[name] = os.environ.get(name)
        os.environ[name] = value
    try:
        if hooks.started:
            recorder = hooks.begin(settings["FROSTLINE_OUTPUT"], None, _age())
        else:
            recorder = hooks.start(age=_age())
        _say_who(recorder)
        policy = settings.get("FROSTLINE_POLICY", "")
        if policy and policy != "off":
            from frostline.policy import engine as policies

            policies.adopt(policy)
    finally:
        if not children or recorder is None or not recorder.recording:
            restore_environment()
    return "attached" if recorder is not None and recorder.recording else "cannot-write"


def restore_environment() -> None:
    """What children inherit is as it was, except where the program has changed it since."""
    for name, before in environment_before.items():
        now = os.environ.get(name)
        if name == "PYTHONPATH" and now is not None:
            # The program may have added to it.
            kept = [part for part in now.split(":") if not is_fallback(part)]
            now = os.environ[name] = ":".join(kept)
            if before is None and not now:
                del os.environ[name]
        elif before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before
    environment_before.clear()


def is_fallback(entry: str) -> bool:
    """Whether an entry of PYTHONPATH is a session's fallback folder."""
    return entry.endswith("/boot/path") and os.path.isfile(entry + "/../version")


def _say_who(recorder: "Recorder | None") -> None:
    """A child that multiprocessing started before us has a name, too."""
    process = sys.modules.get("multiprocessing.process")
    if recorder is not None and process is not None and process.parent_process() is not None:
        hooks.in_multiprocessing_child(None)


def _age() -> int:
    """How long the process has lived, ns; at least 1."""
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        started = ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
        return max(1, time.clock_gettime_ns(_BOOTTIME) - started)
    except (OSError, ValueError, IndexError):
        return 1
