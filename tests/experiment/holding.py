"""A server for the load client that holds its answers: prints its port, then of each request when it came, ns
of CLOCK_MONOTONIC.

    holding.py [GOOD]

``go`` on its input answers those that are held and all that come; all but the first GOOD are errors (500).
Ends when its input does.
"""

import asyncio
import os
import sys
import time

good = int(sys.argv[1]) if sys.argv[1:] else sys.maxsize
came = 0


async def serve(reader, writer, go):
    global came
    try:
        while True:
            await reader.readuntil(b"\r\n\r\n")
            came += 1
            status = b"200 OK" if came <= good else b"500 Internal Server Error"
            print(time.monotonic_ns(), flush=True)
            await go.wait()
            writer.write(b"HTTP/1.1 %s\r\nContent-Length: 2\r\n\r\nok" % status)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main():
    go = asyncio.Event()
    server = await asyncio.start_server(lambda *both: serve(*both, go), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    loop = asyncio.get_running_loop()
    while (await loop.run_in_executor(None, sys.stdin.readline)).strip():
        go.set()
    os._exit(0)


asyncio.run(main())
