"""However the server ends, all of it ends, and nothing stays behind (A9)."""

from __future__ import annotations

import signal
from collections.abc import Callable

import psutil
import pytest

from tests.demo.serving import Server, until


def _nothing_left(server: Server) -> None:
    until(server.gone, f"every process gone, left: {server.family()}", 30)
    until(lambda: not any(server.temporary.iterdir()), "no folder of sockets", 5)


#: Options -> processes: two workers, two engines in lock-step, prefill and decode apart.
SHAPES = {
    ("--workers", "2"): 4,
    ("--data-parallel", "2"): 5,
    ("--disaggregated",): 5,
    ("--disaggregated", "--data-parallel", "2"): 9,
}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("options", list(SHAPES)[:3])
def test_a_signal_ends_every_process(
    start: Callable[..., Server], options: tuple[str, ...], number: signal.Signals
) -> None:
    server = start(options=options)
    server.wait_ready()
    assert len(server.family()) >= SHAPES[options]
    server.process.send_signal(number)
    assert server.process.wait(30) == 0
    _nothing_left(server)
    assert "Traceback" not in server.output()


def test_a_signal_during_start_up_ends_every_process(start: Callable[..., Server]) -> None:
    server = start(scale=0.3)
    until(lambda: len(server.family()) >= 4 or server.process.poll() is not None, "the worker's start")
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(30) == 0
    _nothing_left(server)
    assert "Traceback" not in server.output()


@pytest.mark.parametrize("options", SHAPES)
@pytest.mark.parametrize("ready", [True, False])
def test_children_do_not_outlive_a_killed_parent(
    start: Callable[..., Server], ready: bool, options: tuple[str, ...]
) -> None:
    server = start(options=options, scale=0.02 if ready else 0.3)
    if ready:
        server.wait_ready()
    else:
        until(lambda: len(server.family()) >= SHAPES[options], "the workers' start")
    assert len(server.family()) >= SHAPES[options]
    server.process.kill()
    _nothing_left(server)


@pytest.mark.parametrize("role", ["EngineCore", "Worker"])
def test_the_death_of_one_ends_the_server(start: Callable[..., Server], role: str) -> None:
    server = start()
    pid = next(pid for name, _, pid, *_ in server.wait_ready()["processes"] if name == role)
    server.family()
    psutil.Process(pid).kill()
    assert server.process.wait(30) == 1
    _nothing_left(server)


def test_a_tethered_server_ends_with_its_standard_input(start: Callable[..., Server]) -> None:
    server = start(tethered=True)
    server.wait_ready()
    server.family()
    assert server.process.stdin is not None
    server.process.stdin.close()
    assert server.process.wait(30) == 0
    _nothing_left(server)
