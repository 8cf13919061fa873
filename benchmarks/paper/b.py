"""The step ledger (vllm-rlt, issue 169): a timing hook that makes the pauses that it measures, and repaired.

A fixed seeded trace of requests, a warm-up, a window; fresh processes; the arms in the order P F F P P F F P
P F F P (F: the hook as found, P: repaired). ``frostline run --span`` times the steps without an edit of the
source, ``report --csv --html --json`` makes the ledger, ``cycles`` names the cycle in the live process, and
``compare`` judges the pairs.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.common import TARGETS
from benchmarks.paper.doing import Options, Runs, frostline, options, run_under, sealed
from benchmarks.paper.table import Finding, finish, others_of

TARGET = TARGETS / "ticketed.py"
ORDER = ("repaired", "found", "found", "repaired") * 3
SPAN = "__main__:Engine._step=step"
#: ms. Every step over it must be explained.
LONG = 100.0
#: Longest step, as found over repaired, at least.
RATIO = 5.0
#: What the host says of a step that it cannot explain.
UNKNOWN = {"unclear", "too-coarse", "unsampled"}


@dataclass(frozen=True)
class Sizes:
    """Of one run; times in seconds."""

    heap: int = 600_000
    warm_up: float = 5.0
    window: float = 30.0
    seed: int = 169
    runs: int = len(ORDER)


def main(arguments: list[str]) -> int:
    given = options("b", arguments)
    sizes = Sizes(heap=200_000, warm_up=2.0, window=8.0, runs=4) if given.quick else Sizes()
    runs = Runs("b", given.folder, sizes.__dict__, sizes.runs)
    found = [
        runs.get(f"{number:02d}-{arm}", lambda place, arm=arm: run_once(place, arm, sizes))  # type: ignore[misc]
        for number, arm in enumerate(ORDER[: sizes.runs])
    ]
    compared = json.loads(frostline("compare", "--json", *pairs(given.folder, found)))
    title = "a hook that makes the pauses that it measures, and the same repaired"
    return finish(
        "b",
        title,
        given.folder,
        judge(found, compared, sizes, given),
        others_of(found),
        given.quick,
        {"runs": found, "compare": compared["rows"][0]},
    )


def pairs(folder: Path, runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The recordings as ``compare`` takes them: as found, repaired, and so on."""
    ways: list[str] = []
    for number in range(0, len(runs) - 1, 2):
        both = sorted((runs[number], runs[number + 1]), key=lambda run: str(run["arm"]))  # "found" first
        for run in both:
            at = number if run is runs[number] else number + 1
            ways.append(str(folder / f"{at:02d}-{run['arm']}" / "rec"))
    return ways


def run_once(place: Path, arm: str, sizes: Sizes) -> dict[str, Any]:
    """One run: its steps, passes, long steps, and the cycles that were found in it while it lived."""
    command = [sys.executable, str(TARGET), arm, str(sizes.heap), str(sizes.warm_up), str(sizes.window)]
    session = place / "rec"
    process = run_under(session, [*command, str(sizes.seed)], "--span", SPAN, log=place / "log")
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"the target ended: {(place / 'log').read_text()[-1000:]}")
        told = json.loads(line)
        cycles = json.loads(frostline("cycles", str(process.pid), "--json"))
    finally:
        process.communicate(timeout=60)  # its input ends, and with it the target
    sealed(session)
    report = json.loads(
        frostline(
            "report", str(session), "--json", "--csv", str(place / "csv"), "--html", str(place / "page.html")
        )
    )
    return {"arm": arm, **told, **ledger(place / "csv", report, told), "cycles": kinds(cycles)}


