"""The whole show: the server stock, then frozen, under the same load, both recorded.

Everything it starts it also ends, whatever happens in between: each server runs in
a session of its own, is told to stop, and is killed if it does not; it is tethered to
this process by its standard input besides, so that not even SIGKILL leaves it running.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from frostline.demo.drive import Load, Summary
from frostline.errors import FrostlineError

#: name, policy: the two arms, in this order. One run of each shows; it does not prove.
ARMS = (("stock", "off"), ("freeze", "freeze"))
READY_TIMEOUT = 180.0
STOP_TIMEOUT = 25.0
SEAL_TIMEOUT = 10.0
_POLL = 0.1
_MODULE = [sys.executable, "-m"]
#: Bytes a tracked object of the heaps costs, and a process without them; both measured.
_OBJECT_BYTES = 160
_PROCESS_BYTES = 55 << 20

#: Told (stage, seconds done, seconds in all or 0 where unknown).
Progress = Callable[[str, float, float], None]
#: Reports on a session: (its folder, the file for the text).
Reporter = Callable[[Path, Path], None]


@dataclass(frozen=True)
class Outcome:
    """One arm that was run."""

    name: str
    policy: str
    session: Path
    report: Path
    summary: Summary
    #: While the measured load ran, ns of CLOCK_MONOTONIC.
    begin: int
    end: int
    #: Cores that other programs used meanwhile, on average; None where the machine does not say.
    others: float | None


def check_modules() -> None:
    """Raise ModuleNotFoundError for what the server would fail to import, before anything is started."""
    for name in ("uvicorn", "starlette", "zmq", "msgspec", "numpy"):
        if importlib.util.find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def check_memory(scale: float, workers: int) -> None:
    """Refuse what the machine cannot hold, with the scale that it can.

    Raises:
        FrostlineError: the servers' heaps would not fit.
    """
    from frostline.demo.heap import TRACKED

    objects = TRACKED["APIServer"] + TRACKED["EngineCore"] + workers * TRACKED["Worker"]
    fixed = (5 + workers) * _PROCESS_BYTES
    need = fixed + scale * objects * _OBJECT_BYTES
    have = _available_bytes()
    if have is None or need <= have:
        return
    fits = int((have - fixed) / (objects * _OBJECT_BYTES) * 20) / 20
    remedy = f"frostline demo --scale {fits:g}" if fits >= 0.05 else "free some memory: no scale would fit"
    raise FrostlineError(
        "demo-memory",
        f"the servers need about {need / 2**20:,.0f} MiB at scale {scale:g}, "
        f"and {have / 2**20:,.0f} MiB are available",
        remedy,
    )


def _available_bytes() -> int | None:
    """What the machine and this control group still have, None where neither says."""
    limits = []
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        limits.append(int(next(line for line in lines if line.startswith("MemAvailable")).split()[1]) << 10)
    with contextlib.suppress(OSError, ValueError):  # "max" is no number: no limit
        group = Path("/sys/fs/cgroup")
        limits.append(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
    return min(limits, default=None)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Cleaning up is bounded in time and is not interrupted half-way."""
    numbers = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run_show(
    folder: Path, scale: float, workers: int, load: Load, progress: Progress, report: Reporter
) -> list[Outcome]:
    """Run both arms, with their recordings in ``folder``, which must not exist yet.

    It is removed again when the show does not come to its end.
    """
    check_modules()
    check_memory(scale, workers)
    parent_is_ours = not folder.parent.exists()
    try:
        folder.mkdir(parents=True, mode=0o700)
        outcomes = []
        for name, policy in ARMS:
            outcome = _arm(folder, name, policy, scale, workers, load, progress)
            progress(f"{name}: reporting", 0, 0)
            report(outcome.session, outcome.report)
            outcomes.append(outcome)
        return outcomes
    except KeyboardInterrupt:
        with _undisturbed():
            for name, _ in ARMS:
                _remove_live(folder / name)
            shutil.rmtree(folder, ignore_errors=True)
            if parent_is_ours:
                with contextlib.suppress(OSError):
                    folder.parent.rmdir()  # fails if something else is in it by now
        raise


def _environment() -> dict[str, str]:
    """Ours, less any setting of Frostline: the arms must differ by the policy alone."""
    return {name: value for name, value in os.environ.items() if not name.startswith("FROSTLINE_")}


def _arm(
    folder: Path, name: str, policy: str, scale: float, workers: int, load: Load, progress: Progress
) -> Outcome:
    from frostline.demo.launch import remove_folder, sockets_folder

    session = folder / name
    announce = folder / f"{name}.url"
    log = folder / f"{name}.log"
    command = [
        *_MODULE, "frostline.commands.main", "run", "-o", str(session), "--policy", policy, "--",
        *_MODULE, "frostline.demo", "serve", "--scale", str(scale), "--workers", str(workers),
        "--announce", str(announce), "--tethered",
    ]  # fmt: skip
    machine = _Machine()
    sockets = ""
    with log.open("wb") as output:
        server = _Child()
        try:
            sockets = sockets_folder()
            server.start([*command, "--sockets", sockets], output)
            url = _await_ready(server, announce, log, f"{name}: starting", progress)
            _drive(url, folder / f"{name}.json", load, f"{name}: under load", progress)
            progress(f"{name}: stopping", 0, 0)
        finally:
            with _undisturbed():
                server.end()
                remove_folder(sockets)  # it did so itself unless it had to be killed
                _await_sealed(session)
    announce.unlink(missing_ok=True)
    run = json.loads((folder / f"{name}.json").read_text())
    last = run["columns"].index("last")
    return Outcome(
        name, policy, session, folder / f"{name}.txt", Summary(**run["summary"]),
        begin=run["start"] + int(load.warm_up * 1e9),
        end=max((row[last] for row in run["requests"]), default=run["start"]),
        others=machine.others(),
    )  # fmt: skip


