"""Censuses that processes take themselves at the boundary and at their end (B4, B9). Every version."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from frostline.analysis import Analysis, analyse
from frostline.analysis.censuses import Census, Difference, difference
from frostline.recording import read_session
from frostline.report import plain, report, to_json, write_csv
from frostline.report.html import to_html
from tests.commands.test_control import frostline
from tests.interpreters import SOURCE, Interpreter, every_interpreter, found
from tests.reach.under_run import run as under_run
from tests.report.test_machine import keys
from tests.report.test_real import BOOT, folder, run

__all__ = ["folder"]

LATEST = found()[-1]
DOCS = Path(__file__).resolve().parents[2] / "docs"
#: Classes whose objects are one tracked object each on every version.
CLASSES = """
import gc, sys
import frostline
class Start:
    __slots__ = ("me", "__weakref__")
class Session(Start):
    __slots__ = ()
class Dead(Start):
    __slots__ = ()
def cycles(kind, count):
    for _ in range(count):
        one = kind()
        one.me = one
"""


@pytest.fixture(autouse=True)
def asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FROSTLINE_CENSUS", "boundary,close")


def compared(analysis: Analysis) -> tuple[Difference, dict[str, tuple[int | None, int | None, int]]]:
    (process,) = analysis.processes
    between = difference(process.series)
    assert between is not None
    return between, {
        one.name.rpartition(".")[2]: (one.before, one.after, one.change) for one in between.changes
    }


def counted(census: Census) -> dict[str, int]:
    return {one.name.rpartition(".")[2]: one.objects for one in census.types}


@every_interpreter
def test_what_has_come_since_the_freeze_is_told_by_type(folder: Path, interpreter: Interpreter) -> None:
    analysis = run(
        folder,
        interpreter,
        CLASSES
        + """
frostline.install(policy="freeze")
start = [Start() for _ in range(3_000)]
cycles(Dead, 700)
frostline.startup_complete()
sessions = [Session() for _ in range(1_234)]
cycles(Dead, 0)
""",
    )
    first, last = analysis.processes[0].censuses
    assert (first.moment, last.moment) == ("boundary", "close") and first.every == last.every == 1
    # Taken between the collection and the freeze: no garbage is in it, and what it lists is frozen.
    assert counted(first)["Start"] == 3_000 and "Dead" not in counted(first)
    assert "Start" not in counted(last) and counted(last)["Session"] == 1_234
    between, changes = compared(analysis)
    assert changes["Session"] == (0 if not first.others else None, 1_234, 1_234)
    assert not between.how and between.died <= 50
    (freeze,) = analysis.processes[0].frozen.freezes
    assert freeze.objects is not None and abs(first.objects - freeze.objects) < 50
    assert abs(between.objects - last.objects) <= between.died + 50
    text = "\n".join(plain(report(analysis)))
    assert "Tracked heap by type at boundary and at close" in text and "not frozen at close" in text
    assert "+1,234" in text


@every_interpreter
def test_deaths_among_the_frozen_make_it_an_upper_bound(folder: Path, interpreter: Interpreter) -> None:
    analysis = run(
        folder,
        interpreter,
        CLASSES
        + """
frostline.install(policy="freeze")
start = [Start() for _ in range(3_000)]
frostline.startup_complete()
del start[1_000:]
start += [Start() for _ in range(500)]
""",
    )
    between, changes = compared(analysis)
    assert 2_000 <= between.died <= 2_050
    assert changes["Start"] == (3_000, 500, 500)  # truly 1,500 fewer
    assert [one.at_most for one in between.changes if one.name.endswith("Start")] == [True]
    text = "\n".join(plain(report(analysis)))
    assert "<=+500" in text and "have died by reference count since" in text


@every_interpreter
@pytest.mark.parametrize("thaws", (False, True))
def test_without_a_freeze_and_after_a_thaw_it_is_exact(
    folder: Path, interpreter: Interpreter, thaws: bool
) -> None:
    analysis = run(
        folder,
        interpreter,
        CLASSES
        + f"""
