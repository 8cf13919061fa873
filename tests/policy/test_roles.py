"""A policy for some processes only (A10): in force there and nowhere else, whenever they say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from frostline import format as layout
from frostline.format.naming import means
from tests.interpreters import Interpreter, every_interpreter
from tests.probe.target import run


@pytest.mark.parametrize(
    ("wanted", "name", "meant"),
    [
        ("Worker", "Worker", True),
        ("Worker", "Worker dp0", True),
        ("worker", "Worker_TP1", True),
        ("Worker", "worker-3", True),
        ("Worker", "WorkerPool", False),
        ("Worker", "Engine", False),
        ("Worker dp1", "Worker dp0", False),
        ("Worker", "VLLM::Worker_TP1", True),
        ("VLLM::Worker", "VLLM::Worker_TP1", True),
        ("vllm", "vllm", True),
        ("vllm", "VLLM::Worker", False),
        ("Work", "VLLM::Worker", False),
    ],
)
def test_a_name_means_its_ranks_and_nobody_else(wanted: str, name: str, meant: bool) -> None:
    assert means(wanted, name) is meant


@every_interpreter
def test_it_is_in_force_where_it_is_for(interpreter: Interpreter, tmp_path: Path) -> None:
    ran = run(
        interpreter,
        tmp_path,
        """
        import gc, os, frostline
        from frostline.policy import engine
        stock = gc.get_threshold()
        assert engine.in_force() == "off" and gc.get_threshold() == stock   # nobody knows yet what this is

        def child(role):
            pid = os.fork()
            if pid:
                _, status = os.waitpid(pid, 0)
                return os.waitstatus_to_exitcode(status)
            frostline.install(role=role)
            frozen = frostline.startup_complete()
            ours = role == "Engine"
            seen = frozen is not None, engine.in_force() != "off", gc.get_threshold()[2] == 77
            good = seen == (ours,) * 3
            os._exit(0 if good else 1)

        assert child("Front") == 0 and child("Engine") == 0
        frostline.install(role="Engine", rank=1)
        assert gc.get_threshold()[2] == 77 and frostline.startup_complete() > 0
        # A fork of a process that it is for: what is frozen there is given back, its thresholds too.
        assert child("Front") == 0 and child("Engine") == 0
        """,
        FROSTLINE_POLICY="freeze,thresholds=700/10/77@Engine",
    )
    assert (ran.code, ran.errors) == (0, "")
    first = min(ran.session.series, key=lambda one: one.series)
    said = [first.name(m.values[0]) for m in first.marks if m.kind == layout.MARK_POLICY]
    assert said == ["off", "freeze,thresholds=700/10/77@Engine"], "the recording says what was in force when"


@every_interpreter
def test_all_but_one(interpreter: Interpreter, tmp_path: Path) -> None:
    ran = run(
        interpreter,
        tmp_path,
        """
        import frostline
        frostline.install(role="Front")
        assert frostline.startup_complete() is None
        frostline.install(role="Engine")
        assert frostline.startup_complete() > 0
        frostline.install(role="Front")
        assert frostline.startup_complete() is None and __import__("gc").get_freeze_count() < 1000
        """,
        FROSTLINE_POLICY="freeze@!Front",
    )
    assert (ran.code, ran.errors) == (0, "")


@every_interpreter
def test_the_name_of_multiprocessing_will_do_at_a_boundary_from_outside(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    ran = run(
        interpreter,
        tmp_path,
        """
        import multiprocessing.process
        from frostline.policy import engine
        assert engine.boundary(engine.BY_SUPERVISOR) is None and engine.in_force() == "off"
        multiprocessing.process.current_process().name = "Engine_DP0"
        assert engine.boundary(engine.BY_SUPERVISOR) is not None and engine.in_force() == "freeze@engine"
        """,
        FROSTLINE_POLICY="freeze@engine",
    )
    assert (ran.code, ran.errors) == (0, "")


@every_interpreter
def test_the_title_that_it_set_will_do_too(interpreter: Interpreter, tmp_path: Path) -> None:
    """As vLLM's engine core has one, beside the name that multiprocessing gave it."""
    ran = run(
        interpreter,
        tmp_path,
        """
        import ctypes, multiprocessing.process, os
        import frostline
        from frostline.policy import engine, roles
        multiprocessing.process.current_process().name = "EngineCore"
        assert roles.names() == ("EngineCore",), roles.names()
        assert engine.boundary(engine.BY_SUPERVISOR) is None and engine.in_force() == "off"
        # What setproctitle does: it writes over the command line, where /proc reads it.
        with open("/proc/self/stat", "rb") as file:
            begin, end = map(int, file.read().rpartition(b")")[2].split()[45:47])
        title = b"VLLM::EngineCore"
        assert end - begin > len(title)
        ctypes.memset(begin, 0, end - begin)
        ctypes.memmove(begin, title, len(title))
        assert roles.names() == ("EngineCore", "VLLM::EngineCore"), roles.names()
        assert engine.boundary(engine.BY_SUPERVISOR) is not None
        assert engine.in_force() == "freeze@VLLM::EngineCore"
        """,
        FROSTLINE_POLICY="freeze@VLLM::EngineCore",
    )
    assert (ran.code, ran.errors) == (0, "")
