"""docs/rows.md: every requirement has its row, and what a row names is there."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path

import pytest
from benchmarks.__main__ import ROWS as BENCHMARKS
from benchmarks.paper.__main__ import ROWS as PAPER

import frostline
from tests.test_docs import anchors
from tests.typed import wrong

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "rows.md"
#: The last number of each letter.
LETTERS = {"A": 14, "B": 13, "C": 9, "D": 13}
ROWS = {
    cells[0]: cells
    for line in PAGE.read_text().splitlines()
    if re.match(r"\| [A-D]\d+ \|", line)
    for cells in [[cell.strip() for cell in line.strip("|").split("|")]]
}
NUMBER, WHAT, HERE, TYPE, TESTS, FIGURE = range(6)
every_row = pytest.mark.parametrize("cells", ROWS.values(), ids=list(ROWS))


def words(text: str) -> str:
    """Without what only makes it look so."""
    return re.sub(r"[`*\s]+", " ", text)


def codes(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_every_requirement_has_one_row() -> None:
    assert list(ROWS) == [f"{letter}{n + 1}" for letter, last in LETTERS.items() for n in range(last)]
    lines = [line for line in PAGE.read_text().splitlines() if re.match(r"\| [A-D]\d+ \|", line)]
    assert len(lines) == len(ROWS)


@every_row
def test_it_says_whether_it_is_here(cells: list[str]) -> None:
    assert len(cells) == 6 and cells[WHAT]
    state = re.match(r"yes([;:] .+)?$|partly: .+|no$", cells[HERE])
    assert state, cells[HERE]
    shown = bool(cells[TESTS] or cells[FIGURE])
    assert shown == (cells[HERE] != "no"), "what is here is shown by a test or a figure, what is not by none"
    assert cells[HERE].startswith(("no", "partly")) or cells[TESTS], "a yes needs a test"


@every_row
def test_its_tests_exist(cells: list[str]) -> None:
    for name in codes(cells[TESTS]):
        file, _, test = name.partition("::")
        assert file.startswith("tests/") and (ROOT / file).is_file(), name
        if test:
            tree = ast.parse((ROOT / file).read_text())
            assert test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, name


@every_row
def test_what_is_typed_exists(cells: list[str]) -> None:
    for text in codes(cells[TYPE]):
        if text.startswith("frostline."):
            name = re.match(r"\w+", text.removeprefix("frostline."))
            assert name and callable(getattr(frostline, name.group())), text
        elif text.startswith("FROSTLINE_"):
            source = (ROOT / "src" / "frostline").rglob("*.py")
            assert any(f'"{text}"' in path.read_text() for path in source), text
        else:
            assert text.startswith("frostline ") and not wrong(text), wrong(text)


@every_row
def test_its_figures_stand_where_it_says(cells: list[str]) -> None:
    for name in codes(re.sub(r"\[[^]]*\]\([^)]*\)", "", cells[FIGURE])):
        module, *rows = name.removeprefix("python -m ").split()
        known = {"benchmarks": set(BENCHMARKS), "benchmarks.paper": set(PAPER)}[module]
        assert rows and set(rows) <= known, name
        assert all(importlib.util.find_spec(f"{module}.{row}") for row in rows), name
    for text, target in re.findall(r"\[([^]]+)\]\(([^)]+)\)", cells[FIGURE]):
        file, _, anchor = target.partition("#")
        page = ROOT / "docs" / file
        assert words(text).lower() in words(page.read_text()).lower(), f"{text!r} is not in {file}"
        assert not anchor or anchor in anchors(page), target
