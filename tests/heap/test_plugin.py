"""The pytest plugin (D9, D10): each promise kept and broken once, in a real pytest of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SUITE = """
import gc
import pytest

class Ticket:
    pass

def cycle():
    ticket = Ticket()
    ticket.me = ticket

def test_cycle_in_block(no_cycles):
    with no_cycles():
        cycle()

def test_none_in_block(no_cycles):
    with no_cycles():
        Ticket()

def test_excused(no_cycles):
    with no_cycles(allow=("__dict__['me']",)):
        cycle()

def test_excused_by_one_text(no_cycles):
    with no_cycles(allow="__dict__['me']"):
        cycle()

def test_excuse_of_another(no_cycles):
    with no_cycles(allow="Session"):
        cycle()

@pytest.mark.no_cycles("Session")
def test_excuse_by_mark():
    cycle()

@pytest.mark.no_cycles
def test_cycle_by_mark():
    cycle()

def test_plain_failure():
    raise ValueError("of its own")

@pytest.mark.no_cycles
def test_none_by_mark():
    Ticket()

kept = []

def test_released(released):
    ticket = Ticket()
    check = released(ticket)
    del ticket
    check()

def test_held(released):
    ticket = Ticket()
    kept.append(ticket)
    released(ticket)
    del ticket

def test_failed_before(released):
    ticket = Ticket()
    released(ticket)
    raise ValueError("another one")

def test_local_class(released):
    class Local:
        pass
    for _ in range(50):
        cycle()
    one = Local()
    one.me = one
    check = released(one)
    del one
    check()

def test_held_by_its_cycle(released):
    ticket = Ticket()
    ticket.me = ticket
    check = released(ticket)
    del ticket
    check()

@pytest.mark.pause_budget(full=0)
def test_over_budget():
    gc.collect()

@pytest.mark.pause_budget(full=1, ms=60_000)
def test_within_budget():
    gc.collect()

def test_block_over_budget(pause_budget):
    gc.collect()  # before the block: none of it
    with pause_budget(full=0, ms=60_000):
        gc.collect()

def test_block_within_budget(pause_budget):
    with pause_budget(full=1, passes=60_000):
        gc.collect()
    gc.collect()

def test_block_misspelt(pause_budget):
    with pause_budget(seconds=1):
        pass

@pytest.mark.pause_budget(fulll=1)
def test_misspelt():
    pass

def test_state_is_left():
    assert gc.isenabled() and not gc.get_debug() and not gc.callbacks
    assert not hasattr(gc.collect, "__wrapped__")
"""
GOOD = (
    "none_in_block", "excused", "excused_by_one_text", "none_by_mark", "released", "within_budget",
    "block_within_budget", "state_is_left",
)  # fmt: skip
BAD = {
    "plain_failure": "ValueError: of its own",
    "cycle_in_block": "Ticket -> __dict__['me'] -> test_suite.Ticket",
    "cycle_by_mark": "Ticket -> __dict__['me'] -> test_suite.Ticket",
    "excuse_of_another": "cyclic garbage was made",
    "excuse_by_mark": "cyclic garbage was made",
    "failed_before": "ValueError: another one",
    "local_class": "1 x  test_suite.test_local_class.Local -> ",
    "held": "is alive, held by test_suite.kept[0]",
    "held_by_its_cycle": "by cycles alone",
    "block_over_budget": "over its pause budget: 1 full passes (at most 0)",
    "block_misspelt": "pause_budget takes ms=, full= and passes=, not seconds",
    "over_budget": "1 full passes (at most 0)",
    "misspelt": "pause_budget takes ms=, full= and passes=, not fulll",
}


def run(folder: Path, *options: str) -> str:
    (folder / "test_suite.py").write_text(SUITE)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", *options, "test_suite.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return ran.stdout + ran.stderr


def test_each_promise_is_kept_and_can_fail(tmp_path: Path) -> None:
    text = run(tmp_path)
    for name in GOOD:
        assert f"PASSED test_suite.py::test_{name}" in text, text
    for name, words in BAD.items():
        assert f"FAILED test_suite.py::test_{name}" in text or f"ERROR test_suite.py::test_{name}" in text, (
            text
        )
        assert words in text, f"{words!r} not in\n{text}"
    # A test that failed has one failure, and what it made beside is not told of another class.
    assert "ERROR test_suite.py::test_failed_before" not in text, text
    assert "50 x  test_suite.Ticket" not in text, text


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_the_summary_names_the_callers(tmp_path: Path, workers: tuple[str, ...]) -> None:
    if workers:
        pytest.importorskip("xdist")
    text = run(tmp_path, "--frostline", *workers)
    assert "the collector, by frostline" in text
    assert "gc.collect() is called" in text
    callers = text.partition("gc.collect() is called")[2]
    assert "test_suite.py:" in callers and "pytest_plugin.py" not in callers


OWN_NAME = """
import gc
collect = gc.collect   # taken before the plugin wraps it, as SQLAlchemy's tests do

