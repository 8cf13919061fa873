"""Some users who stream answers one after the other; when each piece of text came, on CLOCK_MONOTONIC.

    streams.py HOST PORT USERS REQUESTS SEED OUTPUT [WHOLE]

WHOLE more users ask for whole answers of 400 tokens with their log-probabilities, a quarter as many requests
in all: a front end holds all of such an answer until it is sent.

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


async def asked(host: str, port: int, body: bytes) -> tuple:
    """The streams of a connection whose answer begins, past its status line."""
    reader, writer = await asyncio.open_connection(host, port)
    head = f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
    status = await reader.readline()
    if b" 200 " not in status:
        writer.close()
        raise RuntimeError(status.decode())
    return reader, writer


async def answer(host: str, port: int, body: bytes, arrived: list) -> None:
    reader, writer = await asked(host, port, body)
    try:
        while line := await reader.readline():
            if line.startswith(b"data: [DONE]"):
                return
            if line.startswith(b"data: "):
                arrived.append(time.monotonic_ns())
        raise RuntimeError("a stream ended early")
    finally:
        writer.close()


async def whole_answer(host: str, port: int, body: bytes) -> None:
    reader, writer = await asked(host, port, body)
    try:
        await reader.read()
    finally:
        writer.close()


def bodies(chance: random.Random, requests: int, tokens: int, stream: bool) -> list:
    return [
        json.dumps(
            {
                "prompt": " ".join(str(chance.randrange(10_000)) for _ in range(20)),
                "max_tokens": tokens,
                "seed": number,
                "stream": stream,
                "logprobs": 20,
            }
        ).encode()
        for number in range(requests)
    ]


async def main(
    host: str, port: int, users: int, requests: int, seed: int, output: str, whole: int = 0
) -> None:
    chance = random.Random(seed)
    waiting = iter(bodies(chance, requests, 48, True))
    others = iter(bodies(chance, requests // 4 if whole else 0, 400, False))
    arrived: list = []

    async def user() -> None:
        for body in waiting:
            await answer(host, port, body, arrived)

    async def patient() -> None:
        for body in others:
            await whole_answer(host, port, body)

    begin = time.monotonic_ns()
    await asyncio.gather(*(user() for _ in range(users)), *(patient() for _ in range(whole)))
    with open(output, "w") as file:  # noqa: PTH123
        json.dump({"begin": begin, "end": time.monotonic_ns(), "arrived": arrived}, file)


gc.freeze()
gc.disable()
_host, _port, _users, _requests, _seed, _output, *_whole = sys.argv[1:]
asyncio.run(main(_host, int(_port), int(_users), int(_requests), int(_seed), _output, *map(int, _whole)))
