"""Does the attribution say what an ablation shows? The reference server, one role frozen at a time (A10).

Arms: stock; the front end, the engine core, the workers frozen alone; all of them. Fresh processes for each
run, the same work in each, arms in a balanced order (a Latin square, every second block backwards).

What stands still is seen by the clients: times in which no piece of text came on any stream, over 50 ms and
over three times the median. What such a gap has beyond the median is stall time. For each role

- *attributed* is the share of the stall time of the stock runs that Frostline's gap rule gives to passes of
  its processes (``analysis.gaps.explain``, where the null is at most 5 % over the number of processes);
- *removed* is by how much less stall time there is when it is frozen: 1 - treated / stock, of the sums over
  the blocks, with the 95 % interval of a bootstrap over blocks.

They agree if the two differ by at most 10 points for each role and order the roles alike (roles whose
attributed shares differ by under 5 points have no order). Where the interval of *removed* is over 10 points
to a side, or other programs used over 0.3 cores (their stalls are nobody's here), it is "not measured".

FROSTLINE_ABLATION_BLOCKS (1: a trial; 6: to judge, some 45 minutes), _REQUESTS (600), _SCALE (1), _WORKERS
(1); _DIR is a folder to keep the runs in: a run that is there already is not made again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from benchmarks.common import TARGETS, Interpreter, Result, environment
from benchmarks.labelled.real import forget
from benchmarks.labelled.reference import server
from frostline.analysis import analyse
from frostline.analysis.gaps import Candidate, explain
from frostline.demo.show import _Machine as Machine
from frostline.recording import read_session

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

ROLES = {"front end": "APIServer", "engine core": "EngineCore", "workers": "Worker"}
ARMS = {"stock": "", **ROLES, "all": ",".join(ROLES.values())}
FLOOR, FACTOR = 50_000_000, 3
#: Cores, used by other programs.
BUSY = 0.3
WITHIN = 0.10
TIE = 0.05
LEVEL = 0.05
RESAMPLES = 5_000
USERS = 4
#: Requests at the head of each run that are not looked at.
WARM = 8


@dataclass(frozen=True)
class Run:
    """One run: stall time, s; of it by role, as attributed (only where nothing was treated); passes."""

    arm: str
    block: int
    stall: float
    gaps: int
    seconds: float
    attributed: dict[str, float]
    #: role -> seconds of passes over FLOOR while the clients streamed.
    passes: dict[str, float]
    #: Cores that other programs used meanwhile; None where the machine does not say.
    others: float | None = None


def order(block: int) -> list[str]:
    """The arms of one block; in five each comes once at each place, and every second one is backwards."""
    arms = list(ARMS)
    turned = arms[block % len(arms) :] + arms[: block % len(arms)]
    return turned[::-1] if block % 2 else turned


def stalls(arrived: Ints) -> tuple[Ints, Ints, float]:
    """(where gaps open, where they close, the median gap) in which nothing came for anybody, ns."""
    at = np.sort(arrived)
    length = np.diff(at)
    # Pieces of one step come together; the rhythm is that of the steps.
    median = float(np.median(length[length > 1_000_000])) if bool((length > 1_000_000).any()) else 0.0
    long = length > max(FLOOR, FACTOR * median)
    return at[:-1][long], at[1:][long], median


def run_once(arm: str, block: int, folder: Path, scale: float, requests: int, workers: int) -> Run:
    """One run of one arm."""
    output = folder / "arrived.json"
    machine = Machine()
    with server(folder / "run", scale, {"ABLATION_ROLES": ARMS[arm]}, workers=workers) as up:
        at = urlsplit(up.url)
        for many, seed in ((WARM, 10_000), (requests, 0)):
            command = [sys.executable, str(TARGETS / "streams.py"), str(at.hostname), str(at.port)]
            command += [str(USERS), str(many), str(seed), str(output)]
            subprocess.run(command, check=True, env=environment(), timeout=900)
    try:
        others = machine.others()  # when what was started here has ended
        run = read_run(arm, block, folder / "run" / "rec", json.loads(output.read_text()))
        return replace(run, others=others)
    finally:
        forget(folder / "run" / "rec")


def read_run(arm: str, block: int, session: Path, client: Mapping[str, object]) -> Run:
    """What one run says: its stalls, and to whom they are attributed."""
    start, stop, median = stalls(np.array(client["arrived"], np.int64))
    window = (int(client["begin"]), int(client["end"]))  # type: ignore[call-overload]
    excess = (stop - start) - median
    analysis = analyse(read_session(session))
    by_role: dict[str, npt.NDArray[np.bool_]] = {}
    passes: dict[str, float] = {}
    known = [
        (name, process)
        for process in analysis.processes
        for name, role in ROLES.items()
        if process.role.startswith(role)
    ]
    for name, process in known:
        inside = (process.pauses.start >= window[0]) & (process.pauses.stop <= window[1])
        lengths = process.pauses.length[inside]
        passes[name] = passes.get(name, 0.0) + float(lengths[lengths > FLOOR].sum()) / 1e9
        union = process.pauses.union
        found = explain(start, stop, Candidate(process.name, union.start, union.stop, union), window)
        if found.by_chance <= LEVEL / len(known):
            by_role[name] = by_role.get(name, np.zeros(len(start), bool)) | (found.by >= 0)
    attributed = {name: float(excess[which].sum()) / 1e9 for name, which in by_role.items()}
    seconds = (window[1] - window[0]) / 1e9
    return Run(arm, block, float(excess.sum()) / 1e9, len(start), seconds, attributed, passes)


def removed(runs: list[Run], arm: str) -> tuple[float, float, float]:
    """(share of the stall time that the arm lacks, its 95 % interval), of blocks that are whole."""
    stall = {(run.arm, run.block): run.stall for run in runs}
    blocks = sorted(
        {run.block for run in runs if ("stock", run.block) in stall and (arm, run.block) in stall}
    )
    stock = np.array([stall["stock", block] for block in blocks])
    treated = np.array([stall[arm, block] for block in blocks])
    if not len(blocks) or stock.sum() <= 0:
        return float("nan"), float("-inf"), float("inf")
    drawn = np.random.default_rng(0).integers(0, len(blocks), (RESAMPLES, len(blocks)))
    shares = 1 - treated[drawn].sum(axis=1) / np.maximum(1e-9, stock[drawn].sum(axis=1))
    low, high = np.quantile(shares, [0.025, 0.975])
    return float(1 - treated.sum() / stock.sum()), float(low), float(high)


def attributed(runs: list[Run], name: str) -> float:
    """The share of the stock runs' stall time that is given to a role."""
    stock = [run for run in runs if run.arm == "stock"]
    whole = sum(run.stall for run in stock)
    return sum(run.attributed.get(name, 0.0) for run in stock) / whole if whole else float("nan")


