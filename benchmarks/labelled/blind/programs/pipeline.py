"""Three stages in a row with room for one item between them: pipeline.py SETTINGS [STAGE IN OUT].

A stage waits for input between its steps, and for room at the next stage inside them.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from typing import Any

from acts import Acts, Log, Steps, faults_of, now, work

import frostline

STAGES = {"source": "make", "transform": "transform", "sink": "store"}


def stage(
    settings: dict[str, Any], role: str, before: socket.socket | None, after: socket.socket | None
) -> None:
    frostline.install(role=role)
    acts = Acts(Log(settings["log"], role), settings["scratch"] + "." + role, settings["ballast"])
    steps = Steps(settings["log"], role)
    label, step = STAGES[role], -1
    if after is not None:
        after.recv(1)  # the next stage is up
    if before is not None:
        before.send(b"u")
    while step + 1 < settings["steps"]:
        for cause, ms in faults_of(settings["plan"], step + 1, "input") if role == "source" else ():
            begin, end = acts._sleep(ms)
            acts.log.fault(cause, begin, end, False, step=step)
        step += 1
        if before is not None:
            before.recv(1)
        begin = now()
        with frostline.span(label):
            if before is not None and role == "transform":
                before.send(b"k")
            work()
            if role == "transform":
                acts.breathe(settings["breath"])
            for cause, ms in faults_of(settings["plan"], step, role):
                acts.do(cause, ms, step=step)
            if after is not None:
                if step:
                    after.recv(1)
                after.send(b"i")
        steps.note(label, begin)
        if before is not None and role == "sink":
            before.send(b"k")
    steps.write()


def main() -> None:
    settings = json.loads(sys.argv[1])
    if len(sys.argv) > 2:
        fds = [int(text) for text in sys.argv[3:]]
        sockets = [socket.socket(fileno=fd) if fd >= 0 else None for fd in fds]
        stage(settings, sys.argv[2], *sockets)
        return
    first, second = socket.socketpair(), socket.socketpair()
    fds = {"transform": (first[1], second[0]), "sink": (second[1], None)}
    children = []
    for role, pair in fds.items():
        ends = [one.fileno() if one else -1 for one in pair]
        command = [sys.executable, __file__, sys.argv[1], role, *map(str, ends)]
        children.append(subprocess.Popen(command, pass_fds=[end for end in ends if end >= 0]))
    for one in (first[1], *second):
        one.close()
    stage(settings, "source", None, first[0])
    for child in children:
        if child.wait():
            raise SystemExit(child.returncode)


if __name__ == "__main__":
    main()
