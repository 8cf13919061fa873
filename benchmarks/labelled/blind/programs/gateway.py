"""A front end of coroutines that asks one of two model processes: gateway.py SETTINGS [ROLE].

Arrivals are planned (Poisson) and not held up by answers. The models serve one request after the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
import subprocess
import sys
from typing import Any

from acts import Acts, Log, Steps, faults_of, now, work

import frostline

ROUTES = ("chat", "embed")


def model(settings: dict[str, Any], role: str) -> None:
    """Serves lines from descriptor 0 until it closes."""
    frostline.install(role=role)
    acts = Acts(Log(settings["log"], role), settings["scratch"] + "." + role, settings["ballast"])
    steps = Steps(settings["log"], role)
    line = socket.socket(fileno=0)
    # One object for both ways would drop lines read ahead at each write.
    with line.makefile("r") as questions, line.makefile("w") as answers:
        answers.write("ready\n")
        answers.flush()
        for text in questions:
            step = int(text)
            begin = now()
            with frostline.span("infer " + role):
                work()
                if role == "chat":
                    acts.breathe(settings["breath"])
                for cause, ms in faults_of(settings["plan"], step, role):
                    acts.do(cause, ms, step=step)
            steps.note("infer " + role, begin)
            answers.write(f"{step}\n")
            answers.flush()
    steps.write()


class Route:
    """The line to one model, and who waits for an answer."""

    def __init__(self, settings: str, role: str) -> None:
        self.role = role
        self._ours, theirs = socket.socketpair()
        self.child = subprocess.Popen([sys.executable, __file__, settings, role], stdin=theirs)
        theirs.close()
        self.waiting: dict[int, asyncio.Future[None]] = {}

    async def connect(self) -> None:
        self._reader, self.writer = await asyncio.open_connection(sock=self._ours)
        await self._reader.readline()
        self._task = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        while text := await self._reader.readline():
            self.waiting.pop(int(text)).set_result(None)

    async def ask(self, step: int) -> asyncio.Future[None]:
        self.waiting[step] = asyncio.get_running_loop().create_future()
        self.writer.write(f"{step}\n".encode())
        return self.waiting[step]


async def serve(settings: dict[str, Any]) -> None:
    role, plan, chance = "gateway", settings["plan"], random.Random(settings["seed"])
    acts = Acts(Log(settings["log"], role), settings["scratch"], settings["ballast"])
    steps = Steps(settings["log"], role)
    routes = {name: Route(sys.argv[1], name) for name in ROUTES}
    for route in routes.values():
        await route.connect()

    async def one(step: int, route: Route) -> None:
        begin = now()
        with frostline.span("ask " + route.role):
            answer = await route.ask(step)
            work(500)
            for cause, ms in faults_of(plan, step, role):
                acts.do(cause, ms, step=step, route=route.role)
            await answer
        steps.note("ask " + route.role, begin)

    tasks: set[asyncio.Task[None]] = set()
    for step in range(settings["steps"]):
        await asyncio.sleep(chance.expovariate(1 / settings["apart"]))
        wanted = plan.get(str(step), {}).get("role")
        task = asyncio.create_task(one(step, routes[wanted if wanted in ROUTES else chance.choice(ROUTES)]))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    for route in routes.values():
        route.writer.write_eof()
        await asyncio.to_thread(route.child.wait)
        with contextlib.suppress(ConnectionError):
            route.writer.close()
    steps.write()


def main() -> None:
    settings = json.loads(sys.argv[1])
    if len(sys.argv) > 2:
        model(settings, sys.argv[2])
    else:
        frostline.install(role="gateway")
        asyncio.run(serve(settings))


if __name__ == "__main__":
    main()
