"""``multiprocessing.Pool`` and ``concurrent.futures.ProcessPoolExecutor``, whatever the start method.

A worker's boundary is its first look for a task: the initializer has run. What a forked worker has
inherited is frozen before that. A task is in flight from its arrival to the next look.
"""

from frostline.integrations.patching import put, serving
from frostline.policy import engine, moments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Function = Callable[..., Any]


def arrived(name: str, module: "Any") -> None:
    """Called for each module that ``KNOWN`` names."""
    put(module, "worker" if name == "multiprocessing.pool" else "_process_worker", serve_first)


def serve_first(real: "Function") -> "Function":
    """For a function of a worker process that loops over its first argument, a queue."""

    def wrapper(queue: "Any", *args: "Any", **keywords: "Any") -> "Any":
        serve(queue)
        return real(queue, *args, **keywords)

    return wrapper


def serve(queue: "Any") -> None:
    """This process is a worker that reads tasks from ``queue``."""
    if hasattr(queue, "_reader"):  # a ThreadPool's workers read a queue of threads: they are no process
        moments.guarded(engine.keep_inherited)
        queue.get = serving(queue.get, queue)
