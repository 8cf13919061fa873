"""The policy grammar: what is accepted, and that nonsense is refused with what was meant (A1, A4, C3)."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from frostline.policy.grammar import (
    BOUNDARIES,
    EXAMPLES,
    KINDS,
    LONGEST_TEXT,
    MAJORS,
    OPTIONS,
    Policy,
    parse,
)


@pytest.mark.parametrize(
    ("text", "kind", "thresholds"),
    [
        ("off", "off", None),
        (" freeze ", "freeze", None),
        ("tune:50000,20,100", "tune", (50000, 20, 100)),
        ("tune: 0 , 0 , 0", "tune", (0, 0, 0)),
        ("freeze,thresholds=700/10/1000", "freeze", (700, 10, 1000)),
    ],
)
def test_accepts(text: str, kind: str, thresholds: tuple[int, int, int] | None) -> None:
    policy = parse(text)
    assert (policy.kind, policy.thresholds) == (kind, thresholds)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("follow", {"budget": 50_000, "budget_ns": 0, "major": "idle"}),
        ("follow,budget=20000,major=force", {"budget": 20_000, "major": "force"}),
        (
            "follow, budget = 5ms , thresholds=700/10/10",
            {"budget_ns": 5_000_000, "thresholds": (700, 10, 10)},
        ),
        ("Follow,major=never", {"major": "never"}),
        ("idle", {"deadline": 60_000_000_000}),
        ("idle,deadline=5min", {"deadline": 300_000_000_000}),
        ("sync:100", {"every": 100}),
        ("sync:1,thresholds=1/2/3", {"every": 1, "thresholds": (1, 2, 3)}),
        ("periodic:60s", {"every": 60_000_000_000}),
        ("periodic: 1h", {"every": 3_600_000_000_000}),
        ("freeze", {"boundary": ""}),
        ("freeze,boundary=ready", {"boundary": "ready"}),
        ("prefork, boundary = program ,thresholds=700/10/10", {"boundary": "program"}),
        ("periodic:1s,boundary=ready", {"every": 1_000_000_000, "boundary": "ready"}),
        ("idle,boundary=ready,deadline=1s", {"boundary": "ready", "deadline": 1_000_000_000}),
    ],
)
def test_accepts_options(text: str, named: dict[str, object]) -> None:
    policy = parse(text)
    assert {name: getattr(policy, name) for name in named} == named


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "unknown policy"),
        ("freez", "did you mean 'freeze'"),
        ("thaw", "policies are"),
        ("prefork:4", "takes no value"),
        ("prefrok", "did you mean 'prefork'"),
        ("prefork,budget=500", "has no option"),
        ("tune", "three whole numbers"),
        ("tune:1,2", "three whole numbers"),
        ("tune:-1,2,3", "three whole numbers"),
        ("tune:1,2,3,4", "three whole numbers"),
        ("tune:1.5,2,3", "three whole numbers"),
        ("tune:a,b,c", "three whole numbers"),
        ("tune:\u0661,2,3", "three whole numbers"),
        ("tune:99999999999999999999,1,1", "at most"),
        ("freeze:now", "takes no value"),
        ("freeze,budget", "has no option .budget."),
        ("freeze,bugdet=1", "unknown option"),
        ("freeze,thresholds=1/2", "three whole numbers"),
        ("off,thresholds=1/2/3", "takes no options"),
        ("follow,budget=", "a whole number and ms"),
        ("follow,budget=-5", "a whole number and ms"),
        ("follow,budget=99", "from 100 to"),
        ("follow,budget=" + "9" * 150, "from 100 to"),
        ("follow,budget=" + "9" * 5000, "at most 200 bytes"),
        ("follow,budget=5", "from 100 to"),
        ("follow,budget=5us", "a whole number and ms"),
        ("follow,budget=0ms", "from 1ms"),
        ("follow,budget=1.5ms", "a whole number and ms"),
        ("follow,major=always", "idle, never or force"),
        ("follow,major", "has no value"),
        ("follow,major=idle,major=never", "stands twice"),
        ("follow,deadline=5s", "has no option"),
        ("freeze,major=idle", "has no option"),
        ("freeze,boundary=", "boundary is program"),
        ("freeze,boundary", "has no value"),
        ("freeze,boundary=-1", "boundary is program"),
        ("freeze,boundary=Ready", "boundary is program"),
        ("follow,boundary=import:app", "boundary is program"),
        ("freeze,boundary=ready,boundary=ready", "stands twice"),
        ("sync:5,boundary=ready", "has no option"),
        ("off,boundary=ready", "takes no options"),
        ("freeze,boundary=" + "r" * 10_000, "at most 200 bytes"),
        ("freeze" + ",thresholds=1/2/3" * 10_000, "at most 200 bytes"),
        ("\u20ac" * 70, "at most 200 bytes"),
        ("follow:5ms", "takes no value"),
        ("folow", "did you mean 'follow'"),
        ("folllow,major=idle", "did you mean 'follow'"),
        ("sinc:5", "did you mean 'sync'"),
        ("freeze,treshold=1/2/3", "did you mean 'thresholds'"),
        ("follow,bugdet=5ms", "did you mean 'budget'"),
        ("follow,major=idel", "did you mean 'idle'"),
        ("freeze,boundary=redy", "did you mean 'ready'"),
        ("thresholds=700/10/1000", "stands behind a policy, as in freeze,thresholds"),
        ("deadline=5s", "as in idle,deadline"),
        ("sync", "sync:100"),
        ("sync:0", "from 1 to"),
        ("sync:-1", "from 1 to"),
        ("sync:ten", "from 1 to"),
        ("periodic", "periodic:60s"),
        ("periodic:60", "periodic:60s"),
        ("periodic:0s", "from 1ms"),
        ("periodic:999999d", "periodic:60s"),
        ("idle,deadline=1e9s", "deadline=60s"),
        ("idle,", "unknown option"),
    ],
)
def test_refuses_with_what_was_meant(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse(text)


def check(text: str) -> None:
    """A policy, and read again it is the same; or a refusal that says something, and not everything."""
    try:
        policy = parse(text)
    except ValueError as error:
        assert 10 < len(str(error)) < 2_000 and "invalid literal" not in str(error)
        return
    again = parse(policy.text)
    assert all(getattr(again, name) == getattr(policy, name) for name in Policy.__slots__)
    assert len(policy.text.encode()) <= LONGEST_TEXT and policy.kind in KINDS
    assert policy.budget >= 100 and policy.every >= 0 and policy.deadline > 0 and policy.budget_ns >= 0


@given(st.text(max_size=40) | st.text(st.characters(), min_size=190, max_size=300))
@example("\ud800")
@example("freeze\0")
def test_any_text_is_a_policy_or_a_clear_refusal(text: str) -> None:
    check(text)


_NAMES = st.sampled_from([*KINDS, *EXAMPLES, "tuned", ""])
_PLAIN = ["", "1", "-1", "0", "5ms", "60s", "1/2/3", "1,2,3", "idle", "force", "ready", "program", "9" * 30]
_VALUES = st.sampled_from([*_PLAIN, "\u0665", " 7 ", "1e3", "\ud800"])


@given(_NAMES, _VALUES, st.lists(st.tuples(_NAMES, st.sampled_from(["=", "", ":"]), _VALUES), max_size=3))
def test_a_text_of_the_right_words_is_a_policy_or_a_clear_refusal(
    kind: str, value: str, options: list[tuple[str, str, str]]
) -> None:
    check(",".join([f"{kind}:{value}" if value else kind, *("".join(option) for option in options)]))


@given(st.data(), st.sampled_from(KINDS))
def test_one_slip_is_understood(data: st.DataObject, kind: str) -> None:
    """A letter left out, doubled, changed, or two that have changed places."""
    at = data.draw(st.integers(0, len(kind) - 1))
    slips = {
        kind[:at] + kind[at + 1 :],
        kind[:at] + kind[at] + kind[at:],
        kind[:at] + data.draw(st.sampled_from("abcxyz")) + kind[at + 1 :],
        kind[:at] + kind[at + 1 : at + 2] + kind[at] + kind[at + 2 :],
    }
    for slip in slips - set(KINDS):
        with pytest.raises(ValueError, match=f"did you mean '{kind}'"):
            parse(slip)


@pytest.mark.parametrize("word", ["thaw", "x", "", "gunicorn", "on", "none", "collect", "f"])
def test_another_word_is_not_taken_for_a_slip(word: str) -> None:
    with pytest.raises(ValueError, match="unknown policy") as refused:
        parse(word)
    assert "did you mean" not in str(refused.value)


_OPTIONS = {
    "thresholds": st.tuples(*[st.integers(0, 2**31 - 1)] * 3).map(lambda three: "/".join(map(str, three))),
    "budget": st.integers(100, 2**31 - 1).map(str) | st.integers(1, 10**6).map("{}ms".format),
    "major": st.sampled_from(MAJORS),
    "deadline": st.integers(1, 43_200).map("{}min".format),
    "boundary": st.sampled_from(BOUNDARIES),
}


@given(st.data(), st.sampled_from([kind for kind in KINDS if OPTIONS[kind]]))
def test_every_policy_that_follows_the_grammar_is_taken(data: st.DataObject, kind: str) -> None:
    names = data.draw(st.lists(st.sampled_from(OPTIONS[kind]), unique=True))
    head = {"sync": "sync:7", "periodic": "periodic:60s"}.get(kind, kind)
    text = ",".join([head, *(f"{name}={data.draw(_OPTIONS[name])}" for name in names)])
    assert parse(text).text == text
    check(f"  {text.upper() if not names else text} ")


@pytest.mark.parametrize(
    ("text", "roles", "others"),
    [
        ("follow@EngineCore", ("EngineCore",), False),
        ("freeze,thresholds=700/10/1000 @ EngineCore + Worker", ("EngineCore", "Worker"), False),
        ("tune:50000,20,100@!APIServer", ("APIServer",), True),
        ("freeze", (), False),
    ],
)
def test_says_whom_it_is_for(text: str, roles: tuple[str, ...], others: bool) -> None:
    policy = parse(text)
    assert (policy.roles, policy.others, policy.text) == (roles, others, text)


@pytest.mark.parametrize(
    "text", ["freeze@", "freeze@!", "freeze@A+", "freeze@A@B", "freeze@A,budget=5", "off@A"]
)
def test_refuses_a_name_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="@"):
        parse(text)
