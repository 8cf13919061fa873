"""An HTTP server whose loop stands still for 300 ms every 5 s. At its end it prints when, ns of
CLOCK_MONOTONIC."""

import asyncio
import json
import sys
import time

STALL, EVERY = 0.3, 5.0
stalls = []


async def serve(reader, writer):
    try:
        while True:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def stall():
    while True:
        await asyncio.sleep(EVERY)
        begun = time.monotonic_ns()
        time.sleep(STALL)
        stalls.append((begun, time.monotonic_ns()))


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    task = asyncio.create_task(stall())
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    task.cancel()
    print(json.dumps(stalls), flush=True)


asyncio.run(main())
