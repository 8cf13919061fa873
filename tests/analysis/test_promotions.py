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