def test_calls():
    gc.set_threshold(100_000)   # so that no automatic pass is due
    collect()
    collect()
    gc.collect()

def test_automatic():
    gc.set_threshold(10)
    kept = [[] for _ in range(1000)]
"""


@pytest.mark.parametrize("more", [(), ("--frostline-cycles", "test")], ids=["alone", "cycles"])
def test_a_call_by_another_name_is_counted(tmp_path: Path, more: tuple[str, ...]) -> None:
    """Each with its own line, those that did not come by ``gc.collect`` too; automatic passes are none."""
    (tmp_path / "test_own_name.py").write_text(OWN_NAME)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--frostline", *more],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "gc.collect() is called 3 times, in 1 tests:" in ran.stdout, ran.stdout + ran.stderr
    assert [f"test_own_name.py:{line}" in ran.stdout for line in (7, 8, 9, 13)] == [True, True, True, False]


TICKETS = """
class Ticket:
    def __init__(self):
        self.me = self

def make(many):
    for _ in range(many):
        Ticket()
"""

CYCLES = """
import gc
from tickets import make

gc.disable()   # so that each is there to be seen; the counts below are exact
collect = gc.collect   # as it was before the plugin came: such a call is not looked at

def test_three():
    make(3)

def test_five():
    make(5)

def test_hidden():
    make(4)
    collect()

def test_collected():
    make(2)
    assert gc.collect() >= 2

def test_none():
    make(0)
"""


@pytest.mark.parametrize("workers", [(), ("-n", "2", "--dist", "loadfile")], ids=["alone", "xdist"])
@pytest.mark.parametrize("each", ["test", "module"])
def test_the_cycles_of_a_suite_are_named(tmp_path: Path, each: str, workers: tuple[str, ...]) -> None:
    """One entry a kind, added up over files and workers, with the test or module that makes most of it."""
    if workers:
        pytest.importorskip("xdist")
    (tmp_path / "tickets.py").write_text(TICKETS)
    (tmp_path / "test_one.py").write_text(CYCLES)
    (tmp_path / "test_two.py").write_text(CYCLES.replace("make(5)", "make(6)").replace("    collect()\n", ""))
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--frostline-cycles",
            each,
            *workers,
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    text = ran.stdout
    assert ran.returncode == 0, text + ran.stderr
    kinds = [line for line in text.splitlines() if "Ticket -> __dict__" in line]
    count, most, hidden = (
        ("25", "became garbage in 7 tests, most in test_two.py::test_five (6)", "; 4 more by other passes")
        if each == "test"
        else ("17", "became garbage in 2 modules, most in test_two.py (15)", "; 12 more by other passes")
    )
    assert "and 2 of 2 calls of gc.collect() in them" in text, text
    assert len(kinds) == 1 and kinds[0].split()[0] == count, text
    assert hidden in text, text
    assert most in text, text


def test_inert_unless_used(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(
        "import gc, sys\n"
        "def test_nothing():\n"
        "    assert not gc.callbacks and not [m for m in sys.modules if m.startswith('frostline.heap')]\n"
    )
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PATH": "/usr/bin:/bin", "FROSTLINE_DISABLE": "1"},
    )
    assert ran.returncode == 0, ran.stdout
