"""``Middleware``: any ASGI server tells boundary, requests and idle moments, because the application says so.

    app.add_middleware(frostline.integrations.asgi.Middleware)       # Starlette, FastAPI
    app = frostline.integrations.asgi.Middleware(app)                # any other
    vllm serve ./model --middleware frostline.integrations.asgi.Middleware

Where no policy is in force it tells nothing. Where requests are recorded, and by no preset of the server
(Daphne, Granian, and whatever else we do not know), it records them as spans, ``request``, that tell the
template of their route.
"""

import sys
from time import monotonic_ns

from frostline import probe
from frostline.format import SPAN_ASYNC, SPAN_FLAG_ERROR, SPAN_FLAG_PRESET
from frostline.integrations.patching import closed
from frostline.policy import engine, moments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    Message = dict[str, Any]
    Send = Callable[[Message], Awaitable[None]]
    Application = Callable[[Message, Any, Send], Awaitable[None]]


class Middleware:
    """The outermost layer of an ASGI application.

    The boundary is told just before the application's ``lifespan.startup.complete`` is passed on: the
    server admits requests after that. It is left out where the program has told one itself during the
    lifespan. ``lifespan.shutdown.complete`` thaws. A request is an ``http`` scope; a websocket, which
    lives as long as its client, is not counted.

    Args:
        app: the application behind it.
    """

    def __init__(self, app: "Application") -> None:
        self.app = app
        if probe.recorder_of_this_process() is not None:
            _load()  # before the first request, which would else wait for it

    async def __call__(self, scope: "Message", receive: "Any", send: "Send") -> None:
        kind = scope["type"]
        if kind == "http":
            begun = _begin()
            error = SPAN_FLAG_ERROR
            moments.enter()
            try:
                await self.app(scope, receive, send)
                error = 0
            finally:
                moments.leave()
                if begun:
                    moments.guarded(lambda: _end(begun, error, scope))
        elif kind == "lifespan":
            await self.app(scope, receive, self._telling(send))
        else:
            await self.app(scope, receive, send)

    def _telling(self, send: "Send") -> "Send":
        told = engine.times_told()

        async def tell_and_send(message: "Message") -> None:
            kind = message["type"]
            if kind == "lifespan.startup.complete" and engine.times_told() == told:
                moments.guarded(lambda: engine.boundary(engine.BY_PROGRAM, self))
            await send(message)
            if kind == "lifespan.shutdown.complete":
                closed(self)

        return tell_and_send


# --- requests as spans ----------------------------------------------------------------
def _begin() -> int:
    """When the request began; 0 where it is not recorded, or a preset records it: each one once."""
    if probe.recorder_of_this_process() is None:
        return 0
    wrapping = sys.modules.get("frostline.probe.wrapping")
    return 0 if wrapping is not None and wrapping.requests_timed else monotonic_ns()


def _end(begun: int, error: int, scope: "Message") -> None:
    stop = monotonic_ns()
    _load()
    telling = sys.modules["frostline.probe.telling"]
    recorder = probe.recorder_of_this_process()
    if recorder is None:
        return
    flags, value0, value1 = telling.values_of(telling.route(recorder, scope))
    label = telling.label_id(recorder, "request")
    flags |= SPAN_FLAG_PRESET | error
    recorder.record_span(begun, stop, label, SPAN_ASYNC, flags, value0, value1, telling.task_id())


def _load() -> None:
    """Not at the top: a host that records nothing does not need it."""
    __import__("frostline.probe.telling")
