"""A process that does not outlive its parent (A9)."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import frostline
from tests.embed.hosts import LIMIT, environment, run, said
from tests.interpreters import Interpreter, every_interpreter

#: The top, whose end counts, starts a child, waits until that watches, says its pid, and ends.
TREE = """
import ctypes, multiprocessing, os, signal, subprocess, sys, threading, time
import frostline

def watch(**keywords):
    signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b"told\\n"), os._exit(0)))
    assert frostline.die_with_parent(**keywords) is not None

def child(ready, how):
    if how == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        frostline.die_with_parent(grace=0.05)
    elif how == "undone":
        frostline.die_with_parent(grace=0).cancel()
    elif how == "closes":
        watch()
        os.closerange(3, ready.fileno()); os.closerange(ready.fileno() + 1, 100)
        taken = [os.open("/dev/null", os.O_RDONLY) for _ in range(20)]
    elif how == "forks":
        watch()
        for _ in range(20):
            pid = os.fork()
            if pid == 0:
                os._exit(0)
            os.waitpid(pid, 0)
    elif how == "elsewhere":
        # Another thread takes the signal, and the main thread sleeps on: Python's handler is due there.
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        watch(grace=600)
    elif how == "late":
        sys.stdin.readline()  # the parent has gone when this comes
        watch()
    else:
        watch()
    ready.send(os.getpid())
    while True:
        time.sleep(600)

def main():
    kind, how = sys.argv[1:]
    if kind == "subprocess":
        code = "import host, time, os; host.watch(); os.write(2, b'%d\\\\n' % os.getpid()); time.sleep(600)"
        subprocess.Popen([sys.executable, "-c", code])
        time.sleep(600)
    context = multiprocessing.get_context(kind)
    ours, theirs = context.Pipe()
    process = context.Process(target=child, args=(theirs, how))
    if how == "thread":
        # PR_SET_PDEATHSIG would fire when this thread ends.
        starter = threading.Thread(target=process.start)
        starter.start()
        starter.join()
    else:
        process.start()
    if how == "late":
        os.write(2, b"%d\\n" % process.pid)
        os.kill(os.getpid(), signal.SIGKILL)
    os.write(2, b"%d\\n" % ours.recv())
    time.sleep(600)

if __name__ == "__main__":
    main()
"""


@contextlib.contextmanager
def tree(interpreter: Interpreter, folder: Path, *arguments: str):  # type: ignore[no-untyped-def]
    """The top and its child's pid. The standard output ends when all of them have ended."""
    (folder / "host.py").write_text(TREE)
    top = subprocess.Popen(
        [interpreter.executable, "host.py", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=environment(),
    )
    child = 0
    try:
        assert top.stderr is not None
        child = int(top.stderr.readline())
        yield top, child
    finally:
        top.kill()
        top.wait()
        for pipe in (top.stdin, top.stdout, top.stderr):
            assert pipe is not None
            pipe.close()
        if child:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)


def ended(pidfd: int, seconds: float = LIMIT) -> bool:
    return bool(select.select([pidfd], [], [], seconds)[0])


@every_interpreter
@pytest.mark.parametrize(
    ("kind", "how"),
    [
        ("fork", "plain"),
        ("spawn", "plain"),
        ("forkserver", "plain"),
        ("subprocess", "plain"),
        ("spawn", "thread"),
        ("fork", "thread"),
        ("spawn", "stubborn"),
        ("spawn", "closes"),
        ("spawn", "forks"),
        ("spawn", "elsewhere"),
    ],
)
def test_it_ends_with_its_parent(interpreter: Interpreter, kind: str, how: str, tmp_path: Path) -> None:
    with tree(interpreter, tmp_path, kind, how) as (top, child):
        pidfd = os.pidfd_open(child)
        try:
            assert not ended(pidfd, 0)
            top.kill()
            assert ended(pidfd)
        finally:
            os.close(pidfd)
        if how != "stubborn":
            assert top.stdout.readline() == b"told\n"


