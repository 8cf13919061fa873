"""Celery's processes are frozen before their first task, and tell of tasks and idle moments (C1, C4, C9)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from frostline import format as layout
from frostline.policy.engine import BY_INTEGRATION
from frostline.recording.session import Session, read_session
from tests.integrations.hosts import ROOT, boundaries, frozen
from tests.reach.under_run import FROSTLINE, wait_for_helper

pytest.importorskip("celery")

TASKS = "tests.integrations.celery_tasks"


class Worker:
    """``celery worker`` under ``frostline run``, and one that sends it tasks and awaits their results."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "CELERY_FOLDER": str(folder), "PYTHONPATH": ""}
        for name in ("queue", "control"):
            (folder / name).mkdir()

    def run(self, policy: str, *options: str, tasks: str) -> Any:
        """Starts it, evaluates ``tasks`` beside it, ends it, and returns what that has printed."""
        command = [sys.executable, "-m", "celery", "-A", TASKS, "worker", "-l", "WARNING", *options]
        with (self.folder / "log").open("w") as log:
            process = subprocess.Popen(
                [*FROSTLINE, "run", "-o", str(self.folder / "rec"), "--policy", policy, "--", *command],
                env=self.environment,
                cwd=ROOT,
                stdout=log,
                stderr=log,
            )
            try:
                asked = subprocess.run(
                    [sys.executable, "-c", f"from {TASKS} import state, add\nprint({tasks})"],
                    env=self.environment,
                    cwd=ROOT,
                    capture_output=True,
                    text=True,
                    timeout=120,
                )
            finally:
                process.terminate()
                process.wait(60)
        assert asked.returncode == 0, asked.stderr + (self.folder / "log").read_text()
        assert process.returncode == 0, (self.folder / "log").read_text()
        self.pid = process.pid
        return eval(asked.stdout)

    def session(self) -> Session:
        wait_for_helper(self.folder / "rec")
        return read_session(self.folder / "rec")


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    yield Worker(tmp_path)


ASK = "[r.get(timeout=60) for r in [state.delay() for _ in range(6)]]"


@pytest.mark.parametrize("options", [(), ("--max-tasks-per-child", "2")], ids=["kept", "recycled"])
def test_each_child_is_frozen_before_its_first_task(worker: Worker, options: tuple[str, ...]) -> None:
    answers = worker.run("freeze", "-c", "2", *options, tasks=ASK)
    children = {answer["pid"] for answer in answers}
    assert worker.pid not in children
    assert len(children) > 2 or not options
    for answer in answers:
        assert answer["in_flight"] == 1 and answer["frozen"] >= 30_000
    series = {one.pid: one for one in worker.session().series}
    for pid in children:
        assert boundaries(series[pid]) == [BY_INTEGRATION] and frozen(series[pid]) >= 30_000
        names = {series[pid].name(int(number)) for number in series[pid].spans["group"]}
        assert names == {f"{TASKS}.state"}  # a task is compared with others of its name (B11)
    # The parent: before it forks its pool, and when it consumes.
    assert boundaries(series[worker.pid]) == [BY_INTEGRATION] * 2


@pytest.mark.parametrize("pool", ["threads", "solo"])
def test_in_a_pool_without_processes_the_main_one_is_frozen(worker: Worker, pool: str) -> None:
    answers = worker.run("freeze", "-P", pool, "-c", "1", tasks=ASK)
    assert {answer["pid"] for answer in answers} == {worker.pid}
    assert all(answer["in_flight"] == 1 and answer["frozen"] > 10_000 for answer in answers)


def test_a_child_that_waits_is_idle(worker: Worker) -> None:
    # A splice in a task, and then nothing more: the walk that is due comes by itself.
    waits = f"__import__({__name__!r}, fromlist=['']).wait_for_walk({str(worker.folder / 'rec')!r})"
    assert worker.run("follow", "-c", "1", tasks=f"(add.delay().get(timeout=60), {waits})") == (-1, True)


def wait_for_walk(folder: str) -> bool:
    """Run beside the worker: its child has walked the whole heap twice, at its boundary and when idle."""
    from tests.integrations.hosts import until

    def walks() -> bool:
        return any(
            sum(
                mark.kind == layout.MARK_LINE and mark.values[0] == layout.LINE_WHOLE_HEAP
                for mark in series.marks
            )
            >= 2
            for series in read_session(folder).series
            if boundaries(series).count(BY_INTEGRATION) == 1
        )

    return bool(until(walks, every=0.2))
