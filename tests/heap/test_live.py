"""``frostline cycles | census | why-alive`` on live processes (B9, B10). Every version: test_cycles."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from frostline import format as layout
from frostline.format import request
from frostline.heap import census
from frostline.reach import asking
from tests.commands.test_control import frostline, up
from tests.interpreters import Interpreter, every_interpreter, found
from tests.reach.under_run import running

#: Garbage by a hook, a cache that grows, and an object that a module keeps; reads one line for each step.
HOST = """
import gc, sys
gc.disable()
class Ticket:
    def collect(self): return 42
class Block: pass
def hook():
    ticket = Ticket()
    original = ticket.collect
    def timed(): return original()
    ticket.collect = timed
cache = {}
kept = Block()
def grow(n):
    for i in range(n): cache[i] = [i]
grow(5000)
print("up", flush=True)
for line in sys.stdin:
    if line == "garbage\\n":
        for _ in range(1000): hook()
    elif line == "grow\\n":
        for i in range(3000): cache["more", i] = [i]
    elif line == "state\\n":
        print(bool(gc.get_debug()), len(gc.garbage), gc.isenabled(), flush=True); continue
    elif line == "serve\\n":
        import frostline
        request = frostline.request(); request.__enter__()
    print("up", flush=True)
"""


def told(process: Any, line: str) -> str:
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
    return str(process.stdout.readline()).strip()


@pytest.mark.parametrize("interpreter", {found()[0], found()[-1]}, ids=str)
def test_the_cycle_the_heap_and_the_holder_are_named(tmp_path: Path, interpreter: Interpreter) -> None:
    with running(tmp_path, interpreter.executable, "-c", HOST) as process:
        up(process)
        first = tmp_path / "first.json"
        assert frostline(tmp_path, "census", "--save", str(first), "rec").returncode == 0
        assert told(process, "grow") == "up" and told(process, "garbage") == "up"

        (one,) = json.loads(frostline(tmp_path, "cycles", "--json").stdout)
        # What the look itself needed is none of what it found.
        assert not [
            kind for kind in one["kinds"] if "frostline" in kind["path"] or "edges.py" in kind["path"]
        ]
        (kind,) = [kind for kind in one["kinds"] if kind["count"] == 1000]
        assert kind["path"].startswith("Ticket -> __dict__['collect'] -> function timed (<string>:")
        assert kind["path"].endswith("-> cell original -> method collect -> Ticket")
        assert told(process, "state") == "False 0 False"
        text = frostline(tmp_path, "cycles", str(process.pid)).stdout
        assert "no cyclic garbage" in text

        text = frostline(tmp_path, "census", "--since", str(first)).stdout
        assert "+3,0" in text and "cache" in text and "it stopped the process for" in text
        assert "__main__.cache, a dict, has grown from 5,000 to 8,000" in " ".join(text.split())
        assert "100% list" in text
        (one,) = json.loads(frostline(tmp_path, "census", "--json").stdout)
        rows = {row[0]: row for row in one["rows"]}
        assert rows["list"][1] >= 8_000
        assert any(length == 8_000 and way == "__main__.cache" for length, _, way in one["largest"])

        # A process is known by its pid, and one that is not in the file is named.
        other = tmp_path / "other.json"
        other.write_text(first.read_text().replace(f'"asked": {process.pid}', '"asked": 1'))
        text = frostline(tmp_path, "census", "--no-paths", "--since", str(other)).stdout
        assert f"(pid {process.pid}): in {other} is no census of this pid" in text
        other.write_text("[]")
        assert "[no-census]" in frostline(tmp_path, "census", "--since", str(other)).stderr
        assert frostline(tmp_path, "census", "--json", "--since", str(first)).returncode == 2

        # Where nothing is frozen there is nothing to walk to.
        shown = frostline(tmp_path, "census", "--frozen", "--no-paths")
        text = " ".join(shown.stdout.split())
        assert shown.returncode == 0 and ", 0 frozen" in text and "Frozen:" not in text

        text = frostline(tmp_path, "why-alive", "__main__:Block").stdout
        assert "1 live objects of __main__:Block" in text and "__main__.kept" in text
        assert "it stopped the process for" in text
        # What looked left no cycle of its own behind.
        assert "no cyclic garbage" in frostline(tmp_path, "cycles").stdout
        wrong = frostline(tmp_path, "why-alive", "__main__:Nothing")
        assert wrong.returncode == 1 and "has no Nothing" in wrong.stdout
        process.communicate(timeout=30)


def test_a_name_too_long_to_be_asked_for_is_not_asked_for(tmp_path: Path) -> None:
    """Behind the room for a request stand the header's texts: they stay as they are."""
    with running(tmp_path, found()[-1].executable, "-c", HOST) as process:
        up(process)
        (target,) = asking.targets(str(tmp_path / "rec"))
        before = Path(target.mailbox).read_bytes()[layout.TEXT : layout.HEADER_SIZE]
        done = frostline(tmp_path, "why-alive", f"__main__:{'x' * 300}")
        assert done.returncode == 1 and "a process has room for 256" in done.stdout
        assert Path(target.mailbox).read_bytes()[layout.TEXT : layout.HEADER_SIZE] == before
        # What is no MODULE:CLASS is told as that.
        assert "is not MODULE:CLASS" in frostline(tmp_path, "why-alive", "server.Session").stdout
        assert "1 live objects" in frostline(tmp_path, "why-alive", "__main__:Block").stdout
        process.communicate(timeout=30)


