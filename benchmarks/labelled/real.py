"""Labelled stalls of real processes: the small server of ``targets/server.py`` with faults put into it."""

from __future__ import annotations

import contextlib
import json
import os
import random
import selectors
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import environment
from benchmarks.labelled.truth import Labelled, Stall, write_truth

TARGETS = Path(__file__).parent / "targets"
LABELS = {"front": "ask", "engine": "engine step", "worker": "execute", "bystander": "other"}
#: Who waits for whom: each for the one after it.
PATH = ("front", "engine", "worker")
#: Faults of a process that stand still by themselves, as often as each other.
ALONE = (
    "another tool's callback", "lock", "disk", "sleep", "blocking call", "page faults", "long C call",
    "C call in another thread", "off the processor", "neighbour on the core",
)  # fmt: skip
COLLECTOR = ("automatic full pass", "explicit gc.collect()", "young pass")
#: Steps before the first fault, so that the medians are those of normal steps.
FIRST = 60
#: Of the passes of a process that others wait for, and that others are fed by, so many are looked at
#: in the one that is fed.
GAPS = 0.25
#: Steps from one fault to the next: at least, at most.
APART = (12, 24)
#: ms that a fault is asked to take.
LENGTHS = (60, 160)
#: ms. What was meant as a stall and was over sooner is not one, and is left out.
SHORT = 40
NEIGHBOURS = 5
#: Seconds after which a server is taken to hang.
LIMIT = 300.0

Plan = dict[str, dict[str, dict[str, Any]]]
Tell = Callable[[str], None]


def plan_faults(
    seed: int,
    faults: int,
    collector: float = 0.5,
    roles: Sequence[str] = PATH,
    alone: Sequence[str] = ALONE,
    collector_kinds: Sequence[str] = COLLECTOR,
    gap_kinds: Sequence[str] = COLLECTOR[:2],
) -> tuple[Plan, int]:
    """(role -> step -> fault, steps in all).

    ``collector`` is the share of the faults that are passes. Each fault has one victim whose step, or
    gap, is to be looked at, so that one accident is one entry of the labelled set. ``roles`` are those
    that have steps, each waiting for the one after it; ``gap_kinds`` the causes that may be looked at in
    who is fed by it.
    """
    chance = random.Random(seed)
    plan: Plan = {role: {} for role in roles}
    rest = (*alone, "no requests") if "front" in roles else tuple(alone)
    kinds: list[str] = []
    for number in range(faults):
        some = tuple(collector_kinds) if number < faults * collector else rest
        kinds.append(some[number % len(some)])
    chance.shuffle(kinds)
    step = FIRST
    for cause in kinds:
        role = "front" if cause == "no requests" else chance.choice(roles)
        place = roles.index(role)
        victim = chance.choice(roles[: place + 1])
        last = place + 1 == len(roles)
        gap = chance.random() < GAPS
        if cause == "young pass":
            victim = role  # what it will walk is built before the step: others wait for that, too
        elif cause == "no requests" or (cause in gap_kinds and not last and gap):
            victim = f"gap of {roles[place + 1]}"  # who is not asked for anything is idle
        plan[role][str(step)] = {"cause": cause, "ms": chance.uniform(*LENGTHS), "victim": victim}
        step += chance.randint(*APART)
    return plan, step + 40


@contextlib.contextmanager
def _neighbours(python: str, many: int) -> Iterator[Callable[[int, float], None]]:
    """Processes that use a processor up on demand: told (cpu, ms)."""
    command = [python, "-S", str(TARGETS / "neighbour.py")]
    started = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment())
        for _ in range(many)
    ]

    def tell(cpu: int, ms: float) -> None:
        until = time.monotonic_ns() + int(ms * 1e6)
        for one in started:
            assert one.stdin is not None
            one.stdin.write(f"{cpu} {until}\n")
            one.stdin.flush()

    try:
        for one in started:
            assert one.stdout is not None
            one.stdout.readline()
        yield tell
    finally:
        for one in started:
            one.kill()
            one.communicate()


