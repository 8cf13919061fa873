"""``frostline.defer()``: no automatic pass inside, and the caller's state comes back (case 15)."""

from __future__ import annotations

from pathlib import Path

import pytest

from frostline import format as layout
from tests.interpreters import Interpreter, every_interpreter
from tests.probe.target import run
from tests.probe.test_recorder import marks, only

PRELUDE = """
import gc, os, sys, threading, frostline
class Count:
    passes = 0
    def __call__(self, phase, info): self.passes += phase == "stop"
count = Count(); gc.callbacks.append(count)
def churn(n=30_000):
    before = count.passes
    keep = [[i] for i in range(n)]
    return count.passes - before
def state(): return gc.isenabled(), gc.get_threshold()
assert churn() > 0
usual = state()
"""

BODIES = {
    "a library that enables the collector inside does not defeat it": """
        with frostline.defer():
            assert churn() == 0
            gc.enable()
            assert churn() == 0
        assert state() == usual and churn() > 0
    """,
    "nesting, one object used again": """
        region = frostline.defer()
        with region:
            with region, frostline.defer():
                assert churn() == 0
            assert churn() == 0
        assert state() == usual and churn() > 0
    """,
    "an exception passes and the state comes back": """
        try:
            with frostline.defer():
                raise KeyError("host")
        except KeyError as error:
            assert error.args == ("host",)
        else:
            raise AssertionError
        assert state() == usual and churn() > 0
    """,
    "a collector that was off stays off, and a library inside may not change that": """
        gc.disable()
        with frostline.defer():
            gc.enable()
        assert state() == (False, usual[1]) and churn() == 0
    """,
    "thresholds that the host sets inside are the ones it wants": """
        with frostline.defer():
            gc.set_threshold(300, 5, 5)
        assert gc.get_threshold()[:2] == (300, 5) and gc.isenabled()
    """,
    "threshold 0 was 0 already": """
        gc.set_threshold(0)
        with frostline.defer():
            assert churn() == 0
        assert gc.get_threshold()[0] == 0 and churn() == 0
    """,
    "an explicit collect still collects": """
        with frostline.defer():
            before = count.passes
            gc.collect()
            assert count.passes == before + 1
    """,
    "two threads: the last one out restores": """
        inside, leave, left = threading.Event(), threading.Event(), threading.Event()
        def other():
            with frostline.defer():
                inside.set(); leave.wait(60)
            left.set()
        thread = threading.Thread(target=other)
        with frostline.defer():
            thread.start(); inside.wait(60)
        assert churn() == 0                     # the other one is still inside
        leave.set(); left.wait(60); thread.join(60)
        assert state() == usual and churn() > 0
    """,
    "many threads at once": """
        errors = []
        def work():
            for _ in range(200):
                with frostline.defer():
                    if gc.get_threshold()[0] != 0: errors.append(gc.get_threshold())
        threads = [threading.Thread(target=work) for _ in range(8)]
        sys.setswitchinterval(1e-5)
        [t.start() for t in threads]; [t.join(60) for t in threads]
        assert not errors and state() == usual
    """,
    "a child forked from outside the region has its collector": """
        inside, leave = threading.Event(), threading.Event()
        def other():
            with frostline.defer():
                inside.set(); leave.wait(60)
        thread = threading.Thread(target=other); thread.start(); inside.wait(60)
        import warnings; warnings.simplefilter("ignore")
        pid = os.fork()
        if pid == 0:
            os._exit(0 if state() == usual and churn() > 0 else 1)
        assert os.waitpid(pid, 0)[1] == 0
        leave.set(); thread.join(60)
        assert state() == usual
    """,
    "a child forked inside the region is inside": """
        with frostline.defer():
            pid = os.fork()
            if pid == 0:
                ok = churn() == 0
        if pid == 0:
            os._exit(0 if ok and state() == usual and churn() > 0 else 1)
        assert os.waitpid(pid, 0)[1] == 0
        assert state() == usual
    """,
    "entered in one thread, left in another": """
        region = frostline.defer()
        thread = threading.Thread(target=region.__enter__); thread.start(); thread.join(60)
        assert churn() == 0
        region.__exit__(None, None, None)
        assert state() == usual and churn() > 0
        region.__exit__(None, None, None)       # once too often
        assert state() == usual
    """,
    "a finalizer that enters a region of its own": """
        class Kernel:
            def __init__(self): self.me = self
            def __del__(self):
                with frostline.defer(): pass
        for _ in range(50):
            for _ in range(300): Kernel()
            with frostline.defer(): pass
        gc.collect()
        assert state() == usual and churn() > 0
    """,
    "no finalizer of a cycle runs inside (graph capture)": """
        capturing, illegal = False, 0
        class Kernel:
            def __init__(self): self.me = self
            def __del__(self):
                global illegal
                illegal += capturing
        with frostline.defer():
            capturing = True
            for _ in range(3000): Kernel()
            gc.enable()
            for _ in range(3000): Kernel()
            capturing = False
        assert illegal == 0
    """,
}


@every_interpreter
@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "alone"])
def test_defer(interpreter: Interpreter, recorded: bool, tmp_path: Path) -> None:
    import textwrap

    text = PRELUDE
    for name, body in BODIES.items():
        # Each in a child of its own, so that one that fails leaves the others their state.
        body = textwrap.indent(textwrap.dedent(body), "        ")
        text += f"""
pid = os.fork()
if pid == 0:
    try:
{body}
    except BaseException as error:
        import traceback; traceback.print_exc()
        print({name!r}, flush=True); os._exit(1)
    os._exit(0)
os.waitpid(pid, 0)
"""
    more = {} if recorded else {"FROSTLINE_OUTPUT": ""}
    ran = run(interpreter, tmp_path, text, **more)
    assert (ran.output, ran.code) == ("", 0), ran.errors


@every_interpreter
def test_a_region_is_in_the_record(interpreter: Interpreter, tmp_path: Path) -> None:
    ran = run(
        interpreter,
        tmp_path,
        """
        import frostline
        with frostline.defer():
            with frostline.defer(): pass
        """,
    )
    assert (ran.code, ran.errors) == (0, "")
    series = only(ran.session.series)
    switched = [m.kind for m in series.marks if m.kind in (layout.MARK_DISABLE, layout.MARK_ENABLE)]
    assert switched == [layout.MARK_DISABLE, layout.MARK_ENABLE]
    assert all(m.flags & layout.MARK_FLAG_OURS for m in marks(series, layout.MARK_DISABLE))
