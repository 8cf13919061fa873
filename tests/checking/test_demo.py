"""The reference server adopts Frostline as an embedder would, and the check says so (row A6)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import frostline
from frostline import checking
from frostline.checking import Config
from tests.checking.trees import found, missing


def test_our_reference_server_applies_it_everywhere() -> None:
    demo = Path(frostline.__file__).parent / "demo"
    result = checking.check(demo, Config())
    assert not result.findings and not result.notes and not result.skipped
    assert found(result) == {
        ("main block", "frostline.demo.__main__:<main>"),
        ("process", "frostline.demo.engine:main"),
        ("process", "frostline.demo.disaggregated:prefill"),
        ("process", "frostline.demo.disaggregated:decode"),
        ("process", "frostline.demo.worker:main"),
    }


def _copy(folder: Path, **changed: Callable[[str], str]) -> Path:
    """The reference server as a package ``demo`` of its own, some of its modules changed."""
    copy = folder / "demo"
    copy.mkdir()
    for path in (Path(frostline.__file__).parent / "demo").glob("*.py"):
        text = path.read_text()
        new = changed.get(path.stem, str)(text)
        assert path.stem not in changed or new != text
        (copy / path.name).write_text(new.replace("frostline.demo", "demo"))
    return copy


@pytest.mark.parametrize(
    ("name", "entries"),
    [
        ("engine", {"demo.engine:main", "demo.disaggregated:prefill", "demo.disaggregated:decode"}),
        ("worker", {"demo.worker:main"}),
        ("front_end", {"demo.__main__:<main>"}),
    ],
)
def test_our_reference_server_without_one_of_its_calls(tmp_path: Path, name: str, entries: set[str]) -> None:
    without = {name: lambda text: text.replace("frostline.install(", "print(")}
    assert missing(checking.check(_copy(tmp_path, **without), Config())) == entries


def _with_the_twin(folder: Path, change: Callable[[str], str] = str) -> Path:
    """The reference server with the broken twin as its decode process."""

    def put_in(text: str) -> str:
        text = text.replace("import disaggregated, engine", "import disaggregated, engine, twin")
        return text.replace("disaggregated.decode", "twin.decode")

    copy = _copy(folder, front_end=put_in)
    text = (Path(__file__).parents[1] / "demo" / "inputs" / "twin.py").read_text()
    (copy / "twin.py").write_text(change(text).replace("frostline.demo", "demo"))
    return copy


def test_the_twin_whose_entry_point_overrides_the_base(tmp_path: Path) -> None:
    """It imports all that the base does and calls most of it, and no policy is in force in it (A6)."""
    (finding,) = checking.check(_with_the_twin(tmp_path), Config()).findings
    assert (finding.slug, finding.entry) == ("unreached", "demo.twin:decode")
    # Where the call is that this entry does not come by.
    assert any("engine.py" in place and "EngineProcess.run" in place for place in finding.elsewhere)


def test_the_twin_repaired_by_one_call(tmp_path: Path) -> None:
    """The fault is the override alone: once it calls the base's, nothing is found."""

    def repair(text: str) -> str:
        repaired = text.replace("        self.alive = Lifeline(ENGINE_GRACE)\n", "        super().run()\n")
        assert repaired != text
        return repaired

    assert not checking.check(_with_the_twin(tmp_path, repair), Config()).findings