class _Machine:
    """How busy the machine is with work that is not ours, from now on.

    Without it a noisy neighbour would be taken for an effect of the policy.
    """

    def __init__(self) -> None:
        self._begun, self._busy, self._ours = time.monotonic(), self._busy_seconds(), self._our_seconds()

    def others(self) -> float | None:
        """Cores, on average since the start. Call it when what we started has ended."""
        busy = self._busy_seconds()
        if busy is None or self._busy is None:
            return None
        theirs = (busy - self._busy) - (self._our_seconds() - self._ours)
        return max(0.0, theirs) / (time.monotonic() - self._begun)

    @staticmethod
    def _busy_seconds() -> float | None:
        try:
            fields = Path("/proc/stat").read_text().splitlines()[0].split()
        except OSError:
            return None
        user, nice, system, _, _, irq, softirq, steal = (int(field) for field in fields[1:9])
        return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")

    @staticmethod
    def _our_seconds() -> float:
        """Of this process and of all that it has waited for, and they for."""
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(one.ru_utime + one.ru_stime for one in used)


class _Child:
    """A process in a session of its own, tethered to us by its standard input."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, command: list[str], output: IO[bytes]) -> None:
        # An interrupt between the fork and the assignment would lose the child.
        with _undisturbed():
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT,
                env=_environment(), start_new_session=True, preexec_fn=_unblock,
            )  # fmt: skip

    def ended(self) -> int | None:
        """The exit code, None while it runs."""
        assert self._process is not None
        return self._process.poll()

    def end(self) -> None:
        """Politely, then not."""
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.stdin is not None:
            process.stdin.close()


def _unblock() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})


def _await_ready(server: _Child, announce: Path, log: Path, stage: str, progress: Progress) -> str:
    begun = time.monotonic()
    while (waited := time.monotonic() - begun) < READY_TIMEOUT:
        progress(stage, waited, 0)
        if server.ended() is not None:
            break
        with contextlib.suppress(OSError):  # no address yet, or 503: not every process is ready
            url = announce.read_text()
            urllib.request.urlopen(f"{url}/health", timeout=5).close()
            return url
        time.sleep(_POLL)
    ended = server.ended()
    what = f"is not ready after {READY_TIMEOUT:.0f} s" if ended is None else f"ended with {ended}"
    raise FrostlineError("demo-server", f"the server {what}{_last_lines(log)}", f"its output is in {log}")


def _last_lines(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()[-3:]
    return "".join(f"\n    {line}" for line in lines)


def _drive(url: str, output: Path, load: Load, stage: str, progress: Progress) -> None:
    command = [
        *_MODULE, "frostline.demo", "drive", url, "--output", str(output), "--rate", str(load.rate),
        "--seconds", str(load.seconds), "--warm-up", str(load.warm_up), "--seed", str(load.seed),
        "--tokens", str(load.tokens), "--logprobs", str(load.logprobs), "--tethered",
    ]  # fmt: skip
    errors = output.with_suffix(".client.log")
    planned = load.warm_up + load.seconds
    begun = time.monotonic()
    with errors.open("wb") as log:
        client = _Child()
        try:
            client.start(command, log)
            while client.ended() is None:
                elapsed = time.monotonic() - begun
                progress(stage, min(elapsed, planned), planned)
                if elapsed > planned + load.timeout + 60:
                    break
                time.sleep(_POLL)
        finally:
            with _undisturbed():
                client.end()
    if client.ended() != 0 or not output.exists():
        raise FrostlineError(
            "demo-client", f"the load client failed{_last_lines(errors)}", f"its output is in {errors}"
        )
    errors.unlink()


def _live_folder(session: Path) -> Path | None:
    """The folder on tmpfs where this session's segments are while they are written."""
    try:
        live = (session / "active").readlink()
    except OSError:
        return None
    return live if live.name.startswith("frostline-") and live.exists() else None


def _await_sealed(session: Path) -> None:
    """Wait until the session's helper has moved everything off the live folder."""
    deadline = time.monotonic() + SEAL_TIMEOUT
    while _live_folder(session) is not None and time.monotonic() < deadline:
        time.sleep(_POLL)  # what it leaves `report` moves


def _remove_live(session: Path) -> None:
    """After an interrupt nobody will report, so nothing may be left to be moved."""
    live = _live_folder(session)
    if live is not None:
        shutil.rmtree(live, ignore_errors=True)
