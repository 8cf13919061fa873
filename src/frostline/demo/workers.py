"""An engine's workers as one."""

from __future__ import annotations

from multiprocessing.context import SpawnProcess
from typing import Any

import msgspec
import zmq

from frostline.demo import worker
from frostline.demo.launch import WORKER_GRACE, Lifeline, Settings, open_socket, spawn, stop, tell
from frostline.demo.names import WORKER, Place, child_name, worker_rank
from frostline.demo.protocol import Fetch, Fetched, FromWorker, StartupComplete, Step, Stop


class Workers:
    """A step goes to each worker, and is over when the last has answered.

    They run in lock-step, as tensor-parallel ranks do, so a pause in any of them is a
    pause of all. Each computes the whole result, and rank 0's is used.
    """

    def __init__(self, settings: Settings, place: Place, context: zmq.Context[Any], alive: Lifeline) -> None:
        self._settings, self._place, self._context, self._alive = settings, place, context, alive
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder: msgspec.msgpack.Decoder[FromWorker] = msgspec.msgpack.Decoder(FromWorker)
        self._poller = zmq.Poller()
        self._sockets: list[zmq.Socket[Any]] = []
        self._processes: list[SpawnProcess] = []

    def start(self) -> None:
        """Start them all; they load while this process builds its own heap."""
        for tp in range(self._settings.workers):
            address = f"ipc://{self._settings.sockets}/{self._place.socket}-worker{tp}"
            socket = open_socket(self._context, address, bind=True)
            self._poller.register(socket, zmq.POLLIN)
            self._sockets.append(socket)
            name = child_name(WORKER, worker_rank(self._settings, self._place, tp))
            process = spawn(worker.main, name, self._settings, self._place, tp, address)
            self._processes.append(process)
        self.watch(self._poller)

    def watch(self, poller: zmq.Poller) -> None:
        """Have ``poller`` wake when a worker ends."""
        for process in self._processes:
            poller.register(process.sentinel, zmq.POLLIN)

    def check(self, events: dict[Any, int]) -> None:
        """Raise RuntimeError when a worker has ended."""
        for process in self._processes:
            if process.sentinel in events:
                process.join()
                raise RuntimeError(f"{process.name} ended with {process.exitcode}")

    def gather(self) -> list[FromWorker]:
        """One message from each worker, by rank.

        Raises:
            Ended: this process should end.
            RuntimeError: a worker died.
        """
        return self._gather(self._sockets)

    def _gather(self, sockets: list[zmq.Socket[Any]]) -> list[FromWorker]:
        replies: dict[zmq.Socket[Any], FromWorker] = {}
        while len(replies) < len(sockets):
            events = self._alive.wait(self._poller, 1000)
            self.check(events)
            for socket in sockets:
                if socket in events:
                    replies[socket] = self._decoder.decode(socket.recv())
        return [replies[socket] for socket in sockets]

    def ask(self, message: Step | StartupComplete) -> list[FromWorker]:
        packed = self._encoder.encode(message)
        for socket in self._sockets:
            tell(socket, packed)
        return self.gather()

    def fetch(self, blocks: bytes, end: int) -> Fetched:
        """Keys and values of a sequence, from rank 0: every rank has the same."""
        first = self._sockets[:1]
        tell(first[0], self._encoder.encode(Fetch(blocks, end)))
        (fetched,) = self._gather(first)
        assert isinstance(fetched, Fetched)
        return fetched

    def stop(self) -> None:
        for socket in self._sockets:
            tell(socket, self._encoder.encode(Stop()))
        stop(self._processes, WORKER_GRACE)
        for socket in self._sockets:
            socket.close()
