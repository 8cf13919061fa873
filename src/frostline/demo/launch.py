"""How processes start and end.

Every process ends with its parent, however the parent ends: ``multiprocessing``
gives a spawned child the reading end of a pipe that only the parent holds open,
and the child polls it together with its sockets. A child that is busy for long does
not come to poll, so `frostline.die_with_parent` stands behind it. Ctrl-C is for the
front end alone, which ends the others; they are started with SIGINT blocked, since a
handler of their own would come too late.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import zmq

import frostline

#: A process that waits looks this often whether it was told to stop (milliseconds).
POLL_MS = 200
#: Seconds that the engine core, and its workers, have between SIGTERM and SIGKILL.
ENGINE_GRACE = 12.0
WORKER_GRACE = 6.0
S = TypeVar("S", bound="zmq.Socket[Any]")
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Settings:
    """What every process of the server needs to know."""

    scale: float = 1.0
    workers: int = 1  # tensor-parallel ranks of each engine
    data_parallel: int = 1  # engines in lock-step; of each kind, where prefill and decode are apart
    disaggregated: bool = False  # prefill and decode apart
    merge: str = "off"  # how chunks that wait for a slow reader are merged: see `collector`
    events: str = ""  # address at which the prefix cache's events are published
    seed: int = 0
    step_ms: float = 5.0  # what a step takes at least, as if on an accelerator
    hold: float = 2.0  # seconds for which finished requests are kept
    sockets: str = ""  # folder of the sockets; made where none is given


class Ended(Exception):
    """This process should end: it was told to, or its parent is gone."""


class Lifeline:
    """Tells a child when to end. Create it in the child's main thread."""

    def __init__(self, grace: float) -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None, "only a spawned process has a lifeline"
        self.parent = parent.sentinel
        self.told = False
        signal.signal(signal.SIGTERM, self._tell)
        self._watch = frostline.die_with_parent(grace=grace)

    def _tell(self, number: int, frame: FrameType | None) -> None:
        # A flag and no exception: one raised inside a callback or a finalizer would be lost.
        self.told = True

    @property
    def orphaned(self) -> bool:
        """Whether it ended for want of a parent, and nobody else is left to tidy up."""
        return not self.told or (self._watch is not None and self._watch.gone())

    def wait(self, poller: zmq.Poller, timeout_ms: int) -> dict[Any, int]:
        """Poll once.

        Raises:
            Ended: told to stop, or the parent is gone.
        """
        poller.register(self.parent, zmq.POLLIN)
        events: dict[Any, int] = dict(poller.poll(min(timeout_ms, POLL_MS)))
        if self.told or self.parent in events:
            raise Ended
        return events

    def check(self) -> None:
        """Raise `Ended` where there is nothing to wait for."""
        self.wait(zmq.Poller(), 0)


def sockets_folder() -> str:
    """A new private folder whose name is short enough for a Unix socket in it (107 bytes)."""
    folder = tempfile.mkdtemp(prefix="frostline-demo-")
    if len(folder) > 80:
        Path(folder).rmdir()
        folder = tempfile.mkdtemp(prefix="frostline-demo-", dir="/tmp")  # the one short path there is
    return folder


def remove_folder(folder: str) -> None:
    """Once all are connected nobody needs the sockets' names, so they go at once."""
    shutil.rmtree(folder, ignore_errors=True)


def open_socket(context: zmq.Context[S], address: str, *, bind: bool) -> S:
    """One end of a two-way line between two processes. Nothing is dropped or delayed at its end."""
    socket: S = context.socket(zmq.DEALER)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.setsockopt(zmq.RCVHWM, 0)
    if bind:
        socket.bind(address)
    else:
        socket.connect(address)
    return socket


def tell(socket: zmq.Socket[Any], packed: bytes) -> None:
    """Send, and never wait: only a peer that is gone could block, and its sentinel tells of that."""
    with contextlib.suppress(zmq.Again):
        socket.send(packed, zmq.NOBLOCK)


def spawn(target: Callable[..., None], name: str, *arguments: object) -> SpawnProcess:
    """Start a process that will end with this one."""
    for variable in _ONE_THREAD:  # more would only fight over two cores
        os.environ.setdefault(variable, "1")
    process = multiprocessing.get_context("spawn").Process(target=target, name=name, args=arguments)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return process


def stop(processes: list[SpawnProcess], grace: float) -> None:
    """End children, politely at first; ``grace`` is for all of them together."""
    deadline = time.monotonic() + grace
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
        process.kill()
        process.join()
        process.close()
