"""How an experiment ends what it has started (A9, A10): also out of its group, and where nobody waits."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from frostline.commands._ending import interruptible
from frostline.experiment.ablation.asking import Failed, stop
from frostline.experiment.ablation.machine import Busy
from frostline.experiment.ablation.plan import read
from frostline.experiment.ablation.running import _server
from frostline.reach.leash import leashed
from tests.experiment.test_ablate import free_port, write_plan
from tests.reach.under_run import DEADLINE, gone

#: Says who it is, with a child that has left its group, and goes on when it is told to end.
COMMAND = """
import os, signal, subprocess, sys, time
def told(number, frame):
    os.write(1, b"told\\n")  # it may be within the print below, which is not to be entered twice
    if sys.argv[1] == "polite":
        os._exit(0)
signal.signal(signal.SIGTERM, told)
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], start_new_session=True)
print(os.getpid(), child.pid, flush=True)
while True:
    time.sleep(0.05)  # a pause() that a signal comes just before would never end
"""
STARTER = """
import signal, subprocess, sys
from frostline.experiment.ablation.asking import stop
from frostline.reach.leash import leashed
signal.signal(signal.SIGINT, signal.default_int_handler)  # where the suite has it ignored
words = [sys.executable, "-c", *sys.argv[1:3]]
with leashed(words, 5, stdin=subprocess.DEVNULL) as process:
    sys.stdin.readline()
    stop(process, float(sys.argv[3]))
print("over", flush=True)
"""


@contextlib.contextmanager
def started(kind: str, patience: float) -> Iterator[tuple[subprocess.Popen[str], int, int]]:
    """Whoever stops it when a line comes; it; and its child."""
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, COMMAND, kind, str(patience)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert starter.stdout is not None and starter.stdin is not None
        leader, child = map(int, starter.stdout.readline().split())
        starter.stdin.write("\n")
        starter.stdin.flush()
        assert starter.stdout.readline() == "told\n"
        yield starter, leader, child
    finally:
        starter.kill()  # it takes what it has started along
        starter.communicate(timeout=DEADLINE)


@pytest.mark.parametrize(("kind", "patience"), [("polite", 600.0), ("stubborn", 0.2)])
def test_what_has_left_the_servers_group_ends_with_it(kind: str, patience: float) -> None:
    with started(kind, patience) as (starter, leader, child):
        assert starter.stdout is not None and starter.stdout.readline() == "over\n"
        assert gone(leader, DEADLINE) and gone(child, DEADLINE)


def test_a_second_interrupt_does_not_leave_a_server_that_takes_its_time() -> None:
    with started("stubborn", 600.0) as (starter, leader, child):
        starter.send_signal(signal.SIGINT)
        assert starter.wait(DEADLINE) != 0
        assert gone(leader, DEADLINE) and gone(child, DEADLINE)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_ends_a_command_does_so_as_ctrl_c_does_unless_it_is_ignored(number: int) -> None:
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, number)}
    try:
        for action in (signal.default_int_handler, signal.SIG_IGN):  # a shell's background ignores it
            signal.signal(signal.SIGINT, action)
            signal.signal(number, signal.SIG_DFL)
            with pytest.raises(KeyboardInterrupt), interruptible():
                os.kill(os.getpid(), number)
                signal.pause()
            assert signal.getsignal(number) is signal.SIG_DFL
        signal.signal(number, signal.SIG_IGN)  # nohup
        with interruptible():
            os.kill(os.getpid(), number)
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        for one, action in before.items():
            signal.signal(one, action)


#: Has a child that works for 0.4 s of CPU time, and goes without waiting for it, or not.
WORKING = """
import os, signal, subprocess, sys, time
work = "import os, signal, time\\nwhile time.process_time() < 0.4: pass\\nos.write(1, b'w')\\nsignal.pause()"
child = subprocess.Popen([sys.executable, "-c", work], stdout=subprocess.PIPE)
child.stdout.read(1)
def told(number, frame):
    if sys.argv[1] == "waits":
        child.kill()
        child.wait()
    os._exit(0)
signal.signal(signal.SIGTERM, told)
print("ready", flush=True)
while True:
    time.sleep(0.05)
"""


@pytest.mark.parametrize("kind", ["waits", "goes"])
def test_what_a_server_has_used_that_leaves_its_workers_is_not_other_programs(kind: str) -> None:
    command = [sys.executable, "-c", WORKING, kind]
    with leashed(command, 5, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        added = stop(process, 60.0)
        process.stdout.close()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    system = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if kind == "goes":
        assert 0.37 <= added < 1.0  # in ticks, each of its parts rounded down
    else:  # to the ticks that it is told in
        assert added <= 0.05 and system >= 0.4


def test_an_interrupt_is_none_of_the_runs_that_are_made_again(tmp_path: Path) -> None:
    """Also where the server has ended: that alone would be a run that does not count."""
    plan = read(write_plan(tmp_path, free_port()))
    for kind, expected in ((KeyboardInterrupt, KeyboardInterrupt), (ValueError, Failed)):
        folder = tmp_path / kind.__name__
        folder.mkdir()
        with pytest.raises(expected), _server(plan, plan.arms[0], folder, print, Busy()) as pid:
            os.kill(pid, signal.SIGKILL)
            assert gone(pid, DEADLINE)
            raise kind
