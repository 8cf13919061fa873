"""What the recorder writes in a real process of every interpreter (A5, B2, B4, B5, D1, D10)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from frostline import format as layout
from frostline.recording.series import Mark, Series
from tests.interpreters import Interpreter, every_interpreter
from tests.probe.target import run


def only(series: list[Series]) -> Series:
    (one,) = series
    return one


def marks(series: Series, kind: int) -> list[Mark]:
    return [mark for mark in series.marks if mark.kind == kind]


@every_interpreter
def test_recording_adds_at_most_twelve_modules(interpreter: Interpreter, tmp_path: Path) -> None:
    import os
    import subprocess

    from tests.interpreters import SOURCE

    question = (
        "import sys; before = set(sys.modules); import frostline; frostline._boot();"
        "print(*sorted(set(sys.modules) - before))"
    )
    for asked, most in ((False, 1), (True, 12)):
        environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
        if asked:
            environment["FROSTLINE_OUTPUT"] = str(tmp_path / "session")
        done = subprocess.run(
            [interpreter.executable, "-c", question],
            env=environment, capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
        added = done.stdout.split()
        assert len(added) <= most, added
        assert ("frostline.probe.recorder" in added) == asked


@every_interpreter
def test_every_pass_is_recorded_with_what_explains_it(interpreter: Interpreter, tmp_path: Path) -> None:
    ran = run(
        interpreter,
        tmp_path,
        """
        import gc, json
        before = [s["collections"] for s in gc.get_stats()]
        keep = []
        for i in range(200_000):
            keep.append([i])
        def mine():
            return gc.collect()
        cycle = []; cycle.append(cycle); del cycle
        found = mine()
        print(json.dumps([[s["collections"] - b for s, b in zip(gc.get_stats(), before)], found]))
        """,
    )
    assert (ran.code, ran.errors) == (0, "")
    during, found = json.loads(ran.output)
    series = only(ran.session.series)
    passes = series.passes
    recorded = [int((passes["generation"] == generation).sum()) for generation in range(3)]
    at_attach = {m.values[0]: m.values[1] for m in marks(series, layout.MARK_STATE) if not m.flags}
    at_close = {m.values[0]: m.values[1] for m in marks(series, layout.MARK_STATE) if m.flags}
    assert recorded == [at_close[g] - at_attach[g] for g in range(3)]
    assert all(count >= of for count, of in zip(recorded, during, strict=True)) and recorded[0] > 20
    assert bool((passes["start"] <= passes["stop"]).all())

    explicit = passes[(passes["flags"] & layout.PASS_EXPLICIT) != 0]
    assert len(explicit) == 1
    assert explicit["generation"][0] == 2 and explicit["collected"][0] == found
    assert series.name(int(explicit["trigger_function"][0])) == "mine"
    assert series.name(int(explicit["trigger_file"][0])).endswith("target_script.py")
    (mark,) = marks(series, layout.MARK_COLLECT)
    assert mark.values[:3] == (2, found, 1)
    assert (mark.function, mark.line) == ("mine", 8)
    assert mark.file.endswith("target_script.py")
    if interpreter.version >= (3, 15, 0):
        assert explicit["candidates"][0] > 200_000 and explicit["duration"][0] > 0
    else:
        assert explicit["candidates"][0] == -1 and explicit["duration"][0] == -1
    automatic = passes[(passes["flags"] & layout.PASS_EXPLICIT) == 0]
    young = automatic[automatic["generation"] == 0]
    assert bool((young["count0"] >= 700).all())


@every_interpreter
def test_what_the_host_does_to_the_collector_is_marked_with_its_caller(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    ran = run(
        interpreter,
        tmp_path,
        """
        import gc
        from gc import freeze
        gc.set_threshold(5000, 5, 5)
        gc.disable(); gc.disable(); gc.enable()
        freeze()
        gc.unfreeze()
        """,
    )
    assert (ran.code, ran.errors) == (0, "")
    series = only(ran.session.series)
    kinds = (
        layout.MARK_THRESHOLD, layout.MARK_DISABLE, layout.MARK_ENABLE, layout.MARK_FREEZE, layout.MARK_THAW,
    )  # fmt: skip
    seen = [(m.kind, m.line) for m in series.marks if m.kind in kinds]
    # The second disable() changed nothing: no mark.
    lines = (4, 5, 5, 6, 7)
    assert seen == list(zip(kinds, lines, strict=True))
    assert marks(series, layout.MARK_THRESHOLD)[0].values[:3] == (5000, 5, 5)


@every_interpreter
def test_state_at_attach_and_at_close_and_the_interpreters_own_frozen_objects(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    """Case 47: 375 objects frozen at the start of 3.12 are the interpreter's, not ours."""
    ran = run(interpreter, tmp_path, "import gc; print(gc.get_freeze_count()); gc.freeze(); keep = []")
    series = only(ran.session.series)
    state = [m for m in marks(series, layout.MARK_STATE) if m.values[0] == 4]
    first, last = (m.values[1] for m in state)
    assert first == int(ran.output)
    if interpreter.version[:2] == (3, 12):
        assert first > 0
    assert last > first + 1000
    (thresholds, _) = (m for m in marks(series, layout.MARK_STATE) if m.values[0] == 3)
    assert thresholds.values[4] == 1 and thresholds.values[1] > 0
    assert series.words["state"] == layout.STATE_CLOSED and series.words["closed"] > 0


