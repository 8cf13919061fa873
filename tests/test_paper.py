"""``benchmarks.paper``: what the tables make of what was seen, and the two targets that are made for them."""

from __future__ import annotations

import http.client
import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from benchmarks.common import TARGETS
from benchmarks.paper import __main__ as command
from benchmarks.paper import a10, a14, b, c5, d8, doing, table, users
from benchmarks.paper.table import Finding, Others, others_of

from frostline.experiment.ablation import plan as plans

QUIET = Others(0.1, 0.2, 0, 12)
BUSY = Others(0.9, 1.5, 9, 12)


def finding(passed: bool | None, clock: bool = True) -> Finding:
    return Finding("what", "there", "bound", "seen | here", "how", passed, clock)


def test_a_missed_bound_ends_with_one_unless_others_used_the_machine(tmp_path: Path) -> None:
    def ends(*findings: Finding, others: Others = QUIET, quick: bool = False) -> int:
        return table.finish("b", "title", tmp_path, findings, others, quick)

    assert ends(finding(True), finding(None)) == 0
    assert ends(finding(True), finding(False)) == 1
    assert ends(finding(False), others=BUSY) == 0
    assert json.loads((tmp_path / "seen.json").read_text())["findings"][0]["word"] == "not measured"
    assert ends(finding(False, clock=False), others=BUSY) == 1  # counts need no quiet machine
    assert ends(finding(False), quick=True) == 0
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert seen["quick"] is True and seen["machine"]["cores"] and seen["date"]
    assert "seen \\| here (not measured)" in (tmp_path / "seen.md").read_text()


def test_one_busy_run_spoils_a_row_of_few_long_ones_only() -> None:
    runs: list[dict[str, Any]] = [{"others": 0.05}] * 20 + [{"others": 2.0}, {"others": None}]
    assert not others_of(runs).busy and others_of(runs, each=True).busy
    assert "at most 2.00" in str(others_of(runs)) and "1 of 22 over 0.3" in str(others_of(runs))
    assert not others_of([{"others": None}]).busy


def test_rows_stand_before_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.split(["b", "c5", "--dir", "x", "--quick"]) == (["b", "c5"], ["--dir", "x", "--quick"])
    assert command.main(["e5"]) == 2
    assert "no such row: e5" in capsys.readouterr().err


def test_a_run_is_made_once_and_only_with_the_same_settings(tmp_path: Path) -> None:
    made = []

    def make(place: Path) -> dict[str, Any]:
        assert not (place / "left").exists()
        made.append(place.name)
        return {"value": len(made)}

    runs = doing.Runs("b", tmp_path, {"heap": 1, "rates": (1, 2)}, 2)
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "left").touch()  # of a run that was interrupted
    assert runs.get("one", make)["value"] == 1
    again = doing.Runs("b", tmp_path, {"heap": 1, "rates": (1, 2)}, 2)
    assert again.get("one", make)["value"] == 1 and again.get("two", make)["value"] == 2
    assert made == ["one", "two"] and "others" in again.get("two", make)
    with pytest.raises(RuntimeError, match="use another --dir"):
        doing.Runs("b", tmp_path, {"heap": 2, "rates": (1, 2)}, 2)


@pytest.mark.parametrize("row", [a10, d8])
def test_the_plans_are_plans(row: Any, tmp_path: Path) -> None:
    own = doing.Options(False, tmp_path)
    other = doing.Options(False, tmp_path, "serve 'a model' --port {port}", "/ready", ("Web", "Core", "Rank"))
    for given in (own, other):
        (tmp_path / "plan.toml").write_text(row.text(given))
        plan = plans.read(tmp_path / "plan.toml")
        assert [arm.name for arm in plan.arms] == list(row.ARMS) and plan.pairs and not plan.screened
        assert str(doing.port(tmp_path)) in plan.command
        assert plan.ready is not None and plan.ready["url"].endswith(given.health)
    assert plan.command[:2] == ("serve", "a model")
    if row is a10:
        assert [arm.roles for arm in plan.arms][1:3] == [("Web", "Rank"), ("Web", "Core")]
    else:
        assert plan.blocks == 3 and dict(plan.arms[0].env)["PYTHONPATH"].endswith("unfrozen")


def bucket(low: int, high: int, count: int, ms: int, supply: int | None = None) -> dict[str, Any]:
    supplied = None if supply is None else supply * 150_000_000
    return {
        "low": low * 10**6,
        "high": high * 10**6,
        "count": count,
        "total": ms * 10**6,
        "supply": supply,
        "supply_total": supplied,
    }


