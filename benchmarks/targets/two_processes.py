"""A small server of two processes: a front end that speaks HTTP, and an engine that serves by steps (C5).

    two_processes.py PORT ENGINE FRONT      serve; objects of the two heaps at the end of start-up
    two_processes.py --calibrate MS         print how many objects a full pass of MS milliseconds walks

The engine serves at most BATCH requests in a step of STEP seconds, as if on an accelerator: 333 a second at
most. Each request leaves objects in both processes that live for a while and are then dropped in bulk, as
the state of finished requests is: they die by reference count, and the collector counts them all the same.
So a stock engine makes one full pass after the other under load, the more the higher the rate, and each
takes capacity away. A request whose client has left is taken out of the queue. GET /health answers when both
are ready.
"""

import asyncio
import gc
import multiprocessing
import random
import signal
import struct
import sys
import time

import frostline

STEP, BATCH = 0.006, 2
#: Tracked objects that a request leaves in the engine, and in the front end.
ENGINE_EACH, FRONT_EACH = 1_200, 150
#: So many are held before they are dropped.
HELD = 40_000
ID = struct.Struct("<q")


def grow(kept, objects):
    """Lists that refer to each other out of order, as in a graph or a vocabulary."""
    chance = random.Random(len(kept))
    kept.append([0])
    for number in range(objects - 1):
        kept.append([number, kept[chance.randrange(len(kept))]])


class Held:
    """What requests leave behind."""

    def __init__(self, each):
        self.each = each
        self.states = []

    def add(self):
        self.states.append([[number] for number in range(self.each)])
        if len(self.states) * self.each >= HELD:
            self.states.clear()


def engine(pipe, objects):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it ends with its pipe
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    frostline.install(role="Engine")
    kept = []
    grow(kept, objects)
    held = Held(ENGINE_EACH)
    frostline.startup_complete()
    waiting = {}
    try:
        pipe.send_bytes(ID.pack(len(kept)))
        while True:
            while pipe.poll(0 if waiting else None):
                (number,) = ID.unpack(pipe.recv_bytes())
                if number > 0:
                    waiting[number] = None
                else:
                    waiting.pop(-number, None)
            with frostline.span("engine step", batch=min(BATCH, len(waiting))):
                until = time.monotonic() + STEP
                chosen = [number for number, _ in zip(waiting, range(BATCH))]  # noqa: B905
                for number in chosen:
                    del waiting[number]
                    held.add()
                time.sleep(max(0.0, until - time.monotonic()))
            pipe.send_bytes(b"".join(map(ID.pack, chosen)))
    except (EOFError, OSError):
        frostline.shutdown(collect=False)  # the front end has gone


class Front:
    def __init__(self, pipe):
        self.pipe = pipe
        self.numbers = 0
        self.asked = {}
        self.held = Held(FRONT_EACH)

    def ask(self, connection):
        self.numbers += 1
        self.asked[self.numbers] = connection
        self.pipe.send_bytes(ID.pack(self.numbers))
        return self.numbers

    def forget(self, number):
        if self.asked.pop(number, None) is not None:
            self.pipe.send_bytes(ID.pack(-number))

    def answered(self):
        for (number,) in ID.iter_unpack(self.pipe.recv_bytes()):
            connection = self.asked.pop(number, None)
            if connection is not None:
                self.held.add()
                connection.answer()


class Connection(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self, front):
        self.front = front
        self.transport = None
        self.buffer = b""
        self.number = 0

    def connection_made(self, transport):
        self.transport = transport

    def connection_lost(self, error):
        self.front.forget(self.number)

    def data_received(self, data):
        self.buffer += data
        head, end, rest = self.buffer.partition(b"\r\n\r\n")
        if not end:
            return
        self.buffer = rest
        if head.startswith(b"GET /health"):
            self.answer()
        else:
            self.number = self.front.ask(self)

    def answer(self):
        self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


async def serve(port, pipe):
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    front = Front(pipe)
    loop.add_reader(pipe.fileno(), front.answered)
    server = await loop.create_server(lambda: Connection(front), "127.0.0.1", port, backlog=4096)
    await stopped.wait()
    loop.remove_reader(pipe.fileno())
    server.close()


def main(port, engine_objects, front_objects):
    frostline.install(role="Front")
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    child = multiprocessing.get_context("spawn").Process(
        target=engine, args=(theirs, engine_objects), name="Engine"
    )
    child.start()
    theirs.close()
    kept = []
    grow(kept, front_objects)
    ours.recv_bytes()  # the engine is ready
    frostline.startup_complete()
    try:
        asyncio.run(serve(port, ours))
    finally:
        ours.close()
        child.join(10)
        child.kill()
        child.join()
        frostline.shutdown(collect=False)


def calibrate(milliseconds):
    """The smallest heap, by hundreds of thousands, of which a full pass takes so long."""
    kept = []
    while True:
        grow(kept, 100_000)
        took = []
        for _ in range(2):
            begun = time.perf_counter()
            gc.collect()
            took.append(time.perf_counter() - begun)
        if min(took) * 1e3 >= milliseconds:
            return len(kept)


if __name__ == "__main__":
    if sys.argv[1] == "--calibrate":
        print(calibrate(float(sys.argv[2])))
    else:
        main(*map(int, sys.argv[1:]))
