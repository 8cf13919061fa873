"""Gunicorn: the arbiter and its workers, sync, gthread, gevent and ASGI; uvicorn's worker classes as well.

The arbiter's boundary is the end of its set-up: with ``--preload`` the application is loaded then, and
no worker is forked yet. A worker's is the last moment before its loop, after the application is loaded
and ``post_worker_init`` has run; where it serves ASGI, after the lifespan's start-up. What a worker has
inherited is frozen before it loads anything. It ends without a thaw, since its process ends.
"""

from frostline.integrations.patching import before, in_flight, in_flight_async, put, ready, then
from frostline.policy import engine, moments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Function = Callable[..., Any]

#: Modules of worker classes whose server tells the boundary itself, later.
_LATER = ("uvicorn", "gunicorn.workers.gasgi")


def arrived(name: str, module: "Any") -> None:
    """Called for each module that ``KNOWN`` names."""
    part = name.rpartition(".")[2]
    if part == "arbiter":
        put(module.Arbiter, "setup", then(_ready))
    elif part == "base":
        put(module.Worker, "init_process", _ready_before_run)
    elif part == "sync":
        put(module.SyncWorker, "handle_request", in_flight)
        put(module.SyncWorker, "wait", _quiet_wait)
    elif part == "gthread":
        put(module.ThreadWorker, "handle_request", in_flight)
        put(module.ThreadWorker, "wait_for_and_dispatch_events", _quiet_poll)
    elif part == "base_async":
        put(module.AsyncWorker, "handle_request", in_flight)
    elif part == "ggevent":
        put(module.GeventWorker, "notify", _quiet_second)
    elif part == "gasgi":
        # What it does between the lifespan, on or off, and its listeners.
        put(module.ASGIWorker, "_get_ssl_context", before(_ready))
    elif part == "protocol":
        put(module.ASGIProtocol, "_handle_http_request", in_flight_async)
        if hasattr(module.ASGIProtocol, "_handle_http2_request"):
            put(module.ASGIProtocol, "_handle_http2_request", in_flight_async)


def _ready(_: object) -> None:
    # Owned by nobody: an arbiter or a worker that dies at the interpreter's exit must not thaw there,
    # or the interpreter's last passes walk everything.
    ready()


def _ready_before_run(init_process: "Function") -> "Function":
    def wrapper(worker: "Any") -> "Any":
        moments.guarded(engine.keep_inherited)
        if not any(kind.__module__.startswith(_LATER) for kind in type(worker).__mro__):
            worker.run = before(_ready)(worker.run)
        return init_process(worker)

    return wrapper


def _quiet_wait(wait: "Function") -> "Function":
    """SyncWorker's ``select`` on its sockets: None where nothing has come."""

    def wrapper(worker: "Any", timeout: float) -> "Any":
        if moments.wanted():
            found = wait(worker, min(moments.quiet(), timeout))
            if found is not None:
                return found
            moments.now()
        return wait(worker, timeout)

    return wrapper


def _quiet_poll(dispatch: "Function") -> "Function":
    """ThreadWorker's; what its selector has seen it sees again."""

    def wrapper(worker: "Any", timeout: float) -> "Any":
        if moments.wanted() and not worker.poller.select(min(moments.quiet(), timeout)):
            moments.now()
        return dispatch(worker, timeout)

    return wrapper


def _quiet_second(notify: "Function") -> "Function":
    """GeventWorker calls it each second: idle where no request has come in since."""
    entered = -1

    def wrapper(worker: "Any") -> "Any":
        nonlocal entered
        before, entered = entered, moments.entered()
        if before == entered:
            moments.now()
        return notify(worker)

    return wrapper
