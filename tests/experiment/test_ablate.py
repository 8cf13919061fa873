"""``frostline ablate`` on real servers: an interrupt, a run that fails, a server that dies (A10)."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from frostline.commands.ablate import ablate
from frostline.commands.try_policy import configuration, try_policy
from frostline.errors import FrostlineError
from frostline.experiment.ablation.plan import Arm, Load, Plan, read
from frostline.experiment.ablation.running import run_once
from tests.reach.under_run import DEADLINE, FROSTLINE, environment, gone, notes, wait_for

HERE = Path(__file__).parent


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port


def write_plan(tmp_path: Path, port: int, *load: str, tries: int = 3, env: str = "") -> Path:
    url = f"http://127.0.0.1:{port}/"
    asking = [sys.executable, str(HERE / "asking.py"), url, "40", str(tmp_path / "count"), *load]
    path = tmp_path / "plan.toml"
    path.write_text(
        f"""
[server]
command = {json.dumps([sys.executable, str(HERE / "paused.py"), str(port), str(tmp_path / "starts")])}
ready-url = "{url}health"
options = ["--no-host", "--no-counters"]
env = {{ {env} }}
[load]
command = {json.dumps(" ".join(asking))}
metrics = {{ work = "lower" }}
tag = "asked"
[run]
blocks = 1
warmup = 0
drain = 0
tries = {tries}
[[arm]]
name = "stock"
[[arm]]
name = "frozen"
policy = "freeze@Engine"
env = {{ PAUSED_WORK = "50" }}
"""
    )
    return path


def results(folder: Path) -> list[dict[str, Any]]:
    if not (folder / "results.jsonl").exists():
        return []
    return [json.loads(line)["run"] for line in (folder / "results.jsonl").read_text().splitlines()[1:]]


def serves(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def test_it_goes_on_after_an_interrupt_and_makes_an_invalid_run_again(tmp_path: Path) -> None:
    port = free_port()
    plan = write_plan(tmp_path, port, "fail-at", "2")
    folder = tmp_path / "plan.ablation"
    command = [*FROSTLINE, "ablate", str(plan), "--json"]
    first = subprocess.Popen(
        command, env=environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    wait_for(lambda: results(folder) and serves(port), "the first run, and the server of the second", 120)
    first.send_signal(signal.SIGTERM)
    _, errors = first.communicate(timeout=120)
    assert first.returncode == 130 and b"goes on from there" in errors, errors
    assert not serves(port), "no server is left behind"
    before = results(folder)
    with (folder / "results.jsonl").open("a") as file:
        file.write('{"run": {"block": 0, "pl')  # a crash in the middle of a line

    done = subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True, timeout=300)
    assert done.returncode == 1, done.stderr  # one block: nothing is concluded
    told = json.loads(done.stdout)
    assert results(folder)[: len(before)] == before == told["runs"][: len(before)]
    valid = [run for run in told["runs"] if not run["why"]]
    assert [(run["place"], run["arm"]) for run in valid] == list(
        enumerate(("stock", "frozen", "frozen", "stock"))
    )
    bad = [run for run in told["runs"] if run["why"]]
    assert len(bad) == 1 and "the load ended with 3" in bad[0]["why"] and "moon" in bad[0]["why"]
    (effect,) = told["effects"]
    assert 0.49 < effect["effect"]["ratio"] < 0.51 and effect["verdict"] == "inconclusive"
    (mechanism,) = told["mechanisms"]
    assert mechanism["roles"] == ["Engine"], "the arm is for that process alone"
    assert mechanism["walked_a"] > 300_000 and mechanism["full_a"] >= 1
    assert mechanism["b"] < mechanism["a"] / 2, "frozen, it pauses less"
    for run in valid:
        assert {"Engine", "Front"} <= set(run["roles"]) and run["missed"] == 0

    # The same folder under another plan, and what there is without a run.
    again = subprocess.run(
        [*FROSTLINE, "ablate", str(plan), "--only-report"],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
    )
    assert "Nothing is concluded: 1 block, and 6 are the fewest" in again.stdout
    plan.write_text(plan.read_text().replace('policy = "freeze@Engine"', 'policy = "follow@Engine"'))
    other = subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True)
    assert other.returncode == 1 and "[ablate-changed]" in other.stderr


def test_a_killed_ablation_takes_its_server_along(tmp_path: Path) -> None:
    """By SIGKILL it cannot end it itself: both processes of the server go, and the load with them."""
    port = free_port()
    plan = write_plan(tmp_path, port)
    # The load says who it is, and stays.
    load = f"echo $$ > {tmp_path / 'load.pid'}; exec sleep 600"
    text = plan.read_text()
    line = next(line for line in text.splitlines() if line.startswith("command = ") and "asking.py" in line)
    plan.write_text(text.replace(line, f"command = {json.dumps(load)}"))
    ablation = subprocess.Popen(
        [*FROSTLINE, "ablate", str(plan)],
        env=environment(tmp_path),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    told = tmp_path / "load.pid"
    try:
        wait_for(lambda: told.exists() and told.read_text().strip(), "the load", 120)
        seen = wait_for(lambda: _recorded(tmp_path / "plan.ablation"), "both processes of the server", 60)
    finally:
        ablation.kill()
        ablation.wait(60)
    for pid in (*seen, int(told.read_text())):
        assert gone(pid, 60), pid
    assert not serves(port)


def _recorded(folder: Path) -> list[int]:
    """The pids of the server's two processes, once its helper has seen them."""
    found = [
        process["pid"]
        for path in folder.glob("*/rec")
        for note in notes(path, "helper")
        for process in note["processes"]
        if process["recorded"] and process["alive"]
    ]
    return found if len(found) >= 2 else []


