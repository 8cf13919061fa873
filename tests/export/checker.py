"""What Chrome and Perfetto ask of a trace in JSON: a strict reading of the Trace Event Format.

Stricter than either viewer, which drop what they do not like without a word: fields by phase, texts
and numbers where they belong, asynchronous events in pairs, and slices of one thread that lie one in
the other or apart (Perfetto cuts or drops a slice that overlaps another in part).
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

_METADATA = {
    "process_name": ("name", str),
    "process_labels": ("labels", str),
    "process_sort_index": ("sort_index", int),
    "thread_name": ("name", str),
    "thread_sort_index": ("sort_index", int),
}
_NUMBER = (int, Decimal)


def problems(text: str, pairs: bool = True) -> list[str]:
    """Everything that is wrong with a trace, in words. ``pairs``: asynchronous events must be in pairs."""
    try:
        data = json.loads(text, parse_float=Decimal, parse_constant=_no_constant)
    except ValueError as error:
        return [f"no JSON: {error}"]
    events = data.get("traceEvents") if isinstance(data, dict) else data
    if not isinstance(events, list):
        return ["no list of events"]
    found: list[str] = []
    if isinstance(data, dict) and data.get("displayTimeUnit", "ms") not in ("ms", "ns"):
        found.append("displayTimeUnit is neither ms nor ns")
    open_: dict[tuple[str, str], Decimal | int] = {}
    tracks: dict[tuple[Any, Any], list[tuple[Decimal, Decimal, str]]] = {}
    for i, event in enumerate(events):
        if not isinstance(event, dict):
            found.append(f"event {i} is no object")
            continue
        found += [f"event {i} ({event.get('name')}): {what}" for what in _fields(event)]
        if event.get("ph") == "X" and isinstance(event.get("ts"), _NUMBER):
            start, length = Decimal(event["ts"]), Decimal(event.get("dur", 0))
            track = tracks.setdefault((event.get("pid"), event.get("tid")), [])
            track.append((start, -(start + length), str(event.get("name"))))
        if pairs and event.get("ph") in ("b", "e"):
            key = (str(event.get("cat")), str(event.get("id")))
            if event["ph"] == "b":
                if key in open_:
                    found.append(f"event {i}: {key} begins twice")
                open_[key] = event["ts"]
            elif open_.pop(key, event["ts"] + 1) > event["ts"]:
                found.append(f"event {i}: {key} ends before it begins")
    found += [f"{key} never ends" for key in open_]
    for track, slices in tracks.items():
        found += [f"thread {track}: {what}" for what in _nesting(slices)]
    return found


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _fields(event: dict[str, Any]) -> list[str]:
    found = []
    phase = event.get("ph")
    if not isinstance(event.get("name"), str):
        found.append("no name")
    for key in ("pid", "tid"):
        if not isinstance(event.get(key), (int, str)) and (key, phase) != ("tid", "C"):
            found.append(f"{key} is neither number nor word")
    if not isinstance(event.get("args", {}), dict):
        found.append("args are no object")
    if phase == "M":
        key, kind = _METADATA.get(str(event.get("name")), ("", object))
        if not key or not isinstance(event.get("args", {}).get(key), kind):
            found.append("unknown or empty metadata")
        return found
    if phase not in ("X", "b", "e", "i", "C", "s", "f", "t"):
        found.append(f"phase {phase!r}")
    if not isinstance(event.get("ts"), _NUMBER):
        found.append("ts is no number")
    if phase == "X" and not (isinstance(event.get("dur"), _NUMBER) and event["dur"] >= 0):
        found.append("dur is no length")
    if phase in ("b", "e", "s", "f", "t") and not (
        isinstance(event.get("id"), (int, str)) and event.get("cat")
    ):
        found.append("no id, or no category")
    if phase == "i" and event.get("s") not in ("g", "p", "t"):
        found.append("no scope")
    if phase == "C":
        values = event.get("args", {}).values()
        if not values or not all(isinstance(value, _NUMBER) for value in values):
            found.append("a counter without numbers")
    return found


def _nesting(slices: list[tuple[Decimal, Decimal, str]]) -> list[str]:
    found = []
    around: list[tuple[Decimal, str]] = []
    for start, stop, name in sorted(slices):
        while around and around[-1][0] <= start:
            around.pop()
        if around and -stop > around[-1][0]:
            found.append(f"{name} at {start} overlaps {around[-1][1]} in part")
        around.append((-stop, name))
    return found
