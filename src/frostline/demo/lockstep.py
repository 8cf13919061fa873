"""Data-parallel engines in lock-step.

The ranks of a mixture of experts exchange tokens within each layer, so none can do a step alone: whoever has
work calls the others, and one without work computes an empty batch. The price is that every rank waits for
the slowest: a pass that stops one of them stops all, and only in the report of the one can it be seen.

A round: whoever has work comes to rank 0, which calls the ranks that have not come, waits for the last, and
lets all go. Rounds are numbered, since a call may cross with one who comes by himself.
"""

from __future__ import annotations

from typing import Any

import msgspec
import zmq

from frostline.demo.launch import Lifeline, Settings, open_socket, tell
from frostline.demo.names import Place
from frostline.demo.protocol import Arrived, Come, Go, ToRank


class Lockstep:
    """One rank's part in it. Nothing of it is used by an engine that is alone."""

    def __init__(self, settings: Settings, place: Place, context: zmq.Context[Any], alive: Lifeline) -> None:
        self.round = 0
        self.others = settings.data_parallel - 1
        self._alive = alive
        self._first = place.dp == 0
        self._encode = msgspec.msgpack.Encoder().encode
        self._called = 0  # the latest round that another rank has asked for
        self._arrived: dict[zmq.Socket[Any], bool] = {}  # rank 0: who has come to the next round
        self._go: Go | None = None
        self._poller = zmq.Poller()
        self._lines: list[zmq.Socket[Any]] = []
        base = f"ipc://{settings.sockets}/{place.kind or 'engine'}-rank"
        if self.others:
            for dp in range(1, settings.data_parallel) if self._first else [place.dp]:
                line = open_socket(context, f"{base}{dp}", bind=self._first)
                self._lines.append(line)
                self._poller.register(line, zmq.POLLIN)

    def watch(self, poller: zmq.Poller) -> None:
        """Have ``poller`` wake when another rank calls."""
        for line in self._lines:
            poller.register(line, zmq.POLLIN)

    @property
    def called(self) -> bool:
        """Another rank has work: `meet`, whether or not there is any here."""
        return self._called > self.round

    def join(self) -> None:
        """At start-up: wait until all ranks are there. Each comes by himself: a call needs a connection."""
        if self.others:
            self._meet(False, call=False)

    def meet(self, busy: bool) -> bool:
        """Wait for every rank.

        Returns whether any of them has work: then each does a step, and comes again.

        Raises:
            Ended: this process should end.
        """
        return self._meet(busy, call=True) if self.others else busy

    def _meet(self, busy: bool, call: bool) -> bool:
        self.round += 1
        if not self._first:
            self._tell(self._lines[0], Arrived(self.round, busy))
            while self._go is None or self._go.round < self.round:
                self.read(self._alive.wait(self._poller, 1000))
            return self._go.busy
        for line in self._lines:
            if call and line not in self._arrived:
                self._tell(line, Come(self.round))
        while len(self._arrived) < len(self._lines):
            self.read(self._alive.wait(self._poller, 1000))
        any_busy = busy or any(self._arrived.values())
        self._arrived.clear()  # before the next round can begin
        for line in self._lines:
            self._tell(line, Go(self.round, any_busy))
        return any_busy

    def read(self, events: dict[Any, int]) -> None:
        """Take in what the other ranks say."""
        for line in self._lines:
            if line not in events:
                continue
            packed = line.recv()
            if self._first:
                arrived = msgspec.msgpack.decode(packed, type=Arrived)
                self._arrived[line] = arrived.busy
                self._called = max(self._called, arrived.round)
                continue
            message = msgspec.msgpack.decode(packed, type=ToRank)
            if isinstance(message, Go):
                self._go = message
            else:
                self._called = max(self._called, message.round)

    def _tell(self, line: zmq.Socket[Any], message: Come | Arrived | Go) -> None:
        tell(line, self._encode(message))

    def close(self) -> None:
        for line in self._lines:
            line.close()
