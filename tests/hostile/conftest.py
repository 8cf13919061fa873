"""A host is a program of ``hosts/`` that knows nothing of us, run without and with a recording.

Each test asserts two things: that the host's output and exit code are the same both times, and
what the recording says. The interpreters are those of FROSTLINE_PYTHONS (paths separated by
colons), else the running one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.hostile import reader

HOSTS = Path(__file__).parent / "hosts"
SOURCE = Path(__file__).parents[2] / "src"
HOOK = Path(__file__).parents[2] / "hook" / "frostline.pth"
#: A host that takes longer hangs.
LIMIT = 120.0


def pythons() -> list[str]:
    return [path for path in os.environ.get("FROSTLINE_PYTHONS", "").split(":") if path] or [sys.executable]


def sized(small: int, full: int) -> int:
    """How much of it: ``make bench`` sets FROSTLINE_FULL and runs the full sizes."""
    return full if os.environ.get("FROSTLINE_FULL") else small


@dataclass(frozen=True)
class Target:
    """An interpreter in an environment of its own that has the start-up hook."""

    python: Path
    version: tuple[int, int, int]
    folder: Path

    @property
    def site_packages(self) -> Path:
        return self.folder / "lib" / f"python{self.version[0]}.{self.version[1]}" / "site-packages"


def make_target(python: str, folder: Path) -> Target:
    """A virtual environment with the hook and a path entry for the source tree."""
    subprocess.run([python, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=LIMIT)
    inside = folder / "bin" / "python"
    code = "import sys; print(*sys.version_info[:3])"
    text = subprocess.run(
        [str(inside), "-c", code], check=True, capture_output=True, text=True, timeout=LIMIT
    )
    major, minor, micro = (int(part) for part in text.stdout.split())
    target = Target(inside, (major, minor, micro), folder)
    (target.site_packages / "aa_source.pth").write_text(f"{SOURCE}\n")
    shutil.copy(HOOK, target.site_packages / "frostline.pth")
    return target


@pytest.fixture(scope="session", params=pythons(), ids=lambda path: Path(path).parent.parent.name)
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Target:
    return make_target(request.param, tmp_path_factory.mktemp("target") / "env")


@dataclass
class Outcome:
    """What a host did, without and with us."""

    plain: subprocess.CompletedProcess[str]
    recorded: subprocess.CompletedProcess[str]
    series: list[reader.Series] = field(default_factory=list)

    @property
    def root(self) -> reader.Series:
        """The series that was opened first."""
        return self.series[0]

    def of(self, pid: int) -> reader.Series:
        (found,) = [series for series in self.series if series.pid == pid]
        return found


@dataclass
class Stage:
    """Where a test runs its host."""

    target: Target
    folder: Path
    session: Path
    live: Path

    def environment(self, recorded: bool, extra: dict[str, str]) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FROSTLINE_")}
        kept |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
        if recorded:
            kept["FROSTLINE_OUTPUT"] = str(self.session)
        return kept | extra

    def once(
        self,
        host: str,
        *args: str,
        recorded: bool,
        options: tuple[str, ...] = (),
        extra: dict[str, str] | None = None,
        wrapper: tuple[str, ...] = (),
    ) -> subprocess.CompletedProcess[str]:
        """Runs a host in a fresh scratch folder, which is its working directory."""
        scratch = self.folder / ("recorded" if recorded else "plain")
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(mode=0o777)
        if self.session.parent == self.folder:
            self.live.mkdir(exist_ok=True)
            if not self.session.exists():
                self.session.mkdir(mode=0o700)
                (self.session / "active").symlink_to(self.live)
        scratch.chmod(0o777)
        return subprocess.run(
            [*wrapper, str(self.target.python), *options, str(HOSTS / f"{host}.py"), *args],
            capture_output=True,
            text=True,
            timeout=LIMIT,
            cwd=scratch,
            env=self.environment(recorded, extra or {}),
        )

    def both(
        self,
        host: str,
        *args: str,
        options: tuple[str, ...] = (),
        extra: dict[str, str] | None = None,
        wrapper: tuple[str, ...] = (),
        code: int | None = 0,
    ) -> Outcome:
        """Runs a host without and with a recording, and holds it to the same output."""
        plain = self.once(host, *args, recorded=False, options=options, extra=extra, wrapper=wrapper)
        recorded = self.once(host, *args, recorded=True, options=options, extra=extra, wrapper=wrapper)
        assert _scrubbed(plain) == _scrubbed(recorded)
        if code is not None:
            assert plain.returncode == code, plain.stderr
        return Outcome(plain, recorded, self.read())

    def read(self) -> list[reader.Series]:
        return reader.read(self.session, self.live)


def _scrubbed(done: subprocess.CompletedProcess[str]) -> tuple[int, str, str]:
    """What must be the same: process ids, thread ids and addresses differ from run to run."""

    def scrub(text: str) -> str:
        return re.sub(r"pid=\d+|0x[0-9a-f]+|/(recorded|plain)\b", "...", text)

    return done.returncode, scrub(done.stdout), scrub(done.stderr)


@pytest.fixture
def stage(target: Target, tmp_path: Path) -> Iterator[Stage]:
    """A session folder whose live segments are on a tmpfs, as ``frostline run`` makes it."""
    session = tmp_path / "rec"
    session.mkdir(mode=0o700)
    live = Path(tempfile.mkdtemp(prefix="frostline-test-", dir="/dev/shm"))
    (session / "active").symlink_to(live)
    yield Stage(target, tmp_path, session, live)
    shutil.rmtree(live, ignore_errors=True)


def can_mount() -> str:
    """Empty if a tmpfs can be mounted in a mount namespace of its own, else why not."""
    try:
        done = subprocess.run(
            ["unshare", "-m", "mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", "/mnt"],
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
    except OSError as error:
        return f"no unshare: {error}"
    return "" if done.returncode == 0 else f"mounting is not permitted here: {done.stderr.strip()}"


needs_mount = pytest.mark.skipif(bool(can_mount()), reason=can_mount() or "mounting works")
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root to change the user")