def test_a_server_that_dies_under_load_is_named_with_its_last_words_and_leaves_nobody(tmp_path: Path) -> None:
    facts = tmp_path / "facts"
    env = f'PAUSED_BROKEN = "1", PAUSED_FACTS = {json.dumps(str(facts))}'
    plan = write_plan(tmp_path, free_port(), tries=1, env=env)
    done = subprocess.run(
        [*FROSTLINE, "ablate", str(plan)],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1 and "[ablate-run]" in done.stderr
    assert "the server ended with 9 under load" in done.stderr
    (run,) = results(tmp_path / "plan.ablation")
    assert "ended with 9" in run["why"]
    (left,) = [told["left"] for told in map(json.loads, facts.read_text().splitlines()) if "left" in told]
    assert gone(left, DEADLINE)


def test_what_it_would_do_is_said_before(tmp_path: Path) -> None:
    plan = write_plan(tmp_path, 1)
    command = [*FROSTLINE, "ablate", str(plan), "--dry-run"]
    done = subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True)
    assert (
        done.returncode == 0 and "cannot conclude anything" in done.stdout and "freeze@Engine" in done.stdout
    )
    plan.write_text(plan.read_text().replace("freeze@Engine", "freez@Engine"))
    done = subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True)
    assert done.returncode == 2 and "[bad-policy]" in done.stderr
    assert not os.path.exists(tmp_path / "plan.ablation")


@pytest.mark.parametrize(
    ("options", "slug"),
    [
        ("--load x --metric work:lower", "experiment-flags"),
        ("--ready-url http://127.0.0.1:1/", "experiment-flags"),
        ("--ready-url http://127.0.0.1:1/ --load x", "experiment-flags"),
        ("--ready-url http://127.0.0.1:1/ --load x --metric work:faster", "experiment-flags"),
        ("--ready-log ./file:up --load x --metric work:lower", "experiment-flags"),
        ("--ready-url http://127.0.0.1:1/ --load-url http://127.0.0.1:1/ --policy freez", "bad-policy"),
        ("--ready-url http://127.0.0.1:1/ --load-url http://127.0.0.1:1/ --window soon", "bad-duration"),
    ],
)
def test_try_says_what_it_needs(options: str, slug: str) -> None:
    words = ["--policy", "freeze", *options.split(), "--", "server"]
    error = CliRunner().invoke(try_policy, words).exception
    assert isinstance(error, FrostlineError) and (error.slug, error.exit_code) == (slug, 2)


def test_flags_make_the_plan_of_a_file(tmp_path: Path) -> None:
    flags = ["--ready-url", "http://127.0.0.1:1/", "--load-url", "http://127.0.0.1:1/"]
    words = ["--policy", "follow", "--role", "A", "--role", "B", *flags]
    told = CliRunner().invoke(ablate, [*words, "--dry-run", "--", "serve", "--it"])
    assert told.exception is None
    assert "arms: none (no policy); A alone (follow@A); B alone (follow@B); all (follow@A+B)" in told.output
    for wrong in ([*words, "--", "serve"], words, ["--dry-run"], ["one.toml", "two.toml"]):
        error = CliRunner().invoke(ablate, wrong).exception
        assert isinstance(error, FrostlineError)
        assert error.slug == ("no-command" if wrong is words else "experiment-flags") and error.exit_code == 2


