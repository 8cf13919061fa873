"""The pause log (C2): what it says, and that no host is harmed by its thread (pitfalls: threads of ours)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.embed.hosts import run, said
from tests.interpreters import Interpreter, every_interpreter

HOSTS = Path(__file__).parent.parent / "hostile" / "hosts"

#: A log whose lines can be waited for: ``lines()`` ends when as many have come as were asked for.
WATCHED = """
import gc, logging, os, queue, sys, threading, time
import frostline

class Lines(logging.Handler):
    def __init__(self):
        super().__init__()
        self.queue = queue.SimpleQueue()
    def emit(self, record):
        self.queue.put((record.levelname, record.threadName, record.getMessage()))

shown = Lines()
logging.getLogger("frostline").addHandler(shown)
logging.getLogger("frostline").propagate = False

def lines(many):
    return [shown.queue.get(timeout=60) for _ in range(many)]

def threads():
    return len(os.listdir("/proc/self/task"))

gc.disable()  # no pass but those that are asked for
"""

SAYS = """
frostline.install(role="EngineCore", rank=0)
gc.collect()
log = frostline.pause_log(0.000001)
before = log.passes
for _ in range(7):
    node = []
    node.append(node)
del node
gc.collect()
((level, thread, text),) = lines(1)
said = text.split(" for ")[0].replace(str(os.getpid()), "HERE")
print(level, thread, said, text.split("reclaimed ")[1].split()[0])
assert f"(pid {os.getpid()})" in text
assert "start to stop, monotonic clock" in text
print(log.passes - before, log.over == log.passes, log.longest_ms > 0, log.lost, log.own)

assert frostline.pause_log(3_600_000) is log
gc.collect()
assert frostline.pause_log("0.000001", "frostline") is log
gc.collect(0)
((_, _, text),) = lines(1)
print("generation 0" in text, log.passes, gc.callbacks.count(log.callback), threads())

log.callback("stop", {"generation": 2, "collected": 0, "uncollectable": 0})
print(log.passes - before)
log.stop()
print(log.passes - before, log.callback in gc.callbacks, threads(), shown.queue.qsize())
again = frostline.pause_log(0.000001)
gc.collect()
print(len(lines(1)), again is log)
"""


@every_interpreter
@pytest.mark.parametrize("recorded", [False, True], ids=["alone", "recorded"])
def test_what_it_says_and_counts(interpreter: Interpreter, recorded: bool, tmp_path: Path) -> None:
    settings = {"FROSTLINE_OUTPUT": str(tmp_path / "session")} if recorded else {}
    assert said(run(interpreter, tmp_path, WATCHED + SAYS, **settings)) == [
        "WARNING frostline pause log garbage collection of generation 2 stopped EngineCore dp0 (pid HERE) 7",
        "1 True True 0 0",
        "True 3 1 2",
        "3",
        "3 False 1 0",
        "1 False",
    ]


FORKS = """
import warnings
log = frostline.pause_log(0.000001)
gc.collect()
lines(1)
for number in range(20):
    assert threads() == 2
    pid = os.fork()
    if pid == 0:
        assert log.passes == log.over == 0
        gc.collect()
        ((_, _, text),) = lines(1)
        assert f"(pid {os.getpid()})" in text, text
        if number % 2:
            grandchild = os.fork()
            if grandchild == 0:
                gc.collect()
                lines(1)
                os._exit(7)
            assert os.waitpid(grandchild, 0)[1] == 7 << 8
        assert threads() == 2
        os._exit(5)
    assert os.waitpid(pid, 0)[1] == 5 << 8
    gc.collect()
    lines(1)
print(log.passes, log.over, log.lost)
log.stop()
print(threads())
"""


@every_interpreter
@pytest.mark.parametrize("warnings", ["always", "error"])  # up to 3.14 "error" swallows this one
def test_forks(interpreter: Interpreter, warnings: str, tmp_path: Path) -> None:
    """No warning, and nothing that hangs; 3.13.0 counts the thread that is started behind the fork."""
    done = run(interpreter, tmp_path, WATCHED + FORKS, options=("-W", warnings))
    if interpreter.version == (3, 13, 0):
        assert done.returncode == 0, done.stderr
    else:
        said(done)
    assert done.stdout.splitlines() == ["21 21 0", "1"]


FORKS_WHILE_LOGGING = """
class Locked(logging.Handler):
    lock = threading.Lock()
    def emit(self, record):
        with self.lock:
            sum(range(200))

