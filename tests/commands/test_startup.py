"""``frostline startup`` on a package of known size, on every version (B12)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from frostline.analysis import analyse
from frostline.analysis.startup import WARM_UP, Import, Passes, StartUp, _sum_up, _Tree, start_ups
from frostline.recording import read_session
from frostline.recording.startup import read_imports
from frostline.report.blocks import plain
from frostline.report.startup import startup
from tests.cases.test_cases import incremental
from tests.interpreters import Interpreter, every_interpreter, found
from tests.reach.under_run import FROSTLINE, environment

LATEST = found()[-1]
#: Module -> its body. What each adds is lists in a list, so their number is known.
TREE = {
    "tree/__init__": "from tree import leaf\ndata = [[] for _ in range(10_000)]\nfrom tree.sub import deep\n",
    "tree/leaf": "data = [[] for _ in range(3_000)]\n",
    "tree/sub/__init__": "",
    "tree/sub/deep": "import gc\ndata = [[] for _ in range(25_000)]\ngc.collect()\n",
    "tree/broken": "raise ImportError('on purpose')\n",
    "tree/warns": "import warnings\nwarnings.warn('old', DeprecationWarning, stacklevel=2)\n",
    "we<b>ird": "",
    "first": "data = [[] for _ in range(20_000)]\n",
    "second": "data = [[] for _ in range(5_000)]\n",
    "third": "",
}
PROGRAM = """
import json, sys, traceback, warnings, importlib
warnings.simplefilter("always")
import tree
try:
    import tree.broken
except ImportError:
    trace = traceback.format_exc()
with warnings.catch_warnings(record=True) as caught:
    import tree.warns
importlib.import_module("we<b>ird")
more = [[] for _ in range(7_000)]
import gc
gc.collect()
print(json.dumps([trace, caught[0].filename, len(gc.get_objects())]))
sys.exit(3)
"""


def package(folder: Path) -> Path:
    for name, body in TREE.items():
        path = folder / "modules" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body)
    return folder / "modules"


def under(
    folder: Path, interpreter: Interpreter, program: str, *options: str
) -> subprocess.CompletedProcess[str]:
    script = folder / "program.py"
    script.write_text(program)
    modules = str(package(folder))
    return subprocess.run(
        [*FROSTLINE, "startup", "-o", str(folder / "s"), *options, "--", interpreter.executable, str(script)],
        env=environment(folder, PYTHONPATH=modules, PYTHONDONTWRITEBYTECODE="1"),
        capture_output=True,
        text=True,
        timeout=120,
    )


def start_ups_of(folder: Path, until: int = 0) -> list[StartUp]:
    return start_ups(analyse(read_session(folder / "s")), read_imports(folder / "s"), until)


def by_name(one: StartUp) -> dict[str, Import]:
    return {module.module: module for module in one.walk()}


@every_interpreter
def test_each_module_gets_what_it_added_and_the_passes_that_ran_in_it(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    done = under(tmp_path, interpreter, PROGRAM, "--html", str(page))
    assert done.returncode == 3, done.stderr  # the program's own
    printed = next(line for line in done.stdout.splitlines() if line.startswith("["))
    trace, warned, tracked = json.loads(printed)
    (one,) = start_ups_of(tmp_path)
    modules = by_name(one)
    assert [child.module for child in modules["tree"].children] == ["tree.leaf", "tree.sub", "tree.sub.deep"]
    deep = modules["tree.sub.deep"]
    assert deep.passes.counts[2] == 1 and modules["tree"].passes.counts[2] == 0
    assert (
        modules["tree"].all_passes.counts[2] == 1
        and modules["tree"].all_passes.pause >= deep.passes.pause > 0
    )
    assert one.passes.counts[2] == 2 == len(one.full)
    assert [where for _, where in one.full] == ["import of tree.sub.deep", WARM_UP]
    assert sum(one.passes.counts) == len(one.process.series.passes)
    # What stands in for the import system's function is taken for it.
    assert "startup.py" not in trace and "on purpose" in trace
    assert warned == str(tmp_path / "program.py")
    assert one.ended_by == "the end of the process" and not one.threads and not one.damaged
    # Counted at the exit, shortly after the program's own count.
    assert one.tracked is not None and abs(one.tracked[1] - tracked) < 300
    html = page.read_text()
    assert "we&lt;b&gt;ird" in html and "we<b>ird" not in html
    assert (
        "http://" not in html and "https://" not in html and html.count("<svg") == (2 if one.counted else 1)
    )
    assert "import of tree.sub.deep" in done.stdout and str(tmp_path / "s") in done.stderr
    if incremental(interpreter):
        assert not one.counted
        return
    # To what an import machinery in Python makes and drops, a few hundred in all.
    for name, objects in (("tree", 10_000), ("tree.leaf", 3_000), ("tree.sub.deep", 25_000)):
        assert abs(modules[name].objects - objects) < 150, (name, modules[name].objects)
    assert abs(modules["tree"].all_objects - 38_000) < 400
    (warm_up,) = (phase for phase in one.phases if phase.name == WARM_UP)
    assert abs(warm_up.objects - 7_000) < 150 and warm_up.passes.counts[2] == 1
    # The sum is an upper bound of what is there, and near it where little dies.
    assert one.before is not None
    assert tracked <= one.before + one.objects <= 1.1 * tracked


FORKS = """
import os, sys
import first
pid = os.fork()
if pid == 0:
    import second
    sys.exit(0)
