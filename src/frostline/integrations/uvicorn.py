"""uvicorn, and what serves through it (FastAPI, Starlette, vLLM's and SGLang's front ends).

The boundary is the end of the application's lifespan start-up: the sockets listen after it, so no
request has been admitted. It is told too where the lifespan is off. A request lasts from its parsed
head to the application's return; websockets, which live as long as their client, are not counted.
"""

from frostline.integrations.patching import closed, in_flight_async, put, ready, then_async

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def arrived(name: str, module: "Any") -> None:
    """Called for each module that ``KNOWN`` names."""
    if name == "uvicorn.lifespan.on":
        put(module.LifespanOn, "startup", then_async(_ready_unless_it_failed))
        put(module.LifespanOn, "shutdown", then_async(closed))
    elif name == "uvicorn.lifespan.off":
        put(module.LifespanOff, "startup", then_async(ready))
        put(module.LifespanOff, "shutdown", then_async(closed))
    else:
        put(module.RequestResponseCycle, "run_asgi", in_flight_async)


def _ready_unless_it_failed(lifespan: "Any") -> None:
    if not getattr(lifespan, "should_exit", False):
        ready(lifespan)