if {thaws}:
    frostline.install(policy="freeze")
start = [Start() for _ in range(3_000)]
frostline.startup_complete()
del start[1_000:]
sessions = [Session() for _ in range(321)]
frostline.shutdown()
""",
    )
    between, changes = compared(analysis)
    assert not between.how
    assert changes["Start"] == (3_000, 1_000, -2_000)
    assert changes["Session"][1:] == (321, 321)
    assert not any(one.at_most for one in between.changes if one.name.endswith("Start"))


@every_interpreter
def test_a_freeze_of_the_program_s_own_is_a_boundary(folder: Path, interpreter: Interpreter) -> None:
    analysis = run(
        folder,
        interpreter,
        CLASSES
        + """
start = [Start() for _ in range(3_000)]
gc.collect()
gc.freeze()
sessions = [Session() for _ in range(77)]
""",
    )
    between, changes = compared(analysis)
    assert between.first.moment == "boundary" and counted(between.first)["Start"] == 3_000
    assert changes["Session"][2] == 77 and not between.how
    # What it allocates itself is not taken for garbage of the program's.
    (freeze,) = analysis.processes[0].frozen.freezes
    assert freeze.garbage == ""


def test_what_others_freeze_is_of_no_known_type(folder: Path) -> None:
    analysis = run(
        folder,
        LATEST,
        CLASSES
        + """
frostline.startup_complete()
for _ in range(2):
    sessions = [Session() for _ in range(5_000)]
    gc.freeze()
""",
    )
    between, _ = compared(analysis)
    assert "objects more are frozen, of types that nobody has listed" in between.how
    assert between.changes == ()
    text = "\n".join(plain(report(analysis)))
    assert "not compared by type" in text


@every_interpreter
def test_none_is_taken_with_requests_in_flight_or_inside_a_pass(
    folder: Path, interpreter: Interpreter
) -> None:
    analysis = run(
        folder,
        interpreter,
        CLASSES
        + """
class Late(Start):
    __slots__ = ()
    def __del__(self):
        frostline.startup_complete()
with frostline.request():
    frostline.startup_complete()
cycles(Late, 1)
gc.collect()
frostline.startup_complete()
""",
    )
    (process,) = analysis.processes
    why = [(one.moment, one.why_not) for one in process.censuses]
    assert why == [
        ("boundary", "requests were in flight"),
        ("boundary", "a pass was running"),
        ("boundary", ""),
        ("close", ""),
    ]
    assert "no census at boundary: requests were in flight" in "\n".join(plain(report(analysis)))


FORKS = (
    CLASSES
    + """
import multiprocessing
def nothing(): pass
def collects(): gc.collect()
start = [Start() for _ in range(3_000)]
if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    for target in (nothing, collects):
        child = multiprocessing.Process(target=target, name=target.__name__)
        child.start()
        child.join()
"""
)


@every_interpreter
def test_a_forked_child_copies_no_page_for_it(folder: Path, interpreter: Interpreter) -> None:
    """One that has walked what it inherited anyway counts it, at the end that multiprocessing gives it."""
    (folder / "case.py").write_text(FORKS)
    boot = BOOT.format(folder=str(folder)).replace(
        "import case", "runpy.run_module('case', run_name='__main__')"
    )
    settings = {"FROSTLINE_OUTPUT": str(folder / "session"), "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        [interpreter.executable, "-c", boot],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    seen = {}
    for process in analyse(read_session(folder / "session")).processes:
        seen[process.role] = [one.why_not.partition(":")[0] for one in process.censuses]
    shared = "a forked child in which no full pass has run"
    assert {role: why for role, why in seen.items() if role in ("nothing", "collects")} == {
        "nothing": [shared],
        "collects": [""],
    }


def test_a_heap_that_takes_too_long_is_looked_at_in_part(folder: Path) -> None:
    analysis = run(
        folder,
        LATEST,
        CLASSES
        + """
