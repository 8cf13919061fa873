"""One name for a process (A7): its title, its log lines and the report say the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import frostline
from tests.embed.hosts import LIMIT, environment, run, said
from tests.interpreters import Interpreter, every_interpreter

NAMES = """
import logging, multiprocessing, os, sys
import frostline

handler = logging.StreamHandler(sys.stdout)
handler.setFormatter(logging.Formatter("%(processName)s: %(message)s"))
handler.addFilter(frostline.NameFilter())
logging.getLogger("host").addHandler(handler)

def show(what):
    logging.getLogger("host").warning(what)
    assert frostline.process_name().endswith(f" (pid {os.getpid()})")
    sys.stdout.flush()

def comm():
    with open("/proc/self/comm") as file:
        return file.read().rstrip("\\n")

def child():
    show("before")
    frostline.install(role="Worker", rank=frostline.ranks(dp=0, tp=1))
    show("after")
    print(frostline.set_title("VLLM::"), comm(), flush=True)

if __name__ == "__main__":
    show("nothing said")
    frostline.install(role="APIServer", rank="2")
    show("said")
    print(frostline.set_title(), comm())
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        show("forked")
        os._exit(0)
    os.waitpid(pid, 0)
    process = multiprocessing.get_context("spawn").Process(target=child, name="Rank 7")
    process.start()
    process.join()
"""


@every_interpreter
def test_it_is_one_name(interpreter: Interpreter, tmp_path: Path) -> None:
    # 3.12 and newer read the number of threads from /proc/self/stat by its spaces, and a name with one has
    # them read the niceness: where the suite is niced, a fork is said to be of a multi-threaded process.
    mute = ("-W", "ignore:This process:DeprecationWarning")
    assert said(run(interpreter, tmp_path, NAMES, options=mute)) == [
        "host.py: nothing said",
        "APIServer dp2: said",
        "comm APIServer dp2",
        "host.py: forked",
        "Rank 7: before",
        "Worker dp0-tp1: after",
        "comm VLLM::W dp0-tp1",
    ]


REPORTED = """
import gc, sys
import frostline
from frostline.embed import names
frostline.install(role=sys.argv[1] or None, rank=eval(sys.argv[2]))
gc.collect()
print(names.role())
"""


@pytest.mark.parametrize(
    ("role", "rank"), [("EngineCore", "0"), ("Worker", "frostline.ranks(dp=1, tp=3)"), ("", "None")]
)
def test_the_report_says_the_same(role: str, rank: str, tmp_path: Path) -> None:
    import json

    settings = {"FROSTLINE_OUTPUT": str(tmp_path / "session")}
    (name,) = said(run(None, tmp_path, REPORTED, role, rank, **settings))
    report = subprocess.run(
        [sys.executable, "-m", "frostline.commands.main", "report", "--json", str(tmp_path / "session")],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        env=environment(),
    )
    assert report.returncode == 0, report.stderr
    processes = json.loads(report.stdout)["processes"]
    assert [one["name"].split(" (pid")[0] for one in processes] == [name]


def test_setproctitle_is_used_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "setproctitle.py").write_text("def setproctitle(title): print('title', title)\n")
    program = (
        "import frostline; frostline.install(role='Worker', rank=frostline.ranks(dp=0, tp=1));"
        "print(frostline.set_title('VLLM::', '_'))"
    )
    assert said(run(None, tmp_path, program)) == ["title VLLM::Worker_dp0-tp1", "setproctitle"]


@pytest.mark.parametrize("rank", [-1, 1.5, "0", True, None])
def test_a_rank_is_a_number(rank: object) -> None:
    with pytest.raises(ValueError, match="whole number"):
        frostline.ranks(dp=rank)  # type: ignore[arg-type]