logging.getLogger("frostline").addHandler(Locked())
sys.setswitchinterval(1e-5)
log = frostline.pause_log(0.000001)
ended = False
def collect():
    while not ended:
        gc.collect(0)
def forking():
    for _ in range(FORKS):
        pid = os.fork()
        if pid == 0:
            # What the thread may have held at the fork: its handler's lock, and logging's own.
            if not Locked.lock.acquire(timeout=30):
                os._exit(1)
            Locked.lock.release()
            logging.getLogger("frostline").warning("from the child")
            gc.collect()
            os._exit(0)
        statuses.append(os.waitpid(pid, 0)[1])
FORKS = int(sys.argv[1])
statuses = []
collector = threading.Thread(target=collect)
collector.start()
forkers = [threading.Thread(target=forking) for _ in range(2)]
for thread in forkers:
    thread.start()
for thread in forkers:
    thread.join()
ended = True
collector.join()
print(len(statuses), sum(statuses))
"""


@every_interpreter
def test_a_fork_while_logging(interpreter: Interpreter, tmp_path: Path) -> None:
    done = run(interpreter, tmp_path, WATCHED + FORKS_WHILE_LOGGING, "60", options=("-W", "ignore"))
    assert said(done) == ["120 0"]


SIGNALS = """
import signal
log = frostline.pause_log(0.000001)
gc.collect()
lines(1)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
for _ in range(50):
    os.kill(os.getpid(), signal.SIGTERM)
    assert signal.sigwait({signal.SIGTERM}) == signal.SIGTERM
gc.collect()
lines(1)
print(signal.pthread_sigmask(signal.SIG_BLOCK, ()) == {signal.SIGTERM})
"""


@every_interpreter
def test_no_signal_is_its_own(interpreter: Interpreter, tmp_path: Path) -> None:
    assert said(run(interpreter, tmp_path, WATCHED + SIGNALS)) == ["True"]


HANDLERS = """
class Bad(logging.Handler):
    entered, go_on = queue.SimpleQueue(), threading.Event()
    def emit(self, record):
        try:
            if sys.argv[1] == "raises":
                raise ValueError("a handler")
            if sys.argv[1] == "collects":
                until = log.passes + 2  # the pass that is told of may still be in its callbacks
                while log.passes < until:
                    gc.collect()
            if sys.argv[1] == "exits":
                raise SystemExit(3)
        finally:
            self.entered.put(1)
        if sys.argv[1] == "blocks":
            self.go_on.wait()

bad = Bad()
logging.getLogger("frostline").addHandler(bad)
logging.raiseExceptions = False
log = frostline.pause_log(0.000001)
gc.collect()
lines(1)
bad.entered.get()
if sys.argv[1] == "blocks":
    for _ in range(3):  # waited for once, and no longer than it takes to say so
        pid = os.fork()
        if pid == 0:
            os._exit(4)
        assert os.waitpid(pid, 0)[1] == 4 << 8
    for _ in range(300):
        gc.collect(0)
    bad.go_on.set()
    texts = [text for _, _, text in lines(256)]
    print(texts[0].split(" over")[0], log.lost, log.over, flush=True)  # the child would print it, too
    pid = os.fork()
    if pid == 0:
        bad.go_on.clear()
        gc.collect()
        print(len(lines(1)), flush=True)
        os._exit(0)  # with its thread inside the handler
    os.waitpid(pid, 0)
    bad.go_on.clear()
else:
    gc.collect()
    ((_, _, text),) = lines(1)
    bad.entered.get()
    print(log.passes, log.own, log.lost, "2 more ran inside this log's own handlers" in text)
"""


@every_interpreter
@pytest.mark.parametrize("kind", ["raises", "collects", "exits", "blocks"])
def test_bad_handlers(interpreter: Interpreter, kind: str, tmp_path: Path) -> None:
    """What a handler of the host's does is the log's loss alone; a blocked one holds up no exit either."""
    done = run(interpreter, tmp_path, WATCHED + HANDLERS, kind, options=("-W", "ignore"))
    if kind == "blocks":
        first, *rest = said(done)
        words = first.split()
        assert words[1] == "passes" and words[0] == words[2] and words[3] == "301"
        assert int(words[0]) == 301 - 1 - 255 and rest == ["1"]
        return
    assert said(done) == ["6 4 0 True" if kind == "collects" else "2 0 0 False"]


RAW = """
import ctypes
log = frostline.pause_log(0.000001)
gc.collect()
lines(1)
pid = ctypes.PyDLL(None).fork()
if pid == 0:
    for _ in range(1000):
        gc.collect(0)  # nobody reads the ring here
    assert frostline.pause_log(0.000001) is log
    gc.collect()
    ((_, _, text),) = lines(1)
    assert f"(pid {os.getpid()})" in text and log.over == 1
    pid = os.fork()
    if pid == 0:
        gc.collect()
        lines(1)
        os._exit(6)
    os._exit(os.waitpid(pid, 0)[1] >> 8)
