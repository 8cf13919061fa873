"""What the caller's shell does to the commands: nothing. The command alone gets it, unchanged."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interpreters import SOURCE, found
from tests.reach.under_run import FROSTLINE, environment, wait_for_helper, write

PYTHON = found()[0].executable
ENTRY = [sys.executable, "-c", "from frostline.commands.main import main; main()"]


def entry(tmp_path: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """As the console script does it: no working folder stands on sys.path."""
    return subprocess.run(
        [*ENTRY, *arguments],
        env=environment(tmp_path, **more),
        cwd=tmp_path / "elsewhere",
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """An application's folder with modules that are called as ours are, and must not be loaded by us."""
    (tmp_path / "elsewhere").mkdir()
    for name in ("click", "rich", "numpy", "psutil"):
        write(tmp_path / f"app/{name}.py", f"raise RuntimeError('the application has its own {name}')\n")
    write(tmp_path / "app/theirs.py", "print('theirs')\n")
    return tmp_path / "app"


@pytest.mark.parametrize("form", ["{app}", "/nowhere:{app}", "{app}:{source}", "../app", ":{app}:"])
def test_pythonpath_is_the_commands_and_not_ours(tmp_path: Path, theirs: Path, form: str) -> None:
    value = form.format(app=theirs, source=SOURCE)
    rec = str(tmp_path / "rec")
    code = "import os, theirs; print(os.environ['PYTHONPATH'])"
    done = entry(tmp_path, "run", "-o", rec, "--", PYTHON, "-c", code, PYTHONPATH=value)
    assert (done.returncode, done.stderr) == (0, "")
    said, path = done.stdout.splitlines()
    assert said == "theirs" and path.split(":", 1) == [f"{rec}/boot/path", value]
    wait_for_helper(tmp_path / "rec")
    for command in ("report", "status"):
        done = entry(tmp_path, command, rec, PYTHONPATH=value)
        assert (done.returncode, done.stderr) == (0, ""), command


def test_a_pythonpath_that_holds_what_is_ours_takes_nothing_away(tmp_path: Path, theirs: Path) -> None:
    """Its entries are ours as well: without them there would be no library, or no click."""
    import click

    own = [os.path.dirname(os.__file__), str(Path(click.__file__).parent.parent), str(SOURCE)]
    for value in own:
        done = entry(tmp_path, "status", "nowhere", PYTHONPATH=value)
        assert done.returncode == 1 and "[no-session]" in done.stderr, (value, done.stderr)


def test_other_python_settings_are_the_commands_too(tmp_path: Path, theirs: Path) -> None:
    code = "import os; print(os.environ['PYTHONWARNINGS'], os.environ['PYTHONOPTIMIZE'])"
    settings = {"PYTHONWARNINGS": "error", "PYTHONOPTIMIZE": "2", "PYTHONIOENCODING": "ascii"}
    folder = tmp_path / "sé"
    done = entry(tmp_path, "run", "-o", str(folder), "--", PYTHON, "-c", code, **settings)
    assert (done.returncode, done.stdout, done.stderr) == (0, "error 2\n", "")
    wait_for_helper(folder)
    for command in ("status", "report"):
        done = entry(tmp_path, command, str(folder), **settings)
        assert (done.returncode, done.stderr) == (0, ""), command
        assert "s\\xe9" in done.stdout or command == "report"


# --- the working folder, the disk -------------------------------------------------------
def in_a_removed_folder(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "gone").mkdir()
    script = 'rmdir "$PWD" && exec "$@"'
    return subprocess.run(
        ["sh", "-c", script, "sh", *ENTRY, *arguments],
        env=environment(tmp_path),
        cwd=tmp_path / "gone",
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_working_folder_that_has_been_removed(tmp_path: Path) -> None:
    rec = str(tmp_path / "rec")
    done = in_a_removed_folder(tmp_path, "run", "-o", rec, "--", "sh", "-c", "echo ran")
    assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr
    wait_for_helper(tmp_path / "rec")
    done = in_a_removed_folder(tmp_path, "run", "--", "true")
    assert done.returncode == 125 and "the working folder has been removed" in done.stderr
    assert "Traceback" not in done.stderr
    assert in_a_removed_folder(tmp_path, "status", rec).returncode == 0
    for command in (("report", "rec"), ("report", "--csv", "x", rec), ("status", "rec")):
        done = in_a_removed_folder(tmp_path, *command)
        assert "Traceback" not in done.stderr, command


@pytest.mark.parametrize("command", ["--help", "report", "status"])
def test_a_full_disk_behind_the_output_is_an_error_of_ours(tmp_path: Path, command: str) -> None:
    subprocess.run(
        [*FROSTLINE, "run", "-o", "rec", "--", PYTHON, "-c", ""],
        env=environment(tmp_path),
        cwd=tmp_path,
        check=True,
        timeout=60,
    )
    wait_for_helper(tmp_path / "rec")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*ENTRY, command],
            env=environment(tmp_path),
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
        again = subprocess.run(
            [*ENTRY, command],
            env=environment(tmp_path),
            cwd=tmp_path,
            stdout=full,
            stderr=full,
            timeout=60,
        )
    assert done.returncode == again.returncode == 1
    assert "No space left on device [system]" in done.stderr and len(done.stderr.splitlines()) == 2
    # Read by one who has seen enough: that is no error.
    text = subprocess.run(
        ["sh", "-c", '"$@" | :', "sh", *ENTRY, command],
        env=environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (text.returncode, text.stderr) == (0, "")
