"""A server of yours under two policies, A/B: what its full passes took, and what the load got done.

    python -m benchmarks.arms --out ab --ready http://127.0.0.1:8000/health \\
        --load './load.sh' --server 'vllm serve ./model --port 8000'

Fresh processes for each run, in blocks of A B B A: A is `frostline run` without a policy, B with
`--policy follow`. The load must print one JSON object a line on stdout; of the one whose `"tag"` --metric
names, the window (`t0`, `t1`, Unix seconds; else the whole command) and the metric are taken. A session that
is done is not done again: the same command goes on where it was stopped. --only-report prints what there is.

Of the process that --server becomes, full passes that end in the window count, Frostline's own walks with
them. Per block d = (ln B1 + ln B2 - ln A1 - ln A2) / 2; the ratio is exp(mean d), p the exact two-sided
sign-flip test over blocks, the interval its inversion. Fewer than 6 blocks cannot conclude at 5 %.
With --pairs a block is two sessions, A B or B A in turn: half the time, and more noise in each.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import shlex
import signal
import subprocess
import sys
import time
import urllib.request
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from frostline import format as layout
from frostline.recording.session import read_session

#: What a sum of nothing counts as in a ratio, so that a logarithm exists; below anything measured.
FLOOR = {"passes": 0.5, "total_ms": 0.1, "longest_ms": 0.1, "young_ms": 0.1}
ENOUGH = 6
#: Marks of a count of F at a safe point: a stop that is no pass.
COUNTS = (layout.LINE_MEASURED, layout.LINE_RESTORED)


@dataclass(frozen=True)
class Run:
    """One session: its place, and what was measured in the window."""

    block: int
    place: int
    arm: str
    seconds: float
    passes: int
    total_ms: float
    longest_ms: float
    young_ms: float
    #: Counts of F at safe points, in the window.
    counts: int
    counts_ms: float
    longest_count_ms: float
    metric: float
    #: CPU time of `follow` in stops beside the passes, over the process's life, and the longest.
    own_ms: float = 0.0
    own_longest_ms: float = 0.0


def main() -> int:
    options = parse()
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    log = out / "results.jsonl"
    done = [Run(**json.loads(line)) for line in log.read_text().splitlines()] if log.exists() else []
    todo = [
        (block, place, arm)
        for block in range(options.blocks)
        for place, arm in enumerate("ABBA")
        if not any((run.block, run.place) == (block, place) for run in done)
    ]
    took: list[float] = []
    for number, (block, place, arm) in enumerate(() if options.only_report else todo):
        left = f"{(sum(took) / len(took)) * (len(todo) - number) / 60:.0f} min left" if took else "first"
        print(
            f"block {block + 1} of {options.blocks}, session {place + 1} of 4, arm {arm}: {left}", flush=True
        )
        begun = time.monotonic()
        run = session(options, out / f"{block}-{place}-{arm}", block, place, arm)
        took.append(time.monotonic() - begun)
        print(f"  {run.passes} full passes, {run.total_ms:.1f} ms, longest {run.longest_ms:.1f} ms;"
              f" {options.metric} {run.metric:.1f}; counts of F {run.counts}, longest"
              f" {run.longest_count_ms:.1f} ms", flush=True)  # fmt: skip
        with log.open("a") as file:
            file.write(json.dumps(asdict(run)) + "\n")
        done.append(run)
    return report(options, done)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.arms", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", required=True, help="folder of the sessions and of results.jsonl")
    parser.add_argument("--server", required=True, help="command of the server, as one text")
    parser.add_argument("--ready", required=True, help="URL that answers 200 once it serves")
    parser.add_argument("--load", required=True, help="shell command of the load; prints JSON lines")
    parser.add_argument("--metric", default="logprobs:chunks_s", help="TAG:FIELD of the load's JSON")
    parser.add_argument("--a", default="", help="options of `frostline run` for arm A")
    parser.add_argument("--b", default="--policy follow --ready-url {ready}", help="and for arm B")
    parser.add_argument("--blocks", type=int, default=ENOUGH)
    parser.add_argument("--patience", type=float, default=600.0, help="seconds until it serves, at most")
    parser.add_argument(
        "--pairs", action="store_true", help="each two neighbouring sessions (A B, then B A) are a block"
    )
    parser.add_argument("--only-report", action="store_true")
    return parser.parse_args()


def session(options: argparse.Namespace, folder: Path, block: int, place: int, arm: str) -> Run:
    """Starts the server, runs the load, stops the server, reads the recording."""
    if folder.exists():  # it was interrupted
        folder.rename(folder.with_name(f"{folder.name}-interrupted-{time.time_ns()}"))
    folder.mkdir()
    added = shlex.split((options.a if arm == "A" else options.b).format(ready=options.ready))
    frostline = [
        sys.executable,
        "-m",
        "frostline.commands.main",
        "run",
        "-o",
        str(folder / "session"),
        *added,
    ]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("FROSTLINE_")}
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [*frostline, *added, "--", *shlex.split(options.server)],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
    try:
        await_ready(options, server)
        begun = time.time()
        load = subprocess.run(options.load, shell=True, stdout=subprocess.PIPE, text=True, check=True)
        ended = time.time()
        offset = time.monotonic_ns() - time.time_ns()
        (folder / "load.jsonl").write_text(load.stdout)
    finally:
        stop(server)
    tag, _, field = options.metric.partition(":")
    found = tagged(load.stdout, tag)
    window = [int(found.get(name, other) * 1e9) + offset for name, other in (("t0", begun), ("t1", ended))]
    return measured(folder / "session", server.pid, window, (block, place, arm), float(found[field]))


def await_ready(options: argparse.Namespace, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + options.patience
    while time.monotonic() < until:
        if server.poll() is not None:
            raise SystemExit(
                f"the server ended with {server.returncode} before it served: see its server.log"
            )
        try:
            with urllib.request.urlopen(options.ready, timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            pass
        time.sleep(0.2)
    raise SystemExit(f"no answer from {options.ready} in {options.patience:.0f} s: see server.log")


def stop(server: subprocess.Popen[bytes]) -> None:
    """As a user would; then harder."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        try:
            if number == signal.SIGINT:
                os.kill(server.pid, number)
            else:
                os.killpg(server.pid, number)
        except ProcessLookupError:
            return
        try:
            server.wait(60)
        except subprocess.TimeoutExpired:
            continue
        time.sleep(2)  # its children, and the helper's last look
        return


