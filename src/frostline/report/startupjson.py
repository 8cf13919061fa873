"""``frostline startup --json``: the same as the tables, whole. The keys are in the page on start-up."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from frostline.analysis import Analysis
from frostline.analysis.passes import kind_of
from frostline.analysis.startup import Import, Passes, StartUp
from frostline.analysis.startupadvice import advise

SCHEMA = 1


def to_json(analysis: Analysis, found: list[StartUp], came: str = "") -> dict[str, Any]:
    """Plain dicts and lists. Times in ns: instants since the process's first record, all else lengths.

    Args:
        came: the option by which READY was told, for the commands of the advice.
    """
    return {
        "schema": SCHEMA,
        "session": str(analysis.path),
        "processes": [_process(one, came) for one in found],
        "missed": [asdict(one) for one in analysis.missed],
    }


def _process(one: StartUp, came: str) -> dict[str, Any]:
    counted = one.counted
    return {
        "name": one.process.name,
        "pid": one.process.pid,
        "python": one.process.python,
        "took": one.stop - one.start,
        "ended_by": one.ended_by,
        "objects_at_most": one.objects if counted else None,
        "before": one.before,
        "tracked": None
        if one.tracked is None
        else {"at": one.tracked[0] - one.start, "objects": one.tracked[1]},
        "threads": one.threads,
        "damaged": one.damaged,
        "truncated": one.truncated,
        "passes": _passes(one.passes),
        "phases": _phases(one),
        "full_passes": [_full(one, i, where) for i, where in one.full],
        "imports": _imports(one),
        "advice": [asdict(advice) for advice in advise(one, came)],
    }


def _passes(passes: Passes) -> dict[str, Any]:
    return {
        "counts": passes.counts,
        "paused": passes.pause,
        "longest": passes.longest,
        "automatic": passes.automatic,
        "reclaimed": passes.reclaimed,
    }


def _phases(one: StartUp) -> list[dict[str, Any]]:
    time, grown, inside = one.importing()
    rows = [("inside imports", time, grown, inside)] if one.imports else []
    rows += [(phase.name, phase.time, phase.objects, phase.passes) for phase in one.phases]
    return [
        {
            "phase": name,
            "took": took,
            "objects_at_most": objects if one.counted else None,
            "passes": _passes(passes),
        }
        for name, took, objects, passes in rows
    ]


def _full(one: StartUp, i: int, where: str) -> dict[str, Any]:
    process = one.process
    row = process.series.passes[i]
    full = next((f for f in process.full_passes if f.start == int(row["start"])), None)
    return {
        "at": int(row["start"]) - one.start,
        "paused": int(process.pauses.length[i]),
        "reclaimed": int(row["collected"]),
        "walked": full.walked.value if full is not None else None,
        "walked_exact": full is not None and full.walked.exact,
        "kind": kind_of(process.series, process.pauses, i),
        "why": full.why if full is not None else "",
        "during": where,
        "file": full.file if full is not None else "",
        "line": full.line if full is not None else 0,
    }


def _imports(one: StartUp) -> list[dict[str, Any]]:
    """In the order in which they began, each with the place of the one that caused it, -1 for none."""
    above: dict[int, int] = {}
    rows: list[dict[str, Any]] = []
    for place, module in enumerate(one.walk()):
        for child in module.children:
            above[id(child)] = place
        rows.append(_import(one, module, above.get(id(module), -1)))
    return rows


def _import(one: StartUp, module: Import, parent: int) -> dict[str, Any]:
    return {
        "module": module.module,
        "parent": parent,
        "at": module.start - one.start,
        "took": module.time,
        "own_time": module.own_time,
        "unfinished": module.unfinished,
        "objects_at_most": module.all_objects if one.counted else None,
        "own_objects_at_most": module.objects if one.counted else None,
        "passes": _passes(module.all_passes),
        "own_passes": _passes(module.passes),
    }
