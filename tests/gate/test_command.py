"""``frostline gate`` on real recordings, of a server and of a test suite: both ways."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gate.junit_schema import check as check_schema
from tests.interpreters import Interpreter, every_interpreter
from tests.reach.under_run import FROSTLINE, environment, notes, run, running, wait_for

SERVER = """
import gc, sys
import frostline

class Node: pass

gc.disable()
heap = [[i] for i in range(60_000)]
if "freeze" in sys.argv: gc.collect(), gc.freeze()
gc.enable()
frostline.startup_complete()

def step():
    for _ in range(40):
        node = Node()
        if "leak" in sys.argv: node.me = node

for _ in range(200):
    with frostline.span("step"):
        step()
gc.collect()
"""


def gate(tmp_path: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    kept = {
        k: v for k, v in environment(tmp_path, **more).items() if k in more or not k.startswith("GITHUB_")
    }
    return subprocess.run(
        [*FROSTLINE, "gate", *arguments], env=kept, cwd=tmp_path, capture_output=True, text=True, timeout=60
    )


@every_interpreter
def test_a_server_is_held_to_its_budget(interpreter: Interpreter, tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    stock, frozen = tmp_path / "stock", tmp_path / "frozen"
    for folder, words in ((stock, ["leak"]), (frozen, ["freeze"])):
        folder.mkdir()
        assert run(folder, interpreter.executable, "server.py", *words, cwd=tmp_path).code == 0
    sessions = [str(folder / "rec") for folder in (stock, frozen)]
    # One full pass each, by the program's own call; only the unfrozen one walks the heap.
    limits = ("--since-serving", "--max-walked", "50000", "--no-new-cycles")
    done = gate(tmp_path, sessions[1], *limits)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "gate passed: 0 of 2 checks broken" in done.stdout
    done = gate(tmp_path, sessions[0], *limits, "--junit", "out.xml", GITHUB_ACTIONS="true")
    assert done.returncode == 3, done.stdout + done.stderr
    line = SERVER.splitlines().index("gc.collect()") + 1
    assert "BROKEN    max-walked: server.py" in done.stdout and f"server.py:{line} in <module>" in done.stdout
    assert f"::error file=server.py,line={line},title=frostline gate%3A max-walked::" in done.stdout
    assert ("an upper bound, before CPython 3.15" in done.stdout) == (interpreter.version < (3, 15))
    assert "8,000 objects in cycles were reclaimed" in done.stdout or interpreter.version < (3, 11)
    suite = check_schema((tmp_path / "out.xml").read_text())
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("2", "2")
    # The same garbage is no news once it is in the baseline.
    done = gate(tmp_path, sessions[0], "--since-serving", "--write-baseline", "b.json")
    assert done.returncode == 0
    done = gate(tmp_path, sessions[0], "--since-serving", "--no-new-cycles", "--baseline", "b.json")
    assert done.returncode == 0, done.stdout
    done = gate(tmp_path, sessions[0], "--since-serving", "--max-full", "1", "--baseline", "b.json")
    assert done.returncode == 0 and "no-new-cycles in 1" in done.stdout, "a file that is named is held to"
    done = gate(tmp_path, sessions[0], "--since-serving", "--max-full", "0")
    assert done.returncode == 3 and "1 full pass, 0 allowed" in done.stdout


def test_the_session_of_a_test_suite(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("import gc\ndef test_it():\n    gc.collect()\n")
    (tmp_path / "pyproject.toml").write_text('[tool.frostline.gate]\nmax-pause = "60s"\n')
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
    assert run(tmp_path, *command).code == 0
    done = gate(tmp_path)  # the newest session, and the limits of pyproject.toml
    assert done.returncode == 0 and "held      max-pause in 1" in done.stdout
    done = gate(tmp_path, "--max-full", "0")
    assert done.returncode == 3 and "1 x explicit at " in done.stdout and "test_it.py:3" in done.stdout


MISSED = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-S", "-I", "-c", "input()"], stdin=subprocess.PIPE)
input()
child.communicate(b"\\n")
"""


def test_a_process_that_was_not_recorded_is_open(tmp_path: Path) -> None:
    (tmp_path / "parent.py").write_text(MISSED)
    with running(tmp_path, sys.executable, "parent.py") as process:
        wait_for(
            lambda: any(
                one.get("missed") for n in notes(tmp_path / "rec", "helper") for one in n["processes"]
            ),
            "the helper's word of the child that is missed",
        )
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        process.wait(30)
    done = gate(tmp_path, "--max-pause", "60s", "--junit", "out.xml")
    assert done.returncode == 0 and "it was not recorded [no-site]" in done.stdout, done.stdout + done.stderr
    assert check_schema((tmp_path / "out.xml").read_text()).attrib["skipped"] == "1"
    assert gate(tmp_path, "--max-pause", "60s", "--strict").returncode == 3


def test_a_terminal_of_ascii_and_a_role_that_is_not(tmp_path: Path) -> None:
    code = "import frostline, gc; frostline.install(role='Gr\u00fc\u00dfe'); gc.collect()"
    assert run(tmp_path, sys.executable, "-c", code).code == 0
    done = gate(tmp_path, "--max-full", "0", "--github", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert done.returncode == 3 and "Traceback" not in done.stderr and "BROKEN" in done.stdout, done.stderr
    assert "::error " in done.stdout


@pytest.mark.parametrize(("arguments", "code", "slug"), (
    ((), 2, "no-limits"),
    (("--max-pause", "20"), 2, "bad-gate-limit"),
    (("--no-new-cycles", "--baseline", "none.json"), 1, "bad-baseline"),
    (("nowhere", "--max-full", "0"), 1, "session-not-found"),
))  # fmt: skip
def test_what_cannot_be_checked_is_an_error(
    tmp_path: Path, arguments: tuple[str, ...], code: int, slug: str
) -> None:
    done = gate(tmp_path, *arguments)
    assert done.returncode == code and f"[{slug}]" in done.stderr and "Traceback" not in done.stderr


def test_a_session_in_which_nobody_served_is_no_success(tmp_path: Path) -> None:
    assert run(tmp_path, sys.executable, "-c", "import gc; gc.collect()").code == 0
    session = os.fspath(tmp_path / "rec")
    done = gate(tmp_path, session, "--max-full", "0", "--since-serving")
    assert done.returncode == 1 and "[gate-empty]" in done.stderr
    done = gate(tmp_path, session, "--max-full", "Nobody=0")
    assert done.returncode == 1 and "no limit is for a process of it; it has python" in done.stderr
    done = gate(tmp_path, session, "--max-full", "5", "--junit", "no/such/folder.xml")
    assert done.returncode == 1 and "[gate-unwritable]" in done.stderr
