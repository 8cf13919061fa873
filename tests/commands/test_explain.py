"""``frostline explain``: what a name in brackets means, and the documents, without a source tree."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.commands.test_main import frostline
from tests.test_docs import ROOT, documented

PAGES = sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "how-to").glob("*.md")])


def test_every_name_is_explained(tmp_path: Path) -> None:
    names = sorted(documented())
    done = frostline(tmp_path, "explain", *names)
    assert done.returncode == 0, done.stderr
    for name in names:
        assert f"{name}: " in done.stdout
    # Links between the documents would lead nowhere from here.
    assert "](" not in done.stdout


def test_a_name_in_brackets_and_one_that_stands_in_two_tables(tmp_path: Path) -> None:
    done = frostline(tmp_path, "explain", "[no-ptrace]")
    assert done.stdout.startswith("no-ptrace: why a process was not attached to\n")
    assert "What to do: the command in the message" in done.stdout
    done = frostline(tmp_path, "explain", "segment-missing")
    assert "losses: " in done.stdout
    assert frostline(tmp_path, "explain", "records-damaged").stdout.count("records-damaged: ") == 2


def test_every_page_and_a_section_of_one(tmp_path: Path) -> None:
    listed = frostline(tmp_path, "explain")
    for page in PAGES:
        assert f"  {page.stem} " in listed.stdout
    for given in ("policies", "policies.md", "docs/policies.md", "attach", "how-to/attach.md"):
        done = frostline(tmp_path, "explain", given)
        name = given.removesuffix(".md").rpartition("/")[2]
        (page,) = [one for one in PAGES if one.stem == name]
        assert done.stdout.strip() == page.read_text().strip()
    section = frostline(tmp_path, "explain", "follow").stdout
    assert section.startswith("## `follow`\n") and "## `prefork`" not in section
    for given in ("sync", "sync:N", "tune:1,2,3", "idle"):
        assert f"{given.partition(':')[0]}: a policy\n" in frostline(tmp_path, "explain", given).stdout


def test_a_slip_and_nonsense(tmp_path: Path) -> None:
    done = frostline(tmp_path, "explain", "no-ptrce")
    assert (
        done.returncode == 2 and "Did you mean no-ptrace" in done.stderr and "[nothing-known]" in done.stderr
    )
    done = frostline(tmp_path, "explain", "%$&")
    assert done.returncode == 2 and "lists the pages" in done.stderr


def test_the_wheel_has_the_documents_and_reads_them_there(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    code = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    built = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
        file.extractall(tmp_path / "site")
    assert {f"frostline/docs/{page.relative_to(ROOT / 'docs')}" for page in PAGES} <= names
    assert "frostline.pth" in names
    code = "import frostline.commands.explain as e; print(e.documents())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "site", capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == str(tmp_path / "site/frostline/docs"), done.stderr