def tagged(text: str, tag: str) -> dict[str, Any]:
    for line in text.splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict) and value.get("tag") == tag:
            return value
    raise SystemExit(f"the load printed no JSON line with the tag {tag!r}: {text[-500:]}")


def measured(path: Path, pid: int, window: list[int], where: tuple[int, int, str], metric: float) -> Run:
    """What the recording says of the process that the server's command became."""
    begun, ended = window
    found = [series for series in read_session(path).series if series.pid == pid]
    if not found:
        raise SystemExit(f"process {pid} is not in {path}: `frostline status {path}` says why")
    full: list[float] = []
    young: list[float] = []
    counts: list[float] = []
    for series in found:
        for one in series.passes:
            if begun <= one["stop"] <= ended:
                (full if one["generation"] == 2 else young).append(float(one["stop"] - one["start"]) / 1e6)
        for mark in series.marks:
            if mark.kind == layout.MARK_LINE and mark.values[0] in COUNTS and begun <= mark.time <= ended:
                counts.append((mark.stop - mark.time) / 1e6)
    return Run(
        *where,
        (ended - begun) / 1e9,
        len(full),
        sum(full),
        max(full, default=0.0),
        sum(young),
        len(counts),
        sum(counts),
        max(counts, default=0.0),
        metric,
        sum(series.words.get("line_own_ns", 0) for series in found) / 1e6,
        max(series.words.get("line_own_longest_ns", 0) for series in found) / 1e6,
    )