class Server:
    """The four processes, and their lines to this one."""

    def __init__(self, python: str, folder: Path, settings: dict[str, Any]) -> None:
        self.folder, self.session = folder, folder / "rec"
        self.pids: dict[str, int] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._lines: dict[str, socket.socket] = {}
        ends = {role: socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for role in PATH[1:]}
        self._errors = (folder / "log").open("wb")
        for role in LABELS:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._lines[role] = ours
            mine = [theirs]
            mine += [ends[role][1]] if role in ends else []
            after = PATH[PATH.index(role) + 1 :][:1] if role in PATH else ()
            mine += [ends[one][0] for one in after]
            fds = [one.fileno() for one in mine]
            self._processes[role] = subprocess.Popen(
                [python, str(TARGETS / "server.py"), role, json.dumps(settings), *map(str, fds)],
                pass_fds=fds,
                env=environment(FROSTLINE_OUTPUT=str(self.session)),
                stderr=self._errors,
            )
            self.pids[role] = self._processes[role].pid
            theirs.close()
        for pair in ends.values():
            for one in pair:
                one.close()

    def run(self, neighbour: Callable[[int, float], None], done: Callable[[], None]) -> None:
        """Lets them serve, and does what their faults ask for from outside, until the front end is through.

        Raises:
            RuntimeError: one of them failed, or they hang.
        """
        for line in self._lines.values():
            line.settimeout(LIMIT)
            if line.recv(100) != b"ready":
                raise RuntimeError(f"a process did not come up: {self.complaint()}")
        for role in PATH:
            self._lines[role].send(b"go")
        until = time.monotonic() + LIMIT
        with selectors.DefaultSelector() as asked:
            for role in PATH:
                asked.register(self._lines[role], selectors.EVENT_READ)
            while asked.get_map():
                for key, _ in asked.select(0.5):
                    message = self._lines_recv(key.fileobj)
                    if not message:
                        asked.unregister(key.fileobj)
                        continue
                    key.fileobj.send(json.dumps(self._do(json.loads(message), neighbour)).encode())  # type: ignore[union-attr]
                done()
                if time.monotonic() > until:
                    raise RuntimeError(f"the server hangs: {self.complaint()}")
        self._lines["bystander"].send(b"end")
        for role, process in self._processes.items():
            if process.wait(60):
                raise RuntimeError(f"{role} ended with {process.returncode}: {self.complaint()}")

    @staticmethod
    def _lines_recv(line: Any) -> bytes:
        try:
            return bytes(line.recv(1000))
        except ConnectionError:
            return b""

    @staticmethod
    def _do(asked: list[Any], neighbour: Callable[[int, float], None]) -> tuple[int, int]:
        what, pid, ms, cpu = asked
        begin = time.monotonic_ns()
        if what == "neighbour":
            neighbour(cpu, ms)
        else:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(ms / 1e3)
            os.kill(pid, signal.SIGCONT)
        return begin, time.monotonic_ns()

    def complaint(self) -> str:
        return (self.folder / "log").read_text(errors="replace").strip()[-1500:]

    def end(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()
        for line in self._lines.values():
            line.close()
        self._errors.close()


def truth_of(log: Path, pids: dict[str, int], labels: dict[str, str] = LABELS) -> tuple[list[Stall], int]:
    """(the stalls that the faults wrote down, how many were too short to be stalls)."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    passes = [(one["begin"], one["end"]) for one in lines if one["role"] == "bystander"]
    made = [one for one in lines if one["role"] != "bystander"]
    long = [one for one in made if one["end"] - one["begin"] >= SHORT * 1_000_000]
    return [_stall(one, pids, labels, passes) for one in long], len(made) - len(long)


def _stall(
    one: dict[str, Any], pids: dict[str, int], labels: dict[str, str], passes: list[tuple[int, int]]
) -> Stall:
    begin, end, role = one["begin"], one["end"], one["role"]
    victim = one["victim"].removeprefix("gap of ")
    gap = victim != one["victim"]
    beside = 2 * sum(max(0, min(end, stop) - max(begin, start)) for start, stop in passes) >= end - begin
    words = one["cause"]
    if one["collector"] and victim != role:
        words += ", who is fed by it idles" if gap else ", another waits"
    elif not one["collector"] and beside:
        words = "anything, beside a bystander's pass"
    return Stall(
        cause=words,
        victim=pids[victim],
        label="" if gap else labels[victim],
        begin=begin,
        end=end,
        culprit=pids[role] if one["collector"] else 0,
        coincides=(pids["bystander"],) if beside else (),
    )


@contextlib.contextmanager
def served(
    python: str, folder: Path, seed: int, faults: int, ballast: float = 60.0, tell: Tell = lambda text: None
) -> Iterator[Labelled]:  # fmt: skip
    """One run of the server, recorded, with its truth beside it; the live folder goes at the end.

    Args:
        python: an interpreter with Frostline's hook.
        ballast: ms that a full pass of each process takes.
        tell: told how far it is, now and then.
    """
    folder.mkdir(parents=True)
    plan, steps = plan_faults(seed, faults)
    truth = folder / "faults.jsonl"
    with tempfile.TemporaryDirectory(prefix="frostline-labelled-") as scratch:
        settings = {
            "plan": plan, "log": str(truth), "scratch": f"{scratch}/file", "steps": steps, "ballast": ballast,
            "seed": seed, "every": 0.35,
        }  # fmt: skip
        told = time.monotonic()

        def done() -> None:
            nonlocal told
            if time.monotonic() - told > 5:
                told = time.monotonic()
                many = sum('"bystander"' not in line for line in truth.read_text().splitlines())
                tell(f"{many} of {faults} faults")

        try:
            with _neighbours(python, NEIGHBOURS) as neighbour:
                server = Server(python, folder, settings)
                try:
                    server.run(neighbour, done)
                finally:
                    server.end()
            stalls, short = truth_of(truth, server.pids)
            if short:
                tell(f"{short} faults were over within {SHORT} ms and are left out")
            write_truth(folder / "truth.jsonl", stalls)
            yield Labelled("small server", server.session, tuple(stalls))
        finally:
            forget(folder / "rec")


def forget(session: Path) -> None:
    """Removes what a session still has on tmpfs."""
    active = session / "active"
    if active.is_symlink() and active.readlink().name.startswith("frostline-"):
        shutil.rmtree(active.readlink(), ignore_errors=True)
