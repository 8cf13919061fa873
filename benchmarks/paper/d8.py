"""A heap that keeps growing after the freeze: stock, frozen once, and ``follow`` (D8).

By ``frostline ablate``: the reference server keeps every finished request (``--hold``), as a cache that only
grows does. Each process gains about 340,000 tracked objects in a run, on 0.6 to 1 million from its start, and
is never idle. None of the three documents has this row: they froze once.

With ``--server`` somebody else's: ``python -m benchmarks.paper d8 --server 'vllm serve MODEL --port {port}
--enable-prefix-caching'``. There *stock* also has the server's own ``gc.freeze()`` switched off, by a
``sitecustomize`` that makes it do nothing.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.paper.doing import Options, ablate, options, plan, port
from benchmarks.paper.table import Finding, finish, others_of

ARMS = {"stock": "", "freeze once": "freeze", "follow": "follow"}
USERS, REQUESTS = 4, 170
#: Users of somebody else's server who ask for whole answers with log-probabilities beside those who stream:
#: plain streams start no full pass in vLLM in a minute.
WHOLE = 10
#: Full passes of ``follow`` are at most so long, against those of a heap that was frozen once.
HALF = 0.5
#: Full passes of stock below which there is nothing for a policy to remove, ms.
LITTLE = 20.0


def main(arguments: list[str]) -> int:
    given = options("d8", arguments, servers=True)
    found = ablate(given.folder, text(given))
    runs = [run for run in found["runs"] if not run["why"]]
    title = "a heap that keeps growing after the freeze" + (f": {given.server}" if given.server else "")
    more = {"effects": found["effects"], "mechanisms": found["mechanisms"], "runs": runs}
    return finish("d8", title, given.folder, judge(found, runs), others_of(runs), given.quick, more)


def text(given: Options) -> str:
    """The plan of the ablation."""
    at = port(given.folder)
    url = f"http://127.0.0.1:{at}"
    own = [sys.executable, "-m", "frostline.demo", "serve", "--port", str(at), "--hold", "3600"]
    own += ["--scale", "0.3" if given.quick else "1"]
    command = shlex.split(given.server.replace("{port}", str(at))) or own
    load = [sys.executable, "-m", "benchmarks.paper.users", url, str(USERS)]
    load.append("45" if given.quick and not given.server else str(REQUESTS))
    load += [str(WHOLE)] if given.server else []
    run: dict[str, object] = {"window": "15s", "warmup": "1s", "pairs": True, "confirm": 0}
    if given.quick or given.server:  # a start of theirs takes half a minute, or more
        run["blocks"] = 1 if given.quick else 3
    arms: list[dict[str, object]] = [
        {"name": name} | ({"policy": policy} if policy else {}) for name, policy in ARMS.items()
    ]
    if given.server:
        arms[0]["env"] = {"PYTHONPATH": str(unfrozen(given.folder))}
    return plan(
        {
            "server": {"command": command, "ready-url": f"{url}{given.health}"},
            "load": {"command": shlex.join(load), "metrics": {"p999_ms": "lower", "seconds": "lower"}},
            "run": run,
        },
        arms,
    )


def unfrozen(folder: Path) -> Path:
    """A folder for PYTHONPATH in which ``gc.freeze()`` of the program's own does nothing."""
    place = folder / "unfrozen"
    place.mkdir(exist_ok=True)
    (place / "sitecustomize.py").write_text("import gc\n\ngc.freeze = lambda: None\n")
    return place


def of(runs: Sequence[Mapping[str, Any]], arm: str, role: str, what: str) -> list[float]:
    """A figure of a role in the windows of an arm's runs."""
    return [float(run["roles"].get(role, {}).get(what, 0)) for run in runs if run["arm"] == arm]


def judge(found: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """The table: of each role whose stock passes are of any length."""
    many = sum(run["arm"] == "follow" for run in runs)
    how = f"frostline ablate, {many} runs an arm, medians of the windows; passes as recorded"
    named = sorted({role for run in runs for role in run["roles"]})
    matter = [role for role in named if median(of(runs, "stock", role, "longest_ms") or [0.0]) >= LITTLE]
    findings: list[Finding] = []
    for role in matter:
        longest = {arm: median(of(runs, arm, role, "longest_ms")) for arm in ARMS}
        pauses = {arm: median(of(runs, arm, role, "pause_s")) for arm in ARMS}
        walked = {arm: median(of(runs, arm, role, "walked")) for arm in ARMS}
        full = {arm: median(of(runs, arm, role, "full")) for arm in ARMS}
        worst = max(of(runs, "follow", role, "longest_ms"))
        # Of a run that has not recorded it nothing is known, and that is no zero.
        there = all(role in run["roles"] for run in runs)
        known = there and not any(run["roles"][role].get("unknown", 0) for run in runs)
        findings += [
            Finding(
                f"longest full pass, {role}: stock / frozen once / follow",
                "",
                "follow at most half of frozen once",
                " / ".join(f"{longest[arm]:.0f}" for arm in ARMS) + f" ms (follow at worst {worst:.0f})",
                how,
                longest["follow"] <= HALF * longest["freeze once"] if there else None,
            ),
            Finding(
                f"walked by full passes, {role}",
                "",
                "follow fewer than stock",
                " / ".join(f"{walked[arm]:,.0f}" for arm in ARMS),
                "objects a window, by the recording (an estimate before 3.15)",
                walked["follow"] < walked["stock"] if known else None,
                clock=False,
            ),
            Finding(
                f"all pauses, and full passes, {role}",
                "",
                "",
                " / ".join(f"{pauses[arm]:.3f} s, {full[arm]:g}" for arm in ARMS),
                how,
                None,
            ),
        ]
    if not matter:
        findings.append(
            Finding("full passes of stock", "", f"one of {LITTLE:g} ms at least", "none", how, None)
        )
    for one in found["effects"]:
        effect = one["effect"]
        between = f"{effect['low']:.3f} to {effect['high']:.3f}" if effect["low"] is not None else "open"
        findings.append(
            Finding(
                f"{one['metric']}, {one['arm']} / stock",
                "",
                "",
                f"x {effect['ratio']:.3f} (95 % {between}): {one['verdict']}; "
                f"medians {one['a']:.1f} and {one['b']:.1f}",
                "what the clients saw: p999_ms of the times in which nothing came; seconds for the work",
                None,
            )
        )
    return findings
