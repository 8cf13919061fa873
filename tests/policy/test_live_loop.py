"""A freeze that is asked for on a live event loop, and what the next idle moment gives back (C4, case 12)."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from frostline import format as layout
from frostline.reach import control
from frostline.recording.session import read_session
from tests.interpreters import Interpreter, every_interpreter
from tests.probe.target import BOOT, environment
from tests.probe.test_recorder import marks, only
from tests.reach.under_run import FROSTLINE, running, wait_for_helper
from tests.reach.under_run import environment as of_run

DEADLINE = 60.0
#: Requests that are open when the freeze comes, and the objects of each that die in cycles afterwards.
OPEN, OBJECTS = 8, 100

SERVER = """
import asyncio, gc, sys, time, weakref
import frostline
heap = [[i] for i in range(50_000)]
alive = []

class Work:
    def __init__(self):
        self.me = self
        self.parts = [[i] for i in range(OBJECTS)]

async def serve(reader, writer):
    with frostline.request():
        work = Work()
        alive.append(weakref.ref(work))
        await reader.readline()
        writer.write(b"open\\n")
        await reader.readline()
        del work
        writer.write(b"done\\n")
        writer.close()

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    clients = [await asyncio.open_connection("127.0.0.1", port) for _ in range(OPEN)]
    for reader, writer in clients:
        writer.write(b"go\\n")
        assert await reader.readline() == b"open\\n"
    loop = asyncio.get_running_loop()
    told = asyncio.Queue()
    loop.add_reader(0, lambda: told.put_nowait(sys.stdin.readline()))
    gc.collect()
    print("up", flush=True)
    if FROM_INSIDE:
        await told.get()
        assert frostline.startup_complete() == -1
        print("frozen", flush=True)
    await told.get()
    loop.remove_reader(0)
    for reader, writer in clients:
        writer.write(b"end\\n")
        assert await reader.readline() == b"done\\n"
        writer.close()
    gc.collect()
    assert len(alive) == OPEN and all(ref() is not None for ref in alive)  # frozen alive, dead since
    until = time.monotonic() + 60
    while any(ref() is not None for ref in alive):
        assert time.monotonic() < until
        await asyncio.sleep(0.01)
    server.close()
"""
RUN = {
    "asyncio": "asyncio.run(main())\n",
    "uvloop": "import uvloop\nloop = uvloop.new_event_loop()\nloop.run_until_complete(main())\n",
}


def freeze_on(executable: str, tmp_path: Path, loop: str, policy: str, inside: bool) -> None:
    text = BOOT + f"OPEN, OBJECTS, FROM_INSIDE = {OPEN}, {OBJECTS}, {inside}\n" + SERVER + RUN[loop]
    process = subprocess.Popen(
        [executable, "-c", text],
        env=environment(tmp_path / "session", FROSTLINE_POLICY=policy),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n", process.communicate()
        begun = time.monotonic_ns()
        if inside:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "frozen\n"
        else:
            (path,) = (tmp_path / "session" / "active").resolve().glob(f"*.0000{layout.SUFFIX}")
            reply = control.send(str(path), layout.OP_FREEZE, timeout=DEADLINE)
            assert reply.done and reply.result == layout.FREEZE_PUT_RIGHT
        ended = time.monotonic_ns()
        out, err = process.communicate("\n", timeout=DEADLINE * 2)
        assert (process.returncode, out, err) == (0, "", "")
    finally:
        process.kill()
        process.wait()
    series = only(read_session(tmp_path / "session").series)
    splice = marks(series, layout.MARK_FREEZE)[0]
    assert splice.flags == layout.MARK_FLAG_OURS | layout.MARK_FLAG_SPLICE
    assert begun <= splice.time <= ended and splice.values[0] == -1
    starts = series.passes["start"]
    caused = series.passes[(starts >= begun) & (starts <= ended)]
    assert len(caused) == 0, caused
    (whole, *_) = [m for m in marks(series, layout.MARK_LINE) if m.values[0] == layout.LINE_WHOLE_HEAP]
    assert whole.values[1] >= OPEN * (OBJECTS + 2)
    assert whole.time > ended


@every_interpreter
@pytest.mark.parametrize("policy", ["freeze", "follow"])
@pytest.mark.parametrize("inside", [True, False], ids=["startup_complete", "frostline freeze"])
def test_it_makes_no_pass_and_what_it_caught_is_given_back(
    interpreter: Interpreter, policy: str, inside: bool, tmp_path: Path
) -> None:
    freeze_on(interpreter.executable, tmp_path, "asyncio", policy, inside)


@pytest.mark.parametrize("inside", [True, False], ids=["startup_complete", "frostline freeze"])
def test_on_uvloop(inside: bool, tmp_path: Path) -> None:
    pytest.importorskip("uvloop")
    freeze_on(sys.executable, tmp_path, "uvloop", "freeze", inside)


# --- a real server ------------------------------------------------------------------
APP = """
import asyncio, json, socket, sys, weakref
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

