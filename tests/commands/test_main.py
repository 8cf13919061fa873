"""The command line itself: errors, exit codes, what is loaded for what, and the two small commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from frostline.commands.main import COMMANDS
from frostline.errors import install_of
from tests.interpreters import found
from tests.reach.under_run import FROSTLINE, environment, run, running, wait_for, write

PYTHON = found()[0].executable


def frostline(tmp_path: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*FROSTLINE, *arguments],
        env=environment(tmp_path, **more),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_help_lists_every_command_and_loads_none(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom frostline.commands.main import invoke\n"
        "code = invoke(['--help'])\n"
        "heavy = ('rich', 'numpy', 'psutil', 'frostline.reach')\n"
        "print(code, [m for m in sys.modules if m.startswith(heavy)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "0 []"
    for name in COMMANDS:
        assert f"  {name} " in done.stdout


def test_no_argument_shows_the_help(tmp_path: Path) -> None:
    done = frostline(tmp_path)
    assert "Begin with:" in done.stdout + done.stderr


def test_an_unknown_command_is_usage(tmp_path: Path) -> None:
    done = frostline(tmp_path, "reprot")
    assert done.returncode == 2 and "reprot" in done.stderr and "Traceback" not in done.stderr
    assert "Did you mean 'report'?" in done.stderr
    assert "Did you mean" not in frostline(tmp_path, "xyz").stderr


def test_the_version(tmp_path: Path) -> None:
    import frostline as package

    assert frostline(tmp_path, "--version").stdout.strip().endswith(package.__version__)


@pytest.mark.parametrize(("hidden", "command"), [("click", "run"), ("click", "status"), ("rich", "status")])
def test_a_missing_extra_is_named_with_what_installs_it(tmp_path: Path, hidden: str, command: str) -> None:
    """The module is hidden as a bare `pip install frostline` would leave it."""
    ended = run(tmp_path, "true")
    arguments = {"run": ["run", "--", "true"], "status": ["status", str(ended.folder)]}[command]
    code = (
        f"import sys; sys.modules[{hidden!r}] = None\n"
        f"from frostline.commands.main import invoke\nsys.exit(invoke({arguments!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(tmp_path), capture_output=True, text=True, timeout=60
    )
    assert 'pip install "frostline[tools]"' in done.stderr and "Traceback" not in done.stderr
    assert done.returncode == (125 if command == "run" else 1)


@pytest.mark.parametrize(
    ("prefix", "words"),
    [
        ("/x/share/pipx/venvs/frostline", 'pipx install --force "frostline[load]"'),
        ("/x/share/uv/tools/frostline", 'uv tool install "frostline[load]"'),
        ("/opt/venv", 'pip install "frostline[load]", in the environment that Frostline runs in: /opt/venv'),
    ],
)
def test_an_extra_goes_where_frostline_is(prefix: str, words: str) -> None:
    assert install_of("load", prefix) == words


def test_a_page_that_cannot_be_written_leaves_the_one_before(tmp_path: Path) -> None:
    """By a limit on the size of files, which ends a write as a full disk does."""
    ended = run(tmp_path, PYTHON, "-c", "import gc; gc.collect()")
    page = tmp_path / "page.html"
    assert frostline(tmp_path, "report", "rec", "--html", "page.html").returncode == 0
    before = page.read_bytes()
    code = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))\n"
        "from frostline.commands.main import invoke\n"
        f"sys.exit(invoke(['report', {str(ended.folder)!r}, '--html', 'page.html']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(tmp_path), capture_output=True, text=True, timeout=60,
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 1 and "page.html" in done.stderr and "[html-unwritable]" in done.stderr
    assert page.read_bytes() == before and not list(tmp_path.glob("*.part"))


def test_run_does_not_load_what_a_report_needs(tmp_path: Path) -> None:
    done = frostline(tmp_path, "run", "-o", "rec", "--", "true", PYTHONVERBOSE="1")
    assert done.returncode == 0
    for heavy in ("import 'numpy'", "import 'rich'", "import 'psutil'", "import 'asyncio'"):
        assert heavy not in done.stderr


# --- status ---------------------------------------------------------------------------
PARENT = (
    "import gc, subprocess, sys\n"
    "gc.set_threshold(900, 5, 5); gc.collect(); gc.freeze()\n"
    "command = [sys.executable, '-S', '-c', 'import sys; sys.stdin.read()']\n"
    "child = subprocess.Popen(command, stdin=subprocess.PIPE)\n"
    "print('up', flush=True); sys.stdin.readline(); child.communicate()\n"
)


def _rows(tmp_path: Path) -> list[dict[str, object]]:
    done = frostline(tmp_path, "status", "rec", "--json")
    if done.returncode:
        return []  # the session is not there yet
    rows: list[dict[str, object]] = json.loads(done.stdout)["rows"]
    return rows


def test_status_while_it_runs_and_after(tmp_path: Path) -> None:
    with running(tmp_path, PYTHON, "-c", PARENT, options=("--policy", "tune:800,4,4")) as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"

        def both() -> list[dict[str, object]]:
            rows = _rows(tmp_path)
            return rows if any(row["reason"] for row in rows) else []

        rows = wait_for(both, "the missed child is named")
        recorded = next(row for row in rows if row["recorded"])
        missed = next(row for row in rows if not row["recorded"])
        assert (recorded["pid"], recorded["alive"]) == (process.pid, True)
        assert recorded["thresholds"] == "900,5,5"
        assert recorded["freeze"] == "by the program"
        assert str(recorded["policy"]).startswith("tune:800")
        assert str(recorded["python"]) == str(found()[0])
        assert missed["reason"] == "no-site"
        text = frostline(tmp_path, "status", "rec").stdout
        assert "live, 1 recorded, 1 missed, helper watching" in text
        assert "it runs with -S" in text and "Start it without -S." in text
        process.communicate("\n", timeout=30)
    wait_for(lambda: ": ended," in frostline(tmp_path, "status", "rec").stdout, "the session has ended")
    assert not any(row["alive"] for row in _rows(tmp_path))
    # Without an argument: the newest.
    assert frostline(tmp_path, "status").stdout == frostline(tmp_path, "status", "rec").stdout


def test_status_of_a_pending_boundary(tmp_path: Path) -> None:
    code = "import sys; print('up', flush=True); sys.stdin.readline()"
    with running(tmp_path, PYTHON, "-c", code, options=("--ready-after", "1h")) as process:
        wait_for(
            lambda: any(row["boundary"] == "pending: --ready-after" for row in _rows(tmp_path)),
            "it is pending",
        )
        process.communicate("\n", timeout=30)


def test_status_without_a_helper(tmp_path: Path) -> None:
    """Started with the environment alone."""
    source = str(Path(__file__).parent.parent.parent / "src")
    subprocess.run(
        [PYTHON, "-c", "import frostline; frostline._boot()"],
        env=environment(tmp_path, FROSTLINE_OUTPUT=str(tmp_path / "rec"), PYTHONPATH=source),
        check=True,
        timeout=60,
    )
    done = frostline(tmp_path, "status", "rec")
    assert done.returncode == 0 and "1 recorded" in done.stdout
    assert "no helper watched this session" in done.stdout
    active = tmp_path / "rec" / "active"
    for path in active.glob("*"):
        path.unlink()
    Path(os.readlink(active)).rmdir()


def test_status_of_nothing(tmp_path: Path) -> None:
    done = frostline(tmp_path, "status", "nowhere")
    assert (done.returncode, done.stdout) == (1, "") and "[no-session]" in done.stderr
    done = frostline(tmp_path, "status")
    assert done.returncode == 1 and "none was found here" in done.stderr


def test_a_hostile_title_is_shown_without_its_control_characters(tmp_path: Path) -> None:
    run(tmp_path, PYTHON, "-c", "import time; time.sleep(0.6)", "\x1b]0;owned\x07\x1b[31m")
    assert "\x1b" not in frostline(tmp_path, "status", "rec").stdout
    (tmp_path / "rec").rename(tmp_path / "r\x1b[31mec")
    done = frostline(tmp_path, "status", "r\x1b[31mec")
    assert "r\\x1b[31mec: ended, 1 recorded" in done.stdout and "\x1b" not in done.stdout
    done = frostline(tmp_path, "report", "no\x1b[31mne")
    assert "no\\x1b[31mne" in done.stderr and "\x1b" not in done.stderr


# --- doctor ---------------------------------------------------------------------------
def _findings(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, str]]:
    return {finding["what"]: finding for finding in json.loads(done.stdout)["findings"]}


def test_doctor_of_a_fit_interpreter_without_frostline(tmp_path: Path) -> None:
    before = set(os.listdir("/tmp"))
    done = frostline(tmp_path, "doctor", "--python", PYTHON, "--json")
    findings = _findings(done)
    assert done.returncode == 0 and json.loads(done.stdout)["fit"]
    assert findings["trial"]["found"] == "recorded, through PYTHONPATH"
    assert "-m pip install frostline" in findings["start-up hook"]["remedy"]
    assert findings["never reached"]["level"] == "note"
    assert not {name for name in set(os.listdir("/tmp")) - before if name.startswith("frostline-doctor-")}


def test_doctor_of_an_environment_with_the_hook(tmp_path: Path) -> None:
    from tests.reach.conftest import make_venv

    python = make_venv(tmp_path / "venv", found()[-1], True)
    findings = _findings(frostline(tmp_path, "doctor", "--python", str(python), "--json"))
    assert "live, with -I and -E too" in findings["start-up hook"]["found"]


def test_doctor_says_whether_the_plugins_are_seen(tmp_path: Path) -> None:
    from tests.reach.conftest import make_venv

    def plugin(**more: str) -> tuple[str, str]:
        found_ = _findings(frostline(tmp_path, "doctor", "--python", str(python), "--json", **more))
        return found_["vLLM plugin"]["level"], found_["SGLang plugin"]["level"]

    python = make_venv(tmp_path / "venv", found()[0], False)
    assert plugin() == ("note", "note")
    (site,) = (tmp_path / "venv").glob("lib/python3.*/site-packages")
    value = "frostline = frostline.integrations:register"
    write(site / "frostline-0.1.dist-info/METADATA", "Metadata-Version: 2.1\nName: frostline\nVersion: 0.1\n")
    write(site / "frostline-0.1.dist-info/entry_points.txt", f"[vllm.general_plugins]\n{value}\n")
    assert plugin() == ("ok", "note")
    assert plugin(VLLM_PLUGINS="other") == ("note", "note")
    assert plugin(VLLM_PLUGINS="other, frostline") == ("ok", "note")


def test_doctor_says_what_makes_it_unfit(tmp_path: Path) -> None:
    done = frostline(tmp_path, "doctor", "--python", "/bin/sh")
    assert done.returncode == 1 and "does not run Python code" in done.stdout
    done = frostline(tmp_path, "doctor", "--json", FROSTLINE_DISABLE="1")
    assert done.returncode == 1
    assert _findings(done)["FROSTLINE_DISABLE"]["level"] == "problem"
    for finding in _findings(done).values():
        assert finding["level"] != "problem" or finding["remedy"]


def test_doctor_notices_a_sitecustomize_that_shuts_ours_out(tmp_path: Path) -> None:
    """An interpreter's wrapper that puts its own folder before ours and chains to nobody."""
    write(tmp_path / "theirs/sitecustomize.py", "")
    wrapper = write(
        tmp_path / "python3",
        f'#!/bin/sh\nPYTHONPATH="{tmp_path}/theirs:$PYTHONPATH" exec {PYTHON} "$@"\n',
        0o755,
    )
    done = frostline(tmp_path, "doctor", "--python", str(wrapper), "--json")
    assert done.returncode == 1
    assert _findings(done)["trial"]["level"] == "problem"