os.waitpid(pid, 0)
import subprocess
subprocess.run([sys.executable, "-c", "import third"], check=True)
"""


@every_interpreter
def test_each_process_tells_of_its_own_imports(interpreter: Interpreter, tmp_path: Path) -> None:
    done = under(tmp_path, interpreter, FORKS)
    assert done.returncode == 0, done.stderr
    mine = {"first", "second", "third", "subprocess"}
    processes = {frozenset(mine & set(by_name(one))): one for one in start_ups_of(tmp_path)}
    assert set(processes) == {frozenset(names) for names in (["first", "subprocess"], ["second"], ["third"])}
    child = processes[frozenset(["second"])]
    if not incremental(interpreter):
        assert abs(by_name(child)["second"].objects - 5_000) < 150
        # What the parent had before the fork is none of the child's growth.
        assert child.objects < 10_000
    assert "Start-up of each process" in done.stdout


THREADS = """
import threading
begun, go = threading.Event(), threading.Event()
import builtins
builtins.begun, builtins.go = begun, go
thread = threading.Thread(target=lambda: __import__("slow"))
thread.start()
begun.wait()
import first
go.set()
thread.join()
"""


@every_interpreter
def test_a_pass_counts_for_the_import_of_its_own_thread(interpreter: Interpreter, tmp_path: Path) -> None:
    (package(tmp_path) / "slow.py").write_text("begun.set(); go.wait(); import gc; gc.collect()")
    done = under(tmp_path, interpreter, THREADS)
    assert done.returncode == 0, done.stderr
    (one,) = start_ups_of(tmp_path)
    modules = by_name(one)
    assert one.threads and "Several threads" in done.stdout
    assert modules["slow"].passes.counts[2] == 1 and modules["first"].passes.counts[2] == 0
    assert not modules["slow"].children or "first" not in modules["slow"].children[0].module
    # The stretch that ends with a thread's own event is that thread's.
    if not incremental(interpreter):
        assert abs(modules["first"].objects - 20_000) < 150


CLOSES = """
import os
os.closerange(3, 256)
file = os.open("mine", os.O_RDWR | os.O_CREAT, 0o600)
others = [os.dup(file) for _ in range(20)]
import tree.leaf
print(os.fstat(file).st_size)
"""


def test_a_host_that_closes_every_descriptor_finds_nothing_of_ours_in_its_files(tmp_path: Path) -> None:
    done = under(tmp_path, LATEST, CLOSES.replace("mine", str(tmp_path / "mine")))
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "0"), done.stderr


WAITS = """
import signal, sys
import tree.leaf
print("listening", flush=True)
while True:
    signal.pause()  # READY is told by a signal
