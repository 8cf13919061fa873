"""Hypercorn, on asyncio and on trio.

The boundary is the end of the lifespan's start-up, before the sockets listen; an application without a
lifespan comes that way too. A request is one call of the application with an ``http`` scope. On trio no
idle moment is known: they are found on asyncio's loops.
"""

from frostline.integrations.patching import closed, in_flight_async, put, ready, then_async

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def arrived(name: str, module: "Any") -> None:
    """Called for each module that ``KNOWN`` names."""
    if name.endswith(".lifespan"):
        put(module.Lifespan, "wait_for_startup", then_async(ready))
        put(module.Lifespan, "wait_for_shutdown", then_async(closed))
    else:
        put(module, "_handle", _http_only)


def _http_only(real: "Callable[..., Any]") -> "Callable[..., Any]":
    counted = in_flight_async(real)

    def wrapper(app: "Any", config: "Any", scope: "Any", *args: "Any") -> "Any":
        return (counted if scope["type"] == "http" else real)(app, config, scope, *args)

    return wrapper