def judge(runs: list[Run], blocks: int) -> list[Result]:
    """The rule at the top of this file."""
    said = {name: attributed(runs, name) for name in ROLES}
    seen = {name: removed(runs, name) for name in ROLES}
    stock = [run for run in runs if run.arm == "stock"]
    others = max((run.others or 0.0 for run in runs), default=0.0)
    how = (
        f"{blocks} blocks of fresh processes; stock {sum(run.stall for run in stock):.2f} s of stalls in "
        f"{sum(run.gaps for run in stock)} gaps, {sum(run.seconds for run in stock):.0f} s of streaming; "
        f"other programs used at most {others:.1f} cores"
    )
    results = []
    for name in ROLES:
        share, low, high = seen[name]
        wide = blocks < 4 or others > BUSY or not high - low <= 2 * WITHIN
        near = abs(share - said[name]) <= WITHIN
        text = f"attributed {said[name]:.0%}, removed {share:.0%} (95 % {low:.0%} to {high:.0%})"
        results.append(
            Result(f"{name} against ablation", text, "within 10 points", None if wide else near, how)
        )
    share, low, high = removed(runs, "all")
    text = f"removed {share:.0%} (95 % {low:.0%} to {high:.0%}); attributed {sum(said.values()):.0%} together"
    results.append(Result("all roles frozen", text, "shown", None, how))
    ordered = all(
        (said[a] > said[b]) == (seen[a][0] > seen[b][0])
        for a in ROLES
        for b in ROLES
        if said[a] - said[b] > TIE
    )
    names = [
        " > ".join(sorted(ROLES, key=lambda n: -of[n])) for of in (said, {n: s[0] for n, s in seen.items()})
    ]
    text = f"attributed {names[0]}; removed {names[1]}"
    unclear = any(result.passed is None for result in results if result.bound != "shown")
    results.append(Result("ranking of the roles", text, "the same", None if unclear else ordered, how))
    return results


def measure(interpreter: Interpreter) -> list[Result]:
    """Makes the runs that are not there yet, and judges all."""
    blocks = int(os.environ.get("FROSTLINE_ABLATION_BLOCKS", "1"))
    requests = int(os.environ.get("FROSTLINE_ABLATION_REQUESTS", "600"))
    scale = float(os.environ.get("FROSTLINE_ABLATION_SCALE", "1"))
    workers = int(os.environ.get("FROSTLINE_ABLATION_WORKERS", "1"))
    with ExitStack() as stack:
        kept = os.environ.get("FROSTLINE_ABLATION_DIR")
        folder = Path(kept or stack.enter_context(tempfile.TemporaryDirectory(prefix="frostline-ablation-")))
        folder.mkdir(parents=True, exist_ok=True)
        settings = {"requests": requests, "scale": scale, "workers": workers}
        plan = [(block, arm) for block in range(blocks) for arm in order(block)]
        runs: list[Run] = []
        made: list[float] = []
        for number, (block, arm) in enumerate(plan):
            path = folder / f"{block}-{arm.replace(' ', '-')}.json"
            run = _known(path, settings)
            if run is None:
                begun = time.monotonic()
                with tempfile.TemporaryDirectory(prefix="frostline-ablation-") as place:
                    run = run_once(arm, block, Path(place), scale, requests, workers)
                path.write_text(json.dumps({"settings": settings, "run": run.__dict__}))
                made.append(time.monotonic() - begun)
            runs.append(run)
            left = sum(made) / max(1, len(made)) * (len(plan) - number - 1)
            whose = ", ".join(f"{name} {value:.2f}" for name, value in run.passes.items())
            print(
                f"{'':12s} ablation: {number + 1} of {len(plan)}, block {block + 1}, {arm}: "
                f"{run.stall:.2f} s of stalls in {run.gaps} gaps, {run.seconds:.0f} s; "
                f"passes over 50 ms, s: {whose}; others used {run.others or 0:.1f} cores; "
                f"about {left / 60:.0f} min left",
                file=sys.stderr,
                flush=True,
            )
        return judge(runs, blocks)


def _known(path: Path, settings: dict[str, float]) -> Run | None:
    """A run made before under the same settings."""
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    if data["settings"] != settings:
        raise RuntimeError(f"{path} was made with {data['settings']}, not {settings}: use another folder")
    return Run(**data["run"])
