"""Every name that a reader can see in brackets is in docs/messages.md."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("recording", "analysis", "report")
#: Calls whose first text is such a name.
NAMING = {"FrostlineError", "Doubt", "add"}


def slugs() -> set[str]:
    found: set[str] = set()
    for package in PACKAGES:
        for path in (ROOT / "src" / "frostline" / package).glob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                    name = (
                        node.func.attr
                        if isinstance(node.func, ast.Attribute)
                        else getattr(node.func, "id", "")
                    )
                    if name in NAMING and isinstance(node.args[0].value, str):
                        found.add(node.args[0].value)
    return found


def test_the_names_are_found() -> None:
    assert {"session-not-found", "segment-missing", "slow-walk"} <= slugs()


@pytest.mark.parametrize("slug", sorted(slugs()))
def test_a_name_is_documented(slug: str) -> None:
    documented = re.findall(r"`([a-z-]+)`", (ROOT / "docs" / "messages.md").read_text())
    assert slug in documented
