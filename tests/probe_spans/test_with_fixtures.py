"""A recorded test suite that holds spans and stand-ins to our own plugin's fixtures (B5, D10)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from frostline.recording import read_session
from tests.probe_spans.reading import labels
from tests.reach.under_run import Ended, run

SUITE = """
import asyncio, contextlib, gc
import frostline, pytest

class Ticket:
    def collect(self, other=None): return other
    async def later(self): await asyncio.sleep(0)
    def many(self): yield self
    def fail(self): raise ValueError(self)

NAMES = ("collect", "later", "many", "fail")

def use(ticket):
    for name in NAMES:
        frostline.wrap(ticket, name, name)
    ticket.collect(ticket)
    coroutine = ticket.later()
    with contextlib.suppress(StopIteration):
        while True: coroutine.send(None)
    list(ticket.many())
    with contextlib.suppress(ValueError): ticket.fail()
    with frostline.span("block", batch=3, group="g"):
        pass
    frostline.end(frostline.begin("split"))

def test_a_ticket_dies_with_its_last_user(released):
    checks = []
    for _ in range(20):
        ticket = Ticket()
        checks.append(released(ticket))
        use(ticket)
        del ticket
        checks.pop()()

def test_spans_make_no_cycle(no_cycles):
    use(Ticket())
    with no_cycles():
        for _ in range(20):
            use(Ticket())

def test_what_stands_in_for_gc_makes_no_cycle(no_cycles):
    def stand_ins():
        gc.set_threshold(*gc.get_threshold())
        gc.freeze(); gc.unfreeze()
        gc.enable(); gc.disable()
        with contextlib.suppress(TypeError): gc.collect("nonsense")
    stand_ins()
    with no_cycles():
        for _ in range(20):
            stand_ins()
    assert type(gc.collect).__module__.startswith("frostline.")  # it was ours that was asked

@pytest.mark.no_cycles
def test_wrapping_and_unwrapping_makes_no_cycle():
    for _ in range(20):
        ticket = Ticket()
        handle = frostline.wrap(ticket, "collect", "undone")
        assert not handle.reason and handle.undo()

def bad_wrap(ticket):
    original = ticket.collect
    ticket.collect = lambda other=None: original(other)

def test_control_cycle(no_cycles):
    with no_cycles():
        bad_wrap(Ticket())

def test_control_kept(released):
    ticket = Ticket()
    bad_wrap(ticket)
    check = released(ticket)
    del ticket
    check()
"""


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    folder: Path = tmp_path_factory.mktemp("recorded")
    (folder / "test_suite.py").write_text(SUITE)
    return run(folder, sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "test_suite.py")


def test_the_recorder_keeps_its_promises(suite: Ended) -> None:
    for name in (
        "a_ticket_dies_with_its_last_user",
        "spans_make_no_cycle",
        "what_stands_in_for_gc_makes_no_cycle",
        "wrapping_and_unwrapping_makes_no_cycle",
    ):
        assert f"PASSED test_suite.py::test_{name}" in suite.output, suite.output + suite.errors


def test_the_fixtures_would_have_told(suite: Ended) -> None:
    for name in ("cycle", "kept"):
        assert f"FAILED test_suite.py::test_control_{name}" in suite.output, suite.output
    assert "__dict__['collect'] -> function <lambda> (test_suite.py:" in suite.output, suite.output


def test_and_it_was_recorded(suite: Ended) -> None:
    (series,) = read_session(suite.folder).series
    # 20 tickets that die, 1 + 20 that make no cycle.
    assert {
        name: labels(series)[name] for name in ("later", "many", "fail", "block", "split")
    } == dict.fromkeys(("later", "many", "fail", "block", "split"), 41)