"""


def test_ready_ends_start_up_and_the_command(tmp_path: Path) -> None:
    done = under(tmp_path, LATEST, WAITS, "--ready-log", "^listening")
    assert done.returncode == 0, done.stderr
    (one,) = start_ups_of(tmp_path)
    assert one.ended_by == "READY" and "start-up has ended" in done.stderr and "to READY" in done.stdout


def test_until_ends_start_up_and_the_command(tmp_path: Path) -> None:
    done = under(tmp_path, LATEST, WAITS, "--until", "2s")
    assert done.returncode == 0 and "start-up has ended" in done.stderr, done.stderr
    (one,) = start_ups_of(tmp_path, 2 * 10**9)
    # Of a process that tells nothing more, its end is known to a look of the helper: 2 s at most.
    assert 10**9 <= one.stop - one.start <= 2 * 10**9
    assert "tree.leaf" in by_name(one)


TELLS = """
import first
import frostline
frostline.startup_complete()
import second
"""


@every_interpreter
def test_the_boundary_ends_start_up(interpreter: Interpreter, tmp_path: Path) -> None:
    done = under(tmp_path, interpreter, TELLS, "--policy", "freeze")
    assert done.returncode == 0, done.stderr
    (one,) = start_ups_of(tmp_path)
    assert one.ended_by == "the boundary"
    assert "first" in by_name(one) and "second" not in by_name(one)
    if not incremental(interpreter):
        assert abs(by_name(one)["first"].objects - 20_000) < 150
        assert one.objects < 25_000


def test_a_freeze_in_the_middle_takes_nothing_off(tmp_path: Path) -> None:
    """It sets the counts back as a pass does."""
    program = "import gc\ngc.set_threshold(10**6)\nimport first, frozen\n"
    (package(tmp_path) / "frozen.py").write_text(
        "import gc\na = [[] for _ in range(3_000)]\ngc.freeze()\nb = [[] for _ in range(4_000)]\n"
    )
    done = under(tmp_path, LATEST, program)
    assert done.returncode == 0, done.stderr
    (one,) = start_ups_of(tmp_path)
    modules = by_name(one)
    assert abs(modules["frozen"].objects - 7_000) < 150 and abs(modules["first"].objects - 20_000) < 150
    assert one.tracked is not None and one.before is not None
    assert one.tracked[1] - one.before > 26_000  # with what is frozen
    _advised(one)


def _advised(one: StartUp) -> None:
    """The cost of automatic passes inside imports is told where there is one, and its price with it."""

    def advice(automatic: int, pause: int) -> str:
        passes = Passes([0, 0, 1], pause, pause, automatic, 42)
        top = Import("m", one.start, one.stop, passes=passes, all_passes=passes)
        changed = replace(one, imports=(top,), phases=(), start=0, stop=2 * 10**9)
        lines = list(plain(startup([changed])))
        return "".join(line for line in lines if "gc.disable()" in line)

    assert "300 ms of the 2.0 s" in advice(3 * 10**8, 4 * 10**8) and "42 objects" in advice(
        3 * 10**8, 4 * 10**8
    )
    assert not advice(0, 4 * 10**8)  # asked for by the program: gc.disable() would not leave it out
    assert not advice(9 * 10**7, 9 * 10**7)


def test_what_a_killed_process_told_is_reported(tmp_path: Path) -> None:
    done = under(tmp_path, LATEST, "import os, tree.leaf\nos.kill(os.getpid(), 9)\n")
    assert done.returncode == 128 + signal.SIGKILL
    (one,) = start_ups_of(tmp_path)
    assert "tree.leaf" in by_name(one) and one.ended_by == "the last that it told"


def test_what_cannot_be_run_or_tells_nothing_is_said(tmp_path: Path) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [*FROSTLINE, "startup", *arguments],
            env=environment(tmp_path),
            capture_output=True,
            text=True,
            timeout=60,
            cwd=tmp_path,
        )
        return done.returncode, done.stderr

    code, errors = run("--", "no-such-command")
    assert code == 127 and "[not-found]" in errors and "Traceback" not in errors
    code, errors = run("--", "true")
    assert code == 1 and "[no-imports]" in errors
    code, errors = run()
    assert code == 2 and "[no-command]" in errors
    code, errors = run("-o", str(tmp_path), "--", "true")
    assert code == 2 and "[output-exists]" in errors


def test_a_damaged_file_is_read_as_far_as_it_makes_sense(tmp_path: Path) -> None:
    head = "frostline-startup 1 7 100 0 5\n"
    lines = "B 1000 5 10 a\nB 2000 5 x b\nnoise\nE 3000 5 20 \nC 3500 5 99 \nB 4000 5 30 c\nE 50"
    (tmp_path / "startup-7-100-0.imports").write_text(head + lines)
    (tmp_path / "startup-8-100-0.imports").write_bytes(os.urandom(2000))
    (tmp_path / "startup-9-100-0.imports").write_text("")
    ((key, log),) = read_imports(tmp_path).items()
    assert key == (7, 100, 0) and log.damaged == 3 and log.counted == [(3500, 99)]
    assert [event.module for event in log.events] == ["a", "", "c"]


class _Nothing:
    """No pass ran: the sum at the end is what it was."""

    def about(self, time: int, since: int, then: int) -> int:
        return then


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 2), st.integers(-50, 1000)), max_size=60))
def test_nothing_is_lost_or_counted_twice(steps: list[tuple[bool, int, int]]) -> None:
    """Whatever nests in whatever threads: what is given to imports and to none sums to the growth."""
    tree = _Tree(0, 0)
    grown = time = 0
    for begins, thread, by in steps:
        grown, time = grown + by, time + 10
        tree.take(time, thread, f"m{time}" if begins else "", grown)
    tree.finish(time + 10, _Nothing())  # type: ignore[arg-type]
    _sum_up(tree.top)
    outside = sum(last - first for _, _, first, last in tree.outside)
    assert sum(top.all_objects for top in tree.top) + outside == grown
    for top in tree.top:
        assert top.all_objects == top.objects + sum(child.all_objects for child in top.children)
        assert all(top.start <= child.start <= child.stop <= top.stop for child in top.children)


def test_imports_that_nest_deeper_than_python_calls_do_no_harm() -> None:
    tree = _Tree(0, 0)
    for depth in range(3 * sys.getrecursionlimit()):
        tree.take(depth + 1, 1, "m", depth + 1)
    tree.finish(10**6, _Nothing())  # type: ignore[arg-type]
    _sum_up(tree.top)
    assert tree.top[0].all_objects == 3 * sys.getrecursionlimit() - 1
    assert tree.top[0].unfinished