from frostline.agent import census
census.BUDGETS = (1e-4, 1e-4, 1e-4)
start = [(Start(), []) for _ in range(60_000)]
gc.collect()
frostline.startup_complete()
""",
    )
    between, _ = compared(analysis)
    assert between.about and between.first.every > 1
    # What it lists in all is exact, what it says of types an estimate.
    assert between.first.objects >= 60_000
    # Pieces from all over the heap: objects and their lists take turns in it.
    assert counted(between.first)["Start"] == pytest.approx(60_000, rel=0.1)
    assert counted(between.first)["list"] == pytest.approx(60_000, rel=0.1)
    text = "\n".join(plain(report(analysis)))
    assert "~ : only a part was looked at, one object in" in text


def test_who_is_killed_has_left_the_boundary_s(folder: Path) -> None:
    (folder / "case.py").write_text(
        CLASSES + "start = [Start() for _ in range(3_000)]\nfrostline.startup_complete()\n"
        "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    settings = {"FROSTLINE_OUTPUT": str(folder / "session"), "PYTHONPATH": str(SOURCE)}
    command = [LATEST.executable, "-c", BOOT.format(folder=str(folder))]
    done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, timeout=120)
    assert done.returncode == -signal.SIGKILL
    analysis = analyse(read_session(folder / "session"))
    (one,) = analysis.processes[0].censuses
    assert one.moment == "boundary" and counted(one)["Start"] == 3_000
    assert f"{one.objects:,} tracked objects" in "\n".join(plain(report(analysis)))


def test_every_form_of_the_report_has_it(folder: Path) -> None:
    program = "frostline.install(policy='freeze')\nfrostline.startup_complete()\n"
    analysis = run(folder, LATEST, CLASSES + program + "keep = [Start() for _ in range(999)]\n")
    data = json.loads(json.dumps(to_json(analysis)))
    documented = set(re.findall(r"^\| `([^`]+)` \|", (DOCS / "json.md").read_text(), re.MULTILINE))
    assert {key for key in keys(data) if "censuses" in key or "growth" in key} <= documented
    (process,) = data["processes"]
    growth = {one["name"]: one["change"] for one in process["growth"]["changes"]}
    assert growth["case.Start"] == 999
    assert [one["moment"] for one in process["censuses"]] == ["boundary", "close"]
    assert "Tracked heap by type at boundary and at close" in to_html(analysis)
    write_csv(analysis, folder / "csv")
    assert "case.Start,999" in (folder / "csv" / "heap.csv").read_text()


COMMAND = CLASSES.replace("import frostline\n", "") + "start = [Start() for _ in range(2_000)]\n"


def told(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_commands(tmp_path: Path) -> None:
    ended = under_run(tmp_path, LATEST.executable, "-c", COMMAND, options=("--census", "attach,close"))
    assert ended.code == 0
    (row,) = told(frostline(tmp_path, "census", "--json"))
    (growth,) = [one for one in row["growth"]["changes"] if one["name"] == "Start"]
    assert growth["change"] == 2_000
    text = frostline(tmp_path, "census", "rec").stdout
    assert "Tracked heap by type at attach and at close" in text and "+2,000" in text
    idle = frostline(tmp_path, "census", "rec", "--frozen", "--budget", "0")
    assert idle.returncode == 2 and "--budget, --frozen is for what is alive" in idle.stderr


def test_what_was_not_asked_for_is_said(tmp_path: Path) -> None:
    # FROSTLINE_CENSUS of the caller's own is meant for it, and the test's environment has it.
    wrong = frostline(tmp_path, "run", "--census", "often", "--", "true")
    assert (
        wrong.returncode == 2 and "[bad-census]" in wrong.stderr and "attach, boundary, close" in wrong.stderr
    )
    assert under_run(tmp_path, LATEST.executable, "-c", "pass").code == 0
    none = frostline(tmp_path, "census", "rec")
    assert none.returncode == 1 and "[no-stored-census]" in none.stderr
