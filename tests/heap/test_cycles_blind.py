"""Corpora whose authors had not seen the detector (B10): each cycle named right, no twin claimed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interpreters import Interpreter, found

HERE = Path(__file__).parent
SOURCE = HERE.parent.parent / "src"


#: Each by another author. The detector has learned from the first and, in one point, from the third.
CORPORA = {
    "first": ("corpus_blind", "corpus_blind_tasks", "corpus_blind_library", "corpus_blind_objects"),
    "second": tuple(f"corpus_second_{part}" for part in (1, 2, 3, 4)),
    "third": tuple(f"corpus_third_{part}" for part in (1, 2, 3, 4)),
}


@pytest.mark.parametrize("corpus", CORPORA)
@pytest.mark.parametrize("interpreter", found(), ids=str)
def test_each_cycle_is_named_and_no_twin_is(interpreter: Interpreter, corpus: str) -> None:
    ran = subprocess.run(
        [
            interpreter.executable,
            "-X",
            "utf8",
            str(HERE / "one_blind.py"),
            str(SOURCE),
            str(HERE),
            *CORPORA[corpus],
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    rows = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(rows) >= 40 and len({row["kind"] for row in rows}) >= 10
    wrong = []
    if interpreter.version >= (3, 15):  # its json.dump runs without a function that refers to itself
        rows = [row for row in rows if row["name"] != "payload_by_json_dump"]
    for row in rows:
        answers = [kind for kind in row["made"]["kinds"] if kind["count"] == 10]
        if not any(_names_all(f"{kind['path']} | {kind['pattern']}", row["words"]) for kind in answers):
            wrong.append(f"{row['name']}: {row['words']} not in {answers or row['made']}")
        if row["clean"]["kinds"]:
            wrong.append(f"{row['name']}: the twin makes {row['clean']['kinds']}")
    assert not wrong, "\n".join(wrong)


def _names_all(text: str, words: list[str | list[str]]) -> bool:
    return all(any(one in text for one in ([word] if isinstance(word, str) else word)) for word in words)


TWO_KINDS = """
import functools, gc, sys
from frostline.heap.cycles import cycles_of
from frostline.heap.saved import let_go, saved_pass

class Meta(type):
    called = 0
    def __eq__(cls, other):
        Meta.called += 1
        return True
    def __hash__(cls):
        Meta.called += 1
        return 1

class Hostile(metaclass=Meta):
    pass

def first(): pass
def second(): pass

def make(function, cls=type("Plain", (), {})):
    one = cls()
    one.call = functools.partial(function, one)

gc.disable()
for function in (len, first, first, second):  # one without code goes before
    make(function)
make(first, Hostile)
Meta.called = 0
saved = saved_pass()
told = cycles_of(saved)
assert not Meta.called, "code of the program's ran"
let_go(saved)
for kind in told.kinds:
    print(kind.count, kind.path)
"""


def test_partials_of_different_functions_are_different_kinds() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", TWO_KINDS], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert len(lines) == 4, lines
    assert sum(line.startswith("2 Plain") and "of function first" in line for line in lines) == 1
    assert sum(line.startswith("1 Plain") and "of function second" in line for line in lines) == 1
    assert sum(line.startswith("1 Plain") and "function" not in line for line in lines) == 1
    assert sum(line.startswith("1 Hostile") and "of function first" in line for line in lines) == 1
