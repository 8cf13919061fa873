"""What the tests here ask of a recording."""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path

from frostline import format as layout
from frostline.recording.model import Series
from tests.interpreters import Interpreter
from tests.probe.target import Ran, run


def labels(series: Series) -> Counter[str]:
    """How many spans there are of each label."""
    return Counter(series.names[int(number)] for number in series.spans["label"])


def spans(ran: Ran, label: str) -> list[dict[str, int]]:
    """The spans of one label, in order of their ends, with every field."""
    (series,) = ran.session.series
    return [span for span in raw_spans(ran.folder) if series.names[span["label"]] == label]


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


def raw_spans(folder: Path) -> list[dict[str, int]]:
    """Every field of every span, straight from the segments: the reader leaves out what no report uses."""
    found: list[dict[str, int]] = []
    for path in [*folder.glob(f"*{layout.SUFFIX}"), *(folder / layout.ACTIVE_LINK).glob(f"*{layout.SUFFIX}")]:
        data = path.read_bytes()
        names = [name for name, _, _ in layout.HEADER_FIELDS]
        header = dict(zip(names, struct.unpack_from(layout.HEADER, data), strict=True))
        for number in range(header["regions"]):
            at = layout.REGION_TABLE + number * struct.calcsize(layout.REGION)
            kind, size, offset, capacity = struct.unpack_from(layout.REGION, data, at)
            if kind != layout.REGION_SPANS:
                continue
            for slot in range(capacity):
                *values, commit = struct.unpack_from(layout.SPAN + "Q", data, offset + slot * size)
                if commit == slot + 1:
                    found.append(dict(zip((n for n, _, _ in layout.SPAN_FIELDS), values, strict=True)))
    return sorted(found, key=lambda span: span["stop"])
