"""``frostline run`` reads the counters of what it records, and the forecasts rest on them (D4)."""

from __future__ import annotations

import gc
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from frostline.analysis import analyse
from frostline.reach import counters, overview, proc, watching
from frostline.reach.counters import Counters
from frostline.reach.watching import Wanted, Watch
from frostline.recording import read_session
from frostline.recording.layout import COUNTED
from tests.cases.test_cases import incremental
from tests.interpreters import Interpreter, every_interpreter, found
from tests.reach.conftest import make_venv
from tests.reach.under_run import run, running, wait_for, write
from tests.synthetic import Process, write_helper

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
    assert ended.helper["counters"]["readings"] >= 5 and not ended.helper["counters"]["refused"]
    session = read_session(ended.folder)
    assert not [loss for loss in session.losses if loss.slug == "counts-damaged"]
    (process,) = analyse(session).processes
    forecast = process.forecast
    assert forecast is not None and forecast.came >= 5
    assert forecast.read >= 5
    # Until the helper has seen the process nothing is read, and a busy machine costs some: how good it is
    # on a usual one is for `python -m benchmarks forecast` to say (0.99). From the record alone it is half.
    assert 3 * forecast.right >= 2 * forecast.came and forecast.called - forecast.right <= 3


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


def test_where_full_passes_are_held_back_no_count_is_promised() -> None:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 2**31 - 1)
    try:
        said = counters.in_words(os.getpid(), sys.hexversion, 0)
    finally:
        gc.set_threshold(*before)
    if not said:
        pytest.skip("the counters may not be read here")
    assert said == "none comes by itself: threshold 2 is as high as it goes"
    assert "survivors" in counters.in_words(os.getpid(), sys.hexversion, 0)


def own(folder: Path, hexversion: int) -> Wanted:
    """This very process, with a recording that says so."""
    about = proc.stat(os.getpid())
    assert about is not None
    (segment,) = Process(pid=os.getpid(), hexversion=hexversion).write(folder)
    return Wanted(os.getpid(), os.getpid(), about.start_ticks, str(segment))


def test_a_process_that_cannot_be_read_is_told_of(tmp: Path) -> None:
    watch = Watch(str(tmp))
    watch.follow([own(tmp, 0x031000F0)])
    (said,) = wait_for(lambda: watch.as_json()["refused"], "a refusal")
    watch.stop()
    assert said.startswith(f"the collector's counters of pid {os.getpid()} cannot be read: this version")
    assert watch.readings == 0 and not list(tmp.glob("counts-*"))
    # As the helper writes it down, and status shows it.
    write_helper(tmp, [], counters=watch.as_json())
    assert said in overview.read(str(tmp)).notes


def test_what_is_new_is_written_and_only_the_last_two_files_stay(
    tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "LARGEST", 0)  # a file for each writing
    watch = Watch(str(tmp))
    wanted = own(tmp, 0x030B07F0)
    for number in range(4):
        watch._keep(wanted, Counters(number, number + 1, (1, 2, number), (700, 10, 10), 1000, number))
        watch._flush()
    files = sorted(tmp.glob("counts-*.flc"))
    assert len(files) == 2
    kept = [np.frombuffer(path.read_bytes()[8:], COUNTED) for path in files]
    assert [int(rows["pending"][0]) for rows in kept] == [2, 3]
    assert [int(rows["pid"][0]) for rows in kept] == [os.getpid()] * 2
