"""``frostline watch-threads`` on real processes: suspects where there are some, and what they are."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.quiet import cgroup, inside
from tests.reach.under_run import FROSTLINE, environment, running, wait_for

#: Waits for a line, then runs a pass and a C call of about 0.3 s each, apart from each other; another
#: thread is awake beside it. Prints when each was, and which part of it this thread was on a CPU.
TARGET = """
import gc, json, sys, threading, time
gc.disable()
heap = [[i] for i in range(2_500_000)]
stop = threading.Event()
def awake():
    while not stop.wait(0.004):
        sum(range(30_000))
threading.Thread(target=awake, name="beside").start()
def timed(what, act):
    begun, cpu = time.monotonic_ns(), time.thread_time_ns()
    act()
    wall = time.monotonic_ns() - begun
    return [what, begun, begun + wall, (time.thread_time_ns() - cpu) / wall]
many = 5_000_000
took = 0
while took < 0.25:
    begun = time.thread_time(); sum(range(many)); took = time.thread_time() - begun
    many = many if took >= 0.25 else many * 2
def collect():
    until = time.monotonic() + 0.2
    while True:
        gc.collect()
        if time.monotonic() > until: return
print("ready", flush=True)
sys.stdin.readline()
found = []
for what, act in (("pass", collect), ("call", lambda: sum(range(many)))):
    time.sleep(0.5)
    found.append(timed(what, act))
time.sleep(0.5)
stop.set()
print(json.dumps(found), flush=True)
sys.stdin.readline()
"""


@contextlib.contextmanager
def watching(tmp_path: Path, *arguments: str, mine: str = "") -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        inside(mine, *FROSTLINE, "watch-threads", *arguments),
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=30)


def begun(process: subprocess.Popen[str]) -> None:
    assert process.stderr is not None
    assert process.stderr.readline().startswith("watching")


def test_beside_a_recording_a_pass_is_told_from_a_long_call(tmp_path: Path) -> None:
    program = tmp_path / "target.py"
    program.write_text(textwrap.dedent(TARGET))
    with cgroup() as mine, running(tmp_path, *inside(mine, sys.executable, str(program))) as target:
        assert target.stdin is not None and target.stdout is not None
        assert target.stdout.readline() == "ready\n"
        with watching(tmp_path, str(tmp_path / "rec"), "--json", mine=mine) as watcher:
            begun(watcher)
            target.stdin.write("go\n")
            target.stdin.flush()
            times = {what: rest for what, *rest in json.loads(target.stdout.readline())}
            watcher.send_signal(signal.SIGINT)
            output, errors = watcher.communicate(timeout=60)
        assert watcher.returncode == 0, errors
        data: dict[str, Any] = json.loads(output)
    assert data["cost"]["looks"] > 50 and 0 < data["cost"]["cpu_share"] < 0.5
    if min(share for *_, share in times.values()) < 0.93:
        pytest.skip(f"the machine was too busy for one thread to be hot: {times}")
    for what, (start, stop, share) in times.items():
        mine = [s for s in data["suspects"] if s["start"] < stop and s["stop"] > start]
        assert len(mine) == 1, (what, data["suspects"])
        (one,) = mine
        # The kernel adds CPU time up at its ticks, up to 10 ms apart, and the thread beside may run a few
        # of its turns at an edge; how near edges are is measured by the benchmark, not here.
        allowed = one["edges"] + 40e6 + (1 - share) * (stop - start)
        assert abs(one["start"] - start) <= allowed and abs(one["stop"] - stop) <= allowed, what
        assert one["is_main"] and one["verdict"] == ("a pass" if what == "pass" else "not a pass")
        assert one["waiting"], "the thread beside it waited"
    assert data["not_seen"] == []


#: A pass that lasts because a finalizer sleeps in it: nobody is hot.
SLEEPER = """
import gc, sys, time
gc.disable()
class Slow:
    def __del__(self): time.sleep(0.2)