def report(options: argparse.Namespace, runs: list[Run]) -> int:
    """The arms' medians, the ratio by block, p and interval. 0 if there is a whole block."""
    order, whole = "A B B A", ["A", "A", "B", "B"]
    if options.pairs:
        order, whole = "A B and B A in turn", ["A", "B"]
        runs = [replace(run, block=2 * run.block + run.place // 2) for run in runs]
    blocks = [
        block
        for block in sorted({run.block for run in runs})
        if sorted(run.arm for run in runs if run.block == block) == whole
    ]
    if not blocks:
        print("no block is complete")
        return 1
    print(f"{len(blocks)} blocks of {order}, windows of {median([run.seconds for run in runs]):.0f} s")
    print(f"A: frostline run {options.a or '(no policy)'}; B: frostline run {options.b}")
    for name in ("passes", "total_ms", "longest_ms", "young_ms", "metric"):
        logs = []
        for block in blocks:
            a, b = (
                [max(float(getattr(run, name)), FLOOR.get(name, 1e-9)) for run in chosen(runs, block, arm)]
                for arm in "AB"
            )
            logs.append((sum(map(math.log, b)) - sum(map(math.log, a))) / len(a))
        arms = [median([getattr(run, name) for run in runs if run.arm == arm]) for arm in "AB"]
        found = interval(logs)
        between = "open" if found is None else " to ".join(f"{math.exp(end):.4f}" for end in found)
        print(
            f"{options.metric if name == 'metric' else name:18s} A {arms[0]:10.2f}  B {arms[1]:10.2f}"
            f"  B/A {math.exp(sum(logs) / len(logs)):8.4f}  95 % {between}"
            f"  p {sign_flip(logs):.4f}  by block {', '.join(f'{math.exp(d):.4f}' for d in logs)}"
        )
    worst = [max((run.longest_ms for run in runs if run.arm == arm), default=0.0) for arm in "AB"]
    print(f"longest full pass of all runs: A {worst[0]:.1f} ms, B {worst[1]:.1f} ms")
    counts = [run for run in runs if run.counts]
    print(f"counts of F at safe points: in {len(counts)} runs, longest"
          f" {max((run.longest_count_ms for run in counts), default=0.0):.1f} ms")  # fmt: skip
    own = [run for run in runs if run.own_ms]
    if own:
        usual, worst_own = median([run.own_ms for run in own]), max(run.own_longest_ms for run in own)
        print(f"own CPU time in stops beside the passes, over a process's life: {usual:.1f} ms,"
              f" longest {worst_own:.1f} ms")  # fmt: skip
    if len(blocks) < ENOUGH:
        print(
            f"fewer than {ENOUGH} blocks: p cannot be under {2 / 2 ** len(blocks):.3f}, nothing is concluded"
        )
    return 0


def chosen(runs: list[Run], block: int, arm: str) -> list[Run]:
    return [run for run in runs if (run.block, run.arm) == (block, arm)]


def median(values: list[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def sign_flip(values: list[float], shift: float = 0.0) -> float:
    """Exact two-sided p of the mean against ``shift``: all 2 ** n signs."""
    moved = [value - shift for value in values]
    seen = abs(sum(moved))
    flips = [
        abs(sum(map(float.__mul__, signs, moved)))
        for signs in itertools.product((1.0, -1.0), repeat=len(moved))
    ]
    return sum(flip >= seen - 1e-12 for flip in flips) / len(flips)


def interval(values: list[float], level: float = 0.05) -> tuple[float, float] | None:
    """The shifts that the test does not refuse. None where there are too few blocks to refuse any."""
    if 2 / 2 ** len(values) > level:
        return None
    mean, ends = sum(values) / len(values), []
    for far in (min(values) - 1e-9, max(values) + 1e-9):
        inside, outside = mean, far
        if sign_flip(values, outside) > level:
            inside = outside
        for _ in range(60):
            middle = (inside + outside) / 2
            if sign_flip(values, middle) > level:
                inside = middle
            else:
                outside = middle
        ends.append(inside)
    return ends[0], ends[1]


if __name__ == "__main__":
    sys.exit(main())
