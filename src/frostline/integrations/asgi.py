"""``Middleware``: any ASGI server tells boundary, requests and idle moments, because the application says so.

    app.add_middleware(frostline.integrations.asgi.Middleware)       # Starlette, FastAPI
    app = frostline.integrations.asgi.Middleware(app)                # any other
    vllm serve ./model --middleware frostline.integrations.asgi.Middleware

Inert where no policy is in force.
"""

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

    async def __call__(self, scope: "Message", receive: "Any", send: "Send") -> None:
        kind = scope["type"]
        if kind == "http":
            moments.enter()
            try:
                await self.app(scope, receive, send)
            finally:
                moments.leave()
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
