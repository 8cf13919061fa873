"""The table of a row: what was reported, what must hold here, what was seen, and how that was obtained."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from frostline.experiment.ablation.machine import facts, load_average
from frostline.report import Block, Line, Table, write

#: Cores, used by other programs, over which what the clock says is nobody's.
BUSY = 0.3
COLUMNS = ("", "what", "reported there", "must hold here", "seen", "how obtained")


@dataclass(frozen=True)
class Finding:
    """One row of the table.

    Attributes:
        reported: in the document; empty where it has no figure.
        bound: what must hold here; empty where the figure is only shown.
        clock: a busy machine can change it. Counts do not depend on that.
        passed: None where it was not measured, or is only shown.
    """

    what: str
    reported: str
    bound: str
    seen: str
    how: str
    passed: bool | None
    clock: bool = True

    @property
    def word(self) -> str:
        if not self.bound:
            return "shown"
        return {True: "holds", False: "MISSED", None: "not measured"}[self.passed]


@dataclass(frozen=True)
class Others:
    """Cores that other programs used in the runs of a row; None where the machine does not say.

    Attributes:
        each: a single busy run spoils the row; else what counts is the mean over many short ones.
    """

    mean: float | None
    most: float | None
    over: int
    runs: int
    each: bool = False

    @property
    def busy(self) -> bool:
        """Whether what goes by the clock is nobody's."""
        judged = self.most if self.each else self.mean
        return judged is not None and judged > BUSY

    def __str__(self) -> str:
        if self.mean is None:
            return "what other programs used is not told"
        return (
            f"other programs used {self.mean:.2f} cores, at most {self.most:.2f} in one run "
            f"({self.over} of {self.runs} over {BUSY})"
        )


def others_of(runs: Sequence[Mapping[str, Any]], each: bool = False) -> Others:
    """Of runs with ``others``."""
    told = [float(run["others"]) for run in runs if run.get("others") is not None]
    if not told:
        return Others(None, None, 0, len(runs), each)
    return Others(sum(told) / len(told), max(told), sum(one > BUSY for one in told), len(runs), each)


def settled(findings: Sequence[Finding], others: Others, quick: bool) -> list[Finding]:
    """The findings as they count: nothing of a trial, and nothing by the clock of a busy machine."""
    return [replace(one, passed=None) if quick or (others.busy and one.clock) else one for one in findings]


def finish(
    row: str,
    title: str,
    folder: Path,
    findings: Sequence[Finding],
    others: Others,
    quick: bool,
    more: Mapping[str, Any] | None = None,
) -> int:
    """Prints the table and keeps it in ``folder`` (``seen.json``, ``seen.md``); the row's exit code.

    Args:
        more: what else is to be kept in ``seen.json``.
    """
    counted = settled(findings, others, quick)
    machine = facts() | {"load1": load_average(), "others": asdict(others)}
    seen: dict[str, Any] = {
        "row": row,
        "date": time.strftime("%Y-%m-%d %H:%M:%S%z"),
        "quick": quick,
        "machine": machine,
        "findings": [asdict(one) | {"word": one.word} for one in counted],
        **(more or {}),
    }
    (folder / "seen.json").write_text(json.dumps(seen, indent=1) + "\n", encoding="utf-8")
    (folder / "seen.md").write_text(markdown(seen["findings"]) + "\n", encoding="utf-8")
    write(blocks(row, title, counted, machine, others, quick), sys.stdout)
    print(f"kept in {folder}", flush=True)
    return 1 if any(one.passed is False for one in counted) else 0


def blocks(
    row: str,
    title: str,
    findings: Sequence[Finding],
    machine: Mapping[str, Any],
    others: Others,
    quick: bool,
) -> list[Block]:
    """What is printed."""
    about = (
        f"{time.strftime('%Y-%m-%d %H:%M')}; {machine['cores']} cores, {machine['machine']}, Linux "
        f"{machine['kernel']}, {machine['memory_gib']:.0f} GiB; CPython {machine['python']}, Frostline "
        f"{machine['frostline']}; {others}"
    )
    lines: list[Block] = [Line(f"{row.upper()}: {title}", "headline"), Line(about, "quiet")]
    if quick:
        lines.append(Line("A trial with small sizes: nothing is judged.", "bad"))
    elif others.busy:
        lines.append(
            Line(f"Other programs used over {BUSY} cores: what goes by the clock is not measured.", "bad")
        )
    rows = tuple((f.word, f.what, f.reported, f.bound, f.seen, f.how) for f in findings)
    return [*lines, Table("", COLUMNS, rows, spare=("reported there", "must hold here"))]


def markdown(findings: Sequence[Mapping[str, Any]]) -> str:
    """The same for a document, from the ``findings`` of a ``seen.json``."""
    rows = ["| what | reported there | must hold here | seen | how obtained |", "|---|---|---|---|---|"]
    for one in findings:
        verdict = f"{one['seen']} ({one['word']})" if one["bound"] else one["seen"]
        cells = (one["what"], one["reported"], one["bound"], verdict, one["how"])
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows)
