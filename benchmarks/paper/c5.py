"""A ladder of open-loop rates against a server of two processes: stock, each frozen alone, both (C5, C7).

The server is ``targets/two_processes.py``: two cores hold no more. The heap of its engine is made so large
that a full pass takes about 350 ms on this machine, that of its front end two fifths of it. Each arm is one
start of the server under ``frostline run`` and one ``frostline load`` of all rates, twice, the second time
in reversed order of the arms.

With ``--server`` somebody else's, as it is shipped, by rates of yours: ``python -m benchmarks.paper c5
--server 'vllm serve MODEL --port {port}' --rates 2 4 6 --load '--api chat --model NAME'``.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.common import ROOT, TARGETS, environment
from benchmarks.paper.doing import FROSTLINE, Options, Runs, options, port, reported, run_under, sealed
from benchmarks.paper.table import Finding, finish, others_of
from frostline.format.naming import means

TARGET = TARGETS / "two_processes.py"
#: Arm: who is frozen, by places in ``Options.roles``; None: all.
ARMS: dict[str, tuple[int, ...] | None] = {"stock": (), "engine": (1, 2), "front end": (0,), "all": None}
#: What the target's processes are called.
ROLES = ("Front", "Engine", "Engine")
RATES = (200, 235, 270, 300)
#: ms. A full pass of the engine; seconds after which a request has failed; p99 that a rate must keep.
#: The last is just under the deadline, so that a rate fails where requests do: a lower one, 600, was failed
#: by rates at which nobody had been turned away yet, and the document's table is of errors at the deadline.
PASS, DEADLINE, LIMIT = 350.0, 1.0, 999.0
#: Long enough that the requests which a pass holds up when the time ends are under 1 % of it.
WARM_UP, SECONDS = 2.0, 22.0
FRONT_SHARE = 0.4
READY = 120.0
#: p99 of stock over the treated at stock's first failing rung, and of their ceilings.
P99, CEILING = 4.0, 1.1


def main(arguments: list[str]) -> int:
    given = options("c5", arguments, servers=True, ladder=True)
    at = port(given.folder)
    url = f"http://127.0.0.1:{at}"
    settings: dict[str, Any]
    if given.server:
        settings = {**given.ladder, "server": given.server, "roles": given.roles}
        if given.quick:
            settings |= {"seconds": 8.0}
        runs = Runs("c5", given.folder, settings, 2 * len(ARMS))
        command = shlex.split(given.server.replace("{port}", str(at)))
        title = f"a ladder of rates: {given.server}"
    else:
        given = replace(given, roles=ROLES, health="/health")
        settings = {"rates": (150, 250) if given.quick else RATES, "deadline": DEADLINE, "limit": LIMIT}
        settings |= {"seconds": 4.0 if given.quick else SECONDS, "pass_ms": 120.0 if given.quick else PASS}
        settings |= {"load": ""}
        runs = Runs("c5", given.folder, settings, 1 + 2 * len(ARMS))
        objects = runs.get("calibrated", lambda place: calibrated(settings["pass_ms"]))["objects"]
        command = [sys.executable, str(TARGET), str(at), str(objects), str(int(FRONT_SHARE * objects))]
        title = (
            f"a ladder of rates, {objects:,} objects in the engine, {int(FRONT_SHARE * objects):,} in front"
        )
    plan = [(1, arm) for arm in ARMS] + [(2, arm) for arm in reversed(ARMS)]

    def make(place: Path, turn: int, arm: str) -> dict[str, Any]:
        found = ladder(place, command, policy_of(arm, given.roles), url, given, settings)
        return {"turn": turn, "arm": arm, **found}

    ladders = [
        runs.get(f"{turn}-{arm.replace(' ', '-')}", partial(make, turn=turn, arm=arm)) for turn, arm in plan
    ]
    others = others_of(ladders, each=True)
    findings = judge(ladders, settings)
    return finish("c5", title, given.folder, findings, others, given.quick, {"ladders": ladders})


def policy_of(arm: str, roles: Sequence[str]) -> str:
    """What stands behind ``--policy``; empty for none."""
    treated = ARMS[arm]
    if treated is None:
        return "freeze"
    names = dict.fromkeys(roles[place] for place in treated)
    return f"freeze@{'+'.join(names)}" if names else ""


def calibrated(milliseconds: float) -> dict[str, Any]:
    """How many objects a full pass of that length walks here."""
    done = subprocess.run(
        [sys.executable, str(TARGET), "--calibrate", str(milliseconds)],
        check=True,
        capture_output=True,
        text=True,
        env=environment(),
        cwd=ROOT,
    )
    return {"objects": int(done.stdout)}


def ladder(
    place: Path,
    command: Sequence[str],
    policy: str,
    url: str,
    given: Options,
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """All rates against one start of the server: the rungs, and what the recording says."""
    session, requests = place / "rec", place / "requests.jsonl"
    flags = ["--policy", policy] if policy else []
    process = run_under(session, command, *flags, log=place / "log")
    try:
        await_ready(process, url + given.health, place / "log")
        rates = [word for rate in settings["rates"] for word in ("--rate", str(rate))]
        asked = [*FROSTLINE, "load", f"{url}/", *rates, *shlex.split(settings["load"])]
        asked += ["--seconds", str(settings["seconds"]), "--warmup", str(WARM_UP)]
        asked += ["--deadline", str(settings["deadline"]), "--limit-ms", str(settings["limit"])]
        asked += ["--json", "-o", str(requests)]
        done = subprocess.run(asked, capture_output=True, text=True, env=environment(), cwd=ROOT)
    finally:
        stop(process)
    sealed(session)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"frostline load ended with {done.returncode}: {done.stderr[-500:]}")
    told = json.loads(done.stdout)
    report = reported(session, "--requests", str(requests))
    with requests.open(encoding="utf-8") as file:
        begun = int(json.loads(file.readline())["started"])
    requests.unlink()  # 18 thousand lines; the recording stays
    named = dict.fromkeys(given.roles)
    found = {"rungs": told["rungs"], "ceiling": told["ceiling"]["rate"], "roles": roles(report, begun, named)}
    return found | felt(report)


def await_ready(process: subprocess.Popen[str], url: str, log: Path) -> None:
    """Until the server answers.

    Raises:
        RuntimeError: it ended, or never did.
    """
    until = time.monotonic() + READY
    while process.poll() is None and time.monotonic() < until:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            time.sleep(0.1)
    stop(process)
    raise RuntimeError(f"no server: {log.read_text(errors='replace')[-1000:]}")


def stop(process: subprocess.Popen[str]) -> None:
    """Politely, then not; what is left of its group with it."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(30)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def roles(report: Mapping[str, Any], begun: int, named: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Of the process of each role: its full passes since the load began (ns). Of several the last."""
    found = {}
    for process in report["processes"]:
        role = next((name for name in named if means(name, process["role"])), None)
        if role is None:
            continue
        lengths = [one["pause"] / 1e6 for one in process["full_passes"] if one["start"] >= begun]
        rhythm = process["rhythm"] or {}
        found[role] = {
            "full": len(lengths),
            "longest_ms": round(max(lengths, default=0.0), 1),
            "total_s": round(sum(lengths) / 1e3, 2),
            "policy": process["policy"],
            "quiet_s": rhythm.get("quiet", 0) / 1e9,
            "busy_s": rhythm.get("busy", 0) / 1e9,
        }
    return found


