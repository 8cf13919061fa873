"""The engine core: admits requests, decides each step, has the workers compute it."""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec
import zmq

import frostline
from frostline.demo import heap
from frostline.demo.blocks import BlockPool
from frostline.demo.events import Publisher, address_of
from frostline.demo.launch import (
    ENGINE_GRACE,
    Ended,
    Lifeline,
    Settings,
    open_socket,
    remove_folder,
    tell,
)
from frostline.demo.lockstep import Lockstep
from frostline.demo.names import ENGINE, Place, child_name, engine_rank, log_names, places
from frostline.demo.protocol import (
    Abort,
    Outputs,
    ProcessReady,
    Ready,
    Sampling,
    StartupComplete,
    StartupDone,
    Step,
    StepDone,
    Submit,
    ToEngine,
)
from frostline.demo.scheduler import Scheduler, Sequence
from frostline.demo.workers import Workers

#: Blocks in the pool at scale 1, each a real object: the number of the report that `heap` goes by (A2).
BLOCKS = 94_763
#: Request of the warm-up, whose number no client can have.
WARM_UP = Submit(-1, bytes(4 * 64), 4, Sampling(0.0, 0, 0))


class Engine:
    """The state between two steps."""

    def __init__(
        self, settings: Settings, workers: Workers, alive: Lifeline, publisher: Publisher | None = None
    ) -> None:
        self.workers = workers
        self._publisher = publisher
        pool = BlockPool(max(1024, int(BLOCKS * settings.scale)), listener=publisher)
        self.scheduler = Scheduler(pool)
        self.ballast = heap.fill(ENGINE, settings.scale, alive.check)
        self._hold_ns = int(settings.hold * 1e9)
        # Finished requests stay known for a while, as a late abort or a transfer of their
        # blocks to another instance needs it, and are then dropped in bulk.
        self._held: deque[tuple[int, Sequence]] = deque()
        self._released: list[int] = []
        self._next_sweep = 0

    def warm_up(self) -> None:
        """One request through everything, as a real engine captures its graphs."""
        self.workers.gather()  # each says that it has loaded
        self.scheduler.add(WARM_UP)
        while self.scheduler.busy:
            self.step()

    def startup_complete(self, rank: int | str) -> Ready:
        """The end of start-up, in every worker and here, before anyone is told READY (A8)."""
        processes, names = [], []
        for reply in self.workers.ask(StartupComplete()):
            assert isinstance(reply, StartupDone)
            processes.append(reply.process)
            names.append(reply.name)
        tracked = heap.tracked()
        frozen = frostline.startup_complete()
        process = ProcessReady(ENGINE, rank, os.getpid(), tracked, frozen)
        return Ready([process, *processes], [frostline.process_name(), *names])

    def step(self) -> Outputs:
        """One step of every running sequence; of none, where only other ranks have work."""
        pieces = self.scheduler.schedule()
        fills, self.scheduler.fills = self.scheduler.fills, []
        released, self._released = self._released, []
        replies = self.workers.ask(Step(pieces, released, fills))
        first = replies[0]
        assert isinstance(first, StepDone)
        outputs = self.scheduler.update(pieces, first.items)
        self._sweep()
        if self._publisher is not None:
            self._publisher.flush()
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


class EngineProcess:
    """What every process with an engine does, whatever its kind.

    The order of start-up stands here once: the policy at the beginning, and READY only when `start_up` has
    ended, a subclass's too, and the heap is frozen (A8). A subclass adds to these methods and calls the
    base's, `run` above all: one that does not serves as well as any, and no policy is in force in it (A6).
    """

    def __init__(self, settings: Settings, place: Place, address: str) -> None:
        self.settings, self.place, self._address = settings, place, address
        self.rank = engine_rank(settings, place)

    def run(self) -> None:
        """The whole life of the process."""
        frostline.install(role=ENGINE, rank=self.rank)
        frostline.set_title()
        log_names()
        self.alive = Lifeline(ENGINE_GRACE)
        with contextlib.ExitStack() as closing:
            closing.callback(frostline.shutdown, collect=False)  # the process ends: nothing to collect for
            try:
                self.build(closing)
                self.start_up()
                tell(self.socket, self.encode(self.engine.startup_complete(self.rank)))
                self.serve()
            except Ended:
                if self.alive.orphaned:
                    remove_folder(self.settings.sockets)

    def build(self, closing: contextlib.ExitStack) -> None:
        """Lines to the others, the workers, the engine's heap."""
        settings, place = self.settings, self.place
        self.encode = msgspec.msgpack.Encoder().encode
        self._decoder: msgspec.msgpack.Decoder[ToEngine] = msgspec.msgpack.Decoder(ToEngine)
        context: zmq.Context[Any] = zmq.Context()
        closing.callback(context.term)
        self.socket = open_socket(context, self._address, bind=False)
        closing.callback(self.socket.close)
        self.lockstep = Lockstep(settings, place, context, self.alive)
        closing.callback(self.lockstep.close)
        self.workers = Workers(settings, place, context, self.alive)
        closing.callback(self.workers.stop)
        self.workers.start()
        publisher = None
        if settings.events:
            address = address_of(settings.events, places(settings).index(place))
            publisher = Publisher(context, address, child_name(ENGINE, self.rank))
            closing.callback(publisher.close)
        self.engine = Engine(settings, self.workers, self.alive, publisher)

    def start_up(self) -> None:
        """What has to be done before READY. A subclass's part comes after the base's."""
        self.engine.warm_up()
        self.lockstep.join()

    def watch(self, poller: zmq.Poller) -> None:
        """Have ``poller`` wake for whatever this process has to look at."""
        poller.register(self.socket, zmq.POLLIN)
        self.lockstep.watch(poller)
        self.workers.watch(poller)

    def serve(self) -> None:
        """Answer requests until told to end."""
        poller = zmq.Poller()
        self.watch(poller)
        together = False  # whether other ranks do steps
        while True:
            busy = self.engine.scheduler.busy or together or self.lockstep.called
            events = self.alive.wait(poller, 0 if busy else 1000)
            self.workers.check(events)
            self.take_in(events)
            self.lockstep.read(events)
            busy = self.engine.scheduler.busy
            if self.lockstep.others and (busy or together or self.lockstep.called):
                with frostline.span("lock-step"):
                    busy = together = self.lockstep.meet(busy)
            if busy:
                with frostline.span("engine step"):
                    outputs = self.engine.step()
                self.hand_out(outputs)

    def take_in(self, events: dict[Any, int]) -> None:
        """Read what the front end has sent."""
        for message in self._messages(events):
            if isinstance(message, Abort):
                self.abort(message)
            else:
                self.engine.scheduler.add(message)

    def _messages(self, events: dict[Any, int]) -> Iterator[ToEngine]:
        while self.socket in events:
            try:
                yield self._decoder.decode(self.socket.recv(zmq.NOBLOCK))
            except zmq.Again:
                return

    def abort(self, message: Abort) -> None:
        self.engine.scheduler.abort(message.request)

    def hand_out(self, outputs: Outputs) -> None:
        """Send what a step has produced to where it goes."""
        if outputs.items:
            tell(self.socket, self.encode(outputs))


def main(settings: Settings, place: Place, address: str) -> None:
    """Entry point of the spawned process."""
    EngineProcess(settings, place, address).run()