sessions, made = {}, weakref.WeakSet()
heap = [[i] for i in range(30_000)]
held = None

class Session:
    def __init__(self):
        self.me = self
        self.history = [[self, i] for i in range(100)]
        made.add(self)

async def chat(request):
    for _ in range(20):
        sessions[int(request.path_params["number"]) % 50, _] = Session()
    return PlainTextResponse("ok")

async def hold(request):
    global held
    held = asyncio.Event()
    await held.wait()
    return PlainTextResponse("held")

async def release(request):
    held.set()
    return PlainTextResponse("released")

async def drop(request):
    sessions.clear()
    return PlainTextResponse("dropped")

async def state(request):
    return JSONResponse({"alive": len(made), "wanted": len(sessions), "held": held is not None})

app = Starlette(routes=[Route("/chat/{number}", chat), Route("/hold", hold), Route("/release", release),
                        Route("/drop", drop), Route("/state", state)])
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, loop="asyncio"))
asyncio.run(server.serve(sockets=[listener]))
"""
Ask = Callable[[str], Any]


@contextmanager
def serving(tmp_path: Path, policy: str) -> Iterator[tuple[int, Ask]]:
    pytest.importorskip("uvicorn")
    pytest.importorskip("starlette")
    with running(tmp_path, sys.executable, "-c", APP, options=("--policy", policy)) as process:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        assert port, process.communicate()

        def ask(path: str) -> Any:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=DEADLINE) as answer:
                body = answer.read().decode()
            return json.loads(body) if path == "state" else body

        yield process.pid, ask
        process.terminate()
        process.communicate(timeout=DEADLINE)


def settle(ask: Ask) -> dict[str, int]:
    """Looks now and then, so that there are idle moments in between, until no session is garbage."""
    until = time.monotonic() + DEADLINE
    pause = 0.3  # a moment is idle when it has lasted as long as the walk will, up to 2 s
    while True:
        seen: dict[str, int] = ask("state")
        if seen["alive"] == seen["wanted"] or time.monotonic() > until:
            return seen
        time.sleep(pause)
        pause = min(2 * pause, 2.5)


def test_follow_reclaims_long_lived_cycles_in_an_idle_moment(tmp_path: Path) -> None:
    """1,000 live sessions, replaced again and again, each long enough alive to be frozen."""
    with serving(tmp_path, "follow,thresholds=200/10/10,budget=6000") as (_, ask):
        for number in range(200):
            ask(f"chat/{number}")
        before = ask("state")
        assert before["wanted"] == 1000
        assert settle(ask) == {"alive": 1000, "wanted": 1000, "held": False}
    wait_for_helper(tmp_path / "rec")  # it moves segments until then
    read = read_session(tmp_path / "rec")
    (series,) = [one for one in read.series if marks(one, layout.MARK_LINE)]
    assert [m for m in marks(series, layout.MARK_LINE) if m.values[0] == layout.LINE_WHOLE_HEAP]


def test_a_splice_in_traffic_is_put_right_when_it_is_idle(tmp_path: Path) -> None:
    """`frostline freeze` while a request is open: what dies among the frozen is given back afterwards."""
    import threading

    with serving(tmp_path, "freeze") as (pid, ask):
        for number in range(50):
            ask(f"chat/{number}")
        holder = threading.Thread(target=ask, args=("hold",))
        holder.start()
        until = time.monotonic() + DEADLINE
        while not ask("state")["held"]:
            assert time.monotonic() < until
        done = subprocess.run(
            [*FROSTLINE, "freeze", str(pid)],
            env=of_run(tmp_path),
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        ask("drop")
        # Never idle so far: all of them are garbage that no pass of CPython's can reach.
        assert ask("state")["alive"] == 1000
        ask("release")
        holder.join(DEADLINE)
        assert settle(ask)["alive"] == 0
