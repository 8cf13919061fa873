"""Celery: the children of its prefork pool, and its main process.

The main process tells its boundary before it forks the pool, with all tasks imported, and again when
the consumer is ready. A child's is its first look for a task, after ``worker_process_init``; a task is
in flight from its arrival to the next look. In the other pools (solo, threads, gevent, eventlet) tasks
run in the main process, and nothing tells of idle moments there.
"""

from frostline.integrations.patching import before, in_flight, put, ready, serving, then
from frostline.policy import engine, moments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Function = Callable[..., Any]


def arrived(name: str, module: "Any") -> None:
    """Called for each module that ``KNOWN`` names."""
    if name == "celery.apps.worker":
        put(module.Worker, "on_consumer_ready", then(_ready))
    elif name == "celery.concurrency.prefork":
        put(module.TaskPool, "on_start", before(_ready))
    elif name == "celery.concurrency.base":
        put(module, "apply_target", in_flight)
    else:
        put(module.Worker, "after_fork", before(_keep_inherited))
        put(module.Worker, "_make_protected_receive", _served)


def _ready(_: object) -> None:
    ready()  # owned by nobody: it lasts as long as the process


def _keep_inherited(_: object) -> None:
    moments.guarded(engine.keep_inherited)


def _served(make: "Function") -> "Function":
    """billiard makes the function by which a child receives tasks, and another for confirmations."""

    def wrapper(worker: "Any", connection: "Any") -> "Any":
        receive = make(worker, connection)
        return serving(receive, connection) if connection is worker.inq else receive

    return wrapper
