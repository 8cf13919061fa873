"""The way out: what a recording has put into a process is taken out again, and the process lives on.

For ``frostline detach``, after an attach and after ``frostline run`` alike. What cannot be undone is told
by the flags of ``layout.DETACH_*``: references that the program took meanwhile pass through and record
nothing.
"""

import _signal  # type: ignore[import-not-found]
import atexit
import gc
import os
import sys

from frostline import format as layout
from frostline import probe
from frostline.agent import attaching
from frostline.policy import engine
from frostline.probe import hooks, imports
from frostline.probe.recorder import Recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


#: What a recording puts there; FROSTLINE_ROLE and others are the program's own.
_SETTINGS = (
    "OUTPUT", "RUN", "VERSION", "POLICY", "PRESETS", "SPANS", "CONTROL", "RETENTION", "PROMOTIONS", "STARTUP",
    "CYCLES", "TRACEMALLOC", "CENSUS",
)  # fmt: skip


def detach(recorder: Recorder) -> int:
    """Takes everything out, in an order in which each act is still recorded. Returns DETACH_* flags."""
    flags = 0
    if attaching.own_policy:
        flags |= layout.DETACH_OWN_POLICY
    else:
        flags |= _policy_out()
    flags |= _spans_out()
    imports.disarm()
    _multiprocessing_out()
    if not _stand_ins_out():
        flags |= layout.DETACH_STAND_INS
    if recorder.control and not _handler_out():
        flags |= layout.DETACH_HANDLER
    promotions: Any = sys.modules.get("frostline.agent.promotions")
    if promotions is not None:
        promotions.stop(recorder)
    cycles: Any = sys.modules.get("frostline.agent.cycles")
    if cycles is not None:
        cycles.stop()
    recorder.census = None  # the process lives on: nobody asked to stop it now
    recorder.close()
    series = recorder.series
    if series is not None:
        series.words[layout.WORD["off_reason"]] = layout.OFF_REMOVED
    atexit.unregister(hooks.close)
    probe.set_recorder(None)
    _environment_out()
    return flags


def _policy_out() -> int:
    flags = layout.DETACH_THAWED if engine.thaw(collect_after=False) else 0
    before = gc.get_threshold()
    engine.abandon()
    if gc.get_threshold() != before:
        flags |= layout.DETACH_THRESHOLDS
    moments = sys.modules.get("frostline.policy.moments")
    if moments is not None:
        moments.forget()
    return flags


def _spans_out() -> int:
    wrapping: Any = sys.modules.get("frostline.probe.wrapping")
    if wrapping is None:
        return 0
    main_module: Any = sys.modules.get("frostline.probe.main_module")
    if main_module is not None:
        main_module.finish()
    return layout.DETACH_SPANS if wrapping.undo_placed() else 0


def _stand_ins_out() -> bool:
    """The interpreter's own functions back; whether that could be done for all of them."""
    whole = True
    for name, _ in hooks.STAND_INS:
        current = getattr(gc, name)
        if isinstance(current, hooks.StandIn):
            setattr(gc, name, current.__wrapped__)
        else:
            whole = False  # another tool has put its own before ours, which passes through from now on
    for name in ("execv", "execve"):
        current = getattr(os, name)
        if hasattr(current, "__frostline__"):
            setattr(os, name, current.__wrapped__)
    return whole


def _handler_out() -> bool:
    """SIGURG back to whom it belonged; False if the program has installed its own before ours."""
    if _signal.getsignal(_signal.SIGURG) is not hooks.on_poke:
        return False
    _signal.signal(_signal.SIGURG, hooks.previous_handler or _signal.SIG_DFL)
    return True


def _multiprocessing_out() -> None:
    util: Any = sys.modules.get("multiprocessing.util")
    if util is not None:
        for key in list(util._afterfork_registry):
            if key[2] is hooks.in_multiprocessing_child:
                del util._afterfork_registry[key]
    spawn: Any = sys.modules.get("multiprocessing.spawn")
    if spawn is not None and isinstance(spawn.prepare, hooks.Prepare):
        spawn.prepare = spawn.prepare.__wrapped__


def _environment_out() -> None:
    """Children that start from now on are not recorded."""
    attaching.restore_environment()
    for name in _SETTINGS:
        if name != "POLICY" or not attaching.own_variable:
            os.environ.pop("FROSTLINE_" + name, None)
    entries = os.environ.get("PYTHONPATH", "").split(":")
    kept = [entry for entry in entries if not attaching.is_fallback(entry)]
    if kept != entries:
        os.environ["PYTHONPATH"] = ":".join(kept)
        if not kept:
            del os.environ["PYTHONPATH"]
    sys.path[:] = [
        entry for entry in sys.path if not (isinstance(entry, str) and attaching.is_fallback(entry))
    ]
