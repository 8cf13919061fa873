"""The fallback on PYTHONPATH and the start-up hook, beside each other and beside other tools'."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
from pathlib import Path

from tests.interpreters import SOURCE, Interpreter, every_interpreter, found
from tests.reach.under_run import environment, run, write


@every_interpreter
def test_the_environment_of_the_target_has_its_own_frostline(
    tmp_path: Path, interpreter: Interpreter, with_frostline: str
) -> None:
    """A copy of another version wins, and the helper says so."""
    ended = run(
        tmp_path,
        with_frostline,
        "-c",
        "import frostline, sys; print(frostline.__file__); print([p for p in sys.path if 'boot' in p])",
    )
    assert ended.output.splitlines()[0].endswith("src/frostline/__init__.py")
    assert ended.output.splitlines()[1] == "[]"


@every_interpreter
def test_the_fallback_leaves_one_folder_at_the_end_of_the_path(
    tmp_path: Path, interpreter: Interpreter
) -> None:
    """It shadows nothing; children whose PYTHONPATH is made from sys.path find us by it."""
    program = (
        "import os, subprocess, sys; print(sys.path);"
        "path = os.pathsep.join(sys.path);"
        "subprocess.run([sys.executable, '-c', '0'], env={**os.environ, 'PYTHONPATH': path}, check=True)"
    )
    command = (interpreter.executable, "-c", program)
    bare = subprocess.run(command, env=environment(tmp_path), cwd=tmp_path, capture_output=True, text=True)
    ended = run(tmp_path, *command)
    before, after = ast.literal_eval(bare.stdout), ast.literal_eval(ended.output)
    assert after[:-1] == before and after[-1].endswith("/boot/path")
    assert {name.name for name in Path(after[-1]).iterdir()} - {"__pycache__"} == {"sitecustomize.py"}
    assert len(ended.recorded) == 2


def test_a_copy_of_another_version_wins_and_is_named(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    shutil.copytree(SOURCE / "frostline", theirs / "frostline", ignore=shutil.ignore_patterns("__pycache__"))
    init = theirs / "frostline" / "__init__.py"
    init.write_text(init.read_text().replace('__version__ = "', '__version__ = "99.'))
    code = "import frostline; print(frostline.__version__)"
    ended = run(tmp_path, found()[0].executable, "-c", code, PYTHONPATH=str(theirs))
    assert ended.output.startswith("99.")
    (process,) = ended.recorded
    assert f"Frostline {ended.output.strip()}" in process["detail"]


def test_a_users_pythonpath_and_sitecustomize_still_count(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    write(theirs / "sitecustomize.py", "import sys; sys.their_customize = __file__\n")
    write(theirs / "their_module.py", "value = 42\n")
    ended = run(
        tmp_path,
        found()[0].executable,
        "-c",
        "import sys, their_module\n"
        "print(their_module.value, sys.their_customize, sys.modules['sitecustomize'].__file__)",
        PYTHONPATH=str(theirs),
    )
    assert ended.errors == ""
    assert ended.output.split() == ["42", str(theirs / "sitecustomize.py"), str(theirs / "sitecustomize.py")]
    assert len(ended.recorded) == 1


def test_a_chaining_sitecustomize_in_front_reaches_ours(tmp_path: Path) -> None:
    """What ddtrace does: its folder is put before ours by the command that `run` starts."""
    front = tmp_path / "front"
    write(
        front / "sitecustomize.py",
        "import os, sys\n"
        "here = os.path.dirname(__file__)\n"
        "sys.path[:] = [p for p in sys.path if p != here]\n"
        "del sys.modules['sitecustomize']\n"
        "import sitecustomize\n"
        "sys.front = True\n",
    )
    python = found()[0].executable
    script = write(
        tmp_path / "wrapper.sh",
        f'#!/bin/sh\nPYTHONPATH={front}:$PYTHONPATH exec {python} -c "import sys; print(sys.front)"\n',
        0o755,
    )
    ended = run(tmp_path, str(script))
    assert ended.output.strip() == "True"
    assert len(ended.recorded) == 1


def test_a_failing_sitecustomize_fails_as_it_did_before(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    write(theirs / "sitecustomize.py", "import surely_not_there\n")
    command = (found()[0].executable, "-c", "print('goes on')")
    ended = run(tmp_path, *command, PYTHONPATH=str(theirs))
    assert ended.output.strip() == "goes on"
    assert "surely_not_there" in ended.errors
    assert len(ended.recorded) == 1


@every_interpreter
def test_the_hook_runs_twice_and_installs_once(
    tmp_path: Path, interpreter: Interpreter, with_frostline: str
) -> None:
    """.pth twice in a virtual environment, and the fallback's sitecustomize after it."""
    ended = run(
        tmp_path,
        with_frostline,
        "-c",
        "import gc, frostline; frostline._boot(); frostline._boot(); gc.collect(); print(len(gc.callbacks))",
    )
    assert ended.output.strip() == "1"
    (process,) = ended.recorded
    assert len(process["series"]) == 1


@every_interpreter
def test_with_nothing_asked_for_the_hook_loads_nothing(
    tmp_path: Path, interpreter: Interpreter, with_frostline: str
) -> None:
    """Counted against a .pth that does nothing: what any .pth costs is not ours."""
    count = "import sys; print(sorted(sys.modules))"
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("FROSTLINE_", "PYTHON"))}
    ours = subprocess.run(
        [with_frostline, "-c", count], env=clean, capture_output=True, text=True, check=True
    )
    (hook,) = Path(with_frostline).parent.parent.glob("lib/python3.*/site-packages/frostline.pth")
    text = hook.read_text()
    try:
        hook.write_text("import os\n")
        bare = subprocess.run(
            [with_frostline, "-c", count], env=clean, capture_output=True, text=True, check=True
        )
    finally:
        hook.write_text(text)
    assert ours.stdout == bare.stdout
    assert "frostline" not in ours.stdout


def test_a_tool_that_takes_the_front_at_an_exec_and_chains_to_nobody(tmp_path: Path) -> None:
    """What opentelemetry-instrument does. Ours goes to the front again, and chains to it."""
    front = tmp_path / "front"
    write(front / "sitecustomize.py", "import sys\nsys.front = True\n")
    tool = write(
        tmp_path / "tool.py",
        "import os, sys\n"
        f"os.environ['PYTHONPATH'] = {str(front)!r} + ':' + os.environ['PYTHONPATH']\n"
        "os.execl(sys.executable, sys.executable, '-c', 'import sys; print(sys.front)')\n",
    )
    ended = run(tmp_path, found()[0].executable, str(tool))
    assert ended.output.strip() == "True" and ended.errors == ""
    assert ended.missed == []
    (process,) = ended.recorded
    assert len(process["series"]) == 2
