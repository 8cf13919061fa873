"""What stands in the tables of a plan's file: each value as what it should be, or ``ablate-plan``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from frostline.errors import FrostlineError

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min|m|h)?")
_SECONDS = {None: 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}

Table = Mapping[str, Any]


def wrong(message: str, remedy: str = "See `frostline explain ablate`.") -> FrostlineError:
    """A plan that is none."""
    return FrostlineError("ablate-plan", message, remedy, exit_code=2)


def seconds(value: object, name: str) -> float:
    """A time: a number of seconds, or text such as ``90s`` or ``2min``.

    Raises:
        FrostlineError: ``ablate-plan``.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e7:
        return float(value)
    found = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        raise wrong(f"{name} = {value!r} is no time", "For example: 60s, 2min, or a number of seconds.")
    return float(found[1]) * _SECONDS[found[2]]


def words(table: Table, name: str) -> tuple[str, ...]:
    """A list of texts, or one that is split as a shell does."""
    value = table.get(name, ())
    try:
        found = shlex.split(value) if isinstance(value, str) else list(value)
    except (TypeError, ValueError) as error:
        raise wrong(f"{name}: {error}") from error
    if not all(isinstance(word, str) for word in found):
        raise wrong(f"{name} = {value!r} is not a list of texts")
    return tuple(found)


def whole(table: Table, name: str, default: int, least: int, most: int) -> int:
    """A whole number from ``least`` to ``most``."""
    value = table.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise wrong(f"{name} = {value!r} is no whole number from {least} to {most}")
    return value


def share(table: Table, name: str, default: float) -> float:
    """Between 0 and 1."""
    value = table.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1:
        raise wrong(f"{name} = {value!r} is no share", "For example: margin = 0.02")
    return float(value)


def flag(table: Table, name: str, default: bool) -> bool:
    """True or false."""
    value = table.get(name, default)
    if not isinstance(value, bool):
        raise wrong(f"{name} = {value!r} is neither true nor false")
    return value


def env(table: Table) -> tuple[tuple[str, str], ...]:
    """Environment variables: all but the policy, which has a place of its own."""
    value = table.get("env", {})
    if not isinstance(value, dict):
        raise wrong(f"env = {value!r} is no table", 'For example: env = { NAME = "value" }')
    for name in value:
        if name.startswith("FROSTLINE_POLICY"):
            raise wrong(f"env has {name}", 'Write policy = "..." instead.')
    return tuple((str(name), str(text)) for name, text in value.items())


def cpus(table: Table) -> str:
    """CPUs as ``taskset -c`` has them; empty for none."""
    value = table.get("cpus", "")
    if not isinstance(value, str) or (value and not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", value)):
        raise wrong(f"cpus = {value!r} names no CPUs", 'For example: cpus = "0-3,8"')
    return value
