"""Real servers as targets: started, asked over their own protocol, ended by a signal."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: Printed by a host when it can be asked, with its port.
READY = "READY"


class Host:
    """A server process that has said READY."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.port = port

    def get(self, path: str = "/") -> Any:
        """The JSON that it answers to GET."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as answer:
            return json.load(answer)


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


def end(process: subprocess.Popen[str]) -> None:
    """SIGINT, and SIGKILL if that is not enough."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
    if process.poll() is None:
        process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def until(condition: Any, seconds: float = 30) -> Any:
    """What ``condition()`` returns once it is true; asked every 20 ms."""
    end_at = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < end_at, "it did not come true"
        time.sleep(0.02)
