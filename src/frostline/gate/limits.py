"""The limits of a gate, and how they are written: ``20ms``, ``0.5%``, ``50000``, ``EngineCore=5ms``."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

from frostline.errors import FrostlineError
from frostline.format.naming import means

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s)")
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")
_COUNT = re.compile(r"\d[\d_,]*")
_UNITS = {"us": 1e3, "ms": 1e6, "s": 1e9}
#: Lifts a limit: for a role that is excused from it.
NONE = "none"


@dataclass(frozen=True)
class Limits:
    """What one process may do. None: no limit of this kind; -1 of a role: lifted there.

    ``max_pause`` in ns, ``max_total`` as a share of the time, ``max_walked`` in objects of one pass,
    ``max_full`` in passes of generation 2.
    """

    max_pause: int | None = None
    max_total: float | None = None
    max_walked: int | None = None
    max_full: int | None = None

    def over(self, other: Limits) -> Limits:
        """Its own limits, and where it has none those of ``other``; what is lifted has none."""
        chosen: dict[str, Any] = {}
        for one in fields(self):
            mine = getattr(self, one.name)
            chosen[one.name] = getattr(other, one.name) if mine is None else mine
        return replace(self, **chosen)

    def lifted(self) -> Limits:
        """With None for what is lifted."""
        gone: dict[str, Any] = {one.name: None for one in fields(self) if getattr(self, one.name) == -1}
        return replace(self, **gone)

    @property
    def empty(self) -> bool:
        return all(getattr(self, one.name) is None for one in fields(self))


@dataclass(frozen=True)
class Budget:
    """All that a gate is to check."""

    limits: Limits = Limits()
    #: (role, its own limits): what it says nothing of is as for all.
    roles: tuple[tuple[str, Limits], ...] = ()
    no_new_cycles: bool = False
    since_serving: bool = False
    #: What cannot be told, or was broken for want of a CPU alone, fails too.
    strict: bool = False
    #: The file that ``--write-baseline`` wrote, empty if none.
    baseline: str = ""
    #: Share by which more garbage than in the baseline is no finding.
    margin: float = 0.1

    @property
    def empty(self) -> bool:
        return self.limits.empty and not self.no_new_cycles and all(own.empty for _, own in self.roles)

    def of(self, role: str) -> Limits:
        """The limits of a process; of several entries that mean it, the later one counts."""
        found = self.limits
        for wanted, own in self.roles:
            if means(wanted, role):
                found = own.over(found)
        return found.lifted()


def _duration(text: str) -> int | None:
    found = _DURATION.fullmatch(text)
    return round(float(found[1]) * _UNITS[found[2]]) if found else None


def share(text: str) -> float | None:
    """``0.5%`` as 0.005; None if it is no percentage up to 100."""
    found = _PERCENT.fullmatch(text)
    value = float(found[1]) / 100 if found else None
    return value if value is not None and value <= 1 else None


def _count(text: str) -> int | None:
    return int(re.sub("[_,]", "", text)) if _COUNT.fullmatch(text) else None


#: Name as it is written -> (field, how it is read, what it looks like).
NAMES: dict[str, tuple[str, Callable[[str], float | None], str]] = {
    "max-pause": ("max_pause", _duration, "a time with its unit, such as 20ms"),
    "max-total": ("max_total", share, "a share of the time, such as 0.5%"),
    "max-walked": ("max_walked", _count, "a number of objects, such as 50000"),
    "max-full": ("max_full", _count, "a number of passes, such as 0"),
}


def with_limit(limits: Limits, name: str, text: str) -> Limits | None:
    """The limits with one more, written as text; None if it cannot be read."""
    field, read, _ = NAMES[name]
    value = -1 if text == NONE else read(text.strip())
    changed: dict[str, Any] = {field: value}
    return None if value is None else replace(limits, **changed)


def with_option(budget: Budget, name: str, text: str) -> Budget:
    """The budget with ``--NAME [ROLE=]VALUE``.

    Raises:
        FrostlineError: ``bad-gate-limit``.
    """
    role, _, value = text.rpartition("=")
    own = dict(budget.roles)
    changed = with_limit(own.get(role, Limits()) if role else budget.limits, name, value)
    if changed is None:
        raise FrostlineError(
            "bad-gate-limit",
            f"--{name} {text}: {value!r} is not {NAMES[name][2]}",
            f"--{name} takes {NAMES[name][2]}, or ROLE={NONE} to lift it for one role.",
            exit_code=2,
        )
    if not role:
        return replace(budget, limits=changed)
    return replace(budget, roles=tuple({**own, role: changed}.items()))
