"""Spans in the program's own file, by path and by ``-m``: where newcomers begin (B1, case 07)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from frostline.recording import read_session
from frostline.recording.series import Series
from tests.interpreters import Interpreter, every_interpreter, found
from tests.probe.target import BOOT, environment

PROGRAM = """
import asyncio, sys
ready = len(sys.argv)
def plain(n):
    return n + 1
class Engine:
    def step(self):
        return plain(1)
async def request():
    return Engine().step()
def later(): pass
for i in range(50):
    plain(i)
for _ in range(20):
    Engine().step()
for _ in range(10):
    asyncio.run(request())
print(sys.getprofile() is None, plain.__name__, Engine.step.__qualname__)
"""
SPANS = "__main__:plain;__main__:Engine.step=step;__main__:request;__main__:never"


def counts(series: Series) -> dict[str, int]:
    labels = [series.name(int(label)) for label in series.spans["label"]]
    return {label: labels.count(label) for label in set(labels)}


def recorded(interpreter: Interpreter, tmp_path: Path, *how: str, spans: str = SPANS) -> tuple[str, Series]:
    (tmp_path / "sitecustomize.py").write_text(BOOT)
    variables = environment(tmp_path / "session", FROSTLINE_SPANS=spans)
    variables["PYTHONPATH"] = f"{tmp_path}:{variables['PYTHONPATH']}"
    done = subprocess.run(
        [interpreter.executable, *how],
        env=variables,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    (series,) = read_session(tmp_path / "session").series
    return done.stdout, series


@every_interpreter
@pytest.mark.parametrize("how", [("server.py",), ("-m", "server")], ids=["file", "module"])
def test_functions_methods_and_coroutines(
    interpreter: Interpreter, tmp_path: Path, how: tuple[str, ...]
) -> None:
    (tmp_path / "server.py").write_text(PROGRAM)
    # While "never" is waited for, the profile function stays; without it the place is free again.
    printed, series = recorded(interpreter, tmp_path, *how, spans=SPANS.replace(";__main__:never", ""))
    assert printed == "True plain Engine.step\n"
    found = counts(series)
    assert 79 <= found.pop("plain") <= 80
    assert 29 <= found.pop("step") <= 30
    assert 9 <= found.pop("request") <= 10
    assert not found


@every_interpreter
def test_a_name_that_never_appears_is_said_at_the_end(interpreter: Interpreter, tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(PROGRAM)
    printed, series = recorded(interpreter, tmp_path, "server.py")
    assert printed.startswith("False")
    refused = {series.name(m.values[0]): series.name(m.values[1]) for m in series.marks if m.kind == 16}
    assert refused == {"__main__:never": "the program's own file has defined no never up to its end"}


def test_by_the_name_of_the_module_that_m_runs(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(PROGRAM)
    this = Interpreter(sys.executable, sys.version_info[:3])
    _, series = recorded(this, tmp_path, "-m", "server", spans="server:Engine.step=step")
    assert 29 <= counts(series)["step"] <= 30


def test_another_profiler_keeps_its_place(tmp_path: Path) -> None:
    program = (
        f"import sys; mine = lambda *_: None; sys.setprofile(mine)\n{BOOT}print(sys.getprofile() is mine)"
    )
    done = subprocess.run(
        [found()[-1].executable, "-c", program],
        env=environment(tmp_path / "session", FROSTLINE_SPANS="__main__:work"),
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("True\n", "")
    (series,) = read_session(tmp_path / "session").series
    (reason,) = (series.name(mark.values[1]) for mark in series.marks if mark.kind == 16)
    assert "another profiler" in reason
