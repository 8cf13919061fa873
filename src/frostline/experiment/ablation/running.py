"""One run: the server in fresh processes under ``frostline run``, the load, the end, the recording."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from frostline.errors import FrostlineError
from frostline.experiment.ablation import machine
from frostline.experiment.ablation.asking import FROSTLINE, Failed, ask, environment, last_lines, stop
from frostline.experiment.ablation.measuring import measure
from frostline.experiment.ablation.plan import Arm, Plan
from frostline.reach.leash import leashed
from frostline.reach.ready import Ready

#: The number of the block that the runs of the screening are in.
SCREEN = -1
_POLL = 0.05
#: How long a session's helper may take to write its last word, and a boundary to be told, s.
_HELPER = 20.0

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Run:
    """One run, as it stands in results.jsonl.

    Attributes:
        block: from 0; -1 is the screening. place: within it.
        attempt: from 0.
        why: why it does not count; empty for a valid run.
        metrics: by name, positive.
        roles: what the recording says of the window, by role (``measuring.Pauses``).
        missed: Python processes that were not recorded.
        memory_mib: of the server's processes together at the end of the load, shared pages once; 0 unknown.
        seconds: what the run took in all.
        load1: load average before it. others: cores that other programs used meanwhile.
    """

    block: int
    place: int
    arm: str
    attempt: int
    why: str
    metrics: dict[str, float] = field(default_factory=dict)
    roles: dict[str, dict[str, Any]] = field(default_factory=dict)
    missed: int = 0
    memory_mib: float = 0.0
    failures: int = 0
    requests: int = 0
    window_s: float = 0.0
    seconds: float = 0.0
    load1: float = 0.0
    others: float | None = None

    @property
    def valid(self) -> bool:
        return not self.why


def run_once(
    plan: Plan, arm: Arm, place: tuple[int, int, int], folder: Path, progress: Progress = print
) -> Run:
    """Makes one run in ``folder``, which is made anew. A run that fails is a result too: ``why`` says it.

    Args:
        place: block, place in it, attempt.
    """
    shutil.rmtree(folder, ignore_errors=True)  # it was interrupted
    folder.mkdir(parents=True)
    block, number, attempt = place
    load1, busy, begun = machine.load_average(), machine.Busy(), time.monotonic()
    found: dict[str, Any] = {}
    why = ""
    try:
        with _server(plan, arm, folder, progress, busy) as pid:
            progress("load")
            window, found = ask(plan, folder)
            found["memory_mib"] = machine.memory_mib(pid)
            time.sleep(plan.drain)
    except Failed as error:
        why = str(error)
    others = busy.others()
    if not why:
        progress("reading the recording")
        try:
            found |= _recorded(folder / "rec", window)
        except FrostlineError as error:
            why = f"the recording cannot be read: {error.message}"
    # The screening judges counts: that the client was late is no matter there, and a start may take minutes.
    late = found.pop("late", "") if block != SCREEN else ""
    why = why or found.pop("why", "") or late
    for other in ("why", "late"):
        found.pop(other, None)
    if not plan.keep:
        shutil.rmtree(folder / "rec", ignore_errors=True)
    took = round(time.monotonic() - begun, 2)
    return Run(block, number, arm.name, attempt, why, seconds=took, load1=load1, others=others, **found)


def _recorded(session: Path, window: tuple[int, int]) -> dict[str, Any]:
    pauses = measure(session, window)
    roles = {one.role: {k: v for k, v in asdict(one).items() if k != "role"} for one in pauses}
    if not roles:
        return {"why": "no process was recorded"}
    return {"roles": roles, "missed": _missed(session)}


def _missed(session: Path) -> int:
    """Python processes that are not in the recording, by the helper's notes."""
    seen = [one for note in _notes(session) for one in note.get("processes", ())]
    return sum(bool(one.get("python") and one.get("missed")) for one in seen)