def test_a_look_that_fails_says_where(tmp_path: Path) -> None:
    with running(tmp_path, found()[-1].executable, "-c", HOST) as process:
        up(process)
        (target,) = asking.targets(str(tmp_path / "rec"))
        in_its_place = Path(f"{target.mailbox}{request.LOOK_SUFFIX}")
        in_its_place.mkdir()  # where the answer is to be left
        done = frostline(tmp_path, "why-alive", "__main__:Block")
        words = r"failed inside the target: \w+Error, looking.py:\d+ \(.*irectory\)"
        assert done.returncode == 1 and re.search(words, done.stdout), done
        in_its_place.rmdir()
        assert "1 live objects" in frostline(tmp_path, "why-alive", "__main__:Block").stdout
        process.communicate(timeout=30)


#: What the recorder itself needs to remember, spans among it, is frozen with the rest, or walked.
SPANS = """
import frostline, sys
assert frostline.end(frostline.begin("step")) is None
print("up", flush=True)
sys.stdin.read()
"""


def test_no_large_container_is_ours(tmp_path: Path) -> None:
    with running(tmp_path, found()[-1].executable, "-c", SPANS) as process:
        up(process)
        (one,) = json.loads(frostline(tmp_path, "census", "--budget", "0", "--json").stdout)
        ways = [way for _, _, way in one["largest"]]
        assert all(ways) and not [way for way in ways if "frostline" in way], ways
        process.communicate(timeout=30)


def test_who_serves_is_left_alone_unless_told(tmp_path: Path) -> None:
    with running(tmp_path, found()[-1].executable, "-c", HOST) as process:
        up(process)
        assert told(process, "serve") == "up"
        refused = frostline(tmp_path, "census")
        assert refused.returncode == 1 and "1 requests are in flight" in refused.stdout
        assert "--serving" in refused.stdout
        done = frostline(tmp_path, "census", "--serving", "--budget", "0.001", "--no-paths")
        assert done.returncode == 0 and "it stopped the process" in done.stdout
        assert "nobody counts its requests" not in done.stdout
        process.communicate(timeout=30)


#: Tells in which of our modules a pass began, with thresholds that any look goes over. (What writes the
#: answer holds no list of the heap any more.)
SEEN = """
inside = set()
def seen(phase, info):
    at = sys._getframe()
    while at is not None:
        folder, _, name = at.f_code.co_filename.rpartition("/")
        if folder.endswith("/frostline/heap") and name != "plain.py":
            inside.add(name)
        at = at.f_back
gc.callbacks.append(seen)
print("up", flush=True)
"""
PASSES = (
    HOST.replace("gc.disable()", "gc.set_threshold(50, 2, 2)")
    .replace('print("up", flush=True)\n', SEEN, 1)
    .replace("print(bool(gc.get_debug()), len(gc.garbage),", "print(sorted(inside),")
)


def test_no_pass_of_the_program_s_begins_in_a_look(tmp_path: Path) -> None:
    with running(tmp_path, found()[-1].executable, "-c", PASSES) as process:
        up(process)
        text = frostline(tmp_path, "census", "--budget", "0.0001").stdout
        # Nobody has told of a request: then it is not known whether one waited. And a budget holds for all.
        assert "nobody counts its requests" in text and "not looked for" in text
        assert frostline(tmp_path, "why-alive", "__main__:Block").returncode == 0
        assert told(process, "state") == "[] True"
        assert told(process, "garbage") == "up"
        assert frostline(tmp_path, "cycles").returncode == 0
        # The pass that was asked for is the one that there is.
        assert told(process, "state") == "['saved.py'] True"
        process.communicate(timeout=30)


#: Steps of a millisecond, over a heap that takes a while to count, until its input ends.
STEPS = """
import sys, threading, time
heap = [[i] for i in range(400_000)]
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set())).start()
def step():
    ended.wait(0.001)
for _ in range(200): step()
print("up", flush=True)
while not ended.is_set(): step()
"""


def test_a_step_that_a_look_stopped_is_told_as_our_doing(tmp_path: Path) -> None:
    program = tmp_path / "server.py"
    program.write_text(STEPS)
    options = ("--span", "__main__:step")
    with running(tmp_path, found()[1].executable, str(program), options=options) as process:
        up(process)
        assert frostline(tmp_path, "census", "--budget", "0").returncode == 0
        process.communicate(timeout=30)
    shown = frostline(tmp_path, "report", "rec").stdout
    assert "ms: frostline census, as asked" in shown
    assert "while Frostline looked at the heap (census)" in shown


def test_what_runs_has_the_size_of_its_type() -> None:
    def generator() -> Any:
        yield

    async def coroutine() -> None:
        pass

    async def asynchronous() -> Any:
        yield

    # So many that their types are among those listed.
    many = [[make() for _ in range(20_000)] for make in (generator, coroutine, asynchronous)]
    rows = {row.name: row for row in census.take(paths=False).rows}
    for made in many:
        row = rows[type(made[0]).__name__]
        assert row.count >= 20_000 and 0 < row.size <= row.count * 1_000
    for one in many[1]:
        one.close()


#: Dead frames, which exceptions that are kept hold: in a process of its own, on each version.
FRAMES = """
import sys
sys.path.insert(0, sys.argv[1])
from frostline.heap import census
def fails(): 1 / 0
errors = []
for _ in range(20_000):
    try: fails()
    except ZeroDivisionError as error: errors.append(error)
row, = [row for row in census.take(paths=False).rows if row.name == "frame"]
assert row.count >= 20_000 and 0 < row.size <= row.count * 1_000, row.size
"""


@every_interpreter
def test_a_frame_has_the_size_of_its_type(interpreter: Interpreter) -> None:
    source = Path(census.__file__).parent.parent.parent
    subprocess.run([interpreter.executable, "-c", FRAMES, str(source)], check=True, timeout=60)
