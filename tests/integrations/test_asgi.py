"""The middleware says what an integration would find out, on any ASGI server; Hypercorn (C1, C4)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from frostline.policy.engine import BY_INTEGRATION, BY_PROGRAM
from tests.integrations.hosts import ROOT, boundaries, frozen, recorded, server, until

PLAIN = "tests.integrations.apps:asgi"
BEHIND = "tests.integrations.behind:app"
UVICORN = ("uvicorn", "--port", "0")
HYPERCORN = ("hypercorn", "-b", "127.0.0.1:0")


@pytest.mark.parametrize("command", [UVICORN, HYPERCORN], ids=["uvicorn", "hypercorn"])
@pytest.mark.parametrize("integrations", ["none", "auto"])
def test_the_middleware_tells_once(tmp_path: Path, command: tuple[str, ...], integrations: str) -> None:
    pytest.importorskip(command[0])
    with server(tmp_path, *command, BEHIND, recorded=True, FROSTLINE_INTEGRATIONS=integrations) as host:
        state = host.get()
        assert host.get("/add")["count"] == -1
        # The idle moment that puts it right: it is on the loop, whoever tells of the requests.
        assert until(lambda: not host.get()["due"], every=0.2)
    assert state["frozen"] - state["in_lifespan"] >= 50_000
    assert state["in_flight"] == (1 if integrations == "none" else 2)
    told = [boundaries(series) for series in recorded(tmp_path).series]
    # The middleware in the lifespan, and /add: the integration adds nothing to what the program has said.
    assert [BY_PROGRAM, BY_PROGRAM] in told and not any(BY_INTEGRATION in one for one in told)


def test_the_middleware_is_inert_without_a_policy(tmp_path: Path) -> None:
    with server(tmp_path, *UVICORN, BEHIND) as host:
        state = host.get()
    assert state["frozen"] == state["in_lifespan"]


def test_the_middleware_adds_nothing_to_what_the_lifespan_has_said(tmp_path: Path) -> None:
    """It is the program's own boundary, and its end is the program's to tell."""
    script = """
import asyncio, gc
import frostline
from frostline.integrations.asgi import Middleware

async def app(scope, receive, send):
    frostline.startup_complete()
    sent.append(gc.get_freeze_count())
    kept.extend([i] for i in range(10_000))
    await send({"type": "lifespan.startup.complete"})
    await send({"type": "lifespan.shutdown.complete"})

async def send(message):
    sent.append(gc.get_freeze_count())

sent, kept = [], []
asyncio.run(Middleware(app)({"type": "lifespan"}, None, send))
assert sent[0] > 5_000 and max(sent) - min(sent) < 100, sent
frostline.shutdown()
assert gc.get_freeze_count() < 400
"""
    done = subprocess.run([sys.executable, "-c", script], env={"FROSTLINE_POLICY": "freeze"}, timeout=60)
    assert done.returncode == 0


@pytest.mark.parametrize("worker", ["asyncio", "trio", "uvloop"])
def test_hypercorn_is_frozen_after_the_lifespan(tmp_path: Path, worker: str) -> None:
    pytest.importorskip("hypercorn")
    pytest.importorskip(worker)
    with server(tmp_path, *HYPERCORN, "-k", worker, PLAIN, FROSTLINE_POLICY="freeze") as host:
        state = host.get()
    assert state["frozen"] - state["in_lifespan"] >= 50_000
    assert state["in_flight"] == 1


def test_each_worker_of_uvicorn_is_frozen(tmp_path: Path) -> None:
    with server(tmp_path, *UVICORN, "--workers", "2", PLAIN, recorded=True) as host:
        state = host.get()
        assert state["frozen"] - state["in_lifespan"] >= 50_000
    told = {series.pid: boundaries(series) for series in recorded(tmp_path).series}
    assert told[state["pid"]] == [BY_INTEGRATION]
    assert not told[host.process.pid], "the parent serves nothing"
    assert all(frozen(s) >= 50_000 for s in recorded(tmp_path).series if told[s.pid])


@pytest.mark.parametrize("command", [UVICORN, HYPERCORN], ids=["uvicorn", "hypercorn"])
def test_a_lifespan_that_fails_ends_the_server_as_ever(tmp_path: Path, command: tuple[str, ...]) -> None:
    pytest.importorskip(command[0])
    codes = [
        subprocess.run(
            [sys.executable, "-m", *command, "tests.integrations.apps:refuses"],
            cwd=ROOT,
            env={"HOME": str(tmp_path), **environment},
            capture_output=True,
            timeout=60,
        ).returncode
        for environment in ({}, {"FROSTLINE_POLICY": "freeze"})
    ]
    assert codes[0] == codes[1]
