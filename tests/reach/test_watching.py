"""``frostline run`` reads the counters of what it records, and the forecasts rest on them (D4)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from frostline.analysis import analyse
from frostline.reach import overview
from frostline.recording import read_session
from tests.cases.test_cases import incremental
from tests.interpreters import Interpreter, every_interpreter, found
from tests.reach.conftest import make_venv
from tests.reach.under_run import run, running, wait_for, write

#: Old objects are replaced by new ones: what gen-1 passes leave is twice what net allocation says.
CHURN = """
import gc, random, time
dice = random.Random(7)
gc.set_threshold(700, 4, 3)
heap = [[i] for i in range(20_000)]
gc.collect()
before = gc.get_stats()[2]["collections"]
while gc.get_stats()[2]["collections"] - before < 8:
    for _ in range(300):
        heap[dice.randrange(20_000)] = [1]
        heap.append([1])
    time.sleep(0.0003)
"""


#: Nine thousand lists wait for the next full pass.
WAITING = """
import gc, sys
gc.disable()
gc.collect()
kept = [[n] for n in range(9000)]
gc.collect(1)
print("up", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def tmp(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for link in tmp_path.rglob("active"):
        shutil.rmtree(link.readlink(), ignore_errors=True)


@every_interpreter
def test_full_passes_are_called_at_the_stop_before(
    interpreter: Interpreter, tmp: Path, with_frostline: str
) -> None:
    if incremental(interpreter):
        pytest.skip("no full pass starts by itself")
    ended = run(tmp, with_frostline, str(write(tmp / "churn.py", CHURN)))
    assert (ended.code, ended.errors) == (0, "")
    assert ended.helper["counters"]["readings"] > 20 and not ended.helper["counters"]["refused"]
    session = read_session(ended.folder)
    assert not [loss for loss in session.losses if loss.slug == "counts-damaged"]
    (process,) = analyse(session).processes
    forecast = process.forecast
    assert forecast is not None and forecast.came >= 5
    assert forecast.read > 20
    # One of the first may be missed: until the helper has seen the process, nothing is read. A machine
    # that is busy may cost another.
    assert forecast.right >= forecast.came - 2 and forecast.called - forecast.right <= 3


def test_no_counters_reads_none(tmp: Path) -> None:
    python = make_venv(tmp / "venv", found()[0], True)
    script = write(tmp / "wait.py", "import gc, time; [gc.collect() for _ in range(3)]; time.sleep(1)")
    ended = run(tmp, str(python), str(script), options=("--no-counters",))
    assert ended.code == 0 and ended.recorded
    assert ended.helper["counters"] is None and not list(ended.folder.glob("counts-*"))


def test_status_says_what_the_next_full_pass_waits_for(tmp: Path) -> None:
    interpreter = found()[0]
    python = make_venv(tmp / "venv", interpreter, True)
    with running(tmp, str(python), str(write(tmp / "up.py", WAITING))) as process:
        assert process.stdout is not None and process.stdout.readline().strip() == "up"
        rows = wait_for(lambda: [r for r in overview.read(str(tmp / "rec")).rows if r.next_full], "a reading")
        assert rows[0].next_full.startswith("9,") or rows[0].next_full.startswith("1")
        assert "survivors, count 2 at 1 of 11" in rows[0].next_full
