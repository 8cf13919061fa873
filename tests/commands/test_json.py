"""docs/json.md and the JSON of the commands: every key that is printed stands there, and no other."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from frostline.checking.model import Finding
from frostline.commands.main import COMMANDS
from tests.checking.trees import written
from tests.commands.test_control import frostline, up
from tests.heap.test_live import HOST as HEAP
from tests.heap.test_live import told
from tests.interpreters import found
from tests.jsondoc import PAGE, documented, keys
from tests.reach.under_run import running
from tests.typed import options

PYTHON = found()[0].executable
#: Described on pages of their own.
ELSEWHERE = {
    "ablate": "ablate.md",
    "try": "ablate.md",
    "compare": "ablate.md",
    "load": "load.md",
    "watch-threads": "host.md",
}
#: Print as `ping` does.
ASKING = ("freeze", "thaw", "collect", "tune", "policy", "detach")


def same(command: str, value: object, path: str = "") -> None:
    """Holds what a command printed to its section."""
    assert keys(value, path) == documented(command)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_with_json_is_described(command: str) -> None:
    if "--json" not in options(command):
        return
    if command in ELSEWHERE:
        assert f"({ELSEWHERE[command]}" in PAGE.read_text()
        assert "`--json`" in (PAGE.parent / ELSEWHERE[command]).read_text()
    else:
        assert documented("ping" if command in ASKING else command)


def test_a_live_session(tmp_path: Path) -> None:
    """``status`` under ``follow``, all that asks, and all that looks into the heap."""
    with running(tmp_path, PYTHON, "-c", HEAP, options=("--policy", "follow")) as process:
        up(process)
        census = printed(tmp_path, "census", "--budget", "0")
        for one in census:
            assert one["stats"][0]["collections"] >= 0
            one["stats"] = []  # the interpreter's own keys
        same("census", census)
        assert [len(row) for row in census[0]["rows"]] == [5] * len(census[0]["rows"])
        assert [len(row) for row in census[0]["largest"]] == [3] * len(census[0]["largest"])
        assert len(census[0]["items"]) == len(census[0]["largest"]) > 0
        for command, *more in (
            ("ping",),
            ("policy", "follow", "--now"),
            ("freeze",),
            ("collect",),
            ("tune", "700,10,10"),
        ):
            same("ping", printed(tmp_path, command, *more))
        status = printed(tmp_path, "status")
        assert status["rows"][0]["line"] is not None
        same("status", status)
        assert told(process, "garbage") == "up"
        same("cycles", printed(tmp_path, "cycles"))
        alive = printed(tmp_path, "why-alive", "__main__:Block")
        same("why-alive", alive)
        assert [len(row) for row in alive[0]["remedies"]] == [2] * len(alive[0]["ways"])
        audit = printed(tmp_path, "audit", "--class", "__main__:Block", "--serving")
        (one,) = audit["processes"]
        assert set(one["garbage"]["cycles"]) >= {"kinds", "found", "cut"}
        one["garbage"]["cycles"] = None  # its keys are those of `cycles`
        # One that is not recorded is missed: the process of this test.
        other = json.loads(frostline(tmp_path, "audit", str(os.getpid()), "--json").stdout)
        assert other["processes"] == [] and len(other["missed"]) == 1
        same("audit", {**audit, "missed": other["missed"]})
        for command in ("thaw", "detach"):
            same("ping", printed(tmp_path, command))
        process.communicate(timeout=30)


def test_who_did_not_answer_has_the_first_three_keys(tmp_path: Path) -> None:
    with running(tmp_path, PYTHON, "-c", HEAP) as process:
        up(process)
        assert told(process, "serve") == "up"
        done = frostline(tmp_path, "census", "--json")
        (one,) = json.loads(done.stdout)
        assert done.returncode == 1 and set(one) == {"process", "asked", "why_not"} and one["why_not"]
        process.communicate(timeout=30)


def test_doctor(tmp_path: Path) -> None:
    same("doctor", json.loads(frostline(tmp_path, "doctor", "--python", PYTHON, "--json").stdout))


def test_check(tmp_path: Path) -> None:
    """One entry that reaches nothing, one that is excused, one file that cannot be read."""
    written(
        tmp_path,
        {
            "app.py": "from multiprocessing import Process\ndef f(): ...\ndef g(): ...\n"
            "Process(target=f)\nProcess(target=g)\n",
            "broken.py": "from multiprocessing import Process\ndef (\n",
            "pyproject.toml": '[tool.frostline.check]\nexcuse = [{ entry = "app:g", reason = "short" }]\n',
        },
    )
    done = frostline(tmp_path, "check", ".", "--json")
    value = json.loads(done.stdout)
    assert done.returncode == 3 and value["skipped"] and value["excused"][0]["reason"] == "short"
    assert set(value["findings"][0]) == set(Finding.__dataclass_fields__)
    same("check", value)


def test_attach(tmp_path: Path) -> None:
    """A parent that is attached to, or why it cannot be here, and a child of it that is left out."""
    code = (
        "import os, sys\nread, write = os.pipe()\n"
        "if os.fork() == 0:\n    os.close(write); os.read(read, 1); os._exit(0)\n"
        "print('up', flush=True)\nsys.stdin.read()"
    )
    process = subprocess.Popen(
        [PYTHON, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    try:
        up(process)
        done = frostline(tmp_path, "attach", str(process.pid), "--yes", "--json", "-o", "rec")
        value = json.loads(done.stdout)
        assert len(value["left_out"]) == 1
        assert (value["session"] is not None) == bool(value["attached"]) == (done.returncode == 0)
        same("attach", value)
    finally:
        process.communicate(timeout=30)


def printed(tmp_path: Path, *arguments: str) -> Any:
    done = frostline(tmp_path, *arguments, "--json")
    assert done.returncode == 0, (arguments, done.stdout, done.stderr)
    return json.loads(done.stdout)
