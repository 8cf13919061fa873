"""``[tool.frostline.check]`` of pyproject.toml. It can only add to what is found, or excuse it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from frostline.checking.pyproject import nearest, read
from frostline.errors import FrostlineError

_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_ENTRY = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_<][\w.<>]*")


@dataclass(frozen=True)
class Added:
    """An entry point that cannot be seen in the source, or one that serves in a way of its own."""

    entry: str
    serves: bool
    reason: str


@dataclass(frozen=True)
class Excuse:
    """What need not reach the calls: an entry's name or a file's path, as a pattern."""

    entry: str
    path: str
    reason: str


@dataclass(frozen=True)
class Config:
    """The settings of one check."""

    require: tuple[str, ...] = ("frostline.install",)
    require_serving: tuple[str, ...] = ("frostline.startup_complete",)
    #: Methods that call a function by its name in another process and wait for what it returns.
    rpc: tuple[str, ...] = ("collective_rpc",)
    #: Calls that start a server besides those that are known, dotted, or a method's name alone.
    servers: tuple[str, ...] = ()
    entries: tuple[Added, ...] = ()
    excuses: tuple[Excuse, ...] = ()
    tests: bool = False
    #: The file that it was read from, empty if there is none.
    source: str = ""
    scripts: tuple[tuple[str, str], ...] = ()


def load(path: Path, explicit: Path | None = None) -> Config:
    """The configuration for a path: of the nearest pyproject.toml at or above it.

    Raises:
        FrostlineError: ``bad-check-config``, with the key that is wrong.
    """
    file = explicit or nearest(path)
    if file is None:
        return Config()
    value = read(file, _bad)
    table = value
    for key in ("tool", "frostline", "check"):
        table = table.get(key, {})
        if not isinstance(table, dict):
            raise _bad(file, f"[tool.frostline.check]: {key} is not a table")
    return _made(file, table, _scripts(value))


def _scripts(value: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    project, tool = value.get("project"), value.get("tool")
    tables = [project.get(key) for key in ("scripts", "gui-scripts")] if isinstance(project, dict) else []
    poetry = tool.get("poetry") if isinstance(tool, dict) else None
    tables.append(poetry.get("scripts") if isinstance(poetry, dict) else None)
    for table in tables:
        if isinstance(table, dict):
            found.update({name: target for name, target in table.items() if isinstance(target, str)})
    return tuple(sorted(found.items()))


def _bad(file: Path, what: str) -> FrostlineError:
    return FrostlineError(
        "bad-check-config",
        f"{file} {what}",
        "`frostline explain check` lists the keys and their values.",
        exit_code=2,
    )


_KEYS = {"require", "require-serving", "rpc", "servers", "entries", "excuse", "tests"}


def _made(file: Path, table: dict[str, Any], scripts: tuple[tuple[str, str], ...]) -> Config:
    unknown = set(table) - _KEYS
    if unknown:
        raise _bad(file, f"[tool.frostline.check]: unknown key {sorted(unknown)[0]!r}")
    default = Config()
    tests = table.get("tests", False)
    if not isinstance(tests, bool):
        raise _bad(file, "[tool.frostline.check]: tests is true or false")
    require = _names(file, table, "require", default.require)
    if not require:
        raise _bad(file, "[tool.frostline.check]: require names at least one call")
    return Config(
        require=require,
        require_serving=_names(file, table, "require-serving", default.require_serving),
        rpc=_names(file, table, "rpc", default.rpc),
        servers=_names(file, table, "servers", default.servers),
        entries=tuple(_added(file, one) for one in _tables(file, table, "entries")),
        excuses=tuple(_excuse(file, one) for one in _tables(file, table, "excuse")),
        tests=tests,
        source=str(file),
        scripts=scripts,
    )


def _names(file: Path, table: dict[str, Any], key: str, default: tuple[str, ...]) -> tuple[str, ...]:
    value = table.get(key)
    if value is None:
        return default
    if not isinstance(value, list) or not all(isinstance(v, str) and _DOTTED.fullmatch(v) for v in value):
        raise _bad(file, f'[tool.frostline.check]: {key} is a list of dotted names, as ["frostline.install"]')
    return tuple(value)


def _tables(file: Path, table: dict[str, Any], key: str) -> list[dict[str, Any]]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise _bad(file, f"[tool.frostline.check]: {key} is a list of tables")
    return value


def _reason(file: Path, one: dict[str, Any], key: str, allowed: set[str]) -> str:
    unknown = set(one) - allowed - {"reason"}
    if unknown:
        raise _bad(file, f"[tool.frostline.check]: {key}: unknown key {sorted(unknown)[0]!r}")
    reason = one.get("reason")
    if not isinstance(reason, str) or not reason.strip():
        raise _bad(file, f"[tool.frostline.check]: {key}: each needs a reason")
    return reason.strip()


def _added(file: Path, one: dict[str, Any]) -> Added:
    reason = _reason(file, one, "entries", {"entry", "serves"})
    entry, serves = one.get("entry"), one.get("serves", False)
    if not isinstance(entry, str) or not _ENTRY.fullmatch(entry):
        raise _bad(
            file, '[tool.frostline.check]: entries: entry is "module:function" or "module:Class.method"'
        )
    if not isinstance(serves, bool):
        raise _bad(file, "[tool.frostline.check]: entries: serves is true or false")
    return Added(entry, serves, reason)


def _excuse(file: Path, one: dict[str, Any]) -> Excuse:
    reason = _reason(file, one, "excuse", {"entry", "path"})
    entry, path = one.get("entry", ""), one.get("path", "")
    if not isinstance(entry, str) or not isinstance(path, str) or bool(entry) == bool(path):
        raise _bad(file, "[tool.frostline.check]: excuse: either entry or path, a pattern")
    return Excuse(entry, path, reason)
