"""One run: the server in fresh processes under ``frostline run``, the load, the end, the recording."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from frostline.errors import FrostlineError
from frostline.experiment.ablation import machine
from frostline.experiment.ablation.measuring import measure
from frostline.experiment.ablation.plan import Arm, Plan
from frostline.reach.leash import leashed
from frostline.reach.ready import Ready

_FROSTLINE = (sys.executable, "-m", "frostline.commands.main")
_POLL = 0.05
#: How long a session's helper may take to write its last word, and a boundary to be told, s.
_HELPER = 20.0
#: What `frostline load` may take beyond its plan: deadlines, and its own start.
_LOAD_GRACE = 180.0
#: From SIGTERM to SIGKILL of a load, s.
_LOAD_STOP = 5.0

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


class _Failed(Exception):
    """The run is no run: what became of it."""


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
        with _server(plan, arm, folder, progress) as pid:
            progress("load")
            window, found = _load(plan, folder)
            found["memory_mib"] = machine.memory_mib(pid)
            time.sleep(plan.drain)
    except _Failed as error:
        why = str(error)
    others = busy.others()
    if not why:
        progress("reading the recording")
        try:
            found |= _recorded(folder / "rec", window)
        except FrostlineError as error:
            why = f"the recording cannot be read: {error.message}"
    why = why or found.pop("why", "")
    found.pop("why", None)
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


def environment(*more: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Ours without settings of Frostline's: an arm is what the plan says."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("FROSTLINE_")}
    for one in more:
        kept.update(one)
    return kept


@contextlib.contextmanager
def _server(plan: Plan, arm: Arm, folder: Path, progress: Progress) -> Iterator[int]:
    """The server, ready: its pid. Ended when the block ends, whatever ended it."""
    _check_free(plan)
    policy = ("--policy", arm.given) if arm.policy else ()
    command = [*_FROSTLINE, "run", "-o", str(folder / "rec"), *plan.options, *policy, *_ready_options(plan)]
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
            raise _Failed(f"the server cannot be started: {error}") from error
        try:
            _await_ready(plan, process, log, folder / "rec")
            try:
                yield process.pid
            finally:
                if process.poll() is not None:  # what the load makes of that is not the cause
                    raise _Failed(f"the server ended with {process.returncode} under load{last_lines(log)}")
        finally:
            _stop(process, plan.stop)
            _await_helper(folder / "rec")


def _check_free(plan: Plan) -> None:
    """A server that was left behind would answer in this one's place."""
    ready = plan.ready["url"] if plan.ready is not None and plan.ready["kind"] == "url" else ""
    for url in {ready, plan.load.url} - {""}:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        with contextlib.suppress(OSError), socket.create_connection((parts.hostname or "", port), 2.0):
            raise _Failed(
                f"something answers at {parts.hostname}:{port} before the server is started: end it"
            )


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
                raise _Failed(f"the server ended with {process.returncode} before it served{last_lines(log)}")
            if time.monotonic() > until:
                raise _Failed(f"the server was not ready in {plan.patience:g} s{last_lines(log)}")
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


def _stop(process: subprocess.Popen[bytes], patience: float) -> None:
    """As an operator would; then harder, and its group with it."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _await_helper(session: Path) -> None:
    until = time.monotonic() + _HELPER
    while time.monotonic() < until:
        notes = _notes(session)
        if not session.exists() or (notes and all(note.get("ended") for note in notes)):
            return
        time.sleep(_POLL)


def last_lines(log: Path) -> str:
    """The end of what a program said, to stand behind what became of it."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-3:]
    except OSError:
        return ""
    return "".join(f"\n    {line[:300]}" for line in lines)


def _load(plan: Plan, folder: Path) -> tuple[tuple[int, int], dict[str, Any]]:
    """Asks the server. The window in ns of CLOCK_MONOTONIC, and what the load says of it."""
    return _own(plan, folder) if plan.load.url else _theirs(plan, folder)


