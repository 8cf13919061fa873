"""Which session is meant where none is named: the newest one that runs or has something in it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from frostline.errors import FrostlineError
from frostline.reach import session
from frostline.reach.newest import has_something, newest
from tests.interpreters import found
from tests.reach.under_run import FROSTLINE, environment, notes, running, wait_for_helper
from tests.synthetic import MS, Process, write_run

PYTHON = found()[0].executable
COLLECTS = "import gc; gc.collect()"


def recorded(folder: Path) -> Path:
    """A session with a pass in it."""
    folder.mkdir()
    process = Process()
    process.add_pass(10 * MS, MS)
    process.write(folder)
    write_run(folder, ["x"])
    return folder


def frostline(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*FROSTLINE, *arguments],
        env=environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )


def test_newest_is_what_was_noted_or_what_lies_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with pytest.raises(FrostlineError) as caught:
        newest(str(tmp_path))
    assert caught.value.slug == "no-session"
    noted = recorded(tmp_path / "elsewhere")
    session.remember(str(noted))
    assert newest(str(tmp_path)) == (str(noted), ())
    here = recorded(tmp_path / "frostline-20260101-000000")
    (run,) = noted.glob("run-*.json")
    os.utime(run, ns=(1, 1))
    assert newest(str(tmp_path)).path == str(here)
    write_run(noted, ["y"])  # joined again: newer now
    for file in here.glob("run-*.json"):
        os.utime(file, ns=(2, 2))
    assert newest(str(tmp_path)).path == str(noted)


def test_several_are_remembered_each_once_the_newest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("/a", "/b\n", "/a", *(f"/{i}" for i in range(30)), "/29"):
        session.remember(name)
    assert session.remembered()[:3] == ["/29", "/28", "/27"] and len(session.remembered()) == 20


@pytest.mark.parametrize("failing", [["sh", "-c", "exit 2"], [PYTHON, "nothing.py"]], ids=["sh", "python"])
def test_one_that_failed_at_once_is_passed_over_and_that_is_said(tmp_path: Path, failing: list[str]) -> None:
    assert frostline(tmp_path, "run", "-o", "good", "--", PYTHON, "-c", COLLECTS).returncode == 0
    wait_for_helper(tmp_path / "good")
    assert frostline(tmp_path, "run", "-o", "bad", "--", *failing).returncode == 2
    wait_for_helper(tmp_path / "bad")
    for command in ("report", "status"):
        done = frostline(tmp_path, command)
        assert done.returncode == 0, done.stderr
        assert done.stderr.startswith(
            "frostline: the newest session, bad, ended at once or recorded nothing"
        ), done
        assert "this is the newest with something in it, good" in done.stderr and "bad:" not in done.stdout
    named = frostline(tmp_path, "status", "bad")
    assert named.stderr == "" and "bad: ended" in named.stdout


def test_one_that_runs_is_the_newest_whatever_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    session.remember(str(recorded(tmp_path / "older")))
    with running(tmp_path, "sh", "-c", "echo up; read line") as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        assert newest(str(tmp_path)) == (str(tmp_path / "rec"), ())
        process.communicate("\n", timeout=30)
    wait_for_helper(tmp_path / "rec")
    assert not has_something(str(tmp_path / "rec"))
    assert newest(str(tmp_path)).passed_over == (str(tmp_path / "rec"),)


def test_where_none_has_anything_the_very_newest_is_meant(tmp_path: Path) -> None:
    frostline(tmp_path, "run", "-o", "one", "--", "true")
    wait_for_helper(tmp_path / "one")
    frostline(tmp_path, "run", "-o", "two", "--", "true")
    wait_for_helper(tmp_path / "two")
    assert notes(tmp_path / "two", "run")
    done = frostline(tmp_path, "status")
    assert "two: ended" in done.stdout and done.stderr == ""
    assert "note: no Python process was seen: nothing to record" in done.stdout
