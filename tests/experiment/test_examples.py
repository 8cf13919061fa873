"""The plans in examples/: they can be made as they stand, and say what their comments say."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from frostline.experiment.ablation.plan import read
from tests.reach.under_run import FROSTLINE, environment
from tests.typed import wrong

ROOT = Path(__file__).resolve().parents[2]
PLANS = sorted((ROOT / "examples").glob("*.toml"))


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_a_plan_can_be_made_as_it_stands(tmp_path: Path, path: Path) -> None:
    words = ["ablate", str(path), "--dry-run"]
    done = subprocess.run(
        [*FROSTLINE, *words], env=environment(tmp_path), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and "cannot conclude" not in done.stdout, done.stdout + done.stderr
    plan = read(path)
    for arm in plan.arms:
        for folder in dict(arm.env).get("PYTHONPATH", "").split(":"):
            assert (ROOT / folder).is_dir()


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_what_it_has_the_shell_do_is_written_rightly(path: Path) -> None:
    load = read(path).load
    assert subprocess.run(["/bin/sh", "-n", "-c", load.beside]).returncode == 0
    asking = " ".join(shlex.split(load.beside.partition("|")[2]))
    assert asking.startswith("frostline load ") and wrong(asking) == ""
    said = re.search(r"'(\{.*\})'", load.beside, re.S)
    assert said and json.loads(said[1])["model"] == load.options[load.options.index("--model") + 1]
