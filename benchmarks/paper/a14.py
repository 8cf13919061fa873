"""Half an hour of the reference server, stock and ``follow`` side by side, by thirds of the run (A14).

The document asks for a soak and never ran it. Two parts: stock and ``follow`` for 30 minutes, each with a
client of its own and the same plan of requests (``benchmarks.soak``): memory of each process, gaps between
the worker's steps, pauses, by thirds. Then the other policies, two at a time, for 5 minutes each, by counts
per request. ``sync:N`` is left out, as nobody tells the reference server's steps, and ``prefork``, as it
forks nobody.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import soak
from benchmarks.common import Result
from benchmarks.paper.doing import Runs, options, reported, sealed
from benchmarks.paper.table import Finding, finish, others_of

LONG, SHORT = 30.0, 5.0
#: Requests a second and arm; size of the heaps.
RATE, SCALE = 4.0, 0.3
#: The arms of each part, two at a time on two cores.
TOGETHER = (("stock", "follow"), ("freeze", "idle"), ("tune:700,10,1000", "periodic:60s"))
#: ms. Shorter gaps between steps are no stall.
GAP = 100
#: Of ``ranks[].longest[].kind``: for want of requests.
SUPPLY = 2
#: What full passes may walk under a policy, against stock: one more is a quarter of those of 5 minutes.
WALKED = 1.5


def main(arguments: list[str]) -> int:
    given = options("a14", arguments)
    lengths = (1.0, 0.5) if given.quick else (LONG, SHORT)
    settings = {"minutes": lengths, "rate": RATE, "scale": 0.1 if given.quick else SCALE}
    runs = Runs("a14", given.folder, settings, len(TOGETHER))
    found = [
        runs.get(
            "-".join(name.split(":")[0] for name in both),
            lambda place, both=both, minutes=minutes: side_by_side(  # type: ignore[misc]
                place, both, minutes, settings["scale"]
            ),
        )
        for both, minutes in zip(TOGETHER, (lengths[0], lengths[1], lengths[1]), strict=True)
    ]
    title = f"{lengths[0]:g} minutes of stock and `follow`, {lengths[1]:g} of the other policies"
    return finish(
        "a14",
        title,
        given.folder,
        judge(found, lengths),
        others_of(found, each=True),
        given.quick,
        {"runs": found},
    )


def side_by_side(place: Path, both: Sequence[str], minutes: float, scale: float) -> dict[str, Any]:
    """Two servers under their own clients for so long; what came of each."""
    with contextlib.ExitStack() as stack:
        arms = [
            stack.enter_context(
                soak.serving(name, place / f"arm{number}", "" if name == "stock" else name, scale)
            )
            for number, name in enumerate(both)
        ]
        for arm in arms:
            soak.await_ready(arm)
        begun = time.monotonic_ns()
        times = soak.watch(arms, minutes, RATE)
        samples = {arm.name: {role: list(values) for role, values in arm.memory.items()} for arm in arms}
    found: dict[str, Any] = {"minutes": minutes, "times": times.tolist(), "arms": {}}
    for arm in arms:
        sealed(arm.folder / "rec")
        found["arms"][arm.name] = of_arm(arm, samples[arm.name], begun, minutes)
    if both[0] == "stock":
        found["judged"] = [vars(one) for one in compared(arms, times)]
    return found


def compared(arms: Sequence[soak.Arm], times: soak.Floats) -> list[Result]:
    """The second arm's growth beyond the first one's, by the rule of ``benchmarks.soak``."""
    first, second = arms
    results = []
    for role in first.memory:
        one, two = np.array(first.memory[role]), np.array(second.memory[role])
        allowed = max(soak.MEMORY_SHARE * float(one[-1]), soak.MEMORY_LEAST)
        results.append(
            soak.judge(f"memory of {role}, growth beyond stock's", "MiB", times, one, two, allowed)
        )
    return results


def of_arm(
    arm: soak.Arm, memory: Mapping[str, Sequence[float]], begun: int, minutes: float
) -> dict[str, Any]:
    """Memory, requests, gaps of the worker and passes of one arm, by thirds."""
    report = reported(arm.folder / "rec")
    whole = json.loads(arm.requests.read_text())
    status = [row[whole["columns"].index("status")] for row in whole["requests"]]
    third = minutes * 20e9
    known = {pid: role for role, pid in arm.processes.items()}
    passes: dict[str, dict[str, Any]] = {}
    for process in report["processes"]:
        role = known.get(process["pid"])
        if role is None:
            continue
        rows = [one for one in process["full_passes"] if 0 <= one["start"] - begun < 3 * third]
        walked = [one["walked"]["value"] for one in rows]
        passes[role] = {
            "by_third": [
                [
                    round(one["pause"] / 1e6, 1)
                    for one in rows
                    if int((one["start"] - begun) / third) == number
                ]
                for number in range(3)
            ],
            "walked": sum(walked) if None not in walked else None,
            "ours": sum(one["kind"] == "Frostline" for one in rows),
        }
    gaps: list[list[float]] = [[], [], []]
    for rank in report["ranks"]:
        for one in rank["longest"] if rank["role"].startswith("Worker") else ():
            number = int((one["start"] - begun) / third)
            if one["kind"] != SUPPLY and one["length"] >= GAP * 1e6 and 0 <= number < 3:
                gaps[number].append(round(one["length"] / 1e6, 1))
    return {
        "requests": len(status),
        "failed": sum(one != "ok" for one in status),
        "memory": {role: thirds(values) for role, values in memory.items()},
        "gaps": gaps,
        "passes": passes,
    }


def thirds(values: Sequence[float]) -> list[float]:
    """The median of each third, MiB."""
    return [round(float(np.median(part)), 2) for part in np.array_split(np.array(values), 3) if len(part)]


def judge(found: Sequence[Mapping[str, Any]], lengths: Sequence[float]) -> list[Finding]:
    """The table."""
    soaked = found[0]
    findings = [
        Finding(
            one["what"], "never run", one["bound"], one["measured"], one["how"], one["passed"], clock=False
        )
        for one in soaked["judged"]
    ]
    for name, arm in soaked["arms"].items():
        told = " | ".join(
            f"{len(part)}, {sum(part) / 1e3:.2f} s, up to {max(part, default=0):.0f} ms"
            for part in arm["gaps"]
        )
        last, first = (sum(arm["gaps"][number]) for number in (2, 0))
        bound = "the last third no more than the first, or under 1 s" if name == "follow" else ""
        findings.append(
            Finding(
                f"gaps of the worker of {GAP} ms and more, {name}, by thirds",
                "never run",
                bound,
                told,
                f"report --json, ranks, without those for want of requests; {lengths[0]:g} min",
                last <= max(first, 1000.0) if bound else None,
            )
        )
        for role, row in arm["passes"].items():
            told = " | ".join(f"{len(part)} up to {max(part, default=0):.0f} ms" for part in row["by_third"])
            memory = " | ".join(f"{value:.0f}" for value in arm["memory"][role])
            findings.append(
                Finding(
                    f"{role}, {name}, by thirds",
                    "",
                    "",
                    f"full passes {told}; MiB {memory}",
                    "recording; medians of RssAnon",
                    None,
                )
            )
    stock = per_request(soaked["arms"]["stock"])
    for part in found:
        for name, arm in part["arms"].items():
            count = per_request(arm)
            policy = name != "stock"
            known = None not in (count["walked"], stock["walked"])
            holds = None if not known else bool(count["walked"] <= WALKED * stock["walked"])
            holds = False if arm["failed"] else holds
            walked = "not known" if count["walked"] is None else f"{count['walked']:,.0f} objects"
            findings.append(
                Finding(
                    f"{name}: what full passes walk a request",
                    "",
                    f"at most {WALKED:g} x stock's, no request failed" if policy else "",
                    f"{walked}, {1000 * count['full']:.1f} passes a thousand requests of {count['ms']:.2f} ms"
                    f" ({arm['requests']:,} requests, {arm['failed']} failed, {count['ours']} of ours)",
                    f"{part['minutes']:g} min at {RATE:g} a second, all three processes",
                    holds if policy else None,
                    clock=False,
                )
            )
    return findings


def per_request(arm: Mapping[str, Any]) -> dict[str, Any]:
    """Full passes, what they walk (None where it is not known) and their mean length, by the request."""
    lengths = [ms for row in arm["passes"].values() for part in row["by_third"] for ms in part]
    walked = [row["walked"] for row in arm["passes"].values()]
    many = max(1, arm["requests"])
    return {
        "full": len(lengths) / many,
        "ms": sum(lengths) / max(1, len(lengths)),
        "walked": None if None in walked else sum(walked) / many,
        "ours": sum(row["ours"] for row in arm["passes"].values()),
    }