def test_gaps_of_workers_that_have_work_by_length() -> None:
    buckets = [
        bucket(50, 100, 9, 700),
        bucket(100, 400, 3, 600, 1),
        bucket(400, 700, 1, 500, 0),
        bucket(700, 0, 1, 900),
    ]
    report = {
        "ranks": [
            {"process": "Worker dp0 (pid 1)", "role": "Worker dp0", "buckets": buckets},
            {"process": "EngineCore (pid 2)", "role": "EngineCore", "buckets": buckets},
        ]
    }
    found = users.idle(report)
    assert list(found) == ["Worker dp0 (pid 1)"]
    assert [(one["low"], one["count"], one["ms"]) for one in found["Worker dp0 (pid 1)"]] == [
        (100, 2, 450),
        (400, 1, 500),
    ]


def effect(arm: str, low: float | None, high: float | None) -> dict[str, Any]:
    return {
        "metric": "idle_ms",
        "arm": arm,
        "a": 900.0,
        "b": 1.0,
        "p_holm": 0.02,
        "verdict": "improved",
        "effect": {"ratio": 0.1, "low": low, "high": high, "blocks": 7},
    }


def test_a10_holds_where_the_engine_alone_removes_most_and_the_workers_alone_do_not() -> None:
    def gap(arm: str, many: int) -> dict[str, Any]:
        return {
            "arm": arm,
            "others": 0.1,
            "ranks": {"Worker (pid 1)": [{"low": 100, "high": 400, "count": many, "ms": 200 * many}]},
        }

    def words(
        engine: tuple[float | None, float | None], workers: tuple[float, float], left: int
    ) -> list[str]:
        effects = [effect("engine core alone", *engine), effect("workers alone", *workers)]
        gaps = [gap(arm, left if arm == "all" else 4) for arm in a10.ARMS]
        found = a10.judge({"effects": effects, "mechanisms": []}, gaps)
        return [one.word for one in found if one.bound]

    assert words((0.001, 0.02), (0.7, 1.2), 0) == ["holds", "holds", "holds"]
    assert words((0.001, 0.6), (0.4, 1.2), 1) == ["MISSED", "MISSED", "MISSED"]
    assert words((None, None), (0.7, 1.2), 0) == ["holds", "not measured", "holds"]


def rung(rate: float, p99: float, failures: int = 0, valid: bool = True) -> dict[str, Any]:
    return {
        "rate": rate,
        "offered": rate,
        "keeps_up": failures < 0.12 * rate,
        "requests": int(12 * rate),
        "failures": {"timeout": failures} if failures else {},
        "response": {"p99": p99},
        "valid": valid,
    }


def ladders(stock: list[dict[str, Any]], treated: list[dict[str, Any]]) -> list[dict[str, Any]]:
    def ceiling(rungs: list[dict[str, Any]]) -> float | None:
        return max((one["rate"] for one in rungs if c5.held(one, {"limit": 600})), default=None)

    role = {"full": 3, "longest_ms": 350.0, "quiet_s": 0.0, "busy_s": 0.0}
    return [
        {
            "turn": turn,
            "arm": arm,
            "rungs": rungs,
            "ceiling": ceiling(rungs),
            "roles": {"Engine": role, "Front": role},
        }
        for turn in (1, 2)
        for arm, rungs in {"stock": stock, "engine": treated, "front end": stock, "all": treated}.items()
    ]


def test_the_arms_of_c5_are_policies_by_role() -> None:
    assert [c5.policy_of(arm, c5.ROLES) for arm in c5.ARMS] == ["", "freeze@Engine", "freeze@Front", "freeze"]
    assert c5.policy_of("engine", doing.Options.roles) == "freeze@EngineCore+Worker"


