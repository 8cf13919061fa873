"""``ablate`` and ``try`` with ``frostline load``, as the documents show them first (A10, D7): screening,
CPUs, drain, memory, the page, and a policy that is kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from frostline.commands._experiment import Flags, plan_of
from frostline.experiment.ablation.asking import Failed, ask
from frostline.experiment.ablation.doing import RESULTS, VERSION, chosen
from frostline.experiment.ablation.plan import CONTROL, Arm, Plan, arm_of, of, read
from frostline.experiment.ablation.running import SCREEN, Run, run_once
from frostline.experiment.load.plan import ladder
from frostline.experiment.statistics import order
from tests.experiment.test_ablate import HERE, free_port, results
from tests.reach.under_run import FROSTLINE, environment

URL = "http://127.0.0.1:1/"


def command(tmp_path: Path, port: int) -> list[str]:
    return [sys.executable, str(HERE / "paused.py"), str(port), str(tmp_path / "starts")]


def test_it_asks_the_server_by_itself_screens_the_arms_and_draws_the_result(tmp_path: Path) -> None:
    port, cpu = free_port(), min(os.sched_getaffinity(0))
    url, facts = f"http://127.0.0.1:{port}/", tmp_path / "facts"
    path = tmp_path / "plan.toml"
    path.write_text(
        f"""
