"""A worker: the model's forward pass, one step at a time."""

from __future__ import annotations

import os
import time
from typing import Any

import msgspec
import numpy as np
import zmq

import frostline
from frostline.demo import heap
from frostline.demo.launch import WORKER_GRACE, Ended, Lifeline, Settings, open_socket, remove_folder, tell
from frostline.demo.model import Integers, Rows, Transformer, choose
from frostline.demo.names import WORKER, Place, log_names, worker_rank
from frostline.demo.protocol import (
    Fetch,
    Fetched,
    FromWorker,
    Loaded,
    ProcessReady,
    Sampled,
    StartupComplete,
    StartupDone,
    Step,
    StepDone,
    Stop,
    ToWorker,
)


class Worker:
    """Answers the engine's messages, one reply each."""

    def __init__(self, settings: Settings, rank: int | str, alive: Lifeline) -> None:
        self.rank = rank
        self.step_seconds = settings.step_ms / 1e3
        self.model = Transformer(settings.seed)
        self.ballast = heap.fill("Worker", settings.scale, alive.check)
        # What was sampled for each sequence, as penalties and seeded replays need it. It is
        # dropped in bulk when the engine releases sequences: long after the young generations
        # have passed it on, so it counts towards the next full pass although it is no garbage.
        self.history: dict[int, list[Sampled]] = {}

    def answer(self, message: ToWorker) -> FromWorker:
        if isinstance(message, Step):
            with frostline.span("execute model"):
                return self.step(message)
        if isinstance(message, Fetch):
            return Fetched(*self.model.cache.read(_table(message.blocks), message.end))
        assert isinstance(message, StartupComplete)
        tracked = heap.tracked()
        frozen = frostline.startup_complete()
        process = ProcessReady(WORKER, self.rank, os.getpid(), tracked, frozen)
        return StartupDone(process, frostline.process_name())

    def step(self, step: Step) -> StepDone:
        for sequence in step.released:
            self.history.pop(sequence, None)
        for fill in step.fills:
            self.model.cache.write(_table(fill.blocks), fill.start, fill.end, fill.keys, fill.values)
        batch = [
            Rows(
                np.frombuffer(piece.tokens, np.intc).astype(np.int64),
                piece.start,
                _table(piece.blocks),
            )
            for piece in step.pieces
        ]
        begun = time.monotonic()
        logits = self.model.forward(batch) if batch else ()  # empty: for the other ranks' sake
        # The accelerator that is not there: the processor waits for it, idle, as it would.
        time.sleep(max(0.0, begun + self.step_seconds - time.monotonic()))
        chosen = []
        for row, (piece, rows) in enumerate(zip(step.pieces, batch, strict=True)):
            if piece.sampling is not None:
                sampled = choose(logits[row], piece.sequence, rows.end, piece.sampling)
                self.history.setdefault(piece.sequence, []).append(sampled)
                chosen.append(sampled)
        return StepDone(chosen)


def _table(packed: bytes) -> Integers:
    return np.frombuffer(packed, np.int64)


def main(settings: Settings, place: Place, tp: int, address: str) -> None:
    """Entry point of the spawned process."""
    rank = worker_rank(settings, place, tp)
    frostline.install(role=WORKER, rank=rank)
    frostline.set_title()
    log_names()
    alive = Lifeline(WORKER_GRACE)
    context: zmq.Context[Any] = zmq.Context()
    engine = open_socket(context, address, bind=False)
    try:
        worker = Worker(settings, rank, alive)
        encoder = msgspec.msgpack.Encoder()
        decoder: msgspec.msgpack.Decoder[ToWorker] = msgspec.msgpack.Decoder(ToWorker)
        tell(engine, encoder.encode(Loaded()))
        poller = zmq.Poller()
        poller.register(engine, zmq.POLLIN)
        while True:
            if engine not in alive.wait(poller, 1000):
                continue
            message = decoder.decode(engine.recv())
            if isinstance(message, Stop):
                break
            tell(engine, encoder.encode(worker.answer(message)))
    except Ended:
        if alive.orphaned:
            remove_folder(settings.sockets)
    finally:
        engine.close()
        context.term()
        frostline.shutdown(collect=False)  # the process ends: nothing is left to collect for
