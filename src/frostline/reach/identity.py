"""Who a process says it is, from the first segment of its series: for the helper's one line."""

import os
import struct
from typing import Any

from frostline import format as layout
from frostline.format import naming
from frostline.reach import segments

_MARK = struct.Struct(layout.MARK)
_NAME = struct.Struct(layout.NAME)
_MARK_NAMES = [name for name, _, _ in layout.MARK_FIELDS]
_FROM = {
    layout.IDENTITY_PROGRAM: "role",
    layout.IDENTITY_TITLE: "title",
    layout.IDENTITY_MULTIPROCESSING: "multiprocessing",
    layout.IDENTITY_MODULE: "module",
}


def identity(path: str) -> dict[str, Any]:
    """``role``, ``rank``, ``title``, ``multiprocessing``, ``module``: those that are known."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return {}
    header = segments.parse_header(data[: layout.HEADER_SIZE])
    if header is None:
        return {}
    found: dict[str, Any] = {}
    if "module" in header.text:
        found["module"] = header.text["module"][0]
    names: dict[int, str] = {}
    marks = []
    for region in header.regions:
        for slot in range(region.capacity):
            at = region.offset + slot * region.record_size
            record = data[at : at + region.record_size]
            if record[-8:] != (slot + 1).to_bytes(8, "little"):
                continue
            if region.kind == layout.REGION_NAMES and region.record_size == layout.NAME_SIZE:
                number, _, length, text = _NAME.unpack_from(record)
                names[number] = text[:length].decode("utf-8", "replace")
            elif region.kind == layout.REGION_MARKS and region.record_size == layout.MARK_SIZE:
                mark = dict(zip(_MARK_NAMES, _MARK.unpack_from(record), strict=True))
                if mark["kind"] == layout.MARK_IDENTITY:
                    marks.append(mark)
    for mark in marks:
        where = _FROM.get(mark["c"])
        text = names.get(mark["a"], "")
        if where and text:
            found[where] = text
        if mark["b"] >= 0:
            found["rank"] = mark["b"]
    return found


def name_of(path: str, argv: list[str], title: str) -> str:
    """The process's name without its pid, by the one rule that names have (A7)."""
    known = identity(path)
    script = ""
    if not known.get("module"):
        script = _what_runs(argv)
    return naming.process_role(
        known.get("role", ""),
        known.get("rank"),
        title or known.get("title", ""),
        known.get("multiprocessing", ""),
        known.get("module", "") or script,
        tuple(argv),
    )


def _what_runs(argv: list[str]) -> str:
    from frostline.reach.missed import options
    from frostline.reach.proc import is_interpreter

    if not argv or not is_interpreter(os.path.basename(argv[0])):
        return ""
    return options(argv).target
