"""The nearest pyproject.toml, and what is in it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from frostline.errors import FrostlineError


def nearest(path: Path) -> Path | None:
    """The pyproject.toml at or above a path, None if there is none."""
    start = path.resolve()
    for folder in (start, *start.parents):
        candidate = folder / "pyproject.toml"
        if candidate.is_file():
            return candidate
    return None


def read(file: Path, bad: Callable[[Path, str], FrostlineError]) -> dict[str, Any]:
    """All of it; nothing on CPython 3.10 without tomli, where it cannot say anything of ours.

    Args:
        bad: makes the error from the file and what is wrong with it.

    Raises:
        FrostlineError: what ``bad`` makes, or ``missing-extra``.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise bad(file, f"cannot be read: {error}") from error
    try:
        toml = importlib.import_module("tomllib")
    except ModuleNotFoundError:  # CPython 3.10
        try:
            toml = importlib.import_module("tomli")
        except ModuleNotFoundError:
            if "tool.frostline" not in text and "scripts" not in text:
                return {}
            raise FrostlineError(
                "missing-extra",
                "CPython 3.10 cannot read pyproject.toml by itself",
                "pip install tomli, or run Frostline on a newer Python: the target's does not matter.",
            ) from None
    try:
        found: dict[str, Any] = toml.loads(text)
    except ValueError as error:
        raise bad(file, f"is no TOML: {error}") from error
    return found
