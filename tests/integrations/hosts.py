"""Real servers as targets: started, asked over their own protocol, ended by a signal."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from frostline import format as layout
from frostline.recording.model import Series
from frostline.recording.session import Session, read_session
from tests.reach.under_run import FROSTLINE, wait_for_helper

#: Printed by a host when it can be asked, with its port.
READY = "READY"


class Host:
    """A server process that has said READY."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.port = port

    def get(self, path: str = "/") -> Any:
        """The JSON that it answers to GET; asked again while nobody listens yet (uvicorn's workers)."""
        url = f"http://127.0.0.1:{self.port}{path}"

        def ask() -> Any:
            assert self.process.poll() is None
            try:
                with urllib.request.urlopen(url, timeout=30) as answer:
                    return json.load(answer)
            except urllib.error.URLError as error:
                if not isinstance(error.reason, ConnectionRefusedError):
                    raise
                return None

        return until(ask)


@contextlib.contextmanager
def host(tmp_path: Path, text: str, *arguments: str, **environment: str) -> Iterator[Host]:
    """Runs ``text`` in this environment's interpreter until it prints ``READY <port>``; SIGINT at the end.

    The start-up hook of the installed package is what boots Frostline, as it does for a user.
    """
    path = tmp_path / "host.py"
    path.write_text(textwrap.dedent(text))
    process = subprocess.Popen(
        [sys.executable, str(path), *arguments],
        env={**os.environ, "PYTHONPATH": "", **environment},
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(READY):
                yield Host(process, int(line.split()[1]))
                break
        else:
            raise AssertionError(f"it ended with {process.wait()} before it was ready")
    finally:
        end(process)


ROOT = Path(__file__).resolve().parents[2]
#: What gunicorn, uvicorn and hypercorn write when they listen.
_LISTENS = re.compile(r"http://127\.0\.0\.1:(\d+)")


@contextlib.contextmanager
def server(tmp_path: Path, *command: str, recorded: bool = False, **environment: str) -> Iterator[Host]:
    """A server's own command (``gunicorn -b 127.0.0.1:0 ...``), run beside the tests; SIGINT at the end.

    ``recorded``: under ``frostline run --policy freeze``, into ``tmp_path/rec``.
    """
    log = tmp_path / "server.log"
    argv = [sys.executable, "-m", *command]
    if recorded:
        argv = [*FROSTLINE, "run", "-o", str(tmp_path / "rec"), "--policy", "freeze", "--", *argv]
    with log.open("w") as written:
        process = subprocess.Popen(
            argv,
            env={**os.environ, "PYTHONPATH": "", "HOME": str(tmp_path), **environment},
            stdout=written,
            stderr=written,
            text=True,
            cwd=ROOT,
            start_new_session=True,
        )

    def listens() -> re.Match[str] | None:
        assert process.poll() is None, log.read_text()
        return _LISTENS.search(log.read_text())

    try:
        yield Host(process, int(until(listens)[1]))
    finally:
        end(process)


def recorded(tmp_path: Path) -> Session:
    """The session that ``server(recorded=True)`` has left."""
    wait_for_helper(tmp_path / "rec")
    return read_session(tmp_path / "rec")


def boundaries(series: Series) -> list[int]:
    """Who told the boundaries of a process."""
    return [mark.values[0] for mark in series.marks if mark.kind == layout.MARK_BOUNDARY]


def frozen(series: Series) -> int:
    """What the last freeze of a process counted."""
    return max(mark.values[0] for mark in series.marks if mark.kind == layout.MARK_FREEZE)


def end(process: subprocess.Popen[str]) -> None:
    """SIGINT, and SIGKILL if that is not enough; nothing of its session stays behind."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def until(condition: Any, seconds: float = 30, every: float = 0.02) -> Any:
    """What ``condition()`` returns once it is true; asked every 20 ms, or ``every`` seconds where asking
    is a request that would keep the host from being quiet.
    """
    end_at = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < end_at, "it did not come true"
        time.sleep(every)
