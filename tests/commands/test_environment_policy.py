"""FROSTLINE_POLICY set by hand: what is wrong with it is said once, and not by our own commands."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.interpreters import found
from tests.reach.conftest import make_venv
from tests.reach.under_run import environment


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of a virtual environment with the start-up hook, which ``site`` reads twice there."""
    return str(make_venv(tmp_path_factory.mktemp("venv") / "venv", found()[0], True))


def said(tmp_path: Path, *command: str, **more: str) -> list[str]:
    done = subprocess.run(
        command, env=environment(tmp_path, **more), capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    return done.stderr.splitlines()


FORKS = "import os\nif os.fork(): os.wait()"


def test_a_bad_policy_is_said_once(tmp_path: Path, python: str) -> None:
    (line,) = said(tmp_path, python, "-c", FORKS, FROSTLINE_POLICY="freez")
    assert line.startswith("frostline: FROSTLINE_POLICY: unknown policy 'freez' (did you mean 'freeze'?)")


def test_that_nobody_tells_is_said_once(tmp_path: Path, python: str) -> None:
    policy = "freeze, boundary=ready"
    (line,) = said(tmp_path, python, "-c", FORKS, FROSTLINE_POLICY=policy)
    assert "nobody tells it" in line and "--ready-url" in line
    # Under `run`, which has seen to it, and under other policies there is nothing to say.
    assert said(tmp_path, python, "-c", FORKS, FROSTLINE_POLICY=policy, FROSTLINE_RUN="1-1") == []
    assert said(tmp_path, python, "-c", FORKS, FROSTLINE_POLICY="freeze,boundary=program") == []


def test_our_own_commands_leave_it_to_the_command(tmp_path: Path, python: str) -> None:
    """A program of the name ``frostline`` with the hook in its environment, as the script of ``pip`` is."""
    script = tmp_path / "frostline"
    script.write_text("pass\n")
    assert said(tmp_path, python, str(script), "run", FROSTLINE_POLICY="freez") == []
    assert len(said(tmp_path, python, "-c", "pass", FROSTLINE_POLICY="freez")) == 1