def test_c5_is_judged_at_the_first_rate_that_stock_fails() -> None:
    settings = {"limit": 600.0, "seconds": 12.0, "deadline": 1.0}

    def words(stock: list[dict[str, Any]], treated: list[dict[str, Any]]) -> list[str]:
        return [one.word for one in c5.judge(ladders(stock, treated), settings) if one.bound]

    stock = [rung(200, 400), rung(225, 500), rung(250, 1000, 300), rung(275, 1000, 900)]
    good = [rung(200, 30), rung(225, 35), rung(250, 45), rung(275, 80)]
    assert words(stock, good) == ["holds"] * 3
    late = [rung(200, 30), rung(225, 35), rung(250, 400, 1), rung(275, 1000, 100)]
    assert words(stock, late) == ["MISSED", "MISSED", "holds"]
    assert words(stock, [*good[:2], rung(250, 45, valid=False), good[3]]) == ["not measured"] * 3
    drowned = [*stock[:3], rung(275, 1000, 900, valid=False)]  # beyond the first failing rate
    assert words(drowned, good) == ["holds"] * 3
    assert words(good, good) == ["not measured", "not measured", "MISSED"]
    # A turn that cannot be judged does not hide that the other one missed it.
    both = ladders(stock, late)
    for one in both[len(both) // 2 :]:
        one["rungs"] = [rung | {"valid": False} for rung in one["rungs"]]
    assert [one.word for one in c5.judge(both, settings) if one.bound][:2] == ["MISSED", "MISSED"]


def run(arm: str, longest: float, walked: int, cycles: list[str], **more: Any) -> dict[str, Any]:
    return {
        "arm": arm,
        "longest_ms": longest,
        "walked_in_longest": walked,
        "median_ms": 5.2,
        "spans": 5000,
        "full": int(bool(walked)),
        "full_ms": [longest] if walked else [],
        "young": 3,
        "young_most_ms": 1.0,
        "long": [{"ms": longest, "by": "a pass", "in_passes_ms": longest}] if longest > 100 else [],
        "attached": True,
        "closed": True,
        "tables": ["README.md", "gc_events.csv", "long_calls.csv", "runs.csv"],
        "cycles": [{"count": 9, "path": path} for path in cycles],
        **more,
    }


def test_b_holds_where_the_repaired_hook_leaves_no_pass_and_the_other_one_is_named() -> None:
    lines = b.TARGET.read_text().splitlines()
    line = next(n for n, text in enumerate(lines, 1) if "def timed" in text)
    path = f"Ticket -> __dict__['collect'] -> function timed (ticketed.py:{line}) -> cell original -> Ticket"
    head = {
        "rows": [{"effect": {"low": None, "high": None, "ratio": 0.1, "p": 0.03, "verdict": "improved"}}],
        "pairs": 6,
    }
    given = doing.Options(False, Path("paper-runs/b"))

    def words(found: Mapping[str, Any], repaired: Mapping[str, Any]) -> list[str]:
        judged = b.judge([repaired, found, found, repaired], head, b.Sizes(), given)
        return [one.word for one in judged if one.bound]

    found, repaired = run("found", 150.0, 600_000, [path]), run("repaired", 9.0, 0, [])
    assert words(found, repaired) == ["holds"] * 7
    other = path.replace(f":{line})", ":1)")
    unexplained = {"long": [{"ms": 130.0, "by": "", "in_passes_ms": 0.0}]}
    wrong = words(run("found", 150.0, 600_000, [other]), run("repaired", 130.0, 9, [path], **unexplained))
    assert wrong == ["MISSED"] * 5 + ["holds"] * 2


def test_a_long_step_is_explained_by_a_pass_another_process_the_host_or_nothing() -> None:
    def by(**row: Any) -> str:
        whole = {"duration": 120_000_000, "overlap": 0, "explained": False, "elsewhere": "", "host": None}
        return str(b.explained(whole | row)["by"])

    assert by(explained=True) == "a pass" and by(elsewhere="Engine (pid 3)") == "a pass of Engine (pid 3)"
    assert by(host={"kind": "run-queue"}) == "run-queue"
    assert by() == by(host={"kind": "unclear"}) == ""


def test_d8_holds_where_follow_walks_less_and_in_shorter_passes_than_a_heap_frozen_once() -> None:
    def role(longest: float, walked: int, unknown: int = 0) -> dict[str, Any]:
        known = {"walked": walked, "unknown": unknown}
        return {"longest_ms": longest, "pause_s": longest / 500, "full": 2, **known}

    def words(*follow: tuple[float, int, int]) -> list[str]:
        """Of the runs of ``follow``, what was recorded of the engine in each; of none, nothing was."""
        rows = [
            {"arm": arm, "roles": {"EngineCore": role(*sizes), "resource tracker": role(1.0, 9_000)}}
            for arm, sizes in (("stock", (250.0, 1_000_000)), ("freeze once", (80.0, 700_000)))
        ]
        rows += [{"arm": "follow", "roles": {"EngineCore": role(*sizes)}} for sizes in follow]
        rows += [] if follow else [{"arm": "follow", "roles": {}}]
        return [one.word for one in d8.judge({"effects": []}, rows) if one.bound]

    assert words((12.0, 500_000, 0)) == ["holds", "holds"]
    assert words((60.0, 1_100_000, 0)) == ["MISSED", "MISSED"]
    assert words((12.0, 500_000, 3)) == ["holds", "not measured"]
    assert words() == ["not measured", "not measured"]


def test_a14_counts_by_the_request() -> None:
    row = {"by_third": [[10.0], [], [30.0]], "walked": 3_000, "ours": 1}
    assert a14.per_request({"requests": 1000, "passes": {"Worker 0": row, "EngineCore 0": row}}) == {
        "full": 0.004,
        "ms": 20.0,
        "walked": 6.0,
        "ours": 2,
    }
    assert a14.thirds([1.0, 1.0, 2.0, 2.0, 4.0, 8.0]) == [1.0, 2.0, 6.0]


def test_a14_holds_without_growth_and_where_no_policy_walks_much_more() -> None:
    def arm(walked: int | None, gaps: list[list[float]], failed: int = 0) -> dict[str, Any]:
        row = {"by_third": [[100.0], [100.0], []], "walked": walked, "ours": 0}
        memory = {"Worker 0": [30.0, 30.0, 30.0]}
        return {
            "requests": 1000,
            "failed": failed,
            "memory": memory,
            "gaps": gaps,
            "passes": {"Worker 0": row},
        }

    def words(follow: dict[str, Any], freeze: dict[str, Any]) -> list[str]:
        grown = {"what": "memory", "bound": "4", "measured": "+0.1", "how": "", "passed": True}
        first = {
            "minutes": 30,
            "judged": [grown],
            "arms": {"stock": arm(10**6, [[], [], []]), "follow": follow},
        }
        second = {"minutes": 5, "arms": {"freeze": freeze}}
        return [one.word for one in a14.judge([first, second], (30.0, 5.0)) if one.bound]

    none: list[list[float]] = [[], [], []]
    assert words(arm(10**5, none), arm(10**5, none)) == ["holds"] * 4
    late = arm(10**5, [[], [150.0], [700.0, 800.0]])
    assert words(late, arm(2 * 10**6, none)) == ["holds", "MISSED", "holds", "MISSED"]
    assert words(arm(10**5, none, failed=1), arm(10**5, none))[2] == "MISSED"
    assert words(arm(10**5, none), arm(None, none))[3] == "not measured"


@pytest.mark.parametrize("arm", ["found", "repaired"])
def test_the_hook_of_b_leaves_its_cycle_as_found_and_none_repaired(arm: str, tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / str(number)).mkdir()
        seen = b.run_once(tmp_path / str(number), arm, b.Sizes(heap=2_000, warm_up=0.2, window=1.0))
        if arm == "repaired" or seen["cycles"]:
            break  # else a young pass came as the window ended, and has left nothing to be named
    assert seen["steps"] > 0 and seen["spans"] > 0 and seen["attached"] and seen["closed"]
    lines = b.TARGET.read_text().splitlines()
    line = next(n for n, text in enumerate(lines, 1) if "def timed" in text)
    paths = [kind["path"] for kind in seen["cycles"]]
    if arm == "found":
        assert any(path.startswith("Ticket -> ") and f"ticketed.py:{line})" in path for path in paths), paths
    else:
        assert paths == []


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_request_whose_client_has_left_is_served_by_no_step(tmp_path: Path) -> None:
    at = doing.port(tmp_path)
    command = [sys.executable, str(TARGETS / "two_processes.py"), str(at), "1000", "1000"]
    process = doing.run_under(tmp_path / "rec", command, log=tmp_path / "log")
    try:
        c5.await_ready(process, f"http://127.0.0.1:{at}/health", tmp_path / "log")
        (engine,) = [
            one for one in children(process.pid) if b"spawn_main" in Path(f"/proc/{one}/cmdline").read_bytes()
        ]
        os.kill(engine, signal.SIGSTOP)  # what is asked now waits
        asked = []
        for _ in range(40):
            asked.append(http.client.HTTPConnection("127.0.0.1", at, timeout=60))
            asked[-1].request("GET", "/")
        health = http.client.HTTPConnection("127.0.0.1", at, timeout=60)
        for turn in range(4):  # the loop has taken in what came before it answers
            for one in asked[turn * 10 : turn * 10 + 10] if turn < 3 else ():
                one.close()
            health.request("GET", "/health")
            assert health.getresponse().read() == b"ok"
        os.kill(engine, signal.SIGCONT)
        assert [one.getresponse().read() for one in asked[30:]] == [b"ok"] * 10
    finally:
        c5.stop(process)
    doing.sealed(tmp_path / "rec")
    report = doing.reported(tmp_path / "rec")
    steps = [one for one in report["grouping"]["groups"] if one["label"] == "engine step"]
    assert sum(one["batch_low"] * one["count"] for one in steps) == 10
    assert {one["role"] for one in report["processes"]} >= {"Engine", "Front"}
