"""The whole way on real processes: a program records itself, and the report says what it did."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from frostline.analysis import Analysis, analyse
from frostline.recording import read_session
from frostline.report import plain, report
from tests.interpreters import SOURCE, Interpreter, every_interpreter

BOOT = "import frostline; frostline._boot(); import runpy, sys; sys.path.insert(0, {folder!r}); import case"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for link in tmp_path.rglob("active"):
        shutil.rmtree(link.readlink(), ignore_errors=True)


def run(folder: Path, interpreter: Interpreter, program: str, spans: str = "") -> Analysis:
    (folder / "case.py").write_text(textwrap.dedent(program))
    settings = {"FROSTLINE_OUTPUT": str(folder / "session"), "FROSTLINE_SPANS": spans}
    done = subprocess.run(
        [interpreter.executable, "-c", BOOT.format(folder=str(folder))],
        env={**os.environ, **settings, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return analyse(read_session(folder / "session"))


@every_interpreter
def test_case_02_a_static_heap(folder: Path, interpreter: Interpreter) -> None:
    analysis = run(
        folder,
        interpreter,
        """
        import gc
        heap = [{"id": i, "next": [i]} for i in range(150_000)]
        for _ in range(3):
            gc.collect()
        """,
    )
    (process,) = analysis.processes
    last = process.full_passes[-3:]
    assert [p.kind for p in last] == ["explicit"] * 3
    assert [p.reclaimed for p in last[1:]] == [0, 0]
    for one in last:
        if interpreter.version[:2] == (3, 14) and interpreter.version < (3, 14, 5):
            assert one.walked.value is None
        else:
            assert one.walked.value is not None
            assert 300_000 <= one.walked.value <= 320_000
            assert one.walked.exact is (interpreter.version >= (3, 15))
    (site,) = process.call_sites
    assert (site.count, site.line, Path(site.file).name) == (3, 5, "case.py")
    assert any("Freeze" in advice.text for advice in analysis.advice) or last[-1].pause < 5_000_000


@every_interpreter
def test_what_was_scheduled_and_ran_late_is_automatic(folder: Path, interpreter: Interpreter) -> None:
    """On 3.12+ a C call may free all that it allocated before the pass that it started runs (U6)."""
    analysis = run(
        folder,
        interpreter,
        """
        import ctypes, gc
        keep = []
        first, second = gc.get_threshold()[:2]
        for i in range(160):
            if gc.get_count()[1] > second:
                # Lists that are made and freed in one C call.
                next(map(len, map(list, [map(list, [()] * (3 * first))])))
            else:
                # Less than a pass takes, so that the counts are looked at before the next one is due.
                keep.append([[] for _ in range(first // 2)])
        gc.collect(1)
        gc.collect(1)
        ctypes.pythonapi.PyGC_Collect.argtypes = ()
        gc.collect()
        ctypes.pythonapi.PyGC_Collect()  # unseen
        """,
    )
    (process,) = analysis.processes
    late = process.series.passes["count0"] <= process.series.passes["threshold0"]
    incremental = interpreter.version[:2] == (3, 14) and interpreter.version < (3, 14, 5)
    if interpreter.version >= (3, 12) and not incremental:
        assert int((late & process.pauses.automatic).sum()) >= 1
    assert process.unseen_explicit == 1
    assert process.full_passes[-1].kind == "explicit, caller unseen"


@every_interpreter
def test_case_07_the_sleeping_step_and_the_collecting_one(folder: Path, interpreter: Interpreter) -> None:
    analysis = run(
        folder,
        interpreter,
        """
        import gc, threading, time
        heap = [[i] for i in range(600_000)]
        gc.collect()
        never = threading.Event()

        class Engine:
            def step(self, kind):
                if kind == "io":
                    never.wait(0.25)
                if kind == "gc":
                    # As many passes as it takes: a fast machine must fail no test.
                    began = time.monotonic()
                    while time.monotonic() - began < 0.2:
                        gc.collect()

        def main():
            import frostline
            engine = Engine()
            frostline.wrap(engine, "step")
            for kind in ("none", "io", "none", "none", "none", "gc", "none"):
                engine.step(kind)

        main()
        """,
    )
    (process,) = analysis.processes
    steps = sorted(process.long_steps, key=lambda step: step.start)
    assert [step.explained for step in steps] == [False, True], [*plain(report(analysis))]
    assert "it explains 1 of the 2 slow steps" in analysis.verdict.lines


@every_interpreter
def test_case_47_what_the_interpreter_froze_is_not_ours(folder: Path, interpreter: Interpreter) -> None:
    analysis = run(
        folder,
        interpreter,
        """
        import gc
        heap = [[i] for i in range(10_000)]
        gc.collect()
        gc.freeze()
        """,
    )
    (process,) = analysis.processes
    assert process.at_attach is not None and process.at_close is not None
    assert process.at_attach.frozen == (375 if interpreter.version[:2] == (3, 12) else 0)
    assert process.frozen_since_attach is not None
    assert 10_000 <= process.frozen_since_attach <= 30_000
    assert [event.kind for event in process.events if event.kind in ("freeze", "thaw")] == ["freeze"]
    assert process.lost_passes == 0


@every_interpreter
def test_case_51_a_collect_inside_a_callback_is_skipped(folder: Path, interpreter: Interpreter) -> None:
    analysis = run(
        folder,
        interpreter,
        """
        import gc
        gc.disable()

        def callback(phase, info):
            gc.collect()

        gc.callbacks.append(callback)
        gc.collect()
        gc.callbacks.remove(callback)
        """,
    )
    (process,) = analysis.processes
    skipped = {site.line: (site.count, site.skipped) for site in process.call_sites}
    assert skipped == {6: (2, 2), 9: (1, 0)}
    text = "\n".join(plain(report(analysis)))
    assert "skipped: a pass was running" in text


@every_interpreter
def test_case_53_the_pass_and_the_stop_apart(folder: Path, interpreter: Interpreter) -> None:
    analysis = run(
        folder,
        interpreter,
        """
        import gc, threading
        gc.disable()
        never = threading.Event()

        def slow_tool(phase, info):
            never.wait(0.05)

        gc.callbacks.append(slow_tool)
        for _ in range(4):
            gc.collect()
        gc.callbacks.remove(slow_tool)
        """,
    )
    (process,) = analysis.processes
    full = next(g for g in process.generations if g.generation == 2)
    assert any("slow_tool" in name for name in process.other_callbacks)
    # The first passes may go by before the tool is noticed; then both of its calls are told apart.
    assert full.others >= 2 * 2 * 45_000_000
    assert process.full_passes[-1].pause - process.full_passes[-1].alone >= 90_000_000


def test_a_living_process_is_reported_while_it_runs(folder: Path) -> None:
    program = "import gc, sys; gc.collect(); print('ready', flush=True); sys.stdin.read()"
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "FROSTLINE_OUTPUT": str(folder / "session")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline().strip() == "ready"
    command = [sys.executable, "-c", "from frostline.commands.main import main; main()"]
    done = subprocess.run([*command, "report", str(folder / "session")], capture_output=True, text=True)
    process.communicate("")
    assert (done.returncode, done.stderr) == (0, "")
    assert "cannot tell, because no steps were recorded" in done.stdout.lower()
    assert "running or killed" in done.stdout
