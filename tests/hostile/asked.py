"""A program under way that is asked through its mailbox by the real caller's side."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from frostline import format as layout
from frostline.reach import control, segments
from tests.hostile.conftest import LIMIT, Stage

PATIENCE = 60.0


class Host:
    """A program under way; each line of its output is a step that it has reached."""

    def __init__(self, stage: Stage, code: str, extra: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [str(stage.target.python), "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=stage.environment(True, extra),
        )
        self.live = stage.live

    def says(self, word: str) -> None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line == word + "\n", (line, self.process.poll())

    def tell(self) -> None:
        """The next line of its input."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    @property
    def path(self) -> str:
        (path,) = self.live.glob(f"{self.process.pid}-*.0000{layout.SUFFIX}")
        return str(path)

    def ask(self, op: int, *arguments: int, timeout: float = PATIENCE) -> control.Reply:
        return control.send(self.path, op, arguments, timeout)

    def word(self, name: str) -> int:
        words = segments.read_words(self.path)
        assert words is not None
        return words[name]

    def resident(self) -> int:
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def end(self, output: str = "") -> None:
        out, err = self.process.communicate(timeout=LIMIT)
        assert (self.process.returncode, out, err) == (0, output, "")


@contextlib.contextmanager
def host(stage: Stage, code: str, **extra: str) -> Iterator[Host]:
    one = Host(stage, code, extra)
    try:
        one.says("up")
        yield one
    finally:
        one.process.kill()
        one.process.communicate()


UP = "print('up', flush=True)\n"
READ = UP + "import sys\nsys.stdin.read()"
