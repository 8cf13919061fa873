"""The reference server adopts Frostline as an embedder would, and the check says so (row A6)."""

from __future__ import annotations

from pathlib import Path

import pytest

import frostline
from frostline import checking
from frostline.checking import Config
from tests.checking.trees import found


def test_our_reference_server_applies_it_everywhere() -> None:
    demo = Path(frostline.__file__).parent / "demo"
    result = checking.check(demo, Config())
    assert not result.findings and not result.notes and not result.skipped
    assert found(result) == {
        ("main block", "frostline.demo.__main__:<main>"),
        ("process", "frostline.demo.engine:main"),
        ("process", "frostline.demo.worker:main"),
    }


@pytest.mark.parametrize("name", ["engine", "worker", "front_end"])
def test_our_reference_server_without_one_of_its_calls(tmp_path: Path, name: str) -> None:
    demo = Path(frostline.__file__).parent / "demo"
    for path in demo.glob("*.py"):
        text = path.read_text()
        if path.stem == name:
            text = text.replace("frostline.install(", "print(")
        (tmp_path / path.name).write_text(text.replace("frostline.demo", "demo"))
    copy = tmp_path / "demo"
    copy.mkdir()
    for path in list(tmp_path.glob("*.py")):
        path.rename(copy / path.name)
    (finding,) = checking.check(copy, Config()).findings
    assert name in finding.path or (name == "front_end" and "__main__" in finding.path)