def _call(command: list[str] | str, plan: Plan, folder: Path, more: tuple[tuple[str, str], ...] = ()) -> str:
    log = folder / "load.log"
    limit = plan.warmup + plan.window + max(_LOAD_GRACE, plan.patience)
    words = ["/bin/sh", "-c", command] if isinstance(command, str) else command
    with (
        log.open("wb") as errors,
        leashed(
            words,
            _LOAD_STOP,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment(more),
        ) as process,
    ):
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            raise _Failed(f"the load had not ended after {limit:.0f} s") from None
        finally:
            _stop(process, _LOAD_STOP)
    text = output.decode("utf-8", "replace")
    (folder / "load.out").write_text(text, encoding="utf-8")
    # 1 is what `frostline load` ends with where it was late: it says so in its answer.
    if process.returncode not in ((0,) if isinstance(command, str) else (0, 1)):
        raise _Failed(f"the load ended with {process.returncode}{last_lines(log)}")
    return text


def _own(plan: Plan, folder: Path) -> tuple[tuple[int, int], dict[str, Any]]:
    """``frostline load``: the same seed, so the same plan of requests, in every run."""
    requests = folder / "requests.jsonl"
    text = _call(
        [*_FROSTLINE, "load", plan.load.url, "--rate", str(plan.load.rate), "--seconds", str(plan.window),
         "--warmup", str(plan.warmup), "--seed", str(plan.seed), "--json", "-o", str(requests),
         *plan.load.options],
        plan, folder,
    )  # fmt: skip
    try:
        (rung,) = json.loads(text)["rungs"]
        with requests.open(encoding="utf-8") as file:
            started = int(json.loads(file.readline())["started"])
    except (ValueError, KeyError, OSError) as error:
        raise _Failed(
            f"the load said nothing that can be read ({error}){last_lines(folder / 'load.log')}"
        ) from error
    told = {"p99": rung["response"].get("p99"), "p50": rung["response"].get("p50")}
    told |= {"achieved": rung["achieved"], "ttft_p99": rung["ttft"].get("p99")}
    told |= {"tpot_p50": rung["tpot"].get("p50")}
    begun = started + int(plan.warmup * 1e9)
    metrics = {name: told.get(name) for name, _ in plan.load.metrics}
    failures = sum(rung["failures"].values())
    found: dict[str, Any] = {"failures": failures, "requests": rung["requests"], "window_s": plan.window}
    if rung["requests"] and failures == rung["requests"]:
        found["why"] = "every request failed"
    elif not rung["answered"]:
        found["why"] = "no answer came within the window: it is shorter than an answer takes"
    else:
        found |= _checked(metrics, optional=len(plan.load.metrics) > 1)
        if not rung["valid"]:
            found["why"] = f"the client was the bottleneck: p99 of sending late is {rung['late']:.1f} ms"
    return (begun, begun + int(plan.window * 1e9)), found


def _theirs(plan: Plan, folder: Path) -> tuple[tuple[int, int], dict[str, Any]]:
    """A shell command: the last JSON object of its output (with the tag, if one is asked for) counts."""
    told = (("ABLATE_WARMUP", f"{plan.warmup:g}"), ("ABLATE_WINDOW", f"{plan.window:g}"))
    begun = time.time()
    text = _call(plan.load.command, plan, folder, (*told, ("ABLATE_SEED", str(plan.seed))))
    ended = time.time()
    last: dict[str, Any] | None = None
    for line in text.splitlines():
        with contextlib.suppress(ValueError):
            value = json.loads(line)
            if isinstance(value, dict) and (not plan.load.tag or value.get("tag") == plan.load.tag):
                last = value
    if last is None:
        tag = f' with "tag": "{plan.load.tag}"' if plan.load.tag else ""
        raise _Failed(f"the load printed no JSON object{tag}{last_lines(folder / 'load.out')}")
    try:
        window = [float(last.get(name, other)) for name, other in (("t0", begun), ("t1", ended))]
    except (TypeError, ValueError) as error:
        raise _Failed(f"t0 and t1 of the load are no times: {error}") from error
    offset = time.monotonic_ns() - time.time_ns()
    first, second = (int(at * 1e9) + offset for at in window)
    found = _checked({name: last.get(name) for name, _ in plan.load.metrics}, optional=False)
    return (first, second), found | {"window_s": round(window[1] - window[0], 3)}


def _checked(metrics: dict[str, Any], optional: bool) -> dict[str, Any]:
    """Metrics that are there and positive; of `frostline load` a stream's may be missing."""
    good: dict[str, float] = {}
    for number, (name, value) in enumerate(metrics.items()):
        if value is None and optional and number:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
            raise _Failed(f"the load says {name} = {value!r}: a metric is a positive number")
        good[name] = float(value)
    return {"metrics": good}
