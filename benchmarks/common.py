"""What the rows share: results, interpreters, and running a target in one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TARGETS = Path(__file__).parent / "targets"
#: No target takes longer than this many seconds.
LIMIT = 900.0


@dataclass(frozen=True)
class Result:
    """One measured value beside its bound. ``passed`` is None where it could not be measured."""

    what: str
    measured: str
    bound: str
    passed: bool | None
    how: str


@dataclass(frozen=True)
class Interpreter:
    """An interpreter under test and an environment of it with the start-up hook."""

    path: str
    version: tuple[int, int, int]
    #: With the hook and the source tree.
    python: str
    #: The same environment with an empty ``.pth`` in the hook's place.
    bare: str

    def __str__(self) -> str:
        return ".".join(map(str, self.version))


Row = Callable[[Interpreter], list[Result]]


def pythons() -> list[str]:
    """FROSTLINE_PYTHONS (paths separated by colons), else the running interpreter."""
    return [path for path in os.environ.get("FROSTLINE_PYTHONS", "").split(":") if path] or [sys.executable]


def prepare(path: str, folder: Path) -> Interpreter:
    """Makes the two environments of an interpreter below ``folder``."""
    code = "import sys; print(*sys.version_info[:3])"
    text = subprocess.run([path, "-c", code], check=True, capture_output=True, text=True).stdout
    major, minor, micro = (int(part) for part in text.split())
    made = []
    for name in ("hook", "bare"):
        home = folder / f"{major}.{minor}.{micro}-{name}"
        subprocess.run([path, "-m", "venv", "--without-pip", str(home)], check=True)
        site = home / "lib" / f"python{major}.{minor}" / "site-packages"
        (site / "aa_source.pth").write_text(f"{ROOT / 'src'}\n")
        if name == "hook":
            shutil.copy(ROOT / "hook" / "frostline.pth", site / "frostline.pth")
        else:
            (site / "frostline.pth").write_text("\n")
        made.append(str(home / "bin" / "python"))
    return Interpreter(path, (major, minor, micro), made[0], made[1])


def environment(**settings: str) -> dict[str, str]:
    """This process's environment without settings of ours, and with ``settings``."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FROSTLINE_")}
    return kept | {"PYTHONHASHSEED": "0"} | settings


@contextmanager
def session() -> Iterator[Path]:
    """A session folder with its live folder on tmpfs, both removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="frostline-bench-"))
    live = Path(tempfile.mkdtemp(prefix="frostline-bench-", dir="/dev/shm"))
    (folder / "active").symlink_to(live)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(live, ignore_errors=True)


@dataclass(frozen=True)
class Used:
    """What a command needed. ``peak`` is its largest resident memory in bytes, by rusage."""

    code: int
    seconds: float
    #: User and system.
    cpu: float
    peak: int
    text: str
    how: str

    def within(self, most: float) -> bool | None:
        """Whether it took at most so many seconds; None where only others on the machine kept it longer."""
        if self.seconds <= most:
            return self.code == 0
        return None if self.code == 0 and self.cpu <= most else False


#: Starts a command and prints what it needed, as the last line on stderr. A process of its own: the
#: peak that the kernel counts for a child is at least what its parent had in memory when it forked.
_LAUNCH = """
import json, os, sys, time
begun = time.monotonic()
command = [sys.executable, "-m", "frostline.commands.main", *sys.argv[1:]]
pid = os.posix_spawn(sys.executable, command, os.environ)
_, status, usage = os.wait4(pid, 0)
used = (time.monotonic() - begun, usage.ru_utime, usage.ru_stime, usage.ru_maxrss)
print(json.dumps([os.waitstatus_to_exitcode(status), *used]), file=sys.stderr)
"""


def command(*arguments: str) -> Used:
    """Runs ``frostline ...`` as a child: it needs the [tools] extra, so in the environment that runs this."""
    done = subprocess.run(
        [sys.executable, "-c", _LAUNCH, *arguments], capture_output=True, text=True, env=environment()
    )
    code, seconds, user, system, peak = json.loads(done.stderr.splitlines()[-1])
    how = f"{user:.1f} s user and {system:.1f} s system, by rusage"
    return Used(code, seconds, user + system, peak * 1024, done.stdout, how)


def load() -> str:
    """The machine's load, which a wall-clock figure depends on."""
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def run_target(python: str, name: str, *args: str, **settings: str) -> dict[str, Any]:
    """Runs ``targets/<name>.py`` and returns the JSON object that its last line holds."""
    done = subprocess.run(
        [python, str(TARGETS / f"{name}.py"), *args],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        env=environment(**settings),
    )
    if done.returncode != 0:
        raise RuntimeError(f"{name} ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer
