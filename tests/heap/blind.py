"""How a program of the blind corpus says what it is (see corpus_blind.py)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
Word = str | tuple[str, ...]


@dataclass(frozen=True)
class Program:
    """One program: ``make`` leaves one cycle behind, ``clean`` does the same work without one.

    words: what a good answer contains. A tuple names alternatives, one of which has to be there.
    """

    kind: str
    make: Callable[[], object]
    clean: Callable[[], object]
    words: tuple[Word, ...]


def at(file: str, text: str) -> str:
    """``file:line``, as an answer writes it, of the one line of a file that begins with ``text`` and no more
    of a word."""
    name = Path(file).name
    lines = (HERE / name).read_text(encoding="utf-8").splitlines()
    (line,) = [
        number
        for number, content in enumerate(lines, 1)
        if re.match(rf"{re.escape(text)}(?!\w)", content.strip())
    ]
    return f"{name}:{line}"


class Corpus:
    """Collects the programs of one file, each as ``@program(...)`` followed by its ``@program.twin``."""

    def __init__(self) -> None:
        self.programs: dict[str, Program] = {}
        self._open: tuple[str, str, Callable[[], object], tuple[Word, ...]] | None = None

    def __call__(self, kind: str, *words: Word) -> Callable[[Callable[[], object]], Callable[[], object]]:
        def keep(make: Callable[[], object]) -> Callable[[], object]:
            assert self._open is None, f"{self._open} has no twin"
            self._open = (make.__name__, kind, make, words)
            return make

        return keep

    def twin(self, clean: Callable[[], object]) -> Callable[[], object]:
        assert self._open is not None
        name, kind, make, words = self._open
        self._open = None
        assert name not in self.programs
        self.programs[name] = Program(kind, make, clean, words)
        return clean
