"""FROSTLINE_POLICY set by hand: what is wrong with it is said once, and not by our own commands."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from frostline.reach import overview
from tests.interpreters import found
from tests.probe.target import run
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


@pytest.mark.parametrize(
    ("own", "in_force"), [("", "off, 'folow' refused"), ("tune:701,11,12", "tune:701,11,12")]
)
def test_a_slip_of_the_operator_ends_no_program_that_embeds_it(
    tmp_path: Path, own: str, in_force: str
) -> None:
    """It counts as not set, and neither the record nor `status` says that it is in force."""
    ran = run(
        found()[0],
        tmp_path,
        f"import frostline; frostline.install(role='x', policy={own!r} or None); print('serves')",
        FROSTLINE_POLICY="folow",
    )
    assert (ran.code, ran.output) == (0, "serves\n")
    (line,) = ran.errors.splitlines()
    assert "unknown policy 'folow' (did you mean 'follow'?)" in line
    assert [row.policy for row in overview.read(str(ran.folder)).rows] == [in_force]


def test_a_slip_of_the_programs_own_is_an_error_there(tmp_path: Path) -> None:
    ran = run(found()[0], tmp_path, "import frostline; frostline.install(policy='folow')")
    assert ran.code == 1 and "did you mean 'follow'" in ran.errors.splitlines()[-1]
