"""Reading a command line as the interpreter reads it, and the reason that follows from it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frostline.reach import missed, proc


@pytest.mark.parametrize(
    ("argv", "flags", "target", "module"),
    [
        (["python"], "", "", False),
        (["python", "-"], "", "-", False),
        (["python", "app.py", "-S"], "", "app.py", False),
        (["python", "-IS", "app.py"], "IS", "app.py", False),
        (["python", "-X", "utf8", "-W", "error", "-m", "uvicorn", "-S"], "", "uvicorn", True),
        (["python", "-Xdev", "-uEm", "uvicorn"], "uE", "uvicorn", True),
        (["python", "-Werror::S", "x"], "", "x", False),
        (["python", "-c", "print(1)", "-S"], "", "", False),
        (["python", "-muvicorn"], "", "uvicorn", True),
        (["python", "--check-hash-based-pycs", "never", "-s", "x.pyz"], "s", "x.pyz", False),
    ],
)
def test_an_interpreters_options(argv: list[str], flags: str, target: str, module: bool) -> None:
    found = missed.options(argv)
    assert (found.flags, found.target, found.module) == (frozenset(flags), target, module)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.sampled_from(["-S", "-E", "-I", "-s", "-B", "-O", "-Xdev", "-Wignore"]), max_size=4))
def test_the_interpreter_agrees(options: list[str]) -> None:
    code = "import sys; f = sys.flags; print(f.no_site, f.ignore_environment)"
    done = subprocess.run([sys.executable, *options, "-c", code], capture_output=True, text=True, check=True)
    no_site, ignore = (word == "1" for word in done.stdout.split())
    flags = missed.options([sys.executable, *options, "-c", code]).flags
    assert ("S" in flags) == no_site
    assert bool(flags & {"E", "I"}) == ignore


@given(st.lists(st.text(max_size=12), max_size=8))
def test_any_command_line_is_read(argv: list[str]) -> None:
    missed.options(argv)


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        ("/usr/bin/python3.12", True),
        ("python", True),
        ("/opt/python3.13t", True),
        ("/opt/pypy3.10", True),
        ("/usr/bin/python3.12-config", False),
        ("/usr/bin/pythonize", False),
        ("/bin/bash", False),
        ("", False),
    ],
)
def test_an_interpreter_by_its_name(path: str, is_one: bool) -> None:
    assert proc.is_interpreter(path) is is_one


@pytest.mark.parametrize(
    ("executable", "argv", "environment", "reason"),
    [
        ("/opt/pypy3", ["pypy3"], {}, "not-cpython"),
        ("/usr/bin/python3.9", ["python"], {}, "old-python"),
        ("/x/python3.12", ["python", "-S"], {}, "no-site"),
        ("/x/python3.12", ["python"], {}, "scrubbed-environment"),
        ("/x/python3.12", ["python"], {"FROSTLINE_OUTPUT": "/other"}, "other-session"),
        ("/x/python3.12", ["python", "-E"], {"FROSTLINE_OUTPUT": "/s"}, "isolated"),
        ("/x/python3.12", ["python", "app.pex"], {"FROSTLINE_OUTPUT": "/s"}, "pex"),
        ("/x/python3.12", ["python"], {"FROSTLINE_OUTPUT": "/s", "PYTHONPATH": "/a"}, "pythonpath-replaced"),
        ("/x/python3.12", ["python"], {"FROSTLINE_OUTPUT": "/s", "PYTHONPATH": "/a:/f"}, "unknown"),
        ("/x/python3.12", ["python"], {"FROSTLINE_OUTPUT": "/s", "PYTHONPATH": "/f:/a"}, "unknown"),
        ("/x/python3.12", ["python"], None, "unknown"),
        ("/opt/app/server", ["server"], {"FROSTLINE_OUTPUT": "/s"}, "frozen"),
    ],
)
def test_reasons(executable: str, argv: list[str], environment: dict[str, str] | None, reason: str) -> None:
    found, _ = missed.reason(0, executable, argv, environment, "/s", "/f", True)
    assert found == reason
    assert found in missed.REASONS


def test_the_folder_whose_sitecustomize_stands_before_ours_is_named(tmp_path: Path) -> None:
    """torch makes its children's PYTHONPATH from sys.path: most folders before ours hold none."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "sitecustomize.py").write_text("")
    variables = {"FROSTLINE_OUTPUT": "/s", "PYTHONPATH": f"{tmp_path}:{theirs}:/f"}
    found = missed.reason(0, "/x/python3.12", ["python"], variables, "/s", "/f", True)
    assert found == ("sitecustomize", str(theirs))


def test_another_users_process() -> None:
    assert missed.reason(0, "/x/python3.12", ["python"], None, "/s", "/f", False)[0] == "other-user"
