"""A gate's outcome for people, and for a GitHub workflow."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from frostline.gate.judge import BROKEN, HELD, PREEMPTED, UNKNOWN, Check
from frostline.report.safe import safe

_MEANING = {
    PREEMPTED: "over by the clock, for want of a CPU alone",
    UNKNOWN: "cannot tell",
}


def text(checks: Sequence[Check], strict: bool) -> Iterator[str]:
    """Lines: first what failed, each with its worst pass and what to do; what is open; what held."""
    order = (BROKEN, PREEMPTED, UNKNOWN)
    for check in sorted((c for c in checks if c.outcome in order), key=lambda c: order.index(c.outcome)):
        yield safe(f"{check.outcome.upper():<10}{summary(check)}")
        if check.how:
            yield safe(f"{'':<10}{check.how}")
        if check.worst is not None:
            more = f" (and {check.more:,} more)" if check.more else ""
            yield safe(f"{'':<10}worst: {check.worst.text}{more}")
            for line in check.worst.todo if check.outcome == BROKEN else ():
                yield safe(f"{'':<10}do:    {line}")
    held = Counter(check.limit for check in checks if check.outcome == HELD)
    if held:
        yield "held      " + ", ".join(f"{limit} in {many}" for limit, many in held.items())
    counts = Counter(check.outcome for check in checks)
    said = [f"{counts[BROKEN]} of {len(checks)} checks broken"]
    said += [f"{counts[kind]} {_MEANING[kind]}" for kind in (PREEMPTED, UNKNOWN) if counts[kind]]
    failed = any(check.fails(strict) for check in checks)
    yield f"gate {'failed' if failed else 'passed'}: {', '.join(said)}"


def summary(check: Check) -> str:
    """One line of it: ``max-full: EngineCore (pid 7): 3 full passes, 0 allowed``."""
    allowed = f", {check.allowed}" if check.allowed else ""
    return f"{check.limit}: {check.process}: {check.found}{allowed}"


def workflow(checks: Sequence[Check], strict: bool, root: Path) -> Iterator[str]:
    """Workflow commands: an error for each check that fails, a warning for each that is open.

    Args:
        root: the checked-out repository. A line of a file outside it is told in the message alone.
    """
    for check in checks:
        if check.outcome == HELD:
            continue
        level = "error" if check.fails(strict) else "warning"
        said = [summary(check), check.how]
        place = ""
        if check.worst is not None:
            said += [f"worst: {check.worst.text}", *check.worst.todo]
            inside = _inside(check.worst.file, root)
            if inside:
                place = f"file={_property(inside)},line={max(1, check.worst.line)},"
        message = _escaped("\n".join(safe(one) for one in said if one))
        yield f"::{level} {place}title={_property(f'frostline gate: {check.limit}')}::{message}"


def _inside(file: str, root: Path) -> str:
    """A file as the repository knows it, empty if it is not in it."""
    if not file or file.startswith("<"):
        return ""
    path = os.path.normpath(root / file)
    relative = os.path.relpath(path, root)
    return "" if relative.startswith("..") else relative


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(safe(text)).replace(":", "%3A").replace(",", "%2C")
