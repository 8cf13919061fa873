"""Whose passes leave the ranks idle? The policy for one role at a time, by ``frostline ablate`` (A1, A10).

As in the document the front end is treated in every arm, the baseline too: what is compared is the workers
alone, the engine core alone, and all. The reference server streams a fixed amount of work for four users in
each run; a rank's gaps are those between two steps of a worker, by ``frostline report``.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.paper.doing import Options, ablate, options, plan, port, rec_of, reported
from benchmarks.paper.table import BUSY, Finding, finish, others_of
from benchmarks.paper.users import HIGH, LOW, idle

#: Who is treated beside the front end: places in ``Options.roles``.
ARMS = {"baseline": (), "workers alone": (2,), "engine core alone": (1,), "all": (1, 2)}
POLICY = "freeze"
#: The document's buckets, ms.
BUCKETS = ((100, 400), (400, 700))
#: So many that the baseline has several gaps in every run: with 200 requests there were one to three, and
#: none in one run of seven, which told nothing of the workers alone (x 0.04 to 20).
USERS, REQUESTS = 4, 600
#: Of the server's heaps. At full size a pass of the engine core takes 100 to 160 ms here, so that whether a
#: gap reaches the document's 100 ms is chance.
SCALE = "1.6"


def main(arguments: list[str]) -> int:
    given = options("a10", arguments, servers=True)
    found = ablate(given.folder, text(given))
    runs = [run for run in found["runs"] if not run["why"]]
    gaps = [
        {"arm": run["arm"], "others": run["others"], "ranks": idle(reported(rec_of(given.folder, run)))}
        for run in runs
    ]
    title = f"the policy `{POLICY}` for one role at a time, the front end treated in every arm"
    findings = judge(found, gaps)
    more = {"effects": found["effects"], "mechanisms": found["mechanisms"], "runs": runs, "gaps": gaps}
    return finish("a10", title, given.folder, findings, others_of(runs), given.quick, more)


def text(given: Options) -> str:
    """The plan of the ablation."""
    at = port(given.folder)
    own = [sys.executable, "-m", "frostline.demo", "serve", "--port", str(at), "--workers", "1"]
    own += ["--scale", "0.3" if given.quick else SCALE]
    command = shlex.split(given.server.replace("{port}", str(at))) or own
    url = f"http://127.0.0.1:{at}"
    requests = 40 if given.quick else REQUESTS
    load = [sys.executable, "-m", "benchmarks.paper.users", url, str(USERS), str(requests)]
    return plan(
        {
            "server": {"command": command, "ready-url": f"{url}{given.health}"},
            "load": {
                "command": shlex.join(load),
                "metrics": {"idle_ms": "lower", "p999_ms": "lower", "seconds": "lower"},
            },
            # The window is a guess for the time left: the work is fixed, not the time.
            "run": {"window": "45s", "warmup": "1s", "pairs": True, "confirm": 0}
            | ({"blocks": 1} if given.quick else {}),
        },
        [
            {"name": name, "policy": f"{POLICY}@{'+'.join(given.roles[place] for place in (0, *treated))}"}
            for name, treated in ARMS.items()
        ],
    )


def by_bucket(gaps: Sequence[Mapping[str, Any]], arm: str) -> list[tuple[int, float]]:
    """(gaps, their seconds) of each of the document's buckets, over all runs and ranks of an arm."""
    rows = [one for run in gaps if run["arm"] == arm for rank in run["ranks"].values() for one in rank]
    return [
        (sum(one["count"] for one in inside), sum(one["ms"] for one in inside) / 1e3)
        for inside in ([one for one in rows if low <= one["low"] < high] for low, high in BUCKETS)
    ]


def judge(found: Mapping[str, Any], gaps: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """The table."""
    findings = []
    reported_there = {
        "baseline": "56 gaps, 21.3 s of 100-700 ms",
        "workers alone": "9.25 s of 400-700 ms (no effect)",
        "engine core alone": "2.14 s of 400-700 ms",
        "all": "0",
    }
    for arm in ARMS:
        bound = "none" if arm == "all" else ""
        # A gap in a run that others disturbed may be theirs.
        chosen = [run for run in gaps if not bound or (run.get("others") or 0.0) <= BUSY]
        parts = [
            f"{count} of {low}-{high} ms, {total:.2f} s"
            for (low, high), (count, total) in zip(BUCKETS, by_bucket(chosen, arm), strict=True)
        ]
        many = sum(run["arm"] == arm for run in chosen)
        none = not any(count for count, _ in by_bucket(chosen, arm)) if many else None
        how = f"report --json, ranks: {many} runs"
        how += f", those in which others used at most {BUSY} cores" if bound else ""
        findings.append(
            Finding(
                f"gaps of the ranks, {arm}",
                reported_there[arm],
                bound,
                "; ".join(parts),
                how,
                none if bound else None,
                clock=False,
            )
        )
    effects = {one["arm"]: one for one in found["effects"] if one["metric"] == "idle_ms"}
    for arm, bound in (
        ("engine core alone", "removes most: the interval's upper end under 0.5"),
        ("workers alone", "does not: its lower end over 0.5"),
    ):
        one = effects.get(arm)
        effect = one["effect"] if one else None
        if one is None or effect is None or effect["low"] is None:
            findings.append(
                Finding(f"idle time, {arm}", "", bound, "too few blocks", "frostline ablate", None)
            )
            continue
        holds = effect["high"] < 0.5 if arm.startswith("engine") else effect["low"] > 0.5
        findings.append(
            Finding(
                f"idle time in gaps of {LOW}-{HIGH} ms, {arm} / baseline",
                reported_there[arm],
                bound,
                f"x {effect['ratio']:.3f} (95 % {effect['low']:.3f} to {effect['high']:.3f}), p by Holm "
                f"{one['p_holm']:.3f}: {one['verdict']}",
                f"frostline ablate, {effect['blocks']} blocks of fresh processes, medians "
                f"{one['a']:.0f} and {one['b']:.0f} ms",
                holds,
            )
        )
    for one in found["mechanisms"]:
        findings.append(
            Finding(
                f"mechanism, {one['arm']}: {', '.join(one['roles'])}",
                "",
                "",
                f"pauses {one['a']:.3f} and {one['b']:.3f} s a window, full passes {one['full_a']:g} and "
                f"{one['full_b']:g}, longest {one['longest_a']:.0f} and {one['longest_b']:.0f} ms",
                "frostline ablate: baseline and arm, in what the arm treats",
                None,
            )
        )
    return findings
