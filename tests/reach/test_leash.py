"""A command that ends with whoever runs it, by a real SIGKILL of that one (A9)."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from frostline.reach import leash
from tests.reach.under_run import DEADLINE, gone

STARTER = """
import subprocess, sys
from frostline.reach.leash import leashed
command, patience, cpus = sys.argv[1], float(sys.argv[2]), sys.argv[3]
with leashed([sys.executable, "-c", command], patience, cpus, stdin=subprocess.DEVNULL) as process:
    print(process.pid, flush=True)
    sys.stdin.readline()
print("over", flush=True)
"""
#: Says who it is, with a child that has left its process group.
COMMAND = """
import os, signal, subprocess, sys
if "stubborn" in {words!r}:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], start_new_session=True)
print(os.getpid(), child.pid, flush=True)
if "ends" in {words!r}:
    sys.exit(0)
while True:
    signal.pause()
"""


@contextlib.contextmanager
def started(
    command: str, patience: float = 30.0, cpus: str = "", **more: str
) -> Iterator[subprocess.Popen[str]]:
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, command, str(patience), cpus],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **more},
    )
    try:
        yield starter
    finally:
        if starter.poll() is None:
            starter.kill()
        starter.communicate(timeout=DEADLINE)


def lines(starter: subprocess.Popen[str], count: int) -> list[str]:
    assert starter.stdout is not None
    # The starter and its command write side by side.
    return sorted((starter.stdout.readline().strip() for _ in range(count)), key=lambda line: line.count(" "))


@pytest.mark.parametrize(("words", "patience"), [("", 30.0), ("stubborn", 0.2)])
def test_a_killed_starter_takes_the_command_and_what_left_its_group_along(
    words: str, patience: float
) -> None:
    with started(COMMAND.format(words=words), patience) as starter:
        first, both = lines(starter, 2)
        leader, child = map(int, both.split())
        assert int(first) == leader  # the launcher has become the command
        assert os.getpgid(leader) == leader and os.getpgid(child) == child
        starter.kill()
        assert gone(leader, DEADLINE) and gone(child, DEADLINE)


def test_a_starter_that_comes_to_the_end_of_the_block_has_seen_to_it_itself() -> None:
    with started(COMMAND.format(words="")) as starter:
        _, both = lines(starter, 2)
        leader, child = map(int, both.split())
        assert starter.stdin is not None and starter.stdout is not None
        starter.stdin.write("\n")
        starter.stdin.flush()
        assert starter.stdout.readline() == "over\n"
        for pid in (leader, child):
            os.kill(pid, 0)
            os.kill(pid, signal.SIGKILL)


def test_a_command_that_has_ended_by_itself_ends_the_watch() -> None:
    """Then its number may be another's: nothing is sent there any more."""
    with started("pass") as starter:
        (first,) = lines(starter, 1)
        assert gone(int(first), DEADLINE)
        starter.kill()
        starter.wait(DEADLINE)


def test_no_moment_is_left_out() -> None:
    """The starter is gone before the launcher has said who it is."""
    life_read, life = os.pipe()
    told_read, told = os.pipe()
    watcher = subprocess.Popen(
        [*leash._ourselves(leash._WATCH), str(life_read), str(told_read), "0.1"],
        pass_fds=(life_read, told_read),
        start_new_session=True,
    )
    command = subprocess.Popen(
        [sys.executable, "-c", "import signal; signal.pause()"], start_new_session=True
    )
    os.close(life)
    os.write(told, b"%d\n" % command.pid)
    for descriptor in (life_read, told_read, told):
        os.close(descriptor)
    assert command.wait(DEADLINE) in (-signal.SIGTERM, -signal.SIGKILL)
    assert watcher.wait(DEADLINE) == 0


def test_a_command_that_was_never_started_ends_the_watch() -> None:
    life_read, life = os.pipe()
    told_read, told = os.pipe()
    watcher = subprocess.Popen(
        [*leash._ourselves(leash._WATCH), str(life_read), str(told_read), "0.1"],
        pass_fds=(life_read, told_read),
    )
    for descriptor in (life_read, told_read, told):
        os.close(descriptor)
    assert watcher.wait(DEADLINE) == 0
    os.close(life)


def test_the_command_gets_what_it_was_given() -> None:
    """Its environment without what an interpreter adds in the C locale, and the CPUs that were named."""
    cpu = min(os.sched_getaffinity(0))
    shows = (
        "import json, os\n"
        "told = open('/proc/self/environ', 'rb').read().split(b'\\0')\n"
        "files = len(os.listdir('/proc/self/fd'))\n"
        "print(json.dumps([[e.decode() for e in told if e], sorted(os.sched_getaffinity(0)), files]))"
    )
    given = {"PATH": os.environ["PATH"], "ODD": "a=b", "LC_ALL": "", "LANG": "C"}
    with leash.leashed(
        [sys.executable, "-c", shows],
        1.0,
        str(cpu),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env=given,
    ) as process:
        output, _ = process.communicate(timeout=DEADLINE)
    entries, cpus, files = json.loads(output)
    assert sorted(entries) == sorted(f"{name}={value}" for name, value in given.items())
    assert cpus == [cpu] and files == 4  # 0, 1, 2, and the one that lists them
