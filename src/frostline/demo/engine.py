"""The engine core: admits requests, decides each step, has the workers compute it."""

from __future__ import annotations

import os
import time
from collections import deque
from multiprocessing.context import SpawnProcess
from typing import Any

import msgspec
import zmq

import frostline
from frostline.demo import heap, worker
from frostline.demo.blocks import BlockPool
from frostline.demo.launch import (
    ENGINE_GRACE,
    WORKER_GRACE,
    Ended,
    Lifeline,
    Settings,
    open_socket,
    remove_folder,
    spawn,
    stop,
    tell,
)
from frostline.demo.protocol import (
    Abort,
    FromWorker,
    Outputs,
    ProcessReady,
    Ready,
    Sampling,
    StartupComplete,
    StartupDone,
    Step,
    StepDone,
    Stop,
    Submit,
    ToEngine,
)
from frostline.demo.scheduler import Scheduler, Sequence

#: Blocks in the pool at scale 1: most of the engine core's heap.
BLOCKS = 500_000
#: Request number of the warm-up, which no client can have.
_WARM_UP = -1


class Workers:
    """The workers as one: a step goes to each, and is over when the last has answered.

    They run in lockstep, as tensor-parallel ranks do, so a pause in any of them is a
    pause of all. Each computes the whole result, and rank 0's is used.
    """

    def __init__(self, settings: Settings, context: zmq.Context[Any], alive: Lifeline) -> None:
        self._settings, self._context, self._alive = settings, context, alive
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder: msgspec.msgpack.Decoder[FromWorker] = msgspec.msgpack.Decoder(FromWorker)
        self._poller = zmq.Poller()
        self._sockets: list[zmq.Socket[Any]] = []
        self._processes: list[SpawnProcess] = []

    def start(self) -> None:
        """Start them all; they load while this process builds its own heap."""
        for rank in range(self._settings.workers):
            address = f"ipc://{self._settings.sockets}/worker{rank}"
            socket = open_socket(self._context, address, bind=True)
            self._poller.register(socket, zmq.POLLIN)
            self._sockets.append(socket)
            process = spawn(worker.main, f"Worker {rank}", self._settings, rank, address)
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
        replies: dict[zmq.Socket[Any], FromWorker] = {}
        while len(replies) < len(self._sockets):
            events = self._alive.wait(self._poller, 1000)
            self.check(events)
            for socket in self._sockets:
                if socket in events:
                    replies[socket] = self._decoder.decode(socket.recv())
        return [replies[socket] for socket in self._sockets]

    def ask(self, message: Step | StartupComplete) -> list[FromWorker]:
        packed = self._encoder.encode(message)
        for socket in self._sockets:
            tell(socket, packed)
        return self.gather()

    def stop(self) -> None:
        for socket in self._sockets:
            tell(socket, self._encoder.encode(Stop()))
        stop(self._processes, WORKER_GRACE)
        for socket in self._sockets:
            socket.close()


class Engine:
    """The state between two steps."""

    def __init__(self, settings: Settings, workers: Workers, alive: Lifeline) -> None:
        self.workers = workers
        self.scheduler = Scheduler(BlockPool(max(1024, int(BLOCKS * settings.scale))))
        self.ballast = heap.fill("EngineCore", settings.scale, alive.check)
        self._hold_ns = int(settings.hold * 1e9)
        # Finished requests stay known for a while, as a late abort or a transfer of their
        # blocks to another instance needs it, and are then dropped in bulk.
        self._held: deque[tuple[int, Sequence]] = deque()
        self._released: list[int] = []
        self._next_sweep = 0

    def warm_up(self) -> None:
        """One request through everything, as a real engine captures its graphs."""
        self.workers.gather()  # each says that it has loaded
        tokens = bytes(4 * 64)
        self.scheduler.add(Submit(_WARM_UP, tokens, 4, Sampling(0.0, 0, 0)))
        while self.scheduler.busy:
            self.step()

    def startup_complete(self) -> Ready:
        """The end of start-up, in every worker and here, before anyone is told READY (A8)."""
        ready = []
        for reply in self.workers.ask(StartupComplete()):
            assert isinstance(reply, StartupDone)
            ready.append(reply.process)
        tracked = heap.tracked()
        frozen = frostline.startup_complete()
        return Ready([ProcessReady("EngineCore", 0, os.getpid(), tracked, frozen), *ready])

    def step(self) -> Outputs:
        pieces = self.scheduler.schedule()
        released, self._released = self._released, []
        replies = self.workers.ask(Step(pieces, released))
        first = replies[0]
        assert isinstance(first, StepDone)
        outputs = self.scheduler.update(pieces, first.items)
        self._sweep()
        return Outputs(outputs)

    def _sweep(self) -> None:
        now = time.monotonic_ns()
        self._held.extend((now, sequence) for sequence in self.scheduler.finished)
        self.scheduler.finished.clear()
        if now < self._next_sweep:
            return
        self._next_sweep = now + self._hold_ns
        while self._held and self._held[0][0] < now - self._hold_ns:
            self._released.append(self._held.popleft()[1].submit.request)


def _serve(engine: Engine, socket: zmq.Socket[Any], alive: Lifeline) -> None:
    encoder = msgspec.msgpack.Encoder()
    decoder: msgspec.msgpack.Decoder[ToEngine] = msgspec.msgpack.Decoder(ToEngine)
    engine.warm_up()
    tell(socket, encoder.encode(engine.startup_complete()))
    poller = zmq.Poller()
    poller.register(socket, zmq.POLLIN)
    engine.workers.watch(poller)
    while True:
        events = alive.wait(poller, 0 if engine.scheduler.busy else 1000)
        engine.workers.check(events)
        while socket in events:
            try:
                message = decoder.decode(socket.recv(zmq.NOBLOCK))
            except zmq.Again:
                break
            if isinstance(message, Abort):
                engine.scheduler.abort(message.request)
            else:
                engine.scheduler.add(message)
        if engine.scheduler.busy:
            with frostline.span("engine step"):
                outputs = engine.step()
            if outputs.items:
                tell(socket, encoder.encode(outputs))


def main(settings: Settings, address: str) -> None:
    """Entry point of the spawned process."""
    frostline.install(role="EngineCore", rank=0)
    frostline.set_title()
    alive = Lifeline(ENGINE_GRACE)
    context: zmq.Context[Any] = zmq.Context()
    socket = open_socket(context, address, bind=False)
    workers = Workers(settings, context, alive)
    try:
        workers.start()
        _serve(Engine(settings, workers, alive), socket, alive)
    except Ended:
        if alive.orphaned:
            remove_folder(settings.sockets)
    finally:
        workers.stop()
        socket.close()
        context.term()
        frostline.shutdown(collect=False)  # the process ends: nothing is left to collect for
