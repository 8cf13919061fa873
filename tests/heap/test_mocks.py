"""Mocks are named as mocks, one kind and not one for each magic method (B10): every suite has them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.interpreters import Interpreter, found

SOURCE = Path(__file__).parent.parent.parent / "src"

MAKES = """
import gc, json, sys
sys.path.insert(0, sys.argv[1])
from unittest.mock import MagicMock, Mock
from frostline.heap.cycles import as_plain, cycles_of
from frostline.heap.saved import let_go, saved_pass

class Service:
    '''A small class in place of a mock makes no cycle.'''
    def call(self):
        return 42

def magic():
    MagicMock()

def used():
    # Another magic method is set up: the first proxy of the class is another one.
    for name in ("__bool__", "__str__", "__float__", "__int__", "__len__"):
        delattr(MagicMock(), name)

def child():
    Mock().call()

def plain():
    Service().call()

def own_class():
    class Local:
        def method(self):
            return __class__

found = {}
for make in (magic, used, child, plain, own_class):
    make()
    gc.collect()
    gc.disable()
    for _ in range(10):
        make()
    saved = saved_pass()
    found[make.__name__] = as_plain(cycles_of(saved))["kinds"]
    let_go(saved)
    gc.enable()
print(json.dumps(found))
"""


@pytest.mark.parametrize("interpreter", found(), ids=str)
def test_mocks_are_named(interpreter: Interpreter) -> None:
    ran = subprocess.run(
        [interpreter.executable, "-c", MAKES, str(SOURCE)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    seen = json.loads(ran.stdout)
    mock = "unittest.mock.MagicMock"
    path = f"{mock}.__class__ -> class {mock} -> __dict__[a magic method] -> unittest.mock.MagicProxy"
    for name in ("magic", "used"):
        (kind,) = seen[name]
        assert kind["path"] == f"{path} -> __dict__['parent'] -> {mock}", kind
        # What a class is on besides is in the nature of a class, and no news.
        assert kind["pattern"].startswith("a mock:") and kind["left"] == -1, kind
    assert seen["child"] and all(kind["pattern"].startswith("a mock:") for kind in seen["child"])
    assert not seen["plain"]
    (kind,) = seen["own_class"]
    assert "class own_class.Local -> __dict__['method'] -> function method" in kind["path"], kind
    assert kind["pattern"].startswith("a class that is made again"), kind