[server]
command = {json.dumps(command(tmp_path, port))}
ready-url = "{url}health"
options = ["--no-host", "--no-counters"]
env = {{ PAUSED_FACTS = "{facts}" }}
cpus = "{cpu}"
[load]
url = "{url}"
rate = 10
[run]
blocks = 1
warmup = 0.5
window = "1s"
drain = "500ms"
tries = 30
confirm = 1
pairs = true
[[arm]]
name = "none"
[[arm]]
name = "front"
policy = "freeze@Front"
[[arm]]
name = "engine"
policy = "freeze@Engine"
"""
    )
    page = tmp_path / "page.html"
    done = subprocess.run(
        [*FROSTLINE, "ablate", str(path), "--html", str(page)],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 1, done.stderr  # one block: nothing is concluded
    folder, plan = tmp_path / "plan.ablation", read(path)
    every = [Run(**run) for run in results(folder)]
    good = [run for run in every if run.valid]
    # A run in which this machine kept the client from sending does not count, and was made again.
    assert all("the client was the bottleneck" in run.why for run in every if not run.valid)
    assert [run.arm for run in good[:3]] == ["none", "front", "engine"]
    confirmed, why = chosen(plan, good)
    assert [run.block for run in good] == [SCREEN] * 3 + [0] * 2
    assert {run.arm for run in good[3:]} == {arm.name for arm in confirmed} and len(confirmed) == 2
    assert f"Screening, {why}" in done.stdout and "Nothing is concluded" in done.stdout
    (rung,) = ladder([10.0], 1.0, 0.5, plan.seed)
    for run in good:
        assert run.metrics.keys() == {"p99", "p50", "achieved"} and run.metrics["achieved"] > 0
        assert run.requests == (rung.offsets >= rung.measured).sum() and run.window_s == 1
        assert run.memory_mib > 10 and {"Engine", "Front"} <= set(run.roles) and run.missed == 0
    noted = [json.loads(line) for line in facts.read_text().splitlines()]
    assert [one["cpus"] for one in noted if "cpus" in one] == [[cpu]] * len(every)
    ended = [one["ended"] for one in noted if "ended" in one]
    for run, at in zip(every, ended, strict=True):
        stem = "screen" if run.block == SCREEN else f"{run.block}"
        requests = folder / f"{stem}-{run.place}-{run.arm}-{run.attempt}" / "requests.jsonl"
        header, *rows = map(json.loads, requests.read_text().splitlines())
        assert [row["intended"] - header["begun"][0] for row in rows] == rung.offsets.tolist()
        assert at >= max(row["last"] for row in rows) + 500_000_000, "it drains before it ends the server"
    drawn = page.read_text()
    assert drawn.count("<circle") == 3  # p99, p50, achieved
    assert f"{confirmed[1].name}<br><small>p99, lower is better" in drawn
    assert "figure: " in done.stderr


def plan_with(tmp_path: Path, env: dict[str, str], window: str) -> Plan:
    port = free_port()
    url = f"http://127.0.0.1:{port}/"
    server = {
        "command": command(tmp_path, port),
        "ready-url": f"{url}health",
        "options": ["--no-host", "--no-counters"],
        "env": env,
    }
    load = {"url": url, "rate": 20, "options": ["--even", "--deadline", "5"]}
    arms = [{"name": "none"}, {"name": "freeze", "policy": "freeze"}]
    run = {"warmup": 0, "window": window, "drain": 0}
    return of({"server": server, "load": load, "run": run, "arm": arms})


@pytest.mark.parametrize(
    ("env", "why"),
    [
        ({"PAUSED_ERRORS": "1"}, "every request failed: 10 x http 500"),
        ({"PAUSED_SLOW": "1.5"}, "no answer came within the window: it is shorter than an answer takes"),
    ],
)
def test_a_run_without_an_answer_in_its_window_is_told_as_such(
    tmp_path: Path, env: dict[str, str], why: str
) -> None:
    plan = plan_with(tmp_path, env, "0.5s")
    run = run_once(plan, plan.arms[0], (0, 0, 0), tmp_path / "run", lambda what: None)
    assert (run.why, run.requests, run.metrics) == (why, 10, {})
    assert run.failures == (10 if "failed" in why else 0) and run.roles


#: A load that says what it has seen once what loads the server beside it has ended, or at once.
ASKING = """
until [ -s "$STATE" ]; do sleep 0.02; done
if [ -n "$ENDED" ]; then while grep -qs 'State:.[RSD]' "/proc/$(cat "$STATE")/status"; do sleep 0.02; done; fi
echo '{"seen": 1}'
"""


def beside(tmp_path: Path, what: str, ended: str) -> Run:
    port, state = free_port(), tmp_path / "state"
    data = {
        "server": {
            "command": command(tmp_path, port),
            "ready-url": f"http://127.0.0.1:{port}/health",
            "options": ["--no-host", "--no-counters"],
        },
        "load": {
            "command": f"STATE={state} ENDED={ended}\n{ASKING}",
            "metrics": {"seen": "higher"},
            "beside": what.replace("STATE", str(state)),
        },
        "run": {"warmup": 3, "window": "7s", "drain": 0, "seed": 5},
        "arm": [{"name": "none"}, {"name": "freeze", "policy": "freeze"}],
    }
    plan = of(data)
    return run_once(plan, plan.arms[0], (0, 0, 0), tmp_path / "run", lambda what: None)


def test_what_loads_the_server_beside_is_told_of_the_run_and_ends_with_it(tmp_path: Path) -> None:
    run = beside(tmp_path, "echo $ABLATE_WARMUP $ABLATE_WINDOW $ABLATE_SEED; echo $$ > STATE; sleep 600", "")
    assert (run.why, run.metrics) == ("", {"seen": 1.0})
    assert (tmp_path / "run" / "beside.log").read_text() == "3 7 5\n"
    assert not Path(f"/proc/{(tmp_path / 'state').read_text().strip()}").exists()


def test_a_run_that_was_not_loaded_as_the_others_does_not_count(tmp_path: Path) -> None:
    run = beside(tmp_path, "echo no such model >&2; echo $$ > STATE; exit 3", "1")
    assert run.why == "what loads the server beside ended with 3\n    no such model" and not run.metrics


def test_the_screening_counts_passes_so_that_a_late_client_is_no_matter(tmp_path: Path) -> None:
    plan = plan_with(tmp_path, {}, "0.3s")
    plan = replace(plan, load=replace(plan.load, rate=8_000.0))  # more than a client can send
    for block, why in ((0, "the client was the bottleneck"), (SCREEN, "")):
        run = run_once(plan, plan.arms[0], (block, 0, 0), tmp_path / "run", lambda what: None)
        assert (why in run.why if why else not run.why) and run.requests == 2_400 and run.metrics


def answered(tmp_path: Path, answer: str) -> tuple[tuple[int, int], dict[str, Any]]:
    """What is made of a load that prints this."""
    data = {
        "server": {"command": "none", "ready-after": 1},
        "load": {"command": f"echo '{answer}'", "metrics": {"x": "lower"}},
        "arm": [{"name": "none"}, {"name": "freeze", "policy": "freeze"}],
    }
    return ask(of(data), tmp_path)


def test_the_window_of_a_load_is_a_stretch_of_its_run(tmp_path: Path) -> None:
    begun = time.time()
    (first, second), found = answered(tmp_path, f'{{"x": 2, "t0": {begun - 1}, "t1": {begun + 60}}}')
    assert second - first == pytest.approx(61e9, abs=1e6) and found["window_s"] == pytest.approx(61)
    assert found["metrics"] == {"x": 2}
    until = time.monotonic_ns() + 60_000_000_000
    assert second <= until, "Unix seconds have become CLOCK_MONOTONIC"
    other = time.monotonic()
    for wrong in (
        f'"t0": {other}, "t1": {other + 1}',  # another clock: no pass of any arm would lie in it
        f'"t0": {begun + 2}, "t1": {begun - 2}',
        f'"t0": {begun + 3600}, "t1": {begun + 3660}',
        '"t0": NaN',
        '"t1": Infinity',
    ):
        with pytest.raises(Failed, match="no stretch of its run"):
            answered(tmp_path, f'{{"x": 2, {wrong}}}')
    with pytest.raises(Failed, match="no times"):
        answered(tmp_path, '{"x": 2, "t0": "noon"}')


FLAGS = Flags(URL, None, None, URL, 20.0, (), None, None, "10s", "60s")
SERVER = ("./my-server", "--port", "1")


def prepared(folder: Path, memory: float) -> None:
    """Six blocks that show a gain: p99 is half, the engine's pauses are gone."""
    plan = plan_of(FLAGS, SERVER, (Arm(CONTROL), arm_of("freeze@Engine")))
    folder.mkdir()
    about = {"frostline_ablation": VERSION, "plan": plan.name, "machine": {}}
    lines: list[dict[str, Any]] = [about]
    for block in range(6):
        for place, number in enumerate(order(2, block, 0)):
            frozen = bool(number)
            pause = 0.001 if frozen else 1.0
            role = {"processes": 1, "pause_s": pause, "full": 0 if frozen else 9, "longest_ms": 1e3 * pause,
                    "walked": 0 if frozen else 9_000_000, "unknown": 0, "python": "3.11.7"}  # fmt: skip
            # As noisy as a run may be, and the same each time.
            metrics = {"p99": (50.0 if frozen else 100.0) * (1 + len(lines) % 3 / 1000), "achieved": 20.0}
            run = Run(block, place, plan.arms[number].name, 0, "", metrics, {"Engine": role},
                      memory_mib=memory if frozen else 100.0, requests=1200)  # fmt: skip
            lines.append({"run": asdict(run)})
    (folder / RESULTS).write_text("".join(json.dumps(line) + "\n" for line in lines))


