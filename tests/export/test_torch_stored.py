"""The merge on a trace that torch wrote, and the recording of the same run: see ``traces/README.md``."""

from __future__ import annotations

import gzip
import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from frostline.analysis import Analysis, ProcessReport, analyse
from frostline.analysis.clock import clock
from frostline.export import kineto
from frostline.export.torch import Merged, merge_into
from frostline.recording import read_session
from tests.export.checker import problems
from tests.synthetic import MS

STORED = Path(__file__).parent / "traces" / "torch-cpu"
TRACE = STORED / "trace.json.gz"


@pytest.fixture(scope="module")
def analysis(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    folder = tmp_path_factory.mktemp("stored") / "session"
    shutil.copytree(STORED / "session", folder)
    return analyse(read_session(folder))


@pytest.fixture(scope="module")
def merged(analysis: Analysis, tmp_path_factory: pytest.TempPathFactory) -> tuple[Merged, str]:
    out = tmp_path_factory.mktemp("merged") / "out.json.gz"
    return merge_into(analysis, TRACE, out), gzip.decompress(out.read_bytes()).decode()


def events(text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(text, parse_float=Decimal)["traceEvents"]
    return found


def of(analysis: Analysis, role: str) -> ProcessReport:
    (found,) = [process for process in analysis.processes if process.role.startswith(role)]
    return found


def test_the_viewers_find_nothing_wrong_with_it(merged: tuple[Merged, str]) -> None:
    """As in ``checker``: stricter than either."""
    assert problems(merged[1], pairs=False) == []


def test_what_torch_wrote_is_all_there_as_it_was(merged: tuple[Merged, str]) -> None:
    before = events(gzip.decompress(TRACE.read_bytes()).decode())
    assert len(before) > 500 and merged[1].endswith(gzip.decompress(TRACE.read_bytes()).decode()[-2_000:])
    assert events(merged[1])[-len(before) :] == before


def test_the_passes_that_torch_recorded_are_not_doubled_and_the_others_come_in(
    analysis: Analysis, merged: tuple[Merged, str]
) -> None:
    told, text = merged
    engine, worker = of(analysis, "engine"), of(analysis, "Worker")
    assert told.unrecorded == ()
    assert told.already == 3  # the worker's own gc.collect(), which both saw
    written = [event for event in events(text) if event.get("cat") == "python_gc"]
    assert len(written) == told.passes
    assert sum(event["pid"] == engine.pid and event["name"] == "GC gen2" for event in written) == 3
    assert not any(event["pid"] == worker.pid and event["name"] == "GC gen2" for event in written)


def test_both_clocks_put_a_pass_at_the_same_time(analysis: Analysis) -> None:
    """Torch's slices of the worker's passes against our record of them, through the wall clock."""
    worker = of(analysis, "Worker")
    known = kineto.scan(TRACE)
    start, stop = known.passes[worker.pid].since(known.base)
    full = np.flatnonzero(worker.series.passes["generation"] == 2)
    ours = clock(analysis.anchors)
    ours_start = ours.unix(worker.pauses.start[full])
    near = [int(np.argmin(np.abs(ours_start - at))) for at in start]
    assert len(set(near)) == len(start) == 3
    apart = np.abs(ours_start[near] - start)
    assert apart.max() < 2_000  # ns: stored, so it does not vary
    # Two callbacks of one pass: torch's stands inside ours.
    assert (worker.pauses.length[full][near] - (stop - start)).min() > 0
    assert (worker.pauses.length[full][near] - (stop - start)).max() < 10_000


def test_the_gaps_between_the_workers_operators_are_passes_its_own_and_the_engines(
    analysis: Analysis, merged: tuple[Merged, str]
) -> None:
    (worker,) = merged[0].devices
    engine, own = of(analysis, "engine").name, of(analysis, "Worker").name
    assert worker.operators and worker.label == own
    long = [gap for gap in worker.gaps if gap.length > 100 * MS]
    assert [[text.split(": gen 2")[0] for text in gap.passes] for gap in long] == [[engine], [own]] * 3
