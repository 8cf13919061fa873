"""SGLang: scheduler, detokenizer, data-parallel controller, ``sglang.Engine``. The HTTP server is uvicorn's.

Each process has its boundary when it has begun, so that a warm-up that fails, or is left out, leaves
none of them without. After its warm-up (and at ``/freeze_gc``) SGLang freezes by itself, without a
collection, and sets the thresholds of ``--gc-threshold``: there the boundary is told again just
before, which collects first, or only splices where a request is open. A scheduler is at work until
it is fully idle, a detokenizer while it holds the state of a request.
"""

import gc
from _weakref import ref

from frostline.integrations.patching import Work, before, closed, put, ready, then
from frostline.policy import engine, moments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from frostline.integrations.patching import Function


def arrived(name: str, module: "Any") -> None:
    """Called for each module that ``KNOWN`` names."""
    if name == "sglang.srt.entrypoints.engine":
        put(module.Engine, "__init__", then(ready))
        put(module.Engine, "shutdown", then(closed))
        return
    if name == "sglang.srt.managers.data_parallel_controller":
        put(module.DataParallelController, "event_loop", before(ready))
        return
    put(module, "freeze_gc", _frozen_by_host)
    if name == "sglang.srt.managers.scheduler":
        put(module.Scheduler, "__init__", then(ready))
        put(module.Scheduler, "run_batch", before(_works))
        put(module.Scheduler, "on_idle", before(_idles))
    elif name == "sglang.srt.managers.detokenizer_manager":
        put(module.DetokenizerManager, "event_loop", before(_detokenizer))
        put(module, "sock_recv", _receive)


def _frozen_by_host(real: "Function") -> "Function":
    def wrapper(context: str, gc_threshold: "Any" = None) -> "Any":
        moments.guarded(lambda: _boundary_before(gc_threshold))
        aimed = gc.get_threshold()
        result = real(context, gc_threshold)
        if gc.get_threshold() != aimed:
            moments.guarded(lambda: engine.real("set_threshold")(*aimed))
        return result

    return wrapper


def _boundary_before(gc_threshold: "Any") -> None:
    if gc_threshold is not None:
        engine.real("set_threshold")(*gc_threshold)  # the host's, which ``follow`` then aims from
    manager = _detokenizers[0]() if _detokenizers else None
    if manager is not None and not getattr(manager, "decode_status", None):
        _work.end()  # the message that asks for the freeze is no request
    ready()


# --- scheduler: its loop never sleeps, and calls on_idle when there is no batch -------
_work = Work()


def _works(_: object) -> None:
    _work.begin()


def _idles(scheduler: "Any") -> None:
    if _work.at_work and scheduler.is_fully_idle():
        _work.end()
    _work.quiet()


# --- detokenizer: sleeps in a socket ---------------------------------------------------
_detokenizers: "list[Any]" = []


def _detokenizer(manager: "Any") -> None:
    _detokenizers[:] = [ref(manager)]
    ready(manager)


def _receive(real: "Function") -> "Function":
    def wrapper(socket: "Any", *args: "Any", **keywords: "Any") -> "Any":
        manager = _detokenizers[0]() if _detokenizers else None
        if manager is not None and socket is getattr(manager, "recv_from_scheduler", None):
            moments.guarded(lambda: _sleeps(manager, socket))
            received = real(socket, *args, **keywords)
            _work.begin()
            return received
        return real(socket, *args, **keywords)

    return wrapper


def _sleeps(manager: "Any", socket: "Any") -> None:
    if not getattr(manager, "decode_status", None):
        _work.end()
    if moments.wanted() and not socket.poll(timeout=int(moments.quiet() * 1000)):
        moments.now()
