"""Some users who stream answers one after the other; when each piece of text came, on CLOCK_MONOTONIC.

    streams.py HOST PORT USERS REQUESTS SEED OUTPUT

A fixed amount of work, not of time: what a server allocates for it does not depend on how long it took.
Its own collector is frozen and off. This is no measurement of latency: users wait for each other's
answers here. It shows when nothing came for anybody.
"""

import asyncio
import gc
import json
import random
import sys
import time


async def answer(host: str, port: int, body: bytes, arrived: list) -> None:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        head = f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
        status = await reader.readline()
        if b" 200 " not in status:
            raise RuntimeError(status.decode())
        while line := await reader.readline():
            if line.startswith(b"data: [DONE]"):
                return
            if line.startswith(b"data: "):
                arrived.append(time.monotonic_ns())
        raise RuntimeError("a stream ended early")
    finally:
        writer.close()


async def main(host: str, port: int, users: int, requests: int, seed: int, output: str) -> None:
    chance = random.Random(seed)
    bodies = [
        json.dumps(
            {
                "prompt": " ".join(str(chance.randrange(10_000)) for _ in range(20)),
                "max_tokens": 48,
                "seed": number,
                "stream": True,
                "logprobs": 20,
            }
        ).encode()
        for number in range(requests)
    ]
    waiting = iter(bodies)
    arrived: list = []

    async def user() -> None:
        for body in waiting:
            await answer(host, port, body, arrived)

    begin = time.monotonic_ns()
    await asyncio.gather(*(user() for _ in range(users)))
    with open(output, "w") as file:  # noqa: PTH123
        json.dump({"begin": begin, "end": time.monotonic_ns(), "arrived": arrived}, file)


gc.freeze()
gc.disable()
_host, _port, _users, _requests, _seed, _output = sys.argv[1:]
asyncio.run(main(_host, int(_port), int(_users), int(_requests), int(_seed), _output))
