"""What the servers under test serve: the collector and the policy, seen from inside a request."""

from __future__ import annotations

import gc
import json
import os
import sys
from typing import Any

import frostline

HEAP: list[Any] = [[i] for i in range(50_000)]
FROZEN_AT_IMPORT = gc.get_freeze_count()
IMPORTED_BY = os.getpid()
IN_LIFESPAN = 0


def state(path: str = "/") -> dict[str, Any]:
    moments = sys.modules.get("frostline.policy.moments")
    engine = sys.modules.get("frostline.policy.engine")
    answer = {
        "pid": os.getpid(),
        "frozen": gc.get_freeze_count(),
        "at_import": FROZEN_AT_IMPORT,
        "imported_by": IMPORTED_BY,
        "in_lifespan": IN_LIFESPAN,
        "due": engine._due() if engine else False,
        "in_flight": moments.in_flight() if moments else 0,
    }
    if path == "/add":
        answer["count"] = frostline.startup_complete()
    return answer


def wsgi(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    body = json.dumps(state(environ["PATH_INFO"])).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]


async def asgi(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Builds the half of its heap in its lifespan."""
    global IN_LIFESPAN
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                HEAP.extend([i] for i in range(50_000))
                IN_LIFESPAN = gc.get_freeze_count()
                await send({"type": "lifespan.startup.complete"})
            else:
                await send({"type": "lifespan.shutdown.complete"})
                return
    body = json.dumps(state(scope["path"])).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def refuses(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Its lifespan fails."""
    assert scope["type"] == "lifespan"
    await receive()
    await send({"type": "lifespan.startup.failed", "message": "on purpose"})
