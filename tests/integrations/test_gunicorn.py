"""Gunicorn tells boundary, requests and idle moments, in the arbiter and in its workers (C1, C4, A8)."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from frostline.policy.engine import BY_INTEGRATION
from tests.integrations.hosts import boundaries, frozen, recorded, server, until

pytest.importorskip("gunicorn")

COMMAND = ("gunicorn", "-b", "127.0.0.1:0", "--no-control-socket")
WSGI = "tests.integrations.apps:wsgi"
ASGI = "tests.integrations.apps:asgi"


@pytest.mark.parametrize("worker", ["sync", "gthread", "asgi", "uvicorn.workers.UvicornWorker"])
@pytest.mark.parametrize("preload", [(), ("--preload",)], ids=["loaded by the worker", "preloaded"])
def test_the_worker_is_frozen_when_it_admits_a_request(
    tmp_path: Path, worker: str, preload: tuple[str, ...]
) -> None:
    if worker.startswith("uvicorn"):
        pytest.importorskip("uvicorn.workers")
    app = WSGI if worker in ("sync", "gthread") else ASGI
    with server(tmp_path, *COMMAND, "-k", worker, *preload, app, FROSTLINE_POLICY="freeze") as host:
        state = host.get()
    assert state["frozen"] - state["at_import"] >= 50_000
    if app == ASGI:
        assert state["frozen"] - state["in_lifespan"] >= 50_000
    assert state["in_flight"] == 1
    assert (state["imported_by"] != state["pid"]) == bool(preload)


def test_what_was_preloaded_is_frozen_before_the_fork(tmp_path: Path) -> None:
    with server(tmp_path, *COMMAND, "--preload", WSGI, recorded=True) as host:
        state = host.get()
    session = recorded(tmp_path)
    arbiter, worker = sorted(session.series, key=lambda series: series.pid != host.process.pid)
    assert (arbiter.pid, worker.pid) == (host.process.pid, state["pid"])
    assert boundaries(arbiter) == boundaries(worker) == [BY_INTEGRATION]
    assert frozen(arbiter) >= 50_000
    # It has counted what it inherited, and no pass of it has walked that again.
    assert frozen(worker) >= frozen(arbiter)
    assert state["frozen"] >= frozen(worker) - 1_000


@pytest.mark.parametrize(
    "environment", [{}, {"FROSTLINE_POLICY": "freeze", "FROSTLINE_INTEGRATIONS": "none"}]
)
def test_it_does_nothing_unless_it_is_asked(tmp_path: Path, environment: dict[str, str]) -> None:
    with server(tmp_path, *COMMAND, "--preload", WSGI, **environment) as host:
        state = host.get()
    assert state["frozen"] == state["at_import"]
    assert not state["in_flight"]


@pytest.mark.parametrize("worker", ["sync", "gthread"])
def test_a_freeze_in_a_request_is_put_right_when_the_worker_waits(tmp_path: Path, worker: str) -> None:
    with server(tmp_path, *COMMAND, "-k", worker, WSGI, FROSTLINE_POLICY="follow") as host:
        before = host.get()["frozen"]
        assert host.get("/add")["count"] == -1
        assert host.get("/")["due"]
        assert until(lambda: not host.get()["due"], every=0.2)
        assert host.get()["frozen"] >= before - 1_000


def test_each_worker_of_a_reload_and_each_recycled_one_is_frozen(tmp_path: Path) -> None:
    with server(tmp_path, *COMMAND, "--max-requests", "2", WSGI, recorded=True) as host:
        first = host.get()["pid"]
        second = until(lambda: next((s for s in [host.get()] if s["pid"] != first), None))
        assert second["frozen"] - second["at_import"] >= 50_000
        host.process.send_signal(signal.SIGHUP)
        # Three requests outlive any worker, so at least two more have come by then.
        seen = {first, second["pid"]}
        until(lambda: seen.add(host.get()["pid"]) or len(seen) >= 5)
    session = recorded(tmp_path)
    workers = [series for series in session.series if series.pid != host.process.pid]
    assert seen <= {series.pid for series in workers}
    for series in workers:
        if series.pid in seen:
            assert boundaries(series) == [BY_INTEGRATION] and frozen(series) >= 50_000