def test_doctor_of_no_interpreter(tmp_path: Path) -> None:
    done = frostline(tmp_path, "doctor", "--python", "no-such-python")
    assert done.returncode != 0 and "not found" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("report", ""),
        ("report", "--csv", ""),
        ("report", "--long-ms", "nan"),
        ("report", "--long-ms", "inf"),
        ("report", "--long-factor", "nan"),
        ("load", "http://127.0.0.1:1/", "--rate", "nan"),
        ("load", "http://127.0.0.1:1/", "--rate", "1", "--seconds", "nan"),
        ("watch-threads", "1", "--seconds", "nan"),
        ("census", "--budget", "nan"),
        ("ping", "--wait", "nan"),
        ("run", "--retention", "999999999T", "--", "true"),
        ("run", "--span", "json:loads=a; x", "--", "true"),
        ("run", "--span", "json:loads=", "--", "true"),
        ("run", "--policy", "", "--", "true"),
    ],
)
def test_values_that_mean_nothing_are_refused(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = frostline(tmp_path, *arguments)
    assert done.returncode == 2 and "Traceback" not in done.stderr and done.stderr
    assert list(tmp_path.glob("frostline-*")) == []


def test_a_program_that_freezes_by_itself_does_so_under_a_plain_run(tmp_path: Path) -> None:
    """``run`` without ``--policy`` asks for none; ``--policy off`` overrules the program."""
    program = write(
        tmp_path / "server.py",
        "import frostline; frostline.install(policy='freeze'); print(frostline.startup_complete())",
    )
    assert int(run(tmp_path, sys.executable, str(program)).output) > 1000
    overruled = run(tmp_path, sys.executable, str(program), options=("--policy", "off"))
    assert overruled.output.strip() == "None"
