"""uvicorn tells the boundary, requests and idle moments by itself (C1, C4, A8)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integrations.hosts import host, until

#: Serves what the collector and the policy are like, seen from inside a request.
SERVER = """
    import contextlib, gc, socket, sys
    import frostline
    import uvicorn
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    HEAP = []
    IN_LIFESPAN = None

    @contextlib.asynccontextmanager
    async def lifespan(app):
        global IN_LIFESPAN
        HEAP.extend([i] for i in range(50_000))
        IN_LIFESPAN = gc.get_freeze_count()
        yield

    async def state(request):
        moments = sys.modules.get("frostline.policy.moments")
        return JSONResponse({
            "frozen": gc.get_freeze_count(),
            "in_lifespan": IN_LIFESPAN,
            "in_flight": moments.in_flight() if moments else None,
            "due": sys.modules["frostline.policy.engine"]._due() if moments else False,
        })

    async def add(request):
        return JSONResponse({"count": frostline.startup_complete()})

    app = Starlette(routes=[Route("/", state), Route("/add", add)], lifespan=lifespan)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", http=sys.argv[1], lifespan=sys.argv[2]))
    listening = socket.create_server(("127.0.0.1", 0))
    print("READY", listening.getsockname()[1], flush=True)
    server.run(sockets=[listening])
"""


@pytest.mark.parametrize("http", ["h11", "httptools"])
def test_the_heap_is_frozen_after_the_lifespan_and_before_the_first_request(
    tmp_path: Path, http: str
) -> None:
    with host(tmp_path, SERVER, http, "on", FROSTLINE_POLICY="freeze") as server:
        state = server.get()
    assert state["frozen"] - state["in_lifespan"] >= 50_000
    assert state["in_flight"] == 1


def test_without_a_lifespan_the_boundary_is_told_too(tmp_path: Path) -> None:
    with host(tmp_path, SERVER, "h11", "off", FROSTLINE_POLICY="freeze") as server:
        assert server.get()["frozen"] > 5_000


@pytest.mark.parametrize(
    "environment", [{}, {"FROSTLINE_POLICY": "freeze", "FROSTLINE_INTEGRATIONS": "none"}]
)
def test_it_does_nothing_unless_it_is_asked(tmp_path: Path, environment: dict[str, str]) -> None:
    with host(tmp_path, SERVER, "h11", "on", **environment) as server:
        state = server.get()
    assert state["frozen"] == state["in_lifespan"]
    assert not state["in_flight"]


def test_a_freeze_in_a_request_is_a_splice_that_an_idle_moment_puts_right(tmp_path: Path) -> None:
    with host(tmp_path, SERVER, "h11", "on", FROSTLINE_POLICY="freeze") as server:
        before = server.get()["frozen"]
        assert server.get("/add") == {"count": -1}
        assert until(lambda: not server.get()["due"], every=0.2)
        assert server.get()["frozen"] >= before - 1_000