def felt(report: Mapping[str, Any]) -> dict[str, Any]:
    """p99 of the response with and without the requests that a pass touches."""
    for run in report["requests"]:
        for measure in run["measures"]:
            if measure["name"] == "response":
                return {name: measure[name] for name in ("count", "touched", "p99", "p99_rest")}
    return {}


def held(rung: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    """Whether a rate is kept, by the rule of ``frostline load``'s ceiling, or it cannot be told."""
    return bool(rung["keeps_up"] is not False and rung["response"]["p99"] <= settings["limit"])


def judge(ladders: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]) -> list[Finding]:
    """The table: what must hold must do so in both turns."""
    found: list[Finding] = []
    how = f"frostline load, {settings['seconds']:g} s a rate, deadline {settings['deadline']:g} s"
    at = {(one["turn"], one["arm"]): one for one in ladders}
    seen: dict[str, list[str]] = {"p99": [], "errors": [], "ceiling": []}
    holds: dict[str, list[bool | None]] = {"p99": [], "errors": [], "ceiling": []}
    for turn in (1, 2):
        stock, treated = at[turn, "stock"], at[turn, "all"]
        first = next((i for i, rung in enumerate(stock["rungs"]) if not held(rung, settings)), None)
        if first is None:
            seen["p99"].append("stock kept every rate")
            holds["p99"].append(None)
            holds["errors"].append(None)
            valid = all(rung["valid"] for rung in stock["rungs"])
        else:
            a, b = stock["rungs"][first], treated["rungs"][first]
            # Rates beyond it decide nothing: there the client drowns in what stock leaves unanswered.
            valid = b["valid"] and all(rung["valid"] for rung in stock["rungs"][: first + 1])
            ratio = a["response"]["p99"] / b["response"]["p99"]
            seen["p99"].append(
                f"at {a['rate']:g}/s {a['response']['p99']:,.0f} / "
                f"{b['response']['p99']:,.0f} ms: x {ratio:.1f}"
            )
            holds["p99"].append(ratio >= P99 if valid else None)
            errors = [sum(rung["failures"].values()) for rung in (a, b)]
            seen["errors"].append(f"at {a['rate']:g}/s {errors[0]:,} / {errors[1]:,} of {a['requests']:,}")
            holds["errors"].append(errors[0] > 0 and errors[1] == 0 if valid else None)
        before, after = stock["ceiling"], treated["ceiling"]
        seen["ceiling"].append(f"{before or 'none'} / {after or 'none'} a second")
        known = before and valid
        holds["ceiling"].append(bool(after and after >= CEILING * before) if known else None)
    for name, what, there, bound in (
        (
            "p99",
            "p99 at stock's first failing rate, stock / all frozen",
            "888 / 133 ms; 536 / 118; 511 / 207",
            f"at least {P99:g}",
        ),
        (
            "errors",
            "errors at the deadline there, stock / all",
            "830 / 66; 384 / 0; 760 / 484",
            "in stock alone",
        ),
        ("ceiling", "ceiling, stock / all", "354 / 390 a second (+10 %)", f"at least x {CEILING:g}"),
    ):
        told = "; ".join(f"turn {turn}: {text}" for turn, text in enumerate(seen[name], 1))
        # Missed in one turn is missed, whether or not the other could be judged.
        passed = False if False in holds[name] else None if None in holds[name] else True
        found.append(Finding(what, there, bound, told, how, passed))
    for arm in ARMS:
        found.append(shown(arm, [at[turn, arm] for turn in (1, 2)]))
    found.append(rhythm([at[turn, "stock"] for turn in (1, 2)]))
    return found


