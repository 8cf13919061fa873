"""A small server, started once for the tests that only ask it things."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.demo.serving import Server


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("server"))
    server.wait_ready()
    yield server
    server.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Starts servers that the test may end as it likes."""
    servers: list[Server] = []

    def start(**options: object) -> Server:
        servers.append(Server(tmp_path / str(len(servers)), **options))
        return servers[-1]

    yield start
    for server in servers:
        server.close()
