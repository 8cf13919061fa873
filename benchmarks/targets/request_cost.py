"""Runs in the interpreter under test: what it costs to tell of a request, with a policy in force.

Prints one line of JSON: for each kind the nanoseconds a call, a list of rounds.
"""

import asyncio
import json
import queue
import sys
import time

import frostline
from frostline.integrations.asgi import Middleware
from frostline.integrations.patching import in_flight, in_flight_async, serving

CALLS = 20_000
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 21


def function() -> None:
    pass


async def coroutine() -> None:
    pass


async def application(scope: "dict[str, str]", receive: object, send: object) -> None:
    pass


def time_calls(call: "object") -> int:
    begun = time.thread_time_ns()
    for _ in range(CALLS):
        call()
    return time.thread_time_ns() - begun


async def time_awaits(call: "object", *args: object) -> int:
    begun = time.thread_time_ns()
    for _ in range(CALLS):
        await call(*args)
    return time.thread_time_ns() - begun


def time_gets(get: "object", tasks: "queue.SimpleQueue[int]") -> int:
    for number in range(CALLS):
        tasks.put(number)
    begun = time.thread_time_ns()
    for _ in range(CALLS):
        get()
    return time.thread_time_ns() - begun


def main() -> None:
    frostline.install(policy="follow")
    frostline.startup_complete()
    tasks: queue.SimpleQueue[int] = queue.SimpleQueue()
    told_get = serving(tasks.get, tasks)
    told_function, told_coroutine = in_flight(function), in_flight_async(coroutine)
    middleware, scope = Middleware(application), {"type": "http"}
    rounds: dict[str, list[list[float]]] = {"function": [], "coroutine": [], "middleware": [], "task": []}
    for _ in range(ROUNDS):
        for name, plain, told in (
            ("function", time_calls(function), time_calls(told_function)),
            (
                "coroutine",
                asyncio.run(time_awaits(coroutine)),
                asyncio.run(time_awaits(told_coroutine)),
            ),
            (
                "middleware",
                asyncio.run(time_awaits(application, scope, None, None)),
                asyncio.run(time_awaits(middleware, scope, None, None)),
            ),
            ("task", time_gets(tasks.get, tasks), time_gets(told_get, tasks)),
        ):
            rounds[name].append([plain / CALLS, told / CALLS])
    print(json.dumps({"rounds": rounds}))


main()