def tried(tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    words = ["--policy", "freeze@Engine", "--ready-url", URL, "--load-url", URL, "--rate", "20"]
    words += ["-o", str(tmp_path / "runs"), "--write", str(tmp_path / "keep.env"), *options, "--", *SERVER]
    return subprocess.run(
        [*FROSTLINE, "try", *words], env=environment(tmp_path), capture_output=True, text=True, timeout=120
    )


def test_try_keeps_what_gained_and_writes_and_says_how(tmp_path: Path) -> None:
    prepared(tmp_path / "runs", 105.0)
    before = (tmp_path / "runs" / RESULTS).read_text()
    done = tried(tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs" / RESULTS).read_text() == before, "all runs were there"
    assert "Keep it: p99 x 0.500, and the pauses fell with it; memory 100 to 105 MiB" in done.stdout
    typed = f"frostline run --policy freeze@Engine --ready-url {URL} -- ./my-server --port 1"
    assert typed in done.stdout and f"settings: {tmp_path / 'keep.env'}" in done.stderr
    assert (tmp_path / "keep.env").read_text() == "FROSTLINE_POLICY=freeze@Engine\n"
    told = json.loads(tried(tmp_path, "--json").stdout)
    assert told["kept"] is True and told["keep"] == ["FROSTLINE_POLICY=freeze@Engine"]
    assert told["effects"][0]["verdict"] == "improved" and told["mechanisms"][0]["explained"] is True


def test_try_does_not_keep_what_takes_too_much_memory(tmp_path: Path) -> None:
    prepared(tmp_path / "runs", 150.0)
    done = tried(tmp_path)
    assert done.returncode == 3 and "100 to 150 MiB, over 1.1 times (--max-memory)" in done.stdout
    assert not (tmp_path / "keep.env").exists() and "Keep it" not in done.stdout
    assert tried(tmp_path, "--max-memory", "1.6").returncode == 0 and (tmp_path / "keep.env").exists()