def shown(arm: str, both: Sequence[Mapping[str, Any]]) -> Finding:
    """One arm's ladder: p99 and errors by rate, both turns."""
    parts = []
    for rungs in zip(*(one["rungs"] for one in both), strict=True):
        p99 = " | ".join(f"{rung['response']['p99']:,.0f}" for rung in rungs)
        errors = " | ".join(str(sum(rung["failures"].values())) for rung in rungs)
        parts.append(f"{rungs[0]['rate']:g}/s p99 {p99} ms, errors {errors}")
    passes = []
    for role in sorted({name for one in both for name in one["roles"]}):
        of = [one["roles"].get(role) for one in both]
        passes.append(
            f"{role} "
            + " | ".join(
                "not recorded" if r is None else f"{r['full']} up to {r['longest_ms']:.0f} ms" for r in of
            )
        )
    return Finding(f"arm {arm}", "", "", "; ".join(parts), f"full passes: {'; '.join(passes)}", None)


def rhythm(stock: Sequence[Mapping[str, Any]]) -> Finding:
    """The period of the stock engine's full passes, with the least load and with the most (C7)."""
    told = [
        "; ".join(
            f"{role} {of['quiet_s']:.1f} to {of['busy_s']:.1f} s"
            for role, of in one["roles"].items()
            if of["quiet_s"]
        )
        or "no trend"
        for one in stock
    ]
    return Finding(
        "period of full passes as load rises, stock",
        "40 to 17 s, 280 to 420 a second",
        "",
        " | ".join(told),
        "report --json, rhythm: the quarter of the intervals with the least load, and the most",
        None,
    )
