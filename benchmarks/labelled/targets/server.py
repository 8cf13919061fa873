"""A small server of four processes, one of which has nothing to do with the others.

    server.py ROLE SETTINGS CONTROL_FD [UP_FD] [DOWN_FD]

front -> engine -> worker, and back: each waits for the next with a step of its own open. The bystander does
steps of its own, and collects at random moments, which it writes down. SETTINGS is JSON: ``plan`` (role ->
step -> fault), ``log``, ``scratch``, ``steps``, ``ballast`` (ms), ``seed``, ``every`` (s between the
bystander's passes, on average).
"""

import gc
import json
import random
import socket
import struct
import sys
import time

import faults

import frostline

#: What a step takes by itself.
WORK = 0.002
LABELS = {"front": "ask", "engine": "engine step", "worker": "execute", "bystander": "other"}
_NUMBER = struct.Struct("<q")
END = -1


def line(fd: str) -> socket.socket:
    return socket.socket(fileno=int(fd))


def get(peer: socket.socket) -> int:
    data = peer.recv(_NUMBER.size)
    return _NUMBER.unpack(data)[0] if data else END


def put(peer: socket.socket, number: int) -> None:
    peer.send(_NUMBER.pack(number))


def front(settings: dict, made: faults.Faults, down: socket.socket) -> None:
    for step in range(settings["steps"]):
        made.before(step)
        with frostline.span(LABELS["front"]):
            made.inside(step)
            put(down, step)
            if get(down) == END:
                return
        made.between(step)
        time.sleep(WORK / 2)
    put(down, END)


def engine(settings: dict, made: faults.Faults, up: socket.socket, down: socket.socket) -> None:
    while (step := get(up)) != END:
        made.before(step)
        with frostline.span(LABELS["engine"]):
            made.inside(step)
            put(down, step)
            if get(down) == END:
                return
        made.between(step)
        put(up, step)
    put(down, END)


def worker(settings: dict, made: faults.Faults, up: socket.socket) -> None:
    while (step := get(up)) != END:
        made.before(step)
        with frostline.span(LABELS["worker"]):
            made.inside(step)
            time.sleep(WORK)
        made.between(step)
        put(up, step)


def bystander(settings: dict, made: faults.Faults, control: socket.socket) -> None:
    chance = random.Random(settings["seed"])
    control.setblocking(False)
    due = time.monotonic() + chance.expovariate(1 / settings["every"])
    while True:
        with frostline.span(LABELS["bystander"]):
            time.sleep(WORK)
        try:
            control.recv(100)  # a word, or the end of whoever started this
            return
        except BlockingIOError:
            pass
        if time.monotonic() >= due:
            begin = time.monotonic_ns()
            gc.collect()
            made.write("pass of a bystander", "bystander", begin, time.monotonic_ns())
            due = time.monotonic() + chance.expovariate(1 / settings["every"])


def main(role: str, text: str, control_fd: str, *fds: str) -> None:
    settings = json.loads(text)
    frostline.install(role=role)
    control = line(control_fd)
    plan = settings["plan"].get(role, {})
    made = faults.Faults(role, plan, settings["log"], control, settings["scratch"], settings["ballast"])
    control.send(b"ready")
    if role == "bystander":
        bystander(settings, made, control)
        return
    control.recv(100)
    {"front": front, "engine": engine, "worker": worker}[role](settings, made, *map(line, fds))


if __name__ == "__main__":
    main(*sys.argv[1:])