def test_a_server_that_was_left_behind_is_not_measured(tmp_path: Path) -> None:
    with socket.socket() as left:
        left.bind(("127.0.0.1", 0))
        left.listen()
        plan = read(write_plan(tmp_path, left.getsockname()[1]))
        run = run_once(plan, plan.arms[0], (0, 0, 0), tmp_path / "run", lambda what: None)
    assert "something answers at 127.0.0.1" in run.why and not (tmp_path / "starts").exists()


def test_try_of_one_block_keeps_no_policy_and_all_of_its_runs(tmp_path: Path) -> None:
    port = free_port()
    server = [sys.executable, str(HERE / "paused.py"), str(port), str(tmp_path / "starts")]
    url = f"http://127.0.0.1:{port}/"
    load = f"{sys.executable} {HERE / 'asking.py'} {url} 5 {tmp_path / 'count'}"
    keep = tmp_path / "keep.env"
    options = ["--ready-url", f"{url}health", "--load", load, "--metric", "work:lower", "--write", str(keep)]
    (tmp_path / "tmp").mkdir()

    def tried(*more: str) -> subprocess.CompletedProcess[str]:
        words = ["--policy", "freeze@Engine", *options, "--blocks", "1", *more, "--", *server]
        return subprocess.run(
            [*FROSTLINE, "try", *words],
            env=environment(tmp_path, TMPDIR=str(tmp_path / "tmp")),
            capture_output=True,
            text=True,
            timeout=300,
        )

    done = tried()
    assert done.returncode == 1 and "Not kept: it cannot be told whether freeze@Engine gains" in done.stdout
    assert not keep.exists() and "6 are the fewest" in done.stdout
    starts = ["none", "freeze@Engine", "freeze@Engine", "none"]
    assert (tmp_path / "starts").read_text().split() == starts
    (folder,) = (tmp_path / "tmp").glob("frostline-try-*")
    assert f"with -o {folder} and more --blocks the same command goes on from there" in done.stderr
    assert not list(folder.glob("*/rec")), "nobody looks for recordings there"
    assert tried("-o", str(folder)).stdout == done.stdout
    assert (tmp_path / "starts").read_text().split() == starts, "all runs were there"


def test_the_folder_of_a_try_that_failed_is_there_as_it_says(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    flags = ["--ready-after", "1s", "--load", "true", "--metric", "work:lower"]
    words = ["--policy", "freeze", *flags, "--", sys.executable, "-c", "import sys; sys.exit('no model')"]
    done = subprocess.run(
        [*FROSTLINE, "try", *words],
        env=environment(tmp_path, TMPDIR=str(tmp_path / "tmp")),
        capture_output=True,
        text=True,
        timeout=120,
    )
    (folder,) = (tmp_path / "tmp").glob("frostline-try-*")
    assert done.returncode == 1 and "[ablate-run]" in done.stderr and "no model" in done.stderr
    assert f"Its output is in {folder}. Mend it; with -o {folder} the same command goes on." in done.stderr
    assert len(results(folder)) == 3 and "no model" in (folder / "0-0-none-2" / "server.log").read_text()


def test_what_is_kept_is_written_as_it_is_typed() -> None:
    ready = {"kind": "url", "url": "http://127.0.0.1:1/a b"}
    plan = Plan(("serve", "it"), ready, Load("u"), (Arm("none"), Arm("f", "follow", ("Engine",))))
    assert configuration(plan) == ["FROSTLINE_POLICY=follow@Engine"]


def test_flags_beside_a_plan_are_refused_and_not_left_out(tmp_path: Path) -> None:
    plan = str(write_plan(tmp_path, 1))
    error = CliRunner().invoke(ablate, [plan, "--dry-run", "--window", "20s", "--role", "A"]).exception
    assert isinstance(error, FrostlineError) and (error.slug, error.exit_code) == ("experiment-flags", 2)
    assert "--role, --window would change nothing" in error.message and plan in error.remedy
    assert CliRunner().invoke(ablate, [plan, "--dry-run", "--blocks", "7"]).exception is None
