"""The reference server under load, started by whoever measures it: with faults in it, or policies by role."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common import environment
from benchmarks.labelled.real import TARGETS, forget, plan_faults, truth_of
from benchmarks.labelled.truth import Labelled, write_truth

#: The roles of the faults' plan, and how the server calls them.
ROLES = {"front": "APIServer", "engine": "EngineCore", "worker": "Worker"}
LABELS = {"engine": "engine step", "worker": "execute model"}
#: Faults that need no helper outside and no ballast.
CAUSES = (
    "another tool's callback", "lock", "disk", "sleep", "blocking call", "page faults", "long C call",
    "C call in another thread",
)  # fmt: skip
READY = 180.0


@dataclass(frozen=True)
class Up:
    """The server, ready: its address, and role -> pid (of the first of a role)."""

    url: str
    pids: dict[str, int]


@contextlib.contextmanager
def server(
    folder: Path, scale: float, settings: dict[str, str], step_ms: float = 5.0, workers: int = 1
) -> Iterator[Up]:
    """The reference server under ``frostline run``, recorded to ``folder/rec``; ended politely.

    Raises:
        RuntimeError: it did not become ready.
    """
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "frostline.commands.main", "run", "-o", str(folder / "rec"), "--"]
    command += [sys.executable, str(TARGETS / "reference.py"), "serve", "--tethered"]
    command += ["--scale", str(scale), "--step-ms", str(step_ms), "--workers", str(workers)]
    command += ["--announce", str(folder / "address")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment(**settings)
        )
    try:
        yield _ready(process, folder)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        _sealed(folder / "rec")


def _ready(process: subprocess.Popen[bytes], folder: Path) -> Up:
    until = time.monotonic() + READY
    while process.poll() is None and time.monotonic() < until:
        with contextlib.suppress(OSError, ValueError):
            url = (folder / "address").read_text().strip()
            with urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
                known = {one[0]: one[2] for one in reversed(json.load(answer)["processes"])}
            return Up(url, {role: known[name] for role, name in ROLES.items()})
        time.sleep(0.2)
    raise RuntimeError(f"no server: {(folder / 'log').read_text(errors='replace')[-1500:]}")


def _sealed(session: Path, seconds: float = 15.0) -> None:
    """Waits until the session's helper has moved everything; what it leaves is read where it is."""
    until = time.monotonic() + seconds
    while (session / "active").is_symlink() and time.monotonic() < until:
        if not (session / "active").exists():
            return
        time.sleep(0.1)


def drive(url: str, seconds: float, rate: float, seed: int = 0) -> subprocess.Popen[bytes]:
    """A client that sends an open-loop load, and ends after ``seconds``."""
    command = [sys.executable, "-m", "frostline.demo", "drive", url, "--rate", str(rate)]
    command += ["--seconds", str(seconds), "--warm-up", "1", "--seed", str(seed), "--logprobs", "5"]
    return subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@contextlib.contextmanager
def served(
    folder: Path, seed: int, faults: int, scale: float = 0.7, tell: Callable[[str], None] = lambda text: None
) -> Iterator[Labelled]:
    """Faults in the engine core and the worker of the reference server, and their truth."""
    plan, _ = plan_faults(
        seed,
        faults,
        roles=("engine", "worker"),
        alone=CAUSES,
        collector_kinds=("automatic full pass", "explicit gc.collect()"),
        # Before an automatic one a quarter of a large heap is allocated: a gap is that, too.
        gap_kinds=("explicit gc.collect()",),
    )
    truth = folder / "faults.jsonl"
    truth.parent.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="frostline-labelled-") as scratch:
        settings = {"plan": plan, "log": str(truth), "scratch": f"{scratch}/file"}
        try:
            with server(folder / "run", scale, {"LABELLED_SETTINGS": json.dumps(settings)}) as up:
                client = drive(up.url, 5 + 0.6 * faults, 8.0, seed)
                try:
                    _until_done(client, truth, faults, tell)
                finally:
                    client.kill()
                    client.wait()
            stalls, short = truth_of(truth, up.pids, LABELS)
            if short:
                tell(f"{short} faults were over too soon and are left out")
            write_truth(folder / "truth.jsonl", stalls)
            yield Labelled("reference server", folder / "run" / "rec", tuple(stalls))
        finally:
            forget(folder / "run" / "rec")


def _until_done(
    client: subprocess.Popen[bytes], truth: Path, faults: int, tell: Callable[[str], None]
) -> None:
    told = time.monotonic()
    while client.poll() is None:
        time.sleep(0.5)
        many = len(truth.read_text().splitlines()) if truth.exists() else 0
        if many >= faults:
            time.sleep(1)  # the step that the last one lies in
            return
        if time.monotonic() - told > 5:
            told = time.monotonic()
            tell(f"{many} of {faults} faults")
