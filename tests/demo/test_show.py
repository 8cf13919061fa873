"""``frostline demo``: it shows what it should, and leaves nothing behind however it ends."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from frostline.demo.show import check_memory
from frostline.errors import FrostlineError
from frostline.recording import read_session
from tests.demo.serving import until

SMALL = ("--scale", "0.05", "--seconds", "4", "--rate", "12")


class Show:
    """A run of the demo in a folder of its own, with a short TMPDIR of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.recordings = folder / "recordings"
        self.temporary = Path(tempfile.mkdtemp(prefix="fd", dir="/tmp"))
        self.log = folder / "out"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "frostline.commands.main", "demo", "-o", str(self.recordings), *options],
            stdout=self.log.open("wb"),
            stderr=subprocess.STDOUT,
            env=os.environ | {"TMPDIR": str(self.temporary)},
        )
        self._seen: dict[int, psutil.Process] = {}
        self._live: set[Path] = set()

    def look(self) -> None:
        """Note every process and every live folder that there is now."""
        for one in psutil.process_iter():
            try:
                if one.pid not in self._seen and str(self.recordings) in " ".join(one.cmdline()):
                    self._seen[one.pid] = one
                    for child in one.children(recursive=True):
                        self._seen[child.pid] = child
            except psutil.Error:
                continue
        for arm in ("stock", "freeze"):
            with contextlib.suppress(OSError):
                self._live.add((self.recordings / arm / "active").readlink())

    def says(self, text: str) -> None:
        """Wait until its output has ``text``."""

        def said() -> bool:
            assert self.process.poll() is None or text in self.log.read_text(), self.log.read_text()
            return text in self.log.read_text()

        until(said, text, 120)

    def nothing_left(self) -> None:
        def gone() -> bool:
            return not any(
                one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in self._seen.values()
            )

        until(gone, f"every process gone of {self._seen}", 30)
        until(
            lambda: not any(folder.exists() for folder in self._live), f"no live folder of {self._live}", 20
        )
        assert list(self.temporary.iterdir()) == []

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(60)
        shutil.rmtree(self.temporary)


@pytest.fixture
def show(tmp_path: Path) -> Iterator[Show]:
    show = Show(tmp_path, *SMALL)
    yield show
    show.close()


def test_both_arms_side_by_side(show: Show) -> None:
    for stage in ("stock: under load", "freeze: under load"):
        show.says(stage)
        show.look()
    assert show.process.wait(120) == 0, show.log.read_text()
    show.nothing_left()
    text = show.log.read_text()
    for expected in (
        "response p99",
        "full passes",
        "Worker",
        "EngineCore",
        "APIServer",
        "used by other programs",
    ):
        assert expected in text
    for arm in ("stock", "freeze"):
        assert str(show.recordings / f"{arm}.txt") in text
        assert "Passes" in (show.recordings / f"{arm}.txt").read_text()
        spans = set()
        for series in read_session(show.recordings / arm, None).series:
            spans |= {series.name(label) for label in set(series.spans["label"].tolist())}
        assert {"engine step", "execute model", "request"} <= spans


@pytest.mark.parametrize(
    ("stage", "number"),
    [
        ("stock: starting", signal.SIGINT),
        ("stock: under load", signal.SIGTERM),
        ("freeze: starting", signal.SIGINT),
    ],
)
def test_interrupted_it_leaves_nothing(show: Show, stage: str, number: signal.Signals) -> None:
    show.says(stage)
    show.look()
    show.process.send_signal(number)
    assert show.process.wait(60) == 130
    show.nothing_left()
    assert not show.recordings.exists()
    assert "Traceback" not in show.log.read_text()


def test_a_machine_without_the_memory_is_told_a_scale_that_fits() -> None:
    with pytest.raises(FrostlineError) as caught:
        check_memory(scale=10_000, workers=1)
    assert caught.value.slug == "demo-memory"
    scale = float(caught.value.remedy.split()[-1])
    check_memory(scale * 0.9, workers=1)


def test_an_existing_folder_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "frostline.commands.main", "demo", "-o", str(tmp_path / "mine")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "exists" in done.stderr
