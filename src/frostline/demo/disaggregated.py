"""Prefill and decode apart: one engine computes prompts, another goes on from there.

The front end gives requests to the prefill side, which hands each over with the keys and values of its prompt
and its first token. All that concerns a request takes one way, from the front end by the prefill side to the
decode side: so an abort cannot overtake what it is to stop.

They have a `run` of their own, as such processes do. That is the trap of A6: a `run` that did all by itself
would serve just as well, nobody would notice that no policy is in force, and a list of processes to be looked
after would not name it. `frostline check` finds a `run` that never calls its base's; a twin of this file
that has that fault is kept among the tests.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
import zmq

from frostline.demo.engine import WARM_UP, EngineProcess
from frostline.demo.launch import Settings, open_socket, tell
from frostline.demo.names import Place
from frostline.demo.protocol import Abort, FromDecode, Loaded, Output, Outputs, Taken, ToDecode, Transfer

M = TypeVar("M", Loaded, Taken, Transfer)


class _Side(EngineProcess):
    """What both have: the line between them. It is open before `run` begins, so that they find each other."""

    def __init__(self, settings: Settings, place: Place, address: str) -> None:
        super().__init__(settings, place, address)
        self._lines: zmq.Context[Any] = zmq.Context()
        name = f"ipc://{settings.sockets}/transfer{place.dp}"
        self.line = open_socket(self._lines, name, bind=place.kind == "prefill")
        self._read: msgspec.msgpack.Decoder[FromDecode | ToDecode] = msgspec.msgpack.Decoder(
            FromDecode if place.kind == "prefill" else ToDecode
        )

    def run(self) -> None:
        try:
            super().run()  # without it all would seem well: the trap
        finally:
            self.line.close()
            self._lines.term()

    def watch(self, poller: zmq.Poller) -> None:
        super().watch(poller)
        poller.register(self.line, zmq.POLLIN)

    def receive(self) -> FromDecode | ToDecode:
        return self._read.decode(self.line.recv())

    def wait_for(self, kind: type[M]) -> M:
        """The message of the other side that start-up cannot go on without."""
        poller = zmq.Poller()
        poller.register(self.line, zmq.POLLIN)
        self.workers.watch(poller)
        while True:
            events = self.alive.wait(poller, 1000)
            self.workers.check(events)
            if self.line in events:
                message = self.receive()
                assert isinstance(message, kind), message
                return message


class PrefillProcess(_Side):
    """Computes prompts and the first token of each answer, and hands over."""

    def start_up(self) -> None:
        """The way to the other side is warm, too, before either is READY (A8)."""
        super().start_up()
        self.wait_for(Loaded)
        self.engine.scheduler.add(WARM_UP)
        while self.engine.scheduler.busy:
            self.hand_out(self.engine.step())
        self.wait_for(Taken)

    def hand_out(self, outputs: Outputs) -> None:
        """Answers of one token are over here; the others go to the decode side."""
        ended = [output for output in outputs.items if output.finish is not None]
        super().hand_out(Outputs(ended))
        for output in outputs.items:
            if output.finish is None:
                self._hand_over(output)

    def _hand_over(self, output: Output) -> None:
        scheduler = self.engine.scheduler
        sequence = scheduler.running[output.sampled.sequence]
        # Those of the first token itself are computed where it is needed: by whoever goes on.
        fetched = self.workers.fetch(sequence.table(), len(sequence.tokens) - 1)
        transfer = Transfer(sequence.submit, output.sampled, output.cached, fetched.keys, fetched.values)
        tell(self.line, self.encode(transfer))
        scheduler.abort(sequence.submit.request)

    def abort(self, message: Abort) -> None:
        super().abort(message)
        tell(self.line, self.encode(message))  # behind the transfer, if it was handed over


class DecodeProcess(_Side):
    """Goes on with what the prefill side has begun, and streams all of it to the front end."""

    def start_up(self) -> None:
        super().start_up()
        tell(self.line, self.encode(Loaded()))
        self.engine.scheduler.take_over(self.wait_for(Transfer))
        while self.engine.scheduler.busy:
            self.engine.step()
        tell(self.line, self.encode(Taken()))

    def take_in(self, events: dict[Any, int]) -> None:
        super().take_in(events)
        while self.line in events and self.line.poll(0):
            message = self.receive()
            if isinstance(message, Abort):
                self.abort(message)
                continue
            assert isinstance(message, Transfer), message
            self.engine.scheduler.take_over(message)
            # At once, and on the line on which the others follow: in order.
            self.hand_out(Outputs([Output(message.first, None, message.cached)]))


def prefill(settings: Settings, place: Place, address: str) -> None:
    """Entry point of the spawned process."""
    PrefillProcess(settings, place, address).run()


def decode(settings: Settings, place: Place, address: str) -> None:
    """Entry point of the spawned process."""
    DecodeProcess(settings, place, address).run()
