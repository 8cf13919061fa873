"""What docs/json.md says of the JSON that a command prints, to be held against what it prints."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "json.md"
_KEY = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)


def keys(value: object, path: str = "") -> set[str]:
    """Every key in nested JSON, with its path; lists are ``[]``."""
    if isinstance(value, dict):
        return {f"{path}{key}" for key in value} | {
            inner for key, item in value.items() for inner in keys(item, f"{path}{key}.")
        }
    if isinstance(value, list):
        return {inner for item in value for inner in keys(item, path[:-1] + "[].")}
    return set()


def documented(command: str) -> set[str]:
    """The keys in the section that has the command in its heading.

    Raises:
        AssertionError: there is no such section, or there are two.
    """
    _, *sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    mine = [text for text in sections if text.startswith(f"`frostline {command} --json`")]
    assert len(mine) == 1, f"docs/json.md has {len(mine)} sections on {command}"
    return set(_KEY.findall(mine[0]))
