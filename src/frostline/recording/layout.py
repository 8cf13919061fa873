"""numpy types of the records, derived from the tables in ``frostline.format``."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from frostline import format as fmt
from frostline.format import counts

Array = npt.NDArray[Any]
Int64 = npt.NDArray[np.int64]

_CODES = {"B": "u1", "H": "<u2", "I": "<u4", "Q": "<u8", "i": "<i4", "q": "<i8", "d": "<f8"}


def _dtype(fields: tuple[tuple[str, str, str], ...], size: int) -> np.dtype[Any]:
    names: list[str] = []
    formats: list[str] = []
    offsets: list[int] = []
    at = 0
    for name, code, _ in fields:
        names.append(name)
        formats.append("S" + code[:-1] if code.endswith("s") else _CODES[code])
        offsets.append(at)
        at += struct.calcsize("<" + code)
    names.append("commit")
    formats.append("<u8")
    offsets.append(size - 8)
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": size})


#: What is in the file, by region kind.
RECORD = {kind: _dtype(fields, size) for kind, size, fields in fmt.RECORDS}
RECORD_SIZE = {kind: size for kind, size, _ in fmt.RECORDS}

#: What the reader keeps of a pass: times signed, so that their differences are; ``thread`` is an
#: index, the same as in spans; what cannot be large is narrow, since there may be millions.
PASS = np.dtype(
    [
        ("start", "i8"),
        ("stop", "i8"),
        ("begin", "i8"),
        ("end", "i8"),
        ("collected", "i4"),
        ("candidates", "i4"),
        ("duration", "f4"),
        ("count0", "i4"),
        ("count1", "i4"),
        ("count2", "i4"),
        ("threshold0", "i4"),
        ("threshold1", "i4"),
        ("threshold2", "i4"),
        ("tid", "u4"),
        ("uncollectable", "u4"),
        ("trigger_file", "u4"),
        ("trigger_line", "u4"),
        ("trigger_function", "u4"),
        ("others", "u2"),
        ("thread", "u2"),
        ("generation", "u1"),
        ("flags", "u1"),
    ]
)
MARK = np.dtype(
    [(name, "i8" if code == "Q" and name != "thread" else _CODES[code]) for name, code, _ in fmt.MARK_FIELDS]
)

#: Readings of the collector's counters, as in the file.
COUNTED = np.dtype([(name, "i8" if code == "Q" else _CODES[code]) for name, code, _ in counts.FIELDS])

#: What the reader keeps of a span: 24 bytes, so that ten million fit well under 1 GiB.
SPAN_COLUMNS = (
    ("start", "i8"),
    ("stop", "i8"),
    ("label", "u4"),
    ("thread", "u2"),
    ("kind", "u1"),
    ("flags", "u1"),
)
#: Of the spans that tell more (``format.told``), else 0: zeroed pages that nobody fills cost nothing.
SPAN_TOLD = (("batch", "i4"), ("group", "u4"))
