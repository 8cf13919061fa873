"""What a census advises rests on what it has looked at: each advice, and a heap like it that earns none."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from frostline.report.blocks import Table
from frostline.report.heap import advice, census, growing
from tests.interpreters import Interpreter, every_interpreter, found

SOURCE = Path(__file__).parent.parent.parent / "src"
#: Prints a census of the heap that the lines before have made.
CENSUS = """
import gc, sys
class Node: pass
node = Node()
{heap}
sys.path.insert(0, sys.argv[1])
from frostline.heap import census, plain
print(plain.dumps(census.as_plain(census.take())))
"""

#: Heap -> the words of each advice, in order.
HEAPS: dict[str, list[tuple[str, ...]]] = {
    "tokens = list(range(200_000))": [("A list of 200,000 (__main__.tokens)", "100% int of 300 items")],
    "nodes = [node] * 200_000": [],
    "mixed = [1, node] * 100_000": [],
    "a = [0.5] * 90_000; b = [True] * 80_000; c = [1j] * 70_000": [
        ("A list of 90,000", "and 2 more of the largest")
    ],
    "requests = [list(range(100)) for _ in range(3_000)]": [
        ("Lists hold 30", "shorter ones", "% of the items are numbers")
    ],
    "requests = [[node] * 100 for _ in range(3_000)]": [],
    "requests = [['text'] * 100 for _ in range(3_000)]": [],
    "rows = [{'id': i, 'node': node} for i in range(60_000)]": [
        ("dicts, and of", "have the same keys ('id', 'node')", "__slots__")
    ],
    "rows = [{f'k{i}': node} for i in range(60_000)]": [],
    "rows = [{i: node} for i in range(60_000)]": [],
    "rows = [(i, [node]) for i in range(60_000)]": [
        ("tuples, and of", "hold a container (", "% list", "leave the collector's sight")
    ],
    "rows = [(i, node) for i in range(60_000)]": [],
}


def _census(heap: str, executable: str = "", program: str = CENSUS) -> dict[str, Any]:
    ran = subprocess.run(
        [executable or found()[-1].executable, "-c", program.format(heap=heap), str(SOURCE)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    counted: dict[str, Any] = json.loads(ran.stdout)
    return counted


@every_interpreter
def test_a_pass_moves_nothing_to_where_it_is_counted_again(interpreter: Interpreter) -> None:
    # Young lists, and a pass that is due as soon as the census has made some objects of its own.
    due = CENSUS.replace("print(", "gc.set_threshold(gc.get_count()[0] + ahead); gc.enable()\nprint(")
    for ahead in (10, 50, 200):
        heap = f"gc.disable(); requests = [[node] * 3 for _ in range(3_000)]; ahead = {ahead}"
        rows = _census(heap, interpreter.executable, due)["rows"]
        assert 3_000 <= {name: count for name, count, *_ in rows}["list"] < 3_500


@pytest.mark.parametrize("heap", HEAPS)
def test_advice_rests_on_what_was_looked_at(heap: str) -> None:
    lines = list(advice(_census(heap)))
    assert len(lines) == len(HEAPS[heap]), lines
    for line, words in zip(lines, HEAPS[heap], strict=True):
        assert all(word in line for word in words), line


def test_an_older_census_earns_no_advice() -> None:
    counted = _census("requests = [list(range(100)) for _ in range(3_000)]")
    assert list(advice(counted))
    del counted["among"], counted["items"]
    assert not list(advice(counted))


def _with(*largest: tuple[int, str, str]) -> dict[str, Any]:
    return {"largest": [list(one) for one in largest]}


def test_containers_that_grow_are_named() -> None:
    before = _with((5_000, "dict", "a.cache"), (9_000, "list", "a.rows"), (4_000, "dict", ""))
    after = _with(
        (9_100, "list", "a.rows"),  # by less than a tenth
        (8_000, "dict", "a.cache"),
        (7_000, "dict", ""),  # nobody knows which it is
        (6_000, "set", "a.cache"),  # of that name there was another kind
        (5_000, "dict", "b.cache"),  # not among the largest then
    )
    (line,) = growing(after, before)
    assert line.startswith("a.cache, a dict, has grown from 5,000 to 8,000 since then")
    assert not list(growing(before, after)), "what has shrunk"
    assert not list(growing(after, None))


def test_a_type_that_was_not_listed_before_is_not_called_new() -> None:
    """Of a type that is not among the most frequent there may have been some: at most all is new."""
    after = _census("rows = [Node() for _ in range(30_000)]")
    for others, every, word in ((0, 1, "new"), (7, 1, "<=+30,0"), (0, 3, "<=+30,0")):
        before = after | {"others": others, "every": every}
        before["rows"] = [row for row in after["rows"] if row[0] != "Node"]
        table = next(block for block in census([("p", after, before)]) if isinstance(block, Table))
        (row,) = [row for row in table.rows if row[0] == "Node"]
        assert row[-1].startswith(word), row
