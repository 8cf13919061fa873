"""``--span 'module:name=label batch=len(args[1].requests)'``: a path, never code (B1, B11)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frostline.format import told
from frostline.probe import paths
from frostline.probe.presets import parse_spans
from tests.interpreters import SOURCE, Interpreter, every_interpreter
from tests.probe_spans.reading import ran_well, spans, wrapped
from tests.probe_spans.test_telling import package, stage_and_batch

ASKED = """
class Batch:
    __slots__ = ("requests", "mode")
    def __init__(self, n): self.requests, self.mode = [None] * n, "Decode" if n > 1 else "prefill"

class Engine:
    def __init__(self): self.model = "tiny"
    def step(self, batch): return {"tokens": 1}
    @property
    def property(self): raise SystemExit("looked at")
"""


@every_interpreter
def test_a_span_that_is_asked_for_tells_what_its_paths_lead_to(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    package(tmp_path, "asked.engine", ASKED)
    where = "asked.engine:Engine.step"
    program = """
        import gc
        from asked.engine import Batch, Engine
        from frostline.heap.promises import Released
        gc.collect(); gc.disable()
        engine, gone = Engine(), Released()
        for n in (1, 5):
            batch = Batch(n); gone(engine)
            assert engine.step(batch) == {"tokens": 1}
        engine.step("no batch"); engine.step(batch=batch)
        del engine
        gone.check()
        """
    for number, (words, expected) in enumerate(
        (
            (
                "batch=len(args[1].requests) stage=args[1].mode group=args[0].model",
                [(told.PREFILL, 1, "tiny"), (told.DECODE, 5, "tiny"), (0, -1, ""), (0, -1, "")],
            ),
            ("batch=len(result)", [(0, 1, "")] * 4),
            ("group=args[0].property stage=args[7]", [(0, -1, "")] * 4),
            ("batch=len(args[0])", [(0, -1, "")] * 4),
        )
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        ran, series = ran_well(
            interpreter,
            folder,
            program,
            FROSTLINE_SPANS=f"{where}=my step {words}",
            PYTHONPATH=f"{tmp_path}:{SOURCE}",
        )
        found = [
            (*stage_and_batch(span), series.names.get(span["value1"], "")) for span in spans(ran, "my step")
        ]
        assert found == expected, words
        assert wrapped(series) == {where: "my step"}


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("batch=args[1", "neither"),
        ("batch=len(args[1]", "no '\\)'"),
        ("batch=open('x')", "neither"),
        ("batch=args[1].a()", "not a Python name"),
        ("batch=args[99]", "so many"),
        ("size=args[1]", "batch, stage, group"),
        ("batch=result batch=args[0]", "twice"),
        ("batch=", "neither"),
    ],
)
def test_a_wrong_path_is_answered_with_the_form(words: str, meant: str) -> None:
    with pytest.raises(ValueError, match=meant):
        parse_spans(f"pkg:f=label {words}")


@given(st.text(max_size=30))
def test_any_other_text_is_a_label_or_a_value_error(text: str) -> None:
    try:
        label, _ = paths.split(text)
    except ValueError:
        return
    assert text.startswith(label)


def test_a_class_that_makes_something_of_its_dictionary_is_not_asked() -> None:
    class Guarded:
        @property
        def __dict__(self) -> dict[str, object]:  # type: ignore[override]
            raise SystemExit("looked at")

    with pytest.raises(AttributeError):
        paths.follow(paths.parse("args[0].name"), (Guarded(),), None)
