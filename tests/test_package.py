"""The source package: whoever unpacks it can run the suite."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def test_the_source_package_is_the_repository(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    code = "import sys; from hatchling.build import build_sdist; print(build_sdist(sys.argv[1]))"
    built = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert built.returncode == 0, built.stderr
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        packed = {name.partition("/")[2] for name in file.getnames()}
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("no repository here to compare it with")
    tracked = {name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()}
    assert tracked - packed == set()
    assert not [name for name in packed if "__pycache__" in name or name.startswith(".venv/")]
