"""The load of one run: ``frostline load``, or a shell command; and what loads the server beside it."""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from frostline.experiment.ablation import machine
from frostline.experiment.ablation.plan import Plan
from frostline.experiment.load.words import late
from frostline.reach.leash import descendants, kill, leashed, started_in

FROSTLINE = (sys.executable, "-m", "frostline.commands.main")
#: What `frostline load` may take beyond its plan: deadlines, and its own start.
_LOAD_GRACE = 180.0
#: From SIGTERM to SIGKILL of a load, s.
_LOAD_STOP = 5.0
#: From SIGKILL to the end, s: more only where the kernel holds it.
_KILLED = 5.0


class Failed(Exception):
    """The run is no run: what became of it."""


def environment(*more: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Ours without settings of Frostline's: an arm is what the plan says."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("FROSTLINE_")}
    for one in more:
        kept.update(one)
    return kept


def stop(process: subprocess.Popen[bytes], patience: float, session: Path | None = None) -> float:
    """As an operator would; then harder: its group, and what descends from it and has left that.

    Args:
        session: that it records. What it has started is found by that too, where it has died by itself.

    Returns:
        Seconds of CPU time of what has ended here and was waited for by nobody of ours: a server that leaves
        without its workers. Else they would be taken for other programs'.
    """
    others: dict[int, int] = {}
    used = waited = 0.0
    try:
        if process.poll() is None:
            others = descendants(process.pid)
            used, waited = machine.used(others), machine.waited_for(process.pid)
            process.terminate()
            _has_ended(process, patience)
    finally:  # also where a second Ctrl-C says that nobody waits any longer
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        kill(others)
        if others:
            _has_ended(process, _KILLED)
            used = max(0.0, used - (machine.waited_for(process.pid) - waited))
        process.wait()
        if session is not None:
            left = started_in(os.path.realpath(session))
            used += machine.used(left.keys() - others.keys())
            kill(left)
    return used


def _has_ended(process: subprocess.Popen[bytes], patience: float) -> None:
    """Waits for its end, and leaves it to be waited for: what a zombie has waited for can be read."""
    if process.returncode is not None:
        return
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError:  # a sandbox's kernel has none: then it is waited for here
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
        return
    try:
        select.select([descriptor], [], [], patience)
    finally:
        os.close(descriptor)


def last_lines(log: Path) -> str:
    """The end of what a program said, to stand behind what became of it."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-3:]
    except OSError:
        return ""
    return "".join(f"\n    {line[:300]}" for line in lines)


def ask(plan: Plan, folder: Path) -> tuple[tuple[int, int], dict[str, Any]]:
    """Asks the server. The window in ns of CLOCK_MONOTONIC, and what the load says of it."""
    with _beside(plan, folder):
        return _own(plan, folder) if plan.load.url else _theirs(plan, folder)


@contextlib.contextmanager
def _beside(plan: Plan, folder: Path) -> Iterator[None]:
    """What loads the server and is not judged, until what is judged has ended.

    Raises:
        Failed: it ended before that, and not well: the load was another one than in the other runs.
    """
    if not plan.load.beside:
        yield
        return
    log = folder / "beside.log"
    with (
        log.open("wb") as output,
        leashed(
            ["/bin/sh", "-c", plan.load.beside],
            _LOAD_STOP,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment(_told(plan)),
        ) as process,
    ):
        try:
            yield
            if process.poll():
                raise Failed(f"what loads the server beside ended with {process.returncode}{last_lines(log)}")
        finally:
            stop(process, _LOAD_STOP)


def _told(plan: Plan) -> tuple[tuple[str, str], ...]:
    """What a shell command of the plan's is told by its environment, seconds; and it finds ``frostline``."""
    return (
        ("PATH", f"{os.environ.get('PATH', os.defpath)}:{Path(sys.executable).parent}"),
        ("ABLATE_WARMUP", f"{plan.warmup:g}"),
        ("ABLATE_WINDOW", f"{plan.window:g}"),
        ("ABLATE_SEED", str(plan.seed)),
    )


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
            raise Failed(f"the load had not ended after {limit:.0f} s (by its window)") from None
        finally:
            stop(process, _LOAD_STOP)
    text = output.decode("utf-8", "replace")
    (folder / "load.out").write_text(text, encoding="utf-8")
    # 1 is what `frostline load` ends with where it was late: it says so in its answer.
    if process.returncode not in ((0,) if isinstance(command, str) else (0, 1)):
        raise Failed(f"the load ended with {process.returncode}{last_lines(log)}")
    return text


def _own(plan: Plan, folder: Path) -> tuple[tuple[int, int], dict[str, Any]]:
    """``frostline load``: the same seed, so the same plan of requests, in every run."""
    requests = folder / "requests.jsonl"
    text = _call(
        [*FROSTLINE, "load", plan.load.url, "--rate", str(plan.load.rate), "--seconds", str(plan.window),
         "--warmup", str(plan.warmup), "--seed", str(plan.seed), "--json", "-o", str(requests),
         *plan.load.options],
        plan, folder,
    )  # fmt: skip
    try:
        told = json.loads(text)
        (rung,), client = told["rungs"], told["client"]
        with requests.open(encoding="utf-8") as file:
            started = int(json.loads(file.readline())["started"])
    except (ValueError, KeyError, OSError) as error:
        raise Failed(
            f"the load said nothing that can be read ({error}){last_lines(folder / 'load.log')}"
        ) from error
    values = {"p99": rung["response"].get("p99"), "p50": rung["response"].get("p50")}
    values |= {"achieved": rung["achieved"], "ttft_p99": rung["ttft"].get("p99")}
    values |= {"tpot_p50": rung["tpot"].get("p50")}
    begun = started + int(plan.warmup * 1e9)
    metrics = {name: values.get(name) for name, _ in plan.load.metrics}
    failures = sum(rung["failures"].values())
    found: dict[str, Any] = {"failures": failures, "requests": rung["requests"], "window_s": plan.window}
    if rung["own"]:  # of no use to the screening either: the server was asked less
        found["why"] = f"the client could not send {rung['own']} requests for want of files or ports"
    elif rung["requests"] and failures == rung["requests"]:
        words = ", ".join(f"{count:,} x {word}" for word, count in sorted(rung["failures"].items()))
        found["why"] = f"every request failed: {words}"
    elif not rung["answered"]:
        found["why"] = "no answer came within the window: it is shorter than an answer takes"
    else:
        found |= _checked(metrics, optional=len(plan.load.metrics) > 1)
        if not rung["valid"]:
            found["late"] = late(rung["late"], client["ran_ms"], client["queued_ms"])
    return (begun, begun + int(plan.window * 1e9)), found


def _theirs(plan: Plan, folder: Path) -> tuple[tuple[int, int], dict[str, Any]]:
    """A shell command: the last JSON object of its output (with the tag, if one is asked for) counts."""
    begun = time.time()
    text = _call(plan.load.command, plan, folder, _told(plan))
    ended = time.time()
    last: dict[str, Any] | None = None
    for line in text.splitlines():
        with contextlib.suppress(ValueError):
            value = json.loads(line)
            if isinstance(value, dict) and (not plan.load.tag or value.get("tag") == plan.load.tag):
                last = value
    if last is None:
        tag = f' with "tag": "{plan.load.tag}"' if plan.load.tag else ""
        raise Failed(f"the load printed no JSON object{tag}{last_lines(folder / 'load.out')}")
    try:
        first, second = (float(last.get(name, other)) for name, other in (("t0", begun), ("t1", ended)))
    except (TypeError, ValueError) as error:
        raise Failed(f"t0 and t1 of the load are no times: {error}") from error
    # Of another clock no pass would lie in the window, and any effect were "not the collector".
    if not (math.isfinite(second - first) and first < second and first < ended and second > begun):
        raise Failed(
            f"the load says t0 = {first:.3f} and t1 = {second:.3f}: no stretch of its run, which went from "
            f"{begun:.3f} to {ended:.3f} (Unix seconds)"
        )
    offset = time.monotonic_ns() - time.time_ns()
    found = _checked({name: last.get(name) for name, _ in plan.load.metrics}, optional=False)
    window = (int(first * 1e9) + offset, int(second * 1e9) + offset)
    return window, found | {"window_s": round(second - first, 3)}


def _checked(metrics: dict[str, Any], optional: bool) -> dict[str, Any]:
    """Metrics that are there and positive; of `frostline load` a stream's may be missing."""
    good: dict[str, float] = {}
    for number, (name, value) in enumerate(metrics.items()):
        if value is None and optional and number:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
            raise Failed(f"the load says {name} = {value!r}: a metric is a positive number")
        good[name] = float(value)
    return {"metrics": good}
