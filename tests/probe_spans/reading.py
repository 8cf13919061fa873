"""What the tests here ask of a recording."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from frostline import format as layout
from frostline.recording.model import Series
from tests.interpreters import Interpreter
from tests.probe.target import Ran, run


def labels(series: Series) -> Counter[str]:
    """How many spans there are of each label."""
    return Counter(series.names[int(number)] for number in series.spans["label"])


def spans(series: Series, label: str) -> list[dict[str, int]]:
    """The spans of one label, in order of their ends."""
    chosen = [
        {name: int(column[index]) for name, column in series.spans.items()}
        for index in range(len(series.spans["label"]))
        if series.names[int(series.spans["label"][index])] == label
    ]
    return sorted(chosen, key=lambda span: span["stop"])


def texts(series: Series, kind: int) -> dict[str, str]:
    """Target -> label (wrapped) or reason (refused), from the marks."""
    return {
        series.names[mark.values[0]]: series.names[mark.values[1]]
        for mark in series.marks
        if mark.kind == kind
    }


def wrapped(series: Series) -> dict[str, str]:
    return texts(series, layout.MARK_WRAPPED)


def refused(series: Series) -> dict[str, str]:
    return texts(series, layout.MARK_REFUSED)


def ran_well(interpreter: Interpreter | str, tmp_path: Path, text: str, **more: str) -> tuple[Ran, Series]:
    """Runs a target that must end well and silently, in one process."""
    settings = {"FROSTLINE_PRESETS": "none", "PYTHONDONTWRITEBYTECODE": "1", **more}
    ran = run(interpreter, tmp_path, text, **settings)
    assert ran.code == 0, ran.errors
    assert ran.errors == ""
    (series,) = ran.session.series
    return ran, series
