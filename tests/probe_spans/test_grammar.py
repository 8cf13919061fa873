"""``--span`` and ``--preset``: what is understood, and what a mistake is answered with."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frostline.probe.imports import PRESET_MODULES
from frostline.probe.presets import PRESETS, parse_presets, parse_spans

NAME = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True)
DOTTED = st.lists(NAME, min_size=1, max_size=3).map(".".join)
LABEL = st.text(st.characters(blacklist_characters=";*", blacklist_categories=("C", "Z")), min_size=1)


@given(st.lists(st.tuples(DOTTED, DOTTED, LABEL), min_size=1, max_size=4))
def test_what_is_written_is_read(items: list[tuple[str, str, str]]) -> None:
    text = ";".join(f"{module}:{name}={label}" for module, name, label in items)
    assert parse_spans(text) == [(module, name, label) for module, name, label in items]
    bare = " ; ".join(f" {module}:{name} " for module, name, _ in items) + ";"
    assert parse_spans(bare) == [(module, name, name) for module, name, _ in items]


@given(st.text(max_size=40))
def test_anything_else_is_a_value_error(text: str) -> None:
    try:
        parse_spans(text)
    except ValueError as error:
        assert "span" in str(error)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("pkg.mod.f", "pkg.mod:f"),
        ("pkg.mod.Class.step", "pkg.mod.Class:step"),
        ("f", "module:qualname"),
        ("pkg:Class:method", "module:Class.method"),
        (":f", "no module before"),
        ("pkg:", "no name after"),
        ("pkg:f()", "pkg:f"),
        ("pkg:*", "patterns"),
        ("pkg:f=", "no label"),
        ("pkg/mod.py:f", "not by its file"),
        ("pkg:a-b", "not a Python name"),
    ],
)
def test_a_mistake_is_answered_with_what_was_meant(text: str, meant: str) -> None:
    with pytest.raises(ValueError, match="span") as raised:
        parse_spans(f"ok:f;{text}")
    assert meant in str(raised.value)


def test_presets() -> None:
    assert parse_presets("auto") == tuple(PRESET_MODULES)
    assert parse_presets("none") == parse_presets("") == ()
    assert parse_presets("vllm, asgi") == ("vllm", "asgi")
    for wrong, meant in (("vlm", "vllm"), ("auto,vllm", "alone"), ("none,vllm", "alone")):
        with pytest.raises(ValueError, match=meant):
            parse_presets(wrong)


def test_the_module_list_and_the_tables_agree() -> None:
    """The list is apart because it is loaded in every process, the tables are not."""
    assert {preset: tuple(table) for preset, table in PRESETS.items()} == PRESET_MODULES
    modules = [module for table in PRESETS.values() for module in table]
    assert len(modules) == len(set(modules))
    for table in PRESETS.values():
        for module, targets in table.items():
            assert parse_spans(";".join(f"{module}:{name}={label}" for name, label in targets))
