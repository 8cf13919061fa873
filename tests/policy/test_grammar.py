"""The policy grammar: what is accepted, and that nonsense is refused with what was meant (A1, A4, C3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frostline.policy.grammar import parse


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
    ("text", "said"),
    [
        ("", "unknown policy"),
        ("freez", "did you mean 'freeze'"),
        ("thaw", "policies are"),
        ("prefork", "not in this version"),
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
    ],
)
def test_refuses_with_what_was_meant(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse(text)


@given(st.text(max_size=40))
def test_any_text_is_a_policy_or_a_clear_refusal(text: str) -> None:
    try:
        policy = parse(text)
    except ValueError as error:
        assert len(str(error)) > 10
    else:
        assert parse(policy.text).thresholds == policy.thresholds
