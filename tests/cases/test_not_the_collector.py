"""Honest negatives (issue 4, B13): slow steps of real processes that are not the collector's.

Each ends in "not the collector" with the right kind, as far as this machine let the step be what it
was meant to be: the target measures itself, and a step that a busy machine turned into a wait for a
CPU must be called that.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from frostline.analysis import Analysis, LongStep, analyse
from frostline.recording import read_session
from frostline.report import plain, report
from tests.quiet import cgroup, inside
from tests.reach.under_run import run

TARGET = str(Path(__file__).with_name("elsewhere.py"))
#: Label -> the kinds that are right for it, where it was what it was meant to be.
KINDS = {
    "lock": {"asleep"},
    "thread": {"busy-thread"},
    "disk": {"disk"},
    "faults": {"major-faults"},
    "c-call": {"on-cpu"},
    "kernel": {"kernel"},
    "neighbour": {"run-queue"},
    "callback": {"callback"},
    "throttled": {"throttled"},
}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Analysis, dict[str, list[int]]]]:
    """One run of the target with all its steps."""
    tmp_path = tmp_path_factory.mktemp("elsewhere")
    with cgroup() as mine:
        command = inside(mine, sys.executable, TARGET, str(tmp_path), *([mine] if mine else []))
        ended = run(tmp_path, *command, options=("--preset", "none"))
    assert ended.code == 0, ended.errors
    yield analyse(read_session(ended.folder)), json.loads(ended.output.splitlines()[-1])


def step_of(analysis: Analysis, label: str) -> LongStep:
    steps = [s for p in analysis.processes for s in p.long_steps if s.label == label]
    return max(steps, key=lambda step: step.duration)


@pytest.mark.parametrize("label", [label for label in KINDS if label != "throttled"])
def test_each_kind_is_told(told: tuple[Analysis, dict[str, list[int]]], label: str) -> None:
    analysis, measured = told
    step = step_of(analysis, label)
    wall, cpu, queue, process = measured[label]
    assert not step.explained and step.host is not None
    kind, text = step.host.kind, step.host.text
    if kind not in KINDS[label]:
        # It was not what it was meant to be, by its own measure: then another kind is right.
        why = ""
        if label in ("c-call", "kernel") and cpu < 0.65 * wall:
            why = "the machine was too busy"
        if label in ("disk", "faults") and cpu + queue > 0.4 * wall:
            why = "the disk is too quick, or the machine was too busy"
        if label == "thread" and process < 0.6 * wall:
            why = "the machine was too busy"
        assert why, text
        pytest.skip(f"{why}: {cpu / wall:.0%} of the step on a CPU; told: {text}")
    # What the kernel counted lies within the bounds that the samples leave.
    if kind in ("run-queue", "on-cpu"):
        assert abs(step.host.queue - queue) <= 0.35 * wall and abs(step.host.cpu - cpu) <= 0.35 * wall


def test_the_row_of_each_says_not_the_collector(told: tuple[Analysis, dict[str, list[int]]]) -> None:
    analysis, _ = told
    assert analysis.verdict.kind == "not-the-collector", analysis.verdict
    text = "\n".join(plain(report(analysis)))
    assert "by what the host shows" in text and "The host" in text
    assert "not the collector: another tool's gc callback took" in text
    for process in analysis.processes:
        if process.long_steps:
            assert process.host is not None and process.host.fast and process.host.samples > 20


def test_a_quota_used_up(told: tuple[Analysis, dict[str, list[int]]]) -> None:
    analysis, measured = told
    if "throttled" not in measured:
        pytest.skip("no cgroup with a CPU quota can be made here; see tests/analysis/test_host.py")
    step = step_of(analysis, "throttled")
    assert step.host is not None and step.host.kind == "throttled", step.host
    assert "throttled" in step.host.text and step.host.throttled >= 2
