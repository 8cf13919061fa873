"""Which types gen-1 passes promote, by a census before some of them, on every version (D5)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from frostline.analysis import ProcessReport, analyse
from frostline.report import plain, report
from tests.cases.test_cases import incremental
from tests.interpreters import Interpreter, every_interpreter, found
from tests.probe.target import run

#: Sessions that stay; what is made beside them is gone at once, or garbage in a cycle.
PROGRAM = """
import gc, json
gc.set_threshold(300, 4, 1000)

class Session:
    def __init__(self):
        self.items = [[]]

kept = []
for number in range(20_000):
    kept.append(Session())
    cycle = []
    cycle.append(cycle)
    del cycle
print(json.dumps([gc.get_stats()[2]["collected"], gc.get_stats()[1]["collections"]]))
"""
LATEST = found()[-1]


def process_of(session: object) -> ProcessReport:
    (process,) = analyse(session).processes  # type: ignore[arg-type]
    return process


@every_interpreter
def test_the_types_that_stay_are_named(interpreter: Interpreter, tmp_path: Path) -> None:
    ran = run(interpreter, tmp_path, PROGRAM, FROSTLINE_PROMOTIONS="2")
    assert (ran.code, ran.errors) == (0, "")
    process = process_of(ran.session)
    if incremental(interpreter):
        assert process.promotions is None
        return
    promotions = process.promotions
    assert promotions is not None
    collected, passes = json.loads(ran.output)
    # Every second one at first, fewer later; the main thread runs, so none comes too late.
    assert 10 <= promotions.samples <= passes // 2 + 1
    names = [one.name for one in promotions.types]
    assert "__main__.Session" in names and "builtins.list" in names
    session = next(one for one in promotions.types if one.name == "__main__.Session")
    assert session.samples == promotions.samples and 0.15 < session.share < 0.5
    assert 100 <= session.objects <= promotions.objects
    assert 0 < promotions.longest <= promotions.cost
    # The garbage that it saw was not kept alive by it: the gen-1 pass that followed took it.
    assert collected == 0
    # It is no pass of the collector's, and not inside one.
    for one in (mark for mark in process.series.marks if mark.label == "promoted"):
        inside = (process.series.passes["start"] < one.time) & (one.time < process.series.passes["stop"])
        assert not inside.any()
    assert not process.other_callbacks
    text = "\n".join(plain(report(analyse(ran.session))))
    assert "types in generation 1 just before gen-1 passes" in text and "of its main thread" in text


def test_nothing_is_sampled_where_nobody_asked(tmp_path: Path) -> None:
    code = PROGRAM + "import sys; print('frostline.agent.promotions' in sys.modules)\n"
    ran = run(LATEST, tmp_path, code)
    assert ran.code == 0 and ran.output.splitlines()[-1] == "False"
    assert process_of(ran.session).promotions is None


@pytest.mark.parametrize("text", ["0", "-1", "many", "99999999999999999999"])
def test_a_number_that_is_none_samples_nothing(tmp_path: Path, text: str) -> None:
    ran = run(LATEST, tmp_path, PROGRAM, FROSTLINE_PROMOTIONS=text)
    assert (ran.code, ran.errors) == (0, "")
    assert process_of(ran.session).promotions is None


def test_a_collector_that_is_off_stays_off_and_a_detach_takes_it_out(tmp_path: Path) -> None:
    ran = run(
        LATEST,
        tmp_path,
        """
        import gc, signal
        from frostline import probe
        from frostline.agent import detaching, promotions
        sampler = promotions._sampler
        sampler.armed = True
        gc.disable()
        sampler.sample()
        assert not gc.isenabled() and sampler.taken == 1
        gc.enable()
        sampler.armed = True
        sampler.sample()
        assert gc.isenabled() and sampler.taken == 2
        detaching.detach(probe.recorder_of_this_process())
        assert signal.getsignal(promotions.SIGNUM) == signal.SIG_DFL
        assert sampler.on_pass not in gc.callbacks
        """,
        FROSTLINE_PROMOTIONS="1",
    )
    assert (ran.code, ran.errors) == (0, "")


def test_a_handler_of_the_hosts_for_that_signal_is_called_too(tmp_path: Path) -> None:
    ran = run(
        LATEST,
        tmp_path,
        """
        import os, signal
        from frostline.agent import promotions
        ours, told = signal.getsignal(promotions.SIGNUM), []
        promotions._previous = lambda signum, frame: told.append(signum)
        os.kill(os.getpid(), promotions.SIGNUM)
        assert told == [promotions.SIGNUM] and ours is promotions._on_signal
        """,
        FROSTLINE_PROMOTIONS="1",
    )
    assert (ran.code, ran.errors) == (0, "")


#: The same with tracemalloc on: line 7 makes the sessions, line 9 the lists in them.
ALLOCATES = """
import gc, os
gc.set_threshold(300, 4, 1000)
class Session:
    __slots__ = ("items",)
