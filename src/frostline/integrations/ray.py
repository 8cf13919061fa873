"""Ray: actors, and the replicas of Ray Serve.

An actor's boundary is the end of its ``__init__``; a replica's, of its first ``initialize``, with the
deployment built and configured. Each call of an actor's method is in flight, a replica's requests as
Serve counts them. Methods that yield are not counted, since what runs between two items is not theirs.
Plain tasks have no start-up that anybody could tell.
"""

from frostline.integrations.patching import (
    before,
    in_flight,
    in_flight_async,
    put,
    ready,
    then,
    then_async,
)
from frostline.policy import moments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Function = Callable[..., Any]

#: Flags of a code object (``inspect``'s CO_*): generator, coroutine, asynchronous generator.
_YIELDS = 0x20 | 0x200
_COROUTINE = 0x80
_initialized = False


def arrived(name: str, module: "Any") -> None:
    """Called for each module that ``KNOWN`` names."""
    if name == "ray._private.function_manager":
        put(module.FunctionActorManager, "_make_actor_method_executor", _told)
    else:
        put(module.Replica, "initialize", then_async(_ready_once))
        put(module.ReplicaMetricsManager, "inc_num_ongoing_requests", before(lambda _: moments.enter()))
        put(module.ReplicaMetricsManager, "dec_num_ongoing_requests", then(lambda _: moments.leave()))


def _ready_once(_: object) -> None:
    global _initialized
    if not _initialized:  # it comes again when the controller has been away
        _initialized = True
        ready()


def _told(make: "Function") -> "Function":
    def wrapper(manager: "Any", name: str, method: "Any") -> "Any":
        executor = make(manager, name, method)
        flags = getattr(getattr(method, "__code__", None), "co_flags", 0)
        if str(getattr(method, "__module__", "")).startswith("ray.serve."):
            return executor
        if name == "__init__":
            told = (then_async if flags & _COROUTINE else then)(lambda _: ready())(executor)
        elif name.startswith("__ray") or flags & _YIELDS:
            return executor
        else:
            told = (in_flight_async if flags & _COROUTINE else in_flight)(executor)
        for attribute in ("name", "method"):  # Ray asks them what it runs
            setattr(told, attribute, getattr(executor, attribute, None))
        return told

    return wrapper
