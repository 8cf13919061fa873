"""The front end's process: HTTP to the outside, messages to the engine core."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType

import msgspec
import uvicorn
import zmq.asyncio

import frostline
from frostline.demo import engine, heap
from frostline.demo.app import build_app
from frostline.demo.launch import (
    ENGINE_GRACE,
    Settings,
    open_socket,
    remove_folder,
    sockets_folder,
    spawn,
    stop,
)
from frostline.demo.protocol import (
    Abort,
    FromEngine,
    Output,
    ProcessReady,
    Ready,
    Sampled,
    Sampling,
    Submit,
    Tokens,
)


class Stream:
    """The outputs of one request as they arrive."""

    def __init__(self, client: EngineClient, number: int) -> None:
        self.number = number
        self._client = client
        self._queue: asyncio.Queue[Output | None] = asyncio.Queue()
        self._samples: list[Sampled] = []
        self._finished = False

    def put(self, output: Output | None) -> None:
        """The next output; None when there will be no more."""
        self._queue.put_nowait(output)

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> Output:
        output = None if self._finished else await self._queue.get()
        if output is None:
            self._finished = True
            raise StopAsyncIteration
        self._samples.append(output.sampled)
        self._finished = output.finish is not None
        return output

    def close(self) -> None:
        """The request is over: by its last token, or since the client has left."""
        self._client.forget(self.number, self._samples, aborted=not self._finished)


class EngineClient:
    """The front end's view of the engine core. Lives in the event loop."""

    def __init__(self, line: zmq.asyncio.Socket, settings: Settings) -> None:
        self.status = "starting"  # then "ready", then "stopping" or "failed"
        self.processes: list[ProcessReady] = []
        self._line = line
        self._settings = settings
        self._hold_ns = int(settings.hold * 1e9)
        self._encode = msgspec.msgpack.Encoder().encode
        self._streams: dict[int, Stream] = {}
        self._numbers = 0
        # What was answered is kept until it has been written to the usage log, in bulk.
        self._answered: deque[tuple[int, list[Sampled]]] = deque()
        self._next_sweep = 0

    def submit(self, prompt: Tokens, limit: int, sampling: Sampling) -> Stream:
        self._numbers += 1
        stream = self._streams[self._numbers] = Stream(self, self._numbers)
        self._send(Submit(self._numbers, prompt.tobytes(), limit, sampling))
        return stream

    def forget(self, number: int, samples: list[Sampled], *, aborted: bool) -> None:
        if self._streams.pop(number, None) is None:
            return
        if aborted and self.status == "ready":
            self._send(Abort(number))
        now = time.monotonic_ns()
        self._answered.append((now, samples))
        if now >= self._next_sweep:
            self._next_sweep = now + self._hold_ns
            while self._answered and self._answered[0][0] < now - self._hold_ns:
                self._answered.popleft()

    def _send(self, message: Submit | Abort) -> None:
        # Never waits: the line has no limit, so the future is done when send() returns.
        self._line.send(self._encode(message))

    async def run(self) -> None:
        """Take in what the engine says, for as long as this process lives."""
        decoder: msgspec.msgpack.Decoder[FromEngine] = msgspec.msgpack.Decoder(FromEngine)
        while True:
            message = decoder.decode(await self._line.recv())
            if isinstance(message, Ready):
                self._ready(message)
                continue
            for output in message.items:
                stream = self._streams.get(output.sampled.sequence)
                if stream is not None:
                    stream.put(output)

    def _ready(self, message: Ready) -> None:
        remove_folder(self._settings.sockets)  # all are connected
        # No request has been admitted yet, so nothing in flight can become permanent (A8).
        tracked = heap.tracked()
        frozen = frostline.startup_complete()
        self.processes = [ProcessReady("APIServer", 0, os.getpid(), tracked, frozen), *message.processes]
        self.status = "ready"
        for one in self.processes:
            held = "not frozen" if one.frozen is None else f"{one.frozen:,} frozen"
            print(f"{one.role} {one.rank} (pid {one.pid}): {one.tracked:,} tracked, {held}", flush=True)

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


async def _serve(client: EngineClient, listener: socket.socket, engine_sentinel: int, tethered: bool) -> bool:
    """Serve until told to stop; False when the engine died."""
    loop = asyncio.get_running_loop()
    config = uvicorn.Config(
        build_app(client), log_level="warning", access_log=False, lifespan="off",
        timeout_graceful_shutdown=3,
    )  # fmt: skip
    server = _Server(config)

    def ask_to_stop() -> None:
        server.force_exit = server.should_exit  # the second time at once
        server.should_exit = True
        client.end("stopping")

    def engine_ended() -> None:
        loop.remove_reader(engine_sentinel)
        server.should_exit = True
        client.end("failed")

    def tether_cut() -> None:
        if not os.read(0, 4096):
            loop.remove_reader(0)
            ask_to_stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ask_to_stop)
    loop.add_reader(engine_sentinel, engine_ended)
    if tethered:
        loop.add_reader(0, tether_cut)
    messages = asyncio.create_task(client.run())
    try:
        await server.serve(sockets=[listener])
    finally:
        messages.cancel()
        loop.remove_reader(engine_sentinel)
        loop.remove_reader(0)
    return client.status != "failed"


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
    signal.signal(signal.SIGTERM, _interrupted)
    child = None
    folder = settings.sockets or sockets_folder()
    try:
        settings = replace(settings, sockets=folder)
        listener = socket.create_server((host, port))
        url = f"http://{host}:{listener.getsockname()[1]}"
        context = zmq.asyncio.Context()
        address = f"ipc://{folder}/engine"
        line = open_socket(context, address, bind=True)
        child = spawn(engine.main, "EngineCore", settings, address)
        print(f"{url} is starting (a stand-in for an LLM server: its model is random numbers)", flush=True)
        if announce is not None:
            _write(announce, url)
        ballast = heap.fill("APIServer", settings.scale)
        client = EngineClient(line, settings)
        fine = asyncio.run(_serve(client, listener, child.sentinel, tethered))
        del ballast
        return 0 if fine else 1
    except KeyboardInterrupt:
        return 0
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if child is not None:
            stop([child], ENGINE_GRACE)
        remove_folder(folder)
        frostline.shutdown(collect=False)  # the process ends: nothing is left to collect for


def _write(path: Path, text: str) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(text)
    part.replace(path)