def kinds(answers: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The cycles of the one process asked."""
    (one,) = answers
    if one.get("why_not"):
        raise RuntimeError(f"frostline cycles: {one['why_not']}")
    return [{name: kind[name] for name in ("count", "path")} for kind in one.get("kinds", ())]


def ledger(tables: Path, report: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    """What the tables say of the measured window."""
    start = report["start"]

    def at(value: str) -> int:
        return start + round(float(value) * 1e9)

    with (tables / "gc_events.csv").open(newline="") as file:
        passes = [
            (at(row["start_s"]), at(row["stop_s"]), int(row["generation"]), int(row["walked"] or 0))
            for row in csv.DictReader(file)
        ]
    (path,) = tables.glob("steps_*.csv")
    with path.open(newline="") as file:
        steps = [
            (float(row["duration_ms"]), at(row["start_s"]), at(row["stop_s"]))
            for row in csv.DictReader(file)
            if row["label"] == "step"
            and told["begin"] <= at(row["start_s"])
            and at(row["stop_s"]) <= told["end"]
        ]
    longest, begin, end = max(steps)
    inside = [one for one in passes if one[0] < end and one[1] > begin]
    window = [one for one in passes if told["begin"] <= one[0] and one[1] <= told["end"]]
    slow = [
        row
        for process in report["processes"]
        for row in process["slow_steps"]
        if row["label"] == "step" and told["begin"] <= row["start"] <= told["end"]
    ]
    states = [process for process in report["processes"] if process["at_attach"]]
    return {
        "spans": len(steps),
        "median_ms": median(step[0] for step in steps),
        "longest_ms": longest,
        "walked_in_longest": sum(one[3] for one in inside),
        "full": sum(one[2] == 2 for one in window),
        "young": sum(one[2] < 2 for one in window),
        "full_ms": sorted(round((one[1] - one[0]) / 1e6, 1) for one in window if one[2] == 2),
        "young_most_ms": round(
            max(((one[1] - one[0]) / 1e6 for one in window if one[2] < 2), default=0.0), 2
        ),
        "long": [explained(row) for row in slow if row["duration"] > LONG * 1e6],
        "attached": bool(states),
        "closed": all(process["at_close"] for process in states),
        "tables": sorted(one.name for one in tables.iterdir()),
    }


def explained(row: Mapping[str, Any]) -> dict[str, Any]:
    """A long step, and by what it is explained: a pass, another process, the host, or nothing."""
    host = row["host"] or {}
    if row["explained"]:
        by = "a pass"
    elif row["elsewhere"]:
        by = f"a pass of {row['elsewhere']}"
    else:
        by = "" if host.get("kind", "unsampled") in UNKNOWN else str(host["kind"])
    return {"ms": round(row["duration"] / 1e6, 1), "by": by, "in_passes_ms": round(row["overlap"] / 1e6, 1)}


def judge(
    runs: Sequence[Mapping[str, Any]], compared: Mapping[str, Any], sizes: Sizes, given: Options
) -> list[Finding]:
    """The table."""
    arms = {arm: [run for run in runs if run["arm"] == arm] for arm in ("found", "repaired")}
    a, b = arms["found"], arms["repaired"]
    longest = {arm: [run["longest_ms"] for run in of] for arm, of in arms.items()}
    ratio = median(longest["found"]) / median(longest["repaired"])
    how = (
        f"{len(a)} and {len(b)} runs of {sizes.window:g} s, {sum(run['spans'] for run in runs):,} steps of "
        f"{median(run['median_ms'] for run in runs):.1f} ms (median), {sizes.heap:,} lists of start-up heap"
    )
    walked = max(run["walked_in_longest"] for run in b)
    walked_found = median(run["walked_in_longest"] for run in a)
    passes = sorted(ms for run in a for ms in run["full_ms"])
    long = [step for run in runs for step in run["long"]]
    by: dict[str, int] = {}
    for step in long:
        by[step["by"] or "nothing"] = by.get(step["by"] or "nothing", 0) + 1
    line = next(n for n, text in enumerate(TARGET.read_text().splitlines(), 1) if "def timed" in text)
    wanted = f"ticketed.py:{line})"
    named = [[k for k in run["cycles"] if "collect" in k["path"] and wanted in k["path"]] for run in a]
    clean = [run["cycles"] for run in b]
    first = next((kind["path"] for one in named for kind in one), "none")
    head = compared["rows"][0]["effect"]
    between = f"{head['low']:.4f} to {head['high']:.4f}" if head["low"] is not None else "no interval"
    tables = set.intersection(*(set(run["tables"]) for run in runs))
    return [
        Finding(
            "longest step, hook as found / repaired",
            "74-77 ms pauses; repaired 0, longest step 9-11 ms",
            f"ratio at least {RATIO:g}",
            f"{ratio:.1f}: {spread(longest['found'])} / {spread(longest['repaired'])} ms",
            how,
            ratio >= RATIO,
        ),
        Finding(
            "objects walked in the longest step, repaired",
            "0",
            "0",
            f"{walked:,} (as found {walked_found:,.0f})",
            "passes that overlap it, from gc_events.csv; the worst run, and the median as found",
            walked == 0,
            clock=False,
        ),
        Finding(
            "full passes in the windows, as found / repaired",
            "87-123 ms, median 96; 0 repaired",
            "as found some, repaired 0",
            f"{len(passes)}, {spread(passes)} ms / {sum(run['full'] for run in b)}",
            f"gc_events.csv; gen-0/1 up to {max(run['young_most_ms'] for run in runs):.1f} ms: "
            f"{sum(run['young'] for run in a):,} / {sum(run['young'] for run in b):,}",
            bool(passes) and not any(run["full"] for run in b),
            clock=False,
        ),
        Finding(
            f"steps over {LONG:g} ms, by what explains them",
            "all by a pass",
            "none by nothing",
            ", ".join(f"{count} by {name}" for name, count in by.items()) or "none",
            "slow_steps of report --json: its own passes, else what the host shows",
            "nothing" not in by,
            clock=False,
        ),
        Finding(
            "the hook's cycle, named by `frostline cycles`",
            "found by hand",
            "file and line in every run; none repaired",
            f"{sum(map(bool, named))} of {len(named)} runs: {first}; repaired: {sum(map(bool, clean))} of "
            f"{len(clean)} with a cycle",
            "asked of the live process after its window",
            all(named) and not any(clean),
            clock=False,
        ),
        Finding(
            "thresholds, counts, stats, freeze count at attach and at close",
            "recorded",
            "in every run",
            f"{sum(run['attached'] and run['closed'] for run in runs)} of {len(runs)}",
            "at_attach and at_close",
            all(run["attached"] and run["closed"] for run in runs),
            clock=False,
        ),
        Finding(
            "tables and figure",
            "gc_events, runs, steps, long_calls, a README; a page",
            "all in every run",
            ", ".join(sorted(tables)),
            f"report --csv --html; e.g. {given.folder.name}/01-found/page.html",
            {"gc_events.csv", "runs.csv", "long_calls.csv", "README.md"} <= tables,
            clock=False,
        ),
        Finding(
            "time paused, repaired against found",
            "",
            "",
            f"{head['verdict']}: x {head['ratio']:.4f} ({between}), p {head['p']:.3f}",
            f"frostline compare, {compared['pairs']} pairs in turn",
            None,
        ),
    ]


def spread(values: Sequence[float]) -> str:
    """The median and the ends."""
    if not values:
        return "none"
    return f"{median(values):.1f} ({min(values):.1f} to {max(values):.1f})"