@every_interpreter
def test_nothing_that_the_collector_tracks_is_kept(interpreter: Interpreter, tmp_path: Path) -> None:
    """B5, case 40. The full counts (a million of each) are a benchmark; the law is the same."""
    ran = run(
        interpreter,
        tmp_path,
        """
        import gc, time
        from frostline.probe import recorder_of_this_process
        recorder = recorder_of_this_process()
        label = recorder.name_id("step")
        def work(n):
            span = recorder.record_span; clock = time.monotonic_ns
            for i in range(n):
                now = clock(); span(now, now, label, 1, 0, -1, -1, 0)
                gc.collect(0)
        work(2000)          # the first segments, the first names
        gc.collect(); gc.disable()
        before, count = len(gc.get_objects()), gc.get_count()[0]
        for _ in range(50):
            work(100)
        after = len(gc.get_objects())
        print(after - before)
        """,
    )
    assert (ran.code, ran.errors) == (0, "")
    # Segments that were opened meanwhile: a mapping, its views and its region each.
    series = only(ran.session.series)
    assert int(ran.output) <= 12 * series.segments
    assert len(series.spans["start"]) == 7000 and series.words["lost_spans"] == 0
    assert int((series.passes["generation"] == 0).sum()) >= 7000


@every_interpreter
def test_other_tools_callbacks_are_measured_apart(interpreter: Interpreter, tmp_path: Path) -> None:
    """Case 53: what another callback does inside the stop is not the collector's time."""
    ran = run(
        interpreter,
        tmp_path,
        """
        import gc, time
        def other(phase, info):
            until = time.monotonic_ns() + 5_000_000
            while time.monotonic_ns() < until: pass
        gc.collect()
        gc.callbacks.append(other)
        for _ in range(4): gc.collect(0)
        gc.callbacks[:] = [other]        # a tool that replaces the list takes our callback out
        gc.collect(0)
        """,
    )
    assert (ran.code, ran.errors) == (0, "")
    series = only(ran.session.series)
    explicit = series.passes[(series.passes["flags"] & layout.PASS_EXPLICIT) != 0]
    beside = explicit[explicit["others"] == 1]
    assert len(beside) == 5
    for record in beside:
        assert record["begin"] - record["start"] >= 5_000_000
        assert record["end"] - record["stop"] >= 5_000_000
        assert record["stop"] - record["begin"] < 5_000_000
    assert len(marks(series, layout.MARK_REINSTALLED)) == 1
    (named,) = marks(series, layout.MARK_OTHER_CALLBACK)
    assert series.name(named.values[0]) == "__main__.other"