print("ready", flush=True)
sys.stdin.readline()
slow = Slow()
slow.me = slow
del slow
gc.collect()
print("done", flush=True)
sys.stdin.readline()
"""


def test_a_pass_that_was_no_suspect_is_told_where_there_are_no_suspects(tmp_path: Path) -> None:
    program = tmp_path / "target.py"
    program.write_text(SLEEPER)
    with running(tmp_path, sys.executable, str(program)) as target:
        assert target.stdin is not None and target.stdout is not None
        assert target.stdout.readline() == "ready\n"
        with watching(tmp_path, str(target.pid)) as watcher:
            begun(watcher)
            target.stdin.write("go\n")
            target.stdin.flush()
            assert target.stdout.readline() == "done\n"
            watcher.send_signal(signal.SIGINT)
            output, errors = watcher.communicate(timeout=60)
        assert watcher.returncode == 0, errors
    assert "No window of 50 ms" in output
    assert "1 passes of 60 ms and more were not seen" in output
    assert "not seen: generation 2 of" in output


def test_any_process_and_its_children(tmp_path: Path) -> None:
    """A shell that spins, as a child of one that waits: nothing of ours is in it, and it is no Python."""
    script = "sh -c 'echo here; i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done' & wait; read line"
    with cgroup() as mine:
        output = watch_a_shell(tmp_path, mine, script)
    assert "of one CPU" in output
    if "suspect" not in output.splitlines()[0]:
        pytest.skip(f"the machine was too busy: {output}")
    assert "suspect, its main thread alone was hot for" in output
    assert "Whether they are passes of the collector cannot be told from outside" in output


def watch_a_shell(tmp_path: Path, mine: str, script: str) -> str:
    target = subprocess.Popen(
        inside(mine, "sh", "-c", script), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert target.stdout is not None and target.stdout.readline() == "here\n"
        with watching(tmp_path, str(target.pid), "--tree", "--seconds", "2", mine=mine) as watcher:
            begun(watcher)
            output, errors = watcher.communicate(timeout=60)
        assert watcher.returncode == 0, errors
    finally:
        target.communicate("\n", timeout=60)
    return output


def test_the_end_of_the_process_ends_it(tmp_path: Path) -> None:
    target = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    with watching(tmp_path, str(target.pid)) as watcher:
        begun(watcher)
        target.communicate(b"", timeout=30)
        output, errors = watcher.communicate(timeout=60)
    assert watcher.returncode == 0, errors
    assert "No window of 50 ms" in output


@pytest.mark.parametrize(
    ("arguments", "code", "slug"),
    [
        (["999999999"], 1, "no-process"),
        (["1", "--interval", "1s"], 2, "bad-interval"),
        (["1", "--interval", "soon"], 2, "bad-duration"),
        (["nowhere"], 1, "no-session"),
    ],
)
def test_what_cannot_be_watched(tmp_path: Path, arguments: list[str], code: int, slug: str) -> None:
    done = subprocess.run(
        [*FROSTLINE, "watch-threads", *arguments],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
    )
    assert done.returncode == code and f"[{slug}]" in done.stderr, done.stderr


def test_of_many_threads_it_looks_less_often(tmp_path: Path) -> None:
    """It keeps to a tenth of a CPU, whatever there is to watch."""
    from frostline.reach.watch import SHARE, Watch

    program = (
        "import threading, sys, time\n"
        "stop = threading.Event()\n"
        "def work():\n    while not stop.wait(0.001): pass\n"
        "for _ in range(60): threading.Thread(target=work).start()\n"
        "print('ready', flush=True); sys.stdin.read(); stop.set()"
    )
    target = subprocess.Popen(
        [sys.executable, "-S", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert target.stdout is not None and target.stdout.readline() == "ready\n"
        watch = Watch({target.pid: "many"}, False, 1_000_000)
        assert len(watch.processes[target.pid].threads) == 61
        for _ in range(100):
            watch.round()
            wait_for(lambda: watch.wait() <= 0, "the next look is due")
        cost = watch.cost()
    finally:
        target.communicate(timeout=30)
    # What a look costs decides: where it is over 0.1 ms, it looks less often than every millisecond.
    assert cost.used >= cost.asked and cost.share <= 2 * SHARE
    assert os.getpid() not in watch.processes
