"""The configuration only adds or excuses, each with a reason; what is wrong in it is refused."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from frostline import checking
from frostline.checking import Config, Result
from frostline.errors import FrostlineError
from frostline.reach.environment import write_fallback
from tests.checking.trees import checked, missing, written
from tests.reach.under_run import FROSTLINE, environment

CHILD = (
    "from multiprocessing import Process\ndef f(): ...\ndef g(): ...\nProcess(target=f)\nProcess(target=g)\n"
)


def configured(folder: Path, toml: str, files: dict[str, str]) -> Result:
    written(folder, {"pyproject.toml": toml, **files})
    return checking.check(folder, checking.load(folder))


def test_excused_by_name_and_by_path(tmp_path: Path) -> None:
    toml = """
        [tool.frostline.check]
        excuse = [
            { entry = "app:f", reason = "short-lived" },
            { path = "tools/*", reason = "never deployed" },
        ]
    """
    result = configured(tmp_path, toml, {"app.py": CHILD, "tools/x.py": CHILD})
    assert missing(result) == {"app:g"}
    assert sorted(reason for _, reason in result.excused) == [
        "never deployed",
        "never deployed",
        "short-lived",
    ]
    assert not result.notes


def test_an_excuse_that_is_not_needed_is_said(tmp_path: Path) -> None:
    toml = '[tool.frostline.check]\nexcuse = [{ entry = "gone:*", reason = "old" }]'
    result = configured(tmp_path, toml, {"app.py": CHILD})
    assert result.notes == ["excuse 'gone:*' is not needed: old"]


def test_added_entries(tmp_path: Path) -> None:
    toml = """
        [tool.frostline.check]
        entries = [
            { entry = "app:h", reason = "started by a scheduler" },
            { entry = "app:W.go", serves = true, reason = "started by C" },
            { entry = "app:f", serves = true, reason = "a loop over a socket" },
        ]
    """
    files = {"app.py": CHILD + "def h(): ...\nclass W:\n    def go(self): ..."}
    result = configured(tmp_path, toml, files)
    assert missing(result) == {"app:f", "app:g", "app:h", "app:W.go"}
    assert {entry.name for entry in result.entries if entry.serves} == {"app:f", "app:W.go"}


def test_other_calls(tmp_path: Path) -> None:
    toml = """
        [tool.frostline.check]
        require = ["app.boot.begin"]
        require-serving = []
        rpc = ["ask"]
        tests = true
    """
    written(tmp_path, {"pyproject.toml": toml})
    config = checking.load(tmp_path)
    assert config.require == ("app.boot.begin",) and config.require_serving == ()
    assert config.rpc == ("ask",) and config.tests


@pytest.mark.parametrize(
    "toml",
    [
        "[tool.frostline.check",
        "[tool.frostline]\ncheck = 1",
        "[tool.frostline.check]\nrequires = []",
        "[tool.frostline.check]\nrequire = []",
        "[tool.frostline.check]\nrequire = 'frostline.install'",
        "[tool.frostline.check]\nrequire = ['frostline.install()']",
        "[tool.frostline.check]\nrequire = [1]",
        "[tool.frostline.check]\ntests = 1",
        "[tool.frostline.check]\nentries = ['app:f']",
        "[tool.frostline.check]\nentries = [{ entry = 'app:f' }]",
        "[tool.frostline.check]\nentries = [{ entry = 'app', reason = 'x' }]",
        "[tool.frostline.check]\nentries = [{ entry = 'app:nothing', reason = 'x' }]",
        "[tool.frostline.check]\nentries = [{ entry = 'app:f', reason = 'x', serves = 'yes' }]",
        "[tool.frostline.check]\nexcuse = [{ entry = 'app:f' }]",
        "[tool.frostline.check]\nexcuse = [{ entry = 'app:f', reason = ' ' }]",
        "[tool.frostline.check]\nexcuse = [{ reason = 'x' }]",
        "[tool.frostline.check]\nexcuse = [{ entry = 'a', path = 'b', reason = 'x' }]",
        "[tool.frostline.check]\nexcuse = [{ entry = 'a', reason = 'x', line = 3 }]",
        "[tool.frostline.check]\nexcuse = { entry = 'a', reason = 'x' }",
    ],
)
def test_what_is_wrong_is_refused(tmp_path: Path, toml: str) -> None:
    with pytest.raises(FrostlineError) as error:
        configured(tmp_path, toml, {"app.py": CHILD})
    assert (error.value.slug, error.value.exit_code) == ("bad-check-config", 2)


@pytest.mark.parametrize(
    "source",
    [
        "from multiprocessing import Process\ndef f(): ...  # frostline: ok it is short\nProcess(target=f)",
        "from multiprocessing import Process\n# frostline: ok it is short\ndef f(): ...\nProcess(target=f)",
        "from multiprocessing import Process\ndef f(): ...\nProcess(target=f)  # frostline: ok it is short",
        "from multiprocessing import Process\ndef f(): ...\n\nProcess(\n"
        "    target=f,  # frostline:ok it is short\n)",
        "import multiprocessing\nmultiprocessing.Pool(3)  # frostline: ok it is short",
    ],
    ids=["at the function", "above it", "at the start of it", "inside the call", "a pool"],
)
def test_a_comment_excuses(tmp_path: Path, source: str) -> None:
    result = checked(tmp_path, {"app.py": source})
    assert not result.findings and not result.notes
    assert [reason for _, reason in result.excused] == ["it is short"]
    assert [entry.excuse for entry in result.entries] == ["it is short"]


def test_a_comment_needs_a_reason_and_a_place(tmp_path: Path) -> None:
    source = (
        "from multiprocessing import Process\ndef f(): ...  # frostline: ok\nProcess(target=f)\n"
        "x = '# frostline: ok no comment'\n\n\n\ny = 1  # frostline: ok for nothing\n"
    )
    result = checked(tmp_path, {"app.py": source})
    assert {finding.slug for finding in result.findings} == {"unreached", "no-reason"}
    assert result.notes == ["app.py:8: excuses nothing: for nothing"]


def test_tests_are_left_out_and_counted(tmp_path: Path) -> None:
    source = CHILD.replace("Process(target=g)\n", "")
    files = {"tests/app.py": source, "test_app.py": source, "conftest.py": source, "app.py": ""}
    result = checked(tmp_path, files)
    assert not result.entries and result.tests_left_out == 3
    assert len(checked(tmp_path, {}, Config(tests=True)).findings) == 3


def test_session_folders_are_skipped_and_counted(tmp_path: Path) -> None:
    session = write_fallback(str(tmp_path / "att1"))
    assert Path(session).is_dir()
    result = checked(tmp_path, {"app.py": CHILD, "boot/app.py": "", "boot/version": "1"})
    assert (result.files, result.sessions_left_out) == (2, 1)
    assert not any("att1" in place for finding in result.findings for place in finding.elsewhere)
    assert "1 session folders of recordings skipped" in frostline(tmp_path, ".").stdout


# --- the command ----------------------------------------------------------------------
def frostline(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*FROSTLINE, "check", *arguments],
        env=environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_command(tmp_path: Path) -> None:
    source = tmp_path / "source"
    written(source, {"app.py": CHILD})
    done = frostline(tmp_path, "source")
    assert done.returncode == 3 and not done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "app.py:2: process app:f never reaches frostline.install() [unreached]"
    assert lines[1] == "    app:f"
    assert lines[-1] == "2 to put right, 0 excused"
    value = json.loads(frostline(tmp_path, "source", "--json").stdout)
    assert [finding["line"] for finding in value["findings"]] == [2, 3]
    assert value["entries"][0] | {"serving_path": []} == {
        "kind": "process", "name": "app:f", "path": "app.py", "line": 2, "serves": False, "serving_path": [],
        "excuse": "",
    }  # fmt: skip

    written(
        source,
        {"app.py": CHILD.replace("...", "frostline.install()").replace("from", "import frostline\nfrom")},
    )
    done = frostline(tmp_path, "source")
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "fine, 0 excused"
    assert "Entry points: 2 (2 process)" in done.stdout

    written(source, {"pyproject.toml": "[tool.frostline.check]\nwrong = 1"})
    done = frostline(tmp_path, "source")
    assert done.returncode == 2 and "bad-check-config" in done.stderr and "'wrong'" in done.stderr
    for nothing in ("nowhere", "state"):
        done = frostline(tmp_path, nothing)
        assert done.returncode == 2 and "no-source" in done.stderr and "Traceback" not in done.stderr


def test_what_is_checked_is_not_run(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    written(tmp_path / "s", {"app.py": f"open({str(mark)!r}, 'w')\nimport frostline\n" + CHILD})
    assert frostline(tmp_path, "s").returncode == 3
    assert not mark.exists()


def test_a_single_file(tmp_path: Path) -> None:
    written(tmp_path, {"app.py": CHILD})
    assert missing(checking.check(tmp_path / "app.py", Config())) == {"app:f", "app:g"}
