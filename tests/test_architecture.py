"""The arrows of docs/design.md: which package may import which, read from the source."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent / "src" / "frostline"

#: Package -> packages of Frostline that it may import, besides itself. ``frostline`` is the package's
#: own file (its version), ``errors`` the errors of the part outside the target.
ALLOWED: dict[str, set[str]] = {
    "format": set(),
    "probe": {"format", "agent"},
    "policy": {"format", "probe"},
    "agent": {"format", "probe", "policy", "heap"},
    "heap": {"format", "probe", "policy"},
    "embed": {"format", "policy"},
    "reach": {"format", "errors"},
    "recording": {"format", "errors"},
    "analysis": {"format", "recording", "errors"},
    "report": {"format", "analysis", "recording", "errors"},
    "export": {"format", "analysis", "recording", "errors"},
    "experiment": {"format", "reach", "analysis", "recording", "errors"},
    "integrations": {"format", "probe", "policy"},
    "checking": {"errors"},
    "gate": {"format", "analysis", "recording", "report", "checking", "errors"},
    "demo": {"errors"},
    "errors": set(),
    "pytest_plugin": {"heap", "pytest_cycles"},
    "pytest_cycles": {"heap", "pytest_plugin"},
}
#: Loaded in the target: these modules of the standard library and no other, at import or later.
IN_TARGET = ("probe", "policy", "agent", "heap", "format", "embed", "integrations")
SMALL_LIBRARY = {
    "_interpreters", "_signal", "_struct", "_thread", "_tracemalloc", "_weakref", "_xxsubinterpreters",
    "atexit", "errno", "gc", "mmap", "os", "sys", "time",
}  # fmt: skip
#: What an embedding host has loaded already when it calls for it, or asks us to use.
OF_THE_HOST = {
    "embed/flags.py": {"argparse", "click"},
    "embed/names.py": {"setproctitle"},
    "embed/pauses.py": {"logging"},
}
#: ``format`` has parts that only the outside loads.
OUTSIDE_PARTS = {"format/describe.py", "format/meanings.py", "format/naming.py"}
#: The public API reaches into the target's packages, the commands into everything.
UNBOUND = {"__init__.py", "commands"}
LINES = 400


def modules() -> list[Path]:
    return sorted(path for path in ROOT.rglob("*.py"))


def imports(path: Path) -> set[str]:
    """Every module that a file imports when it runs; what only the type checker sees is left out."""
    names: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for other in node.orelse:
                visit(other)
            return
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the arrows"
            assert node.module is not None
            if node.module == "frostline":
                names.update(f"frostline.{alias.name}" for alias in node.names)
            else:
                names.add(node.module)
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text()))
    return names


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_follow_the_arrows(path: Path) -> None:
    place = path.relative_to(ROOT)
    package = place.parts[0].removesuffix(".py")
    if place.parts[0] in UNBOUND:
        return
    assert package in ALLOWED, f"{package} is not in docs/design.md: say what it may import"
    for name in imports(path):
        parts = name.split(".")
        if parts[0] != "frostline" or len(parts) == 1:
            continue
        target = parts[1]
        if target == package or target == "__version__":
            continue
        if not (ROOT / target).exists() and not (ROOT / f"{target}.py").exists():
            continue  # a name of the public API, which every package that may import it lists as such
        assert target in ALLOWED[package], f"{place} imports {name}: {package} may not import {target}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_imports_the_commands(path: Path) -> None:
    if path.relative_to(ROOT).parts[0] == "commands":
        return
    assert not any(name.startswith("frostline.commands") for name in imports(path))


@pytest.mark.parametrize("package", IN_TARGET)
def test_the_target_loads_a_small_library_only(package: str) -> None:
    for path in sorted((ROOT / package).rglob("*.py")):
        if str(path.relative_to(ROOT)) in OUTSIDE_PARTS:
            continue
        foreign = {name for name in imports(path) if name.split(".")[0] != "frostline"}
        foreign -= OF_THE_HOST.get(str(path.relative_to(ROOT)), set())
        assert foreign <= SMALL_LIBRARY, f"{path.relative_to(ROOT)} imports {foreign - SMALL_LIBRARY}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_is_too_long_to_read(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LINES
