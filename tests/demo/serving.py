"""The server as a test sees it: a process, its children and an address."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

DEADLINE = 60.0


def until(condition: Any, what: str, deadline: float = DEADLINE) -> Any:
    """The first true value of ``condition()``; polled, with a deadline that fails the test."""
    end = time.monotonic() + deadline
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"not within {deadline:.0f} s: {what}")


class Server:
    """``python -m frostline.demo serve`` at a scale that tests can afford."""

    def __init__(
        self,
        folder: Path,
        *,
        scale: float = 0.02,
        workers: int = 1,
        tethered: bool = False,
        policy: str = "",
        record: Path | None = None,
        options: tuple[str, ...] = (),
        program: Path | None = None,
        settings: dict[str, str] | None = None,
    ) -> None:
        """
        Args:
            options: further ones of ``serve``.
            program: a script to run in place of the module, with the same arguments.
            settings: environment variables.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.announce = folder / "url"
        self.temporary = folder / "t"  # where the server makes its folder of sockets
        self.temporary.mkdir()
        module = ["-m", "frostline.demo"] if program is None else [str(program)]
        command = [sys.executable, *module, "serve", "--announce", str(self.announce)]
        command += ["--scale", str(scale), "--workers", str(workers)] + ["--tethered"] * tethered
        command += options
        if record is not None:
            command = [
                sys.executable,
                "-m",
                "frostline.commands.main",
                "run",
                "-o",
                str(record),
                "--",
                *command,
            ]
        self.log = (folder / "log").open("wb+")
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE if tethered else subprocess.DEVNULL,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            env=os.environ
            | {"TMPDIR": str(self.temporary), "XDG_STATE_HOME": str(folder / "state")}
            | ({"FROSTLINE_POLICY": policy} if policy else {})
            | (settings or {}),
        )
        self._family: dict[int, psutil.Process] = {}

    def output(self) -> str:
        return Path(str(self.log.name)).read_text()

    def url(self) -> str:
        def announced() -> str | None:
            assert self.process.poll() is None, self.output()
            return self.announce.read_text() if self.announce.exists() else None

        address: str = until(announced, "an address")
        return address

    def ask(self, path: str, body: object = None) -> tuple[int, bytes]:
        """Status and body."""
        connection = http.client.HTTPConnection(self.url().removeprefix("http://"), timeout=DEADLINE)
        try:
            if body is None:
                connection.request("GET", path)
            else:
                text = body if isinstance(body, bytes) else json.dumps(body)
                connection.request("POST", path, text)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def wait_ready(self) -> dict[str, Any]:
        def ready() -> Any:
            assert self.process.poll() is None, self.output()
            status, body = self.ask("/health")
            return json.loads(body) if status == 200 else None

        health: dict[str, Any] = until(ready, "ready")
        return health

    def family(self) -> list[psutil.Process]:
        """Every process of the server that was seen so far, the first included."""
        with contextlib.suppress(psutil.NoSuchProcess):
            root = psutil.Process(self.process.pid)
            for one in [root, *root.children(recursive=True)]:
                self._family.setdefault(one.pid, one)
        return list(self._family.values())

    def gone(self) -> bool:
        """None of them runs any more."""
        self.process.poll()
        return not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in self.family())

    def close(self) -> None:
        for one in self.family():
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.log.close()


def events(body: bytes) -> list[dict[str, Any]]:
    """The chunks of a stream of server-sent events, which must end as OpenAI's do."""
    lines = [line.removeprefix("data: ") for line in body.decode().split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]