@contextlib.contextmanager
def _server(plan: Plan, arm: Arm, folder: Path, progress: Progress, busy: machine.Busy) -> Iterator[int]:
    """The server, ready: its pid. Ended when the block ends, whatever ended it; ``busy`` is told of it."""
    _check_free(plan)
    policy = ("--policy", arm.given) if arm.policy else ()
    command = [*FROSTLINE, "run", "-o", str(folder / "rec"), *plan.options, *policy, *_ready_options(plan)]
    log = folder / "server.log"
    progress("starting the server")
    with contextlib.ExitStack() as stack:
        try:
            process = stack.enter_context(
                leashed(
                    [*command, "--", *plan.command],
                    plan.stop,
                    arm.cpus or plan.cpus,
                    stdin=subprocess.DEVNULL,
                    stdout=stack.enter_context(log.open("wb")),
                    stderr=subprocess.STDOUT,
                    env=environment(plan.env, arm.env),
                )
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise Failed(f"the server cannot be started: {error}") from error
        try:
            _await_ready(plan, process, log, folder / "rec")
            try:
                yield process.pid
            except Exception:  # not Ctrl-C; and what the load makes of a server that has ended is no cause
                _check_alive(process, log)
                raise
            _check_alive(process, log)
        finally:
            progress("ending the server")
            busy.add(stop(process, plan.stop, folder / "rec"))
            _await_helper(folder / "rec")


def _check_alive(process: subprocess.Popen[bytes], log: Path) -> None:
    if process.poll() is not None:
        raise Failed(f"the server ended with {process.returncode} under load{last_lines(log)}")


def _check_free(plan: Plan) -> None:
    """A server that was left behind would answer in this one's place."""
    ready = plan.ready["url"] if plan.ready is not None and plan.ready["kind"] == "url" else ""
    for url in {ready, plan.load.url} - {""}:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        with contextlib.suppress(OSError), socket.create_connection((parts.hostname or "", port), 2.0):
            raise Failed(f"something answers at {parts.hostname}:{port} before the server is started: end it")


def _ready_options(plan: Plan) -> list[str]:
    """Of ``run``, in every arm: what tells the boundary must not be what makes them differ."""
    if plan.ready is None:
        return []
    kind = plan.ready["kind"]
    value = {"url": "url", "log": "regex", "after": "seconds"}[kind]
    return [f"--ready-{kind}", str(plan.ready[value])]


def _await_ready(plan: Plan, process: subprocess.Popen[bytes], log: Path, session: Path) -> None:
    """Until the server is ready, and the processes have been told."""
    config = dict(plan.ready or {"kind": "after", "seconds": 0.0})
    if config["kind"] == "log":
        config["files"] = [{"path": str(log), "offset": 0}]
    until = time.monotonic() + plan.patience
    watch = Ready(config, time.monotonic())
    try:
        while watch.poll() is None:
            if process.poll() is not None:
                raise Failed(f"the server ended with {process.returncode} before it served{last_lines(log)}")
            if time.monotonic() > until:
                raise Failed(f"the server was not ready in {plan.patience:g} s{last_lines(log)}")
            time.sleep(_POLL)
    finally:
        watch.finish(1.0)
    if plan.ready is None:
        return
    until = time.monotonic() + _HELPER
    while time.monotonic() < until and process.poll() is None:
        if any((note.get("ready") or {}).get("at_ns") for note in _notes(session)):
            return
        time.sleep(_POLL)


def _notes(session: Path) -> list[dict[str, Any]]:
    found = []
    for path in session.glob("helper-*.json"):
        with contextlib.suppress(OSError, ValueError):
            found.append(json.loads(path.read_text(encoding="utf-8")))
    return found


def _await_helper(session: Path) -> None:
    until = time.monotonic() + _HELPER
    while time.monotonic() < until:
        notes = _notes(session)
        if not session.exists() or (notes and all(note.get("ended") for note in notes)):
            return
        time.sleep(_POLL)
