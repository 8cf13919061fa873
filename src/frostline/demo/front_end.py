"""The front end's process: HTTP to the outside, messages to the engine core."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import FrameType

import msgspec
import uvicorn
import zmq.asyncio

import frostline
from frostline.demo import disaggregated, engine, heap
from frostline.demo.app import build_app
from frostline.demo.collector import MERGES, Chunk
from frostline.demo.launch import (
    ENGINE_GRACE,
    Settings,
    open_socket,
    remove_folder,
    sockets_folder,
    spawn,
    stop,
)
from frostline.demo.names import ENGINE, Place, child_name, engine_rank, log_names, places
from frostline.demo.protocol import (
    Abort,
    FromEngine,
    Output,
    ProcessReady,
    Ready,
    Sampled,
    Sampling,
    Submit,
)
from frostline.demo.tokenizer import decode
from frostline.demo.tokens import Tokens, from_json

_log = logging.getLogger(__name__)


class Stream:
    """What one request is answered, as it arrives."""

    def __init__(self, client: EngineClient, number: int, engine: int, merge: str) -> None:
        self.number = number
        self.engine = engine  # the number of the one that has the request
        self._client = client
        self._waits = MERGES[merge]()
        self._samples: list[Sampled] = []
        self._finished = False

    def put(self, output: Output | None) -> None:
        """The next output; None when there will be no more."""
        if output is None:
            self._waits.end()
            return
        sampled = output.sampled
        self._waits.put(
            {
                "ids": from_json([sampled.token]),
                "text": decode(sampled.token),
                "samples": [sampled],
                "finish": output.finish,
                "cached": output.cached,
            }
        )

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> Chunk:
        chunk = None if self._finished else await self._waits.get()
        if chunk is None:
            self._finished = True
            raise StopAsyncIteration
        self._samples.extend(chunk["samples"])
        self._finished = chunk["finish"] is not None
        return chunk

    def close(self) -> None:
        """The request is over: by its last token, or since the client has left."""
        self._client.forget(self, self._samples, aborted=not self._finished)


class EngineClient:
    """The front end's view of the engine cores. Lives in the event loop.

    Args:
        lines: one to each engine, in the order of `names.places`.
    """

    def __init__(self, lines: list[zmq.asyncio.Socket], settings: Settings) -> None:
        self.status = "starting"  # then "ready", then "stopping" or "failed"
        self.processes: list[ProcessReady] = []
        self.names: list[str] = []
        self._lines = lines
        self._settings = settings
        self._hold_ns = int(settings.hold * 1e9)
        self._encode = msgspec.msgpack.Encoder().encode
        self._streams: dict[int, Stream] = {}
        self._open = [0] * settings.data_parallel  # requests that each of those has that take them
        self._numbers = 0
        self._ready: dict[int, Ready] = {}
        # What was answered is kept until it has been written to the usage log, in bulk.
        self._answered: deque[tuple[int, list[Sampled]]] = deque()
        self._next_sweep = 0

    def submit(self, prompt: Tokens, limit: int, sampling: Sampling) -> Stream:
        """Gives the request to the engine that has the fewest."""
        self._numbers += 1
        engine = self._open.index(min(self._open))
        self._open[engine] += 1
        stream = self._streams[self._numbers] = Stream(self, self._numbers, engine, self._settings.merge)
        self._send(engine, Submit(self._numbers, prompt.tobytes(), limit, sampling))
        return stream

    def forget(self, stream: Stream, samples: list[Sampled], *, aborted: bool) -> None:
        if self._streams.pop(stream.number, None) is None:
            return
        self._open[stream.engine] -= 1
        if aborted and self.status == "ready":
            self._send(stream.engine, Abort(stream.number))
        now = time.monotonic_ns()
        self._answered.append((now, samples))
        if now >= self._next_sweep:
            self._next_sweep = now + self._hold_ns
            while self._answered and self._answered[0][0] < now - self._hold_ns:
                self._answered.popleft()

    def _send(self, engine: int, message: Submit | Abort) -> None:
        # Never waits: the line has no limit, so the future is done when send() returns.
        self._lines[engine].send(self._encode(message))

    async def run(self) -> None:
        """Take in what the engines say, for as long as this process lives."""
        await asyncio.gather(*(self._listen(number) for number in range(len(self._lines))))

    async def _listen(self, engine: int) -> None:
        decoder: msgspec.msgpack.Decoder[FromEngine] = msgspec.msgpack.Decoder(FromEngine)
        while True:
            message = decoder.decode(await self._lines[engine].recv())
            if isinstance(message, Ready):
                self._ready[engine] = message
                if len(self._ready) == len(self._lines):
                    self._startup_complete()
                continue
            for output in message.items:
                stream = self._streams.get(output.sampled.sequence)
                if stream is not None:
                    stream.put(output)

    def _startup_complete(self) -> None:
        """Every engine is READY, and this process is the last."""
        remove_folder(self._settings.sockets)  # all are connected
        # No request has been admitted yet, so nothing in flight can become permanent (A8).
        tracked = heap.tracked()
        frozen = frostline.startup_complete()
        self.processes = [ProcessReady("APIServer", 0, os.getpid(), tracked, frozen)]
        self.names = [frostline.process_name()]
        for _, ready in sorted(self._ready.items()):
            self.processes += ready.processes
            self.names += ready.names
        self.status = "ready"
        for name, one in zip(self.names, self.processes, strict=True):
            held = "not frozen" if one.frozen is None else f"{one.frozen:,} frozen"
            print(f"{name}: {one.tracked:,} tracked, {held}", flush=True)

    def end(self, status: str) -> None:
        """No more outputs will come: let every request end."""
        self.status = status
        for stream in self._streams.values():
            stream.put(None)


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # ours are installed below, and do not raise a second time afterwards


def _interrupted(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


async def _serve(
    client: EngineClient, listener: socket.socket, engines: list[SpawnProcess], tethered: bool
) -> bool:
    """Serve until told to stop; False when an engine died."""
    loop = asyncio.get_running_loop()
    config = uvicorn.Config(
        build_app(client), log_config=None, log_level="warning", access_log=False, lifespan="off",
        timeout_graceful_shutdown=3,
    )  # fmt: skip
    server = _Server(config)

    def ask_to_stop() -> None:
        server.force_exit = server.should_exit  # the second time at once
        server.should_exit = True
        client.end("stopping")

    def engine_ended(child: SpawnProcess) -> None:
        loop.remove_reader(child.sentinel)
        if client.status in ("starting", "ready"):  # else it ends since we do, or another did
            child.join()
            _log.error("%s ended with %s, so the server ends", child.name, child.exitcode)
        server.should_exit = True
        client.end("failed")

    def messages_ended(task: asyncio.Task[None]) -> None:
        problem = None if task.cancelled() else task.exception()
        if problem is not None:  # a chunk that is refused is no reason to let every client wait for ever
            _log.error("what an engine said was refused, so the server ends", exc_info=problem)
            server.should_exit = True
            client.end("failed")

    def tether_cut() -> None:
        if not os.read(0, 4096):
            loop.remove_reader(0)
            ask_to_stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ask_to_stop)
    for child in engines:
        loop.add_reader(child.sentinel, engine_ended, child)
    if tethered:
        loop.add_reader(0, tether_cut)
    messages = asyncio.create_task(client.run())
    messages.add_done_callback(messages_ended)
    try:
        await server.serve(sockets=[listener])
    finally:
        messages.cancel()
        for child in engines:
            loop.remove_reader(child.sentinel)
        loop.remove_reader(0)
    return client.status != "failed"


def _start(settings: Settings, place: Place, address: str) -> SpawnProcess:
    name = child_name(ENGINE, engine_rank(settings, place))
    if place.kind == "prefill":
        return spawn(disaggregated.prefill, name, settings, place, address)
    if place.kind == "decode":
        return spawn(disaggregated.decode, name, settings, place, address)
    return spawn(engine.main, name, settings, place, address)


def serve(
    settings: Settings,
    host: str = "127.0.0.1",
    port: int = 0,
    announce: Path | None = None,
    tethered: bool = False,
) -> int:
    """Run the whole server in this process and its children.

    Args:
        port: 0 lets the kernel choose.
        announce: file to write the address to, once the port is bound.
        tethered: end when the standard input ends: whoever holds the other end is gone.

    Returns:
        The exit code: 0 when it was told to stop, 1 when a process of it died.
    """
    frostline.install(role="APIServer")
    frostline.set_title()
    log_names()
    signal.signal(signal.SIGTERM, _interrupted)
    engines: list[SpawnProcess] = []
    folder = settings.sockets or sockets_folder()
    try:
        settings = replace(settings, sockets=folder)
        listener = socket.create_server((host, port))
        url = f"http://{host}:{listener.getsockname()[1]}"
        context = zmq.asyncio.Context()
        lines = []
        for place in places(settings):
            address = f"ipc://{folder}/{place.socket}"
            lines.append(open_socket(context, address, bind=True))
            engines.append(_start(settings, place, address))
        print(f"{url} is starting (a stand-in for an LLM server: its model is random numbers)", flush=True)
        if announce is not None:
            _write(announce, url)
        ballast = heap.fill("APIServer", settings.scale)
        client = EngineClient(lines, settings)
        fine = asyncio.run(_serve(client, listener, engines, tethered))
        del ballast
        return 0 if fine else 1
    except KeyboardInterrupt:
        return 0
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        stop(engines, ENGINE_GRACE)
        remove_folder(folder)
        frostline.shutdown(collect=False)  # the process ends: nothing is left to collect for


def _write(path: Path, text: str) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(text)
    part.replace(path)
