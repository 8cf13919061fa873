"""``[tool.frostline.gate]`` of pyproject.toml."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from frostline.checking.pyproject import nearest, read
from frostline.errors import FrostlineError
from frostline.gate.limits import NAMES, Budget, Limits, share, with_limit

_TABLE = "[tool.frostline.gate]"
_FLAGS = {"no-new-cycles": "no_new_cycles", "since-serving": "since_serving", "strict": "strict"}
_KEYS = {*NAMES, *_FLAGS, "baseline", "margin", "roles"}


def configured(path: Path, explicit: Path | None = None) -> Budget:
    """The budget of the nearest pyproject.toml at or above a path; an empty one if there is none.

    Raises:
        FrostlineError: ``bad-gate-config``, with the key that is wrong.
    """
    file = explicit or nearest(path)
    if file is None:
        return Budget()
    table: Any = read(file, _bad)
    for key in ("tool", "frostline", "gate"):
        table = table.get(key, {})
        if not isinstance(table, dict):
            raise _bad(file, f"{_TABLE}: {key} is not a table")
    unknown = set(table) - _KEYS
    if unknown:
        raise _bad(file, f"{_TABLE}: unknown key {sorted(unknown)[0]!r}")
    roles = table.get("roles", {})
    if not isinstance(roles, dict) or not all(isinstance(own, dict) for own in roles.values()):
        raise _bad(file, f"{_TABLE}: roles is a table of tables, one a role")
    budget = Budget(
        limits=_limits(file, table, ""),
        roles=tuple((role, _limits(file, own, role)) for role, own in roles.items()),
    )
    for key, field in _FLAGS.items():
        value = table.get(key, False)
        if not isinstance(value, bool):
            raise _bad(file, f"{_TABLE}: {key} is true or false")
        changed: dict[str, Any] = {field: value}
        budget = replace(budget, **changed)
    baseline = table.get("baseline", "")
    if not isinstance(baseline, str):
        raise _bad(file, f"{_TABLE}: baseline is the name of a file")
    margin = share(str(table.get("margin", "10%")))
    if margin is None:
        raise _bad(file, f'{_TABLE}: margin is a share, such as "10%"')
    return replace(budget, baseline=str(file.parent / baseline) if baseline else "", margin=margin)


def _limits(file: Path, table: dict[str, Any], role: str) -> Limits:
    where = f"{_TABLE}: roles.{role}" if role else _TABLE
    unknown = set(table) - set(NAMES) if role else set()
    if unknown:
        raise _bad(file, f"{where}: unknown key {sorted(unknown)[0]!r}")
    found = Limits()
    for name in NAMES:
        if name not in table:
            continue
        value = table[name]
        # True is an int for Python, and no number of passes.
        text = "" if isinstance(value, bool) else str(value)
        changed = with_limit(found, name, text)
        if changed is None:
            raise _bad(file, f"{where}: {name} is {NAMES[name][2]}, not {value!r}")
        found = changed
    return found


def _bad(file: Path, what: str) -> FrostlineError:
    return FrostlineError(
        "bad-gate-config",
        f"{file} {what}",
        "`frostline explain gate` lists the keys and their values.",
        exit_code=2,
    )