@every_interpreter
@pytest.mark.parametrize("kind", ["spawn", "forkserver"])
def test_a_parent_that_is_gone_already(interpreter: Interpreter, kind: str, tmp_path: Path) -> None:
    with tree(interpreter, tmp_path, kind, "late") as (top, child):
        pidfd = os.pidfd_open(child)
        try:
            top.wait(LIMIT)
            assert not ended(pidfd, 0)
            top.stdin.close()  # now it begins to watch
            assert ended(pidfd)
        finally:
            os.close(pidfd)


def test_it_can_be_undone(tmp_path: Path) -> None:
    here = Interpreter(sys.executable, sys.version_info[:3])
    with tree(here, tmp_path, "spawn", "undone") as (top, child):
        top.kill()
        top.wait()
        assert Path(f"/proc/{child}").exists()
        pidfd = os.pidfd_open(child)
        assert not ended(pidfd, 1.0)  # an end would come at once: grace is 0
        os.close(pidfd)


ORPHANS = """
import ctypes, os, signal, sys, time
import frostline
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: orphans come to this one
top = os.getpid()
reading, writing = os.pipe()
middle = os.fork()
if middle == 0:
    middle = os.getpid()
    if os.fork() == 0:
        if sys.argv[1] == "in time":
            assert frostline.die_with_parent(grace=5).parent == middle
        os.write(writing, b"x")
        if sys.argv[1] == "late":
            while os.getppid() != top:
                time.sleep(0.001)
            assert frostline.die_with_parent(parent=middle, grace=5) is not None
        time.sleep(600)
        os._exit(1)
    time.sleep(600)
os.read(reading, 1)
os.kill(middle, signal.SIGKILL)
os.waitpid(middle, 0)
print(os.waitpid(-1, 0)[1])
"""


@every_interpreter
@pytest.mark.parametrize("when", ["in time", "late"])
def test_under_a_subreaper(interpreter: Interpreter, when: str, tmp_path: Path) -> None:
    assert said(run(interpreter, tmp_path, ORPHANS, when)) == [str(int(signal.SIGTERM))]


QUIET = """
import os, signal, sys
import frostline
watch = frostline.die_with_parent()
assert watch.parent == os.getppid()
assert len(os.listdir("/proc/self/task")) == 2
pid = os.fork()
if pid == 0:
    # A child of ours is not watched, and has none of our descriptors.
    print(len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")), flush=True)
    os._exit(0)
os.waitpid(pid, 0)
assert len(os.listdir("/proc/self/task")) == 2
other = frostline.die_with_parent(grace=3)
assert len(os.listdir("/proc/self/task")) == 2 and other is not watch
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
os.kill(os.getpid(), signal.SIGTERM)
assert signal.sigwait({signal.SIGTERM}) == signal.SIGTERM
other.cancel()
other.cancel()
print(len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")))
"""


@every_interpreter
@pytest.mark.parametrize("warnings", ["always", "error"])  # up to 3.14 "error" swallows this one
def test_it_leaves_nothing(interpreter: Interpreter, warnings: str, tmp_path: Path) -> None:
    done = run(interpreter, tmp_path, QUIET, options=("-W", warnings))
    if interpreter.version != (3, 13, 0):  # which counts the thread that is started behind the fork
        assert done.stderr == ""
    assert done.stdout.splitlines() == ["1 4", "1 4"]


@pytest.mark.parametrize(
    "keywords",
    [
        {"grace": -1}, {"grace": float("nan")}, {"grace": 1e9}, {"grace": "5"}, {"grace": True},
        {"parent": 0}, {"parent": -5}, {"parent": "1"}, {"parent": os.getpid()}, {"signum": 0},
    ],
)  # fmt: skip
def test_nonsense_is_refused(keywords: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="given"):
        frostline.die_with_parent(**keywords)  # type: ignore[arg-type]
