"""What reads, analyses and writes a session feeds the collector nothing, and lets go of it (B5, D10).

Held to the fixtures of our own pytest plugin.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from frostline.analysis import Analysis
from frostline.export.chrome import write_chrome
from frostline.export.torch import merge_into
from frostline.gate import Budget, Limits, judge, junit, text, workflow
from frostline.report import plain, report, to_json, write_csv, write_parquet
from frostline.report.html import to_html
from tests.export.test_export import session
from tests.export.test_torch import trace


def _torch(analysis: Analysis, folder: Path) -> None:
    merge_into(analysis, folder / "trace.json", folder / "merged.json")


def _gate(analysis: Analysis, folder: Path) -> None:
    limits = Limits(max_pause=0, max_total=0.0, max_walked=0, max_full=0)
    checks = judge(analysis, replace(Budget(limits), no_new_cycles=True))
    assert {check.limit for check in checks} >= {"max-pause", "max-full", "no-new-cycles"}
    junit(analysis, checks, strict=False)
    assert [*text(checks, strict=False)] and [*workflow(checks, strict=False, root=folder)]


EXPORTERS: dict[str, Callable[[Analysis, Path], object]] = {
    "text": lambda analysis, _: list(plain(report(analysis))),
    "json": lambda analysis, _: to_json(analysis),
    "csv": lambda analysis, folder: write_csv(analysis, folder / "csv"),
    "parquet": lambda analysis, folder: write_parquet(analysis, folder / "parquet"),
    "html": lambda analysis, _: to_html(analysis),
    "chrome": lambda analysis, folder: write_chrome(analysis, folder / "chrome.json"),
    "torch": _torch,
    "gate": _gate,
}


@pytest.mark.parametrize("name", EXPORTERS)
def test_an_exporter_makes_no_cycle_and_keeps_nothing(
    name: str,
    tmp_path: Path,
    no_cycles: Callable[..., AbstractContextManager[None]],
    released: Callable[[object], Callable[[], None]],
) -> None:
    if name == "parquet":
        pytest.importorskip("pyarrow")
    export = EXPORTERS[name]
    first = session(tmp_path / "first")
    (tmp_path / "trace.json").write_text(trace(first, [(0, 990), (1_310, 680), (2_310, 2_000)]))
    export(first, tmp_path)  # imports, and caches that are for good
    with no_cycles():
        analysis = session(tmp_path / "s")
        export(analysis, tmp_path)
        check = released(analysis)
        of_it = released(analysis.processes[0].series)
        del analysis
        check()
        of_it()
