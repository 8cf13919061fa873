"""Sealing, on recordings of real processes: the dead one's are moved, the living one's are read in place."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from frostline.analysis import analyse
from frostline.reach.sealing import Swept, seal_dead
from frostline.recording import read_session
from frostline.recording.process import is_alive, is_dead
from tests.synthetic import Process

TARGET = """
import gc, sys
gc.collect()
print("ready", flush=True)
for line in sys.stdin:
    gc.collect()
    print("done", flush=True)
"""


class Target:
    """A recorded process that collects once a line."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", TARGET],
            env={**os.environ, "FROSTLINE_OUTPUT": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.wait_for("ready")

    def wait_for(self, word: str) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == word

    def collect(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.wait_for("done")

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    session = tmp_path / "session"
    yield session
    active = session / "active"
    if active.is_symlink():
        target = active.readlink()
        for path in target.glob("*") if target.is_dir() else ():
            path.unlink()
        if target.is_dir():
            target.rmdir()


def test_a_killed_process_is_sealed_and_nothing_is_lost(folder: Path) -> None:
    target = Target(folder)
    target.collect()
    before = read_session(folder)
    assert before.series[0].live
    full = len(analyse(before).processes[0].full_passes)
    assert full >= 2
    shared = (folder / "active").readlink()

    assert seal_dead(str(folder)).moved == 0  # it lives
    target.collect()
    target.kill()
    done = seal_dead(str(folder))

    assert done == Swept(1, 0)
    after = read_session(folder)
    assert not after.series[0].live
    assert len(analyse(after).processes[0].full_passes) == full + 1
    assert after.losses == ()
    assert not shared.exists()  # nothing is left on tmpfs
    assert seal_dead(str(folder)).moved == 0


def test_a_living_process_is_left_alone_beside_a_dead_one(folder: Path) -> None:
    dead, living = Target(folder), Target(folder)
    dead.kill()
    done = seal_dead(str(folder))
    assert done == Swept(1, 1)
    living.collect()
    analysis = analyse(read_session(folder))
    assert [p.series.live for p in analysis.processes] == [False, True]
    living.kill()


def test_only_certainty_counts_as_death(folder: Path) -> None:
    namespace = Path("/proc/self/ns/pid").stat().st_ino
    stat = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    started = int(stat[19])
    assert not is_dead(os.getpid(), started, namespace)
    assert is_alive(os.getpid(), started, namespace)
    assert is_dead(os.getpid(), started + 1, namespace)  # the pid was used again
    child = subprocess.Popen([sys.executable, "-S", "-c", ""])
    child.wait()
    assert is_dead(child.pid, started, namespace)
    assert not is_dead(child.pid, started, namespace + 1)  # another container: who knows
    assert not is_dead(child.pid, 0, namespace)
    assert not is_alive(child.pid, started, namespace + 1)


def test_only_one_sealer_at_a_time(folder: Path) -> None:
    """The helper takes the same lock: two at once would copy what the other has freed."""
    target = Target(folder)
    target.kill()
    holder = os.open(folder, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    assert seal_dead(str(folder)).moved == 0
    os.close(holder)
    assert seal_dead(str(folder)).moved == 1


def test_nothing_is_moved_out_of_a_folder_that_is_not_ours_alone(tmp_path: Path) -> None:
    session, elsewhere = tmp_path / "session", tmp_path / "precious"
    session.mkdir()
    elsewhere.mkdir()
    (session / "active").symlink_to(elsewhere)
    process = Process(pid=2**22 - 1, pid_namespace=Path("/proc/self/ns/pid").stat().st_ino)
    (path,) = process.write(elsewhere)
    assert seal_dead(str(session)).moved == 0
    assert path.exists()
