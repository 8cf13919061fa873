"""Plans: nonsense is refused before anything starts, and the arms are what the roles say (A10)."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frostline.errors import FrostlineError
from frostline.experiment.ablation.doing import estimate
from frostline.experiment.ablation.plan import arm_of, of, of_roles, read

GOOD: dict[str, Any] = {
    "server": {"command": "serve --port 1", "ready-url": "http://127.0.0.1:1/"},
    "load": {"url": "http://127.0.0.1:1/", "rate": 5},
    "run": {"window": "2min"},
    "arms": {"policy": "follow", "roles": ["Front", "Engine", "Worker"]},
}


def test_the_arms_are_none_each_alone_all_but_one_and_all() -> None:
    plan = of(GOOD)
    assert [(arm.name, arm.given) for arm in plan.arms] == [
        ("none", ""),
        ("Front alone", "follow@Front"),
        ("Engine alone", "follow@Engine"),
        ("Worker alone", "follow@Worker"),
        ("all but Front", "follow@Engine+Worker"),
        ("all but Engine", "follow@Front+Worker"),
        ("all but Worker", "follow@Front+Engine"),
        ("all", "follow@Front+Engine+Worker"),
    ]
    assert plan.window == 120 and plan.screened and plan.compared == 3
    assert plan.blocks == plan.least == 7, "2 / 2^7 <= 0.05 / 3"
    assert estimate(plan)[0] == 8 + 7 * 2 * 4


@given(st.lists(st.text("ABC", min_size=1, max_size=3), max_size=6))
def test_arms_have_names_of_their_own(roles: list[str]) -> None:
    arms = of_roles("freeze", roles)
    assert len({arm.name for arm in arms}) == len(arms) and arms[0].given == ""
    assert len({arm.given for arm in arms}) == len(arms) >= 2


def change(path: str, value: object) -> dict[str, Any]:
    data = copy.deepcopy(GOOD)
    place, _, key = path.rpartition(".")
    table = data.setdefault(place, {}) if place else data
    if value is None:
        del table[key]
    else:
        table[key] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("sever", {}, "has no 'sever'"),
        ("server", 3, "server is no table"),
        ("server.command", None, "no command"),
        ("server.command", "a 'b", "command: No closing"),
        ("server.command", [1], "not a list of texts"),
        ("server.ready-url", None, "when it is ready"),
        ("server.ready-after", "1s", "exclude each other"),
        ("server.ready-url", "127.0.0.1:1", "is no URL"),
        ("server.env", {"FROSTLINE_POLICY": "x"}, "FROSTLINE_POLICY"),
        ("server.cpus", "all", "names no CPUs"),
        ("server.patience", "soon", "is no time"),
        ("load.command", "x", "not both"),
        ("load.rate", 0, "no number of requests"),
        ("load.url", "127.0.0.1:8000", "is none"),
        ("load.url", "http://127.0.0.1:80o0", "is none"),
        ("load.metrics", {"p95": "lower"}, "measures no 'p95'"),
        ("load.metrics", {"p99": ["lower"]}, "higher or lower"),
        ("load.options", "--api chat --seconds=20", "options have --seconds=20"),
        ("load.tag", "x", "has tag, which does nothing beside url"),
        ("load.beside", ["a"], "is no text"),
        ("load.metrics", {"p99": "good"}, "higher or lower"),
        ("run.blocks", 2.5, "no whole number"),
        ("run.tries", 0, "no whole number"),
        ("run.window", 0, "window is empty"),
        ("run.keep", "no", "neither true nor false"),
        ("run.margin", 2.0, "is no share"),
        ("run.margin", "2%", "is no share"),
        ("arms.policy", "", "is no text"),
        ("arm", [{"name": "a"}], "not both"),
        ("arms", None, "give [arms]"),
    ],
)
def test_nonsense_is_refused(path: str, value: object, said: str) -> None:
    with pytest.raises(FrostlineError) as caught:
        of(change(path, value))
    assert caught.value.slug == "ablate-plan" and caught.value.exit_code == 2 and said in caught.value.message


@pytest.mark.parametrize(
    ("arms", "said"),
    [
        ([{"name": "a"}], "only one arm"),
        ([{"name": "a"}, {"name": "a"}], "the same name"),
        ([{"name": "a"}, {"policy": "freeze"}], "needs a name"),
        ([{"name": "a", "polcy": "x"}, {"name": "b"}], "has no 'polcy'"),
        ("x", "no list of tables"),
    ],
)
def test_arms_one_by_one_are_checked(arms: object, said: str) -> None:
    data = {name: table for name, table in GOOD.items() if name != "arms"} | {"arm": arms}
    with pytest.raises(FrostlineError) as caught:
        of(data)
    assert said in caught.value.message


def test_a_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("[server\n")
    for name in ("bad.toml", "none.toml"):
        with pytest.raises(FrostlineError) as caught:
            read(tmp_path / name)
        assert caught.value.slug == "ablate-plan" and name in caught.value.message


def test_an_experiment_that_an_earlier_version_began_goes_on() -> None:
    server, load = {"command": "serve", "ready-after": 1}, {"command": "ask", "metrics": {"x": "higher"}}
    arms = [{"name": "none"}, {"name": "freeze", "policy": "freeze"}]
    assert of({"server": server, "load": load, "arm": arms}).name == "190ac1037dcb76c8"


def test_more_blocks_are_the_same_experiment_and_another_load_is_not() -> None:
    assert of(GOOD).name == of(change("run.blocks", 40)).name
    assert of(GOOD).name != of(change("load.beside", "ask again")).name
    assert of(GOOD).name != of(change("load.rate", 6)).name


def test_a_policy_for_some_is_for_them_also_where_no_role_is_named() -> None:
    (_, every) = of_roles("follow,budget=5ms@Engine+Worker", ())
    assert (every.roles, every.given) == (("Engine", "Worker"), "follow,budget=5ms@Engine+Worker")
    assert arm_of("freeze@!Front", "b").given == "freeze@!Front" and arm_of("", "none").given == ""


def test_what_is_of_the_other_kind_of_load_is_refused() -> None:
    data = change("load", {"command": "ask", "metrics": {"x": "lower"}, "rate": 20})
    with pytest.raises(FrostlineError, match="has rate, which does nothing beside command"):
        of(data)