print(os.waitpid(pid, 0)[1] >> 8)
gc.collect()
lines(1)
"""


@every_interpreter
def test_a_fork_through_c(interpreter: Interpreter, tmp_path: Path) -> None:
    """As uWSGI's: no at-fork function runs. The child is silent until it is told again."""
    done = run(interpreter, tmp_path, WATCHED + RAW, options=("-W", "ignore"))
    assert said(done) == ["6"]


UNDER_THE_LOG = """
import logging, runpy, sys
import frostline
class Count(logging.Handler):
    seen = 0
    def emit(self, record):
        Count.seen += 1
logging.getLogger("frostline").addHandler(Count())
logging.getLogger("frostline").propagate = False
log = frostline.pause_log(0.000001)
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
log.stop()
assert Count.seen > 0 and log.passes > 0
"""


@every_interpreter
@pytest.mark.parametrize("kind", ["metric_lock", "natural", "queues", "streams", "finalizers"])
def test_no_lock_is_waited_for(interpreter: Interpreter, kind: str, tmp_path: Path) -> None:
    """Cases 25, 26, 28, 55, 1,000 tries each with every pass logged: a hang is the run's time limit."""
    done = run(interpreter, tmp_path, UNDER_THE_LOG, str(HOSTS / "locked.py"), kind, "1000")
    assert done.returncode == 0, done.stderr
    assert "frostline" not in done.stderr


ENDS = """
log = frostline.pause_log(0.000001)
logging.getLogger("frostline").removeHandler(shown)
class Stream(logging.Handler):
    def emit(self, record):
        print(record.getMessage()[:32])
logging.getLogger("frostline").addHandler(Stream())
if sys.argv[1] == "thread":
    threading.Thread(target=lambda: [time.sleep(0) for _ in range(1000)], daemon=True).start()
gc.collect()
if sys.argv[1] == "raise":
    raise KeyError("the host's own")
if sys.argv[1] == "exit":
    sys.exit(9)
"""


@every_interpreter
@pytest.mark.parametrize(("how", "code"), [("quiet", 0), ("exit", 9), ("raise", 1), ("thread", 0)])
def test_the_end(interpreter: Interpreter, how: str, code: int, tmp_path: Path) -> None:
    """What is in the ring at the end is logged, and nothing is printed on the way out."""
    done = run(interpreter, tmp_path, WATCHED + ENDS, how)
    assert done.returncode == code
    assert "garbage collection of generation" in done.stdout
    assert "Exception ignored" not in done.stderr and "frostline" not in done.stderr


GEVENT = (
    """
from gevent import monkey
monkey.patch_all()
import gevent
"""
    + WATCHED.replace("queue.SimpleQueue()", "RealQueue()").replace(
        "import frostline", "import frostline\nRealQueue = monkey.get_original('queue', 'SimpleQueue')"
    )
    + """
log = frostline.pause_log(0.000001)
for _ in range(5):
    gc.collect()
    gevent.sleep(0)
    lines(1)
print(threads() >= 2, log.passes)
pid = os.fork()
if pid == 0:
    gc.collect()
    lines(1)
    os._exit(3)
print(monkey.get_original("os", "waitpid")(pid, 0)[1] >> 8)
log.stop()
"""
)


def test_under_gevent(tmp_path: Path) -> None:
    pytest.importorskip("gevent")
    assert said(run(None, tmp_path, GEVENT, options=("-W", "ignore"))) == ["True 5", "3"]


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), True, "", "x", None, 1e12])
def test_a_nonsense_threshold_is_refused(value: object) -> None:
    import frostline

    with pytest.raises(ValueError, match="as in 100"):
        frostline.pause_log(value)  # type: ignore[arg-type]
