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
DYNAMO = ROOT / "examples" / "dynamo.sh"
#: In Dynamo's place: says who it is, and waits for its end.
COMPONENT = """#!/bin/bash
echo "$$" >> "$PIDS"
exec sleep 600
"""
#: Knows the model when both are there.
KNOWN = '#!/bin/bash\n[ "$(cat "$PIDS" | wc -l)" -ge 2 ] && echo \'{"data": [{"id": "model"}]}\'\n'


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


@pytest.mark.parametrize("path", [p for p in PLANS if read(p).load.beside], ids=lambda path: path.stem)
def test_what_it_has_the_shell_do_is_written_rightly(path: Path) -> None:
    load = read(path).load
    assert subprocess.run(["/bin/sh", "-n", "-c", load.beside]).returncode == 0
    asking = " ".join(shlex.split(load.beside.partition("|")[2]))
    assert asking.startswith("frostline load ") and wrong(asking) == ""
    said = re.search(r"'(\{.*\})'", load.beside, re.S)
    assert said and json.loads(said[1])["model"] == load.options[load.options.index("--model") + 1]


def _dynamo(folder: Path, *worker: str) -> subprocess.Popen[str]:
    for name, text in (("python", COMPONENT), ("curl", KNOWN)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    env = {**environment(folder), "PIDS": str(folder / "pids"), "TMPDIR": str(folder)}
    env["PATH"] = f"{folder}:{env['PATH']}"
    return subprocess.Popen(
        ["bash", str(DYNAMO), "8000", "./model", *worker], env=env, stdout=subprocess.PIPE, text=True
    )


def _gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_what_ends_the_script_ends_both_components(tmp_path: Path) -> None:
    with _dynamo(tmp_path) as script:
        assert script.stdout is not None and script.stdout.readline() == "dynamo is ready\n"
        script.terminate()
        assert script.wait(30) == 0
    pids = [int(line) for line in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 2 and all(map(_gone, pids))
    assert not list(tmp_path.glob("tmp.*"))


def test_a_worker_that_ends_ends_the_script_and_the_front_end(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    # Ends once the front end has said who it is.
    with _dynamo(tmp_path, "bash", "-c", 'until [ -s "$PIDS" ]; do :; done; false') as script:
        assert script.wait(30) == 1
    assert all(_gone(int(line)) for line in pids.read_text().split())