def session():
    one = Session()
    # A list of its own, so that it is told from the session's line.
    one.items = [[]]
    return one

before = [[] for _ in range(100)]
if "TRACED" in os.environ:
    import tracemalloc
    tracemalloc.start()
kept = []
for number in range(20_000):
    kept.append(session())
"""


@every_interpreter
def test_the_lines_that_allocate_what_is_promoted_are_named(interpreter: Interpreter, tmp_path: Path) -> None:
    ran = run(interpreter, tmp_path, ALLOCATES, FROSTLINE_PROMOTIONS="1", TRACED="1")
    assert (ran.code, ran.errors) == (0, "")
    promotions = process_of(ran.session).promotions
    if incremental(interpreter):
        assert promotions is None
        return
    assert promotions is not None and promotions.allocated is not None
    told = promotions.allocated
    # A census or two may come before it is on. On a machine so busy that each takes long, they get fewer.
    assert 4 <= told.samples <= promotions.samples <= told.samples + 2
    # Of each census at most 200, and all but what was there before it was on.
    assert 100 * told.samples < told.asked <= 200 * told.samples
    assert told.unknown < 0.1 * told.asked
    assert 0 < told.cost <= promotions.cost
    path = str(tmp_path / "target_script.py")
    lines = {(one.name, one.line): one for one in told.sites if one.file == path}
    session, items = lines["__main__.Session", 7], lines["builtins.list", 9]
    # Of each session there are one of the one and two of the other.
    assert told.samples - 1 <= session.samples <= items.samples <= told.samples
    assert 0.25 < session.share < 0.40 and 0.55 < items.share < 0.75
    assert 0.3 < session.objects / items.objects < 0.7
    assert sum(one.share for one in told.sites) <= 1
    text = "\n".join(plain(report(analyse(ran.session))))
    assert "Where it was allocated, by tracemalloc" in text and f"{path}:9" in text
    assert f"{told.asked:,} objects in {told.samples:,} samples were asked about" in text


def test_without_tracemalloc_no_line_is_told_and_how_to_hear_it_is_said(tmp_path: Path) -> None:
    ran = run(LATEST, tmp_path, ALLOCATES, FROSTLINE_PROMOTIONS="1")
    assert (ran.code, ran.errors) == (0, "")
    process = process_of(ran.session)
    assert process.promotions is not None and process.promotions.allocated is None
    assert not any(mark.label == "allocated" for mark in process.series.marks)
    assert "PYTHONTRACEMALLOC=1" in "\n".join(plain(report(analyse(ran.session))))


def test_what_was_there_before_tracemalloc_is_counted_as_unknown(tmp_path: Path) -> None:
    """As under PYTHONTRACEMALLOC, which leaves no module ``tracemalloc`` behind to be found."""
    ran = run(
        LATEST,
        tmp_path,
        """
        import gc, sys
        import _tracemalloc
        from frostline.agent import promotions
        gc.disable()
        kept = [[None] for _ in range(500)]
        gc.collect(0)
        _tracemalloc.start(1)
        sampler = promotions._sampler
        sampler.armed = True
        sampler.sample()
        assert sampler.taken == 1 and "tracemalloc" not in sys.modules
        """,
        FROSTLINE_PROMOTIONS="1",
    )
    assert (ran.code, ran.errors) == (0, "")
    promotions = process_of(ran.session).promotions
    assert promotions is not None and promotions.allocated is not None
    told = promotions.allocated
    assert told.asked > 100 and told.unknown > 0.9 * told.asked
