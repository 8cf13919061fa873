"""What a process says of itself in its marks and names: who it is, and what is in force in it.

For the helper's one line and for ``status``, which must be quick on a session of any size:
passes and spans are not read.
"""

import struct
from typing import Any, NamedTuple

from frostline import format as layout
from frostline.format import naming
from frostline.reach import files, proc, segments
from frostline.reach.missed import options

#: Threshold 2 as ``sync`` sets it at the first step.
_HELD_BACK = 2**31 - 1
_MARK = struct.Struct(layout.MARK)
_NAME = struct.Struct(layout.NAME)
_MARK_NAMES = [name for name, _, _ in layout.MARK_FIELDS]
_SOURCES = {
    layout.IDENTITY_PROGRAM: "role",
    layout.IDENTITY_TITLE: "title",
    layout.IDENTITY_MULTIPROCESSING: "multiprocessing",
    layout.IDENTITY_MODULE: "module",
}


class Facts(NamedTuple):
    """One series, as far as its marks tell."""

    identity: dict[str, Any]
    #: The last thresholds seen, None if none were.
    thresholds: "tuple[int, int, int] | None"
    enabled: bool
    #: Monotonic ns of the freeze that is in force, 0 if none is.
    frozen_since: int
    #: Whether there was a freeze, and a thaw after it.
    thawed: bool
    #: Of the last freeze.
    frozen_by_us: bool
    #: Whether the freeze was a splice, without a collect before.
    spliced: bool
    boundary: int
    #: Who told it: 1 the program, 2 a supervisor, 3 an integration; and whether it came late.
    boundary_by: int
    boundary_late: bool
    policy: str
    dead_collector: bool
    #: What the policy waits for and nobody has told so far: "steps", "requests", or nothing.
    awaits: str
    #: Of a forked child that has thawed nothing since: when, and the pid and series of its parent.
    forked: "tuple[int, int, int] | None"
    header: "segments.Header | None"


def read(paths: list[str], until: "int | None" = None) -> Facts:
    """Reads the marks of one series.

    Args:
        paths: its segments, the first one first. Those that hold no marks cost a page each.
        until: as it was then, monotonic ns.
    """
    names: dict[int, str] = {}
    marks: list[dict[str, int]] = []
    header = None
    for path in paths:
        found = segments.read_header(path)
        if found is None:
            continue
        header = header or found
        if any(region.kind in (layout.REGION_NAMES, layout.REGION_MARKS) for region in found.regions):
            _read_segment(path, found, names, marks)
    if until is not None:
        marks = [mark for mark in marks if mark["time"] <= until]
    marks.sort(key=lambda mark: mark["time"])
    return _judge(marks, names, header)


def _read_segment(
    path: str, header: segments.Header, names: dict[int, str], marks: list[dict[str, int]]
) -> None:
    try:
        data = files.read(path)
    except OSError:
        return
    for region in header.regions:
        for slot in region.slots(len(data)):
            at = region.offset + slot * region.record_size
            record = data[at : at + region.record_size]
            if record[-8:] != (slot + 1).to_bytes(8, "little"):
                continue
            if region.kind == layout.REGION_NAMES and region.record_size == layout.NAME_SIZE:
                number, _, length, text = _NAME.unpack_from(record)
                names[number] = text[:length].decode("utf-8", "replace")
            elif region.kind == layout.REGION_MARKS and region.record_size == layout.MARK_SIZE:
                marks.append(dict(zip(_MARK_NAMES, _MARK.unpack_from(record), strict=True)))


def _judge(marks: list[dict[str, int]], names: dict[int, str], header: "segments.Header | None") -> Facts:
    identity: dict[str, Any] = {}
    if header is not None and "module" in header.text:
        identity["module"] = header.text["module"][0]
    policy = header.text.get("policy", [""])[0] if header is not None else ""
    thresholds: tuple[int, int, int] | None = None
    enabled, dead, spliced, by_us = True, False, False, False
    frozen = boundary = told_by = 0
    thawed = late = False
    forked: tuple[int, int, int] | None = None
    stepped = moments_awaited = False
    for mark in marks:
        kind = mark["kind"]
        if kind == layout.MARK_LINE and mark["a"] in (layout.LINE_AWAITS, layout.LINE_TOLD):
            moments_awaited = mark["a"] == layout.LINE_AWAITS
        if kind == layout.MARK_IDENTITY:
            where, text = _SOURCES.get(mark["c"]), names.get(mark["a"], "")
            if where and text:
                identity[where] = text
            if mark["b"] >= 0:
                identity["rank"] = mark["b"]
        elif kind == layout.MARK_FORKED:
            identity["forked"] = True
            forked = mark["time"] - mark["c"], mark["a"], mark["b"]
        elif kind == layout.MARK_FREEZE:
            frozen = mark["time"]
            thawed = False
            spliced = bool(mark["flags"] & layout.MARK_FLAG_SPLICE)
            by_us = bool(mark["flags"] & layout.MARK_FLAG_OURS)
        elif kind == layout.MARK_THAW:
            thawed = thawed or frozen > 0
            frozen = 0
            forked = None
        elif kind == layout.MARK_THRESHOLD:
            thresholds = (mark["a"], mark["b"], mark["c"])
            stepped = stepped or mark["c"] == _HELD_BACK
        elif kind == layout.MARK_STATE and mark["a"] == 3:
            thresholds = (mark["b"], mark["c"], mark["d"])
            enabled = bool(mark["e"])
            stepped = stepped or mark["d"] == _HELD_BACK  # a fork of one that steps
        elif kind in (layout.MARK_ENABLE, layout.MARK_DISABLE):
            enabled = kind == layout.MARK_ENABLE
        elif kind == layout.MARK_BOUNDARY:
            boundary, told_by = mark["time"], mark["a"]
            late = bool(mark["flags"] & layout.MARK_FLAG_LATE)
        elif kind == layout.MARK_POLICY:
            policy = names.get(mark["a"], policy)
        elif kind == layout.MARK_DEAD_COLLECTOR:
            dead = True
    awaits = ""
    if policy.startswith("sync") and not stepped:
        awaits = "steps"
    elif policy.startswith("idle") and moments_awaited:
        awaits = "requests"
    return Facts(
        identity,
        thresholds,
        enabled,
        frozen,
        thawed,
        by_us,
        spliced,
        boundary,
        told_by,
        late,
        policy,
        dead,
        awaits,
        forked,
        header,
    )


def name(identity: dict[str, Any], argv: list[str], title: str) -> str:
    """The process's name without its pid, by the one rule that names have (A7)."""
    module = identity.get("module", "")
    if not module and argv and proc.is_interpreter(argv[0]):
        module = options(argv).target
    return naming.process_role(
        identity.get("role", ""),
        identity.get("rank"),
        identity.get("title", "") or title,
        identity.get("multiprocessing", ""),
        module,
        tuple(argv),
        identity.get("forked", False),
    )