@every_interpreter
def test_a_collect_inside_a_callback_or_finalizer_is_skipped_not_zero(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    """Case 51."""
    ran = run(
        interpreter,
        tmp_path,
        """
        import gc
        class F:
            def __init__(self): self.me = self
            def __del__(self): gc.collect()
        def callback(phase, info): gc.collect()
        gc.disable(); F()
        gc.callbacks.append(callback); gc.collect(); gc.callbacks.remove(callback)
        gc.collect(1)
        """,
    )
    assert (ran.code, ran.errors) == (0, "")
    collects = marks(only(ran.session.series), layout.MARK_COLLECT)
    assert [bool(m.flags & layout.MARK_FLAG_SKIPPED) for m in collects] == [False, True, True, True, False]
    assert [m.function for m in collects] == ["<module>", "callback", "__del__", "callback", "<module>"]


@every_interpreter
def test_growth_loses_nothing(interpreter: Interpreter, tmp_path: Path) -> None:
    ran = run(
        interpreter,
        tmp_path,
        """
        import gc
        from frostline.probe import recorder_of_this_process
        recorder = recorder_of_this_process()
        gc.collect(); gc.freeze()
        for i in range(40_000):
            recorder.record_span(i + 1, i + 2, 7, 1, 0, i, -i, i)
            if not i % 10: gc.collect(0)
            if not i % 40: recorder.mark(13, 0, 9, i)
            if not i % 80: recorder.name_id("name %d" % i)
        """,
    )
    assert (ran.code, ran.errors) == (0, "")
    series = only(ran.session.series)
    assert series.segments > 8
    assert [series.words[w] for w in ("lost_spans", "lost_passes", "lost_marks")] == [0, 0, 0]
    assert int(((series.passes["flags"] & layout.PASS_EXPLICIT) != 0).sum()) >= 4000 + 1
    state = [m.values[1] for m in marks(series, layout.MARK_STATE) if m.values[0] == 9]
    assert state == list(range(0, 40_000, 40))
    assert sum(text.startswith("name ") for text in series.names.values()) == 500


@every_interpreter
def test_stand_ins_behave_as_the_functions_they_stand_for(interpreter: Interpreter, tmp_path: Path) -> None:
    ran = run(
        interpreter,
        tmp_path,
        """
        import copy, gc, inspect, pickle
        class Holder:
            collect = gc.collect          # no descriptor: called with the class's arguments only
        gc.collect(); assert Holder().collect(0) == 0
        assert pickle.loads(pickle.dumps(gc.collect)) is gc.collect
        assert copy.deepcopy(gc.freeze) is gc.freeze
        gc.collect(); assert gc.collect(generation=1) == 0
        assert callable(gc.collect) and gc.collect.__name__ == "collect" and gc.collect.__module__ == "gc"
        assert "generation" in str(inspect.signature(gc.collect))
        for bad in (lambda: gc.collect(5), lambda: gc.collect("x"), lambda: gc.set_threshold(),
                    lambda: gc.freeze(1), lambda: gc.enable(3)):
            try: bad()
            except (ValueError, TypeError) as error: print(type(error).__name__)
            else: raise AssertionError("accepted")
        gc.set_threshold(10_000)
        """,
    )
    assert (ran.code, ran.errors) == (0, "")
    assert ran.output.split() == ["ValueError", "TypeError", "TypeError", "TypeError", "TypeError"]


@every_interpreter
def test_a_forked_child_writes_a_file_of_its_own_and_ids_stay_valid(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    ran = run(
        interpreter,
        tmp_path,
        """
        import gc, os
        from frostline.probe import recorder_of_this_process
        recorder = recorder_of_this_process()
        label = recorder.name_id("inherited label")
        recorder.record_span(1, 2, label, 1, 0, -1, -1, 0)
        pid = os.fork()
        recorder.record_span(3, 4, label, 1, 0, -1, -1, 0)
        gc.collect()
        if pid == 0: os._exit(0)
        print(pid, os.waitpid(pid, 0)[1])
        """,
    )
    assert (ran.code, ran.errors) == (0, "")
    pid, status = map(int, ran.output.split())
    assert status == 0
    parent, child = sorted(ran.session.series, key=lambda series: series.pid == pid)
    assert child.pid == pid and child.parent == parent.pid
    assert [len(s.spans["start"]) for s in (parent, child)] == [2, 1]
    for series in (parent, child):
        assert "inherited label" in series.names.values()
    enabled = [m.values[4] for m in marks(child, layout.MARK_STATE) if m.values[0] == 3]
    assert enabled == [1]
    (forked,) = marks(child, layout.MARK_FORKED)
    assert forked.values[:2] == (parent.pid, parent.series)
    assert len(marks(parent, layout.MARK_FORK)) == 1
    assert not marks(child, layout.MARK_CLOSE) and marks(parent, layout.MARK_CLOSE)


@every_interpreter
def test_a_collector_that_a_fork_left_dead_is_named(interpreter: Interpreter, tmp_path: Path) -> None:
    """Case 30: the fork happens while another thread is inside a pass."""
    ran = run(
        interpreter,
        tmp_path,
        """
        import gc, os, threading, warnings
        warnings.simplefilter("ignore")
        inside, go_on = threading.Event(), threading.Event()
        def other(phase, info):
            if phase == "start" and threading.current_thread() is not threading.main_thread():
                inside.set(); go_on.wait(30)
        gc.callbacks.append(other)
        thread = threading.Thread(target=gc.collect); thread.start(); inside.wait(30)
        pid = os.fork()
        if pid == 0:
            os._exit(gc.collect() + 7 * gc.isenabled())
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        go_on.set(); thread.join()
        alive = os.fork()
        if alive == 0: os._exit(0)
        os.waitpid(alive, 0)
        print(pid, code, alive)
        """,
    )
    assert (ran.code, ran.errors) == (0, "")
    dead, code, alive = map(int, ran.output.split())
    assert code == 7  # the collector found nothing, and says that it is enabled
    by_pid = {series.pid: series for series in ran.session.series}
    assert marks(by_pid[dead], layout.MARK_DEAD_COLLECTOR)
    assert not marks(by_pid[alive], layout.MARK_DEAD_COLLECTOR)


def test_secrets_do_not_reach_the_header(tmp_path: Path) -> None:
    import sys

    ran = run(sys.executable, tmp_path, "pass", FROSTLINE_ROLE="front end")
    series = only(ran.session.series)
    (identity,) = marks(series, layout.MARK_IDENTITY)
    assert series.name(identity.values[0]) == "front end"
    assert ran.folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (["--api-key", "abc"], ["--api-key", "[redacted]"]),
        (["--api-key=abc"], ["--api-key=[redacted]"]),
        (["HF_TOKEN=abc"], ["HF_TOKEN=[redacted]"]),
        (["--max-tokens", "10"], ["--max-tokens", "10"]),
        (["--tokenizer", "x"], ["--tokenizer", "x"]),
        (["redis://user:pw@host/0"], ["redis://[redacted]@host/0"]),
        (["http://h/?token=abc&a=b"], ["http://h/?token=[redacted]&a=b"]),
        (["-H", "Authorization: Bearer abc"], ["-H", "Authorization: Bearer [redacted]"]),
        (["--password", "--verbose"], ["--password", "--verbose"]),
        (["--port", "80", "path/to/keys.py"], ["--port", "80", "path/to/keys.py"]),
    ],
)
def test_redaction(given: list[str], shown: list[str]) -> None:
    assert layout.redact(given) == shown
