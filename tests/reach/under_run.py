"""Runs a command under ``frostline run`` and waits for the helper's last word."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FROSTLINE = [sys.executable, "-m", "frostline.commands.main"]
DEADLINE = 30.0


def wait_for(condition: Callable[[], Any], what: str, seconds: float = DEADLINE) -> Any:
    """Looks until something is there; fails, naming it, when it does not come."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"{what}: not within {seconds:g} s")


def notes(folder: Path, kind: str) -> list[dict[str, Any]]:
    """run-*.json or helper-*.json of a session."""
    found = []
    for path in sorted(folder.glob(f"{kind}-*.json")):
        with contextlib.suppress(FileNotFoundError):
            found.append(json.loads(path.read_text()))
    return found


@dataclass
class Ended:
    """A command that has ended, and what its helper wrote."""

    code: int
    output: str
    errors: str
    folder: Path
    helper: dict[str, Any] = field(default_factory=dict)

    @property
    def processes(self) -> list[dict[str, Any]]:
        processes: list[dict[str, Any]] = self.helper["processes"]
        return processes

    @property
    def recorded(self) -> list[dict[str, Any]]:
        return [p for p in self.processes if p["recorded"]]

    @property
    def missed(self) -> list[dict[str, Any]]:
        return [p for p in self.processes if p["missed"]]

    def by_word(self, word: str) -> dict[str, Any]:
        """The one process with a word in its command line."""
        found = [p for p in self.processes if any(word in argument for argument in p["argv"])]
        assert len(found) == 1, (word, self.processes)
        return found[0]


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("FROSTLINE_", "PYTHON"))}
    return {**kept, "XDG_STATE_HOME": str(tmp_path / "state"), **more}


def wait_for_helper(folder: Path, count: int = 1) -> dict[str, Any]:
    """The helper's last notes."""

    def ended() -> list[dict[str, Any]]:
        found = [note for note in notes(folder, "helper") if note["ended"]]
        return found if len(found) >= count else []

    found: list[dict[str, Any]] = wait_for(ended, "the helper's last notes")
    return found[-1]


def run(
    tmp_path: Path,
    *command: str,
    options: tuple[str, ...] = (),
    stdin: str | None = None,
    wait: bool = True,
    cwd: Path | None = None,
    **more: str,
) -> Ended:
    """Runs a command to its end."""
    folder = tmp_path / "rec"
    done = subprocess.run(
        [*FROSTLINE, "run", "-o", str(folder), *options, "--", *command],
        env=environment(tmp_path, **more),
        input=stdin,
        stdin=None if stdin is not None else subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=cwd or tmp_path,
    )
    helper = wait_for_helper(folder) if wait else {}
    return Ended(done.returncode, done.stdout, done.stderr, folder, helper)


@contextlib.contextmanager
def running(
    tmp_path: Path, *command: str, options: tuple[str, ...] = (), **more: str
) -> Iterator[subprocess.Popen[str]]:
    """A command under way; ended by the block, or killed after it."""
    process = subprocess.Popen(
        [*FROSTLINE, "run", "-o", str(tmp_path / "rec"), *options, "--", *command],
        env=environment(tmp_path, **more),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=30)


def gone(pid: int, seconds: float) -> bool:
    """Whether a process ends within a time; it need not be a child."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)


def write(path: Path, text: str, mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def discard(folder: Path) -> list[Path]:
    """Takes away what a killed helper left on tmpfs; returns what it was."""
    active = Path(os.readlink(folder / "active"))
    left = list(active.glob("*"))
    for path in left:
        path.unlink()
    active.rmdir()
    return left
