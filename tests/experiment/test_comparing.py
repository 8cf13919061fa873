"""``frostline compare``: sessions that people have, in pairs (B6)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from frostline.analysis import Analysis, analyse
from frostline.experiment.comparing import compare
from frostline.experiment.statistics import IMPROVED
from frostline.recording import read_session
from tests.probe.target import run
from tests.reach.under_run import FROSTLINE, environment

TEXT = """
import gc, frostline, time
frostline.install(role="Engine")
kept = [[i] for i in range(100_000)]
with frostline.span("step"):
    time.sleep(1)  # a warm-up
frostline.startup_complete()
for number in range(5):
    with frostline.span("step"):
        gc.collect()
"""


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    found = {}
    for policy in ("off", "freeze"):
        folder = tmp_path_factory.mktemp(policy)
        ran = run(sys.executable, folder, TEXT, FROSTLINE_POLICY=policy)
        assert (ran.code, ran.errors) == (0, "")
        found[policy] = ran.folder
    return found


def test_one_pair_concludes_nothing(sessions: dict[str, Path], tmp_path: Path) -> None:
    command = [*FROSTLINE, "compare", str(sessions["off"]), str(sessions["freeze"])]
    done = subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith(
        "1 pair: nothing is concluded. It takes 6 at least"
    )
    told = json.loads(
        subprocess.run([*command, "--json"], env=environment(tmp_path), capture_output=True, text=True).stdout
    )
    assert not told["concluded"] and told["rows"][0]["effect"]["ratio"] < 1
    steps = [row for row in told["rows"] if row["what"] == "step, p99"]
    assert len(steps) == 1 and steps[0]["role"] == "Engine" and steps[0]["b"] < steps[0]["a"]
    assert steps[0]["a"] < 1_000, "start-up has no part in it"
    odd = subprocess.run([*command, command[-1]], env=environment(tmp_path), capture_output=True, text=True)
    assert odd.returncode == 2 and "[compare-pairs]" in odd.stderr


def test_six_pairs_may_conclude_and_of_equal_ones_nothing_differs(sessions: dict[str, Path]) -> None:
    stock, frozen = (analyse(read_session(sessions[name])) for name in ("off", "freeze"))

    def of(a: Analysis, b: Analysis, pairs: int) -> str:
        found = compare([(a, b)] * pairs)
        assert found.concluded is (pairs >= 6) and found.one_sided
        return found.rows[0].effect.verdict

    assert of(stock, frozen, 6) == IMPROVED
    assert of(stock, frozen, 5) != IMPROVED
    assert of(stock, stock, 8) == "no measurable effect"
