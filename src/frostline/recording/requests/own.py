"""Our own format (docs/requests.md): JSON lines, a header and then one request a line; and the demo's."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from frostline.errors import FrostlineError
from frostline.recording.requests.model import (
    CLOSED,
    LATE_BOUND,
    MONOTONIC,
    OK,
    OPEN,
    Requests,
    damaged,
    nanoseconds,
    ordered,
)

VERSION = 1
#: The key of the header that says what the file is.
KEY = "frostline_requests"
#: Of the demo's load client: the bound that it judges itself by, ns.
DEMO_BOUND = 50_000_000
_TIMES = ("sent", "first", "last")
#: Of a stream, where it is not the end of the answer.
_LAST_TOKEN = "last_token"


def write_own(path: Path, header: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> None:
    """Writes a file of our own format: ``header`` without the version, then one dict a request."""
    with path.open("w", encoding="utf-8") as file:
        for row in ({KEY: VERSION, "clock": MONOTONIC, **header}, *rows):
            file.write(json.dumps(row, separators=(",", ":")) + "\n")


def read_own(path: Path, text: str) -> Requests:
    """Reads our own format. A line that is cut off or makes no sense is counted, never guessed.

    Raises:
        FrostlineError: ``requests-version``, ``requests-damaged``.
    """
    lines = text.lstrip().split("\n")
    header = json.loads(lines[0])
    if header.get(KEY) != VERSION:
        raise FrostlineError(
            "requests-version",
            f"{path} is of version {header.get(KEY)!r} of the request format; this Frostline reads {VERSION}",
            "Use the Frostline that wrote it, or a newer one.",
        )
    if header.get("clock", MONOTONIC) != MONOTONIC:
        raise damaged(path, f"its clock is {header['clock']!r}, which is not {MONOTONIC!r}")
    loop = header.get("loop", OPEN)
    if loop not in (OPEN, CLOSED):
        raise damaged(path, f"its loop is {loop!r}, which is neither {OPEN!r} nor {CLOSED!r}")
    after = _whole(header.get("deadline"))
    bound = _whole(header.get("late_bound"))
    columns: dict[str, list[int]] = {
        name: [] for name in ("intended", *_TIMES, _LAST_TOKEN, "tokens", "deadline", "gap_start", "gap_stop")
    }
    status: list[str] = []
    unread = warm_up = own = 0
    for line in lines[1:]:
        if not line.strip():
            continue
        row = _row(line)
        if row is None:
            unread += 1
            continue
        if row.get("measured") is False:
            warm_up += 1
            continue
        intended = row["intended"]
        columns["intended"].append(intended)
        for name in (*_TIMES, _LAST_TOKEN):
            columns[name].append(_whole(row.get(name)))
        if columns["sent"][-1] < 0:
            columns["sent"][-1] = intended if loop == CLOSED else -1
        columns["tokens"].append(_whole(row.get("tokens")))
        deadline = _whole(row.get("deadline"))
        columns["deadline"].append(deadline if deadline >= 0 else intended + after if after >= 0 else -1)
        status.append(row["status"])
        own += row.get("own") is True and row["status"] != OK
        at = columns["first"][-1]
        for gap in row.get("gaps") or ():
            columns["gap_start"].append(at)
            at += gap
            columns["gap_stop"].append(at)
    gap_start, gap_stop = (np.array(columns.pop(name), np.int64) for name in ("gap_start", "gap_stop"))
    return Requests(
        name=path.name,
        path=path,
        format="frostline",
        clock=MONOTONIC,
        loop=loop,
        late_bound=bound if bound >= 0 else LATE_BOUND,
        boot_id=str(header.get("boot_id") or ""),
        unread=unread,
        warm_up=warm_up,
        own=own,
        gap_start=gap_start,
        gap_stop=gap_stop,
        **ordered(**columns, status=status),
    )


def _whole(value: object) -> int:
    """A time or a count; -1 where there is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62 else -1


def _row(line: str) -> dict[str, Any] | None:
    """One request, or None where the line makes no sense."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    if not isinstance(row, dict) or not isinstance(row.get("status"), str):
        return None
    intended, first, last = (_whole(row.get(name)) for name in ("intended", "first", "last"))
    if intended < 0 or (row["status"] == OK and last < 0):
        return None
    if 0 <= first < intended or 0 <= last < max(first, intended):
        return None
    token = _whole(row.get(_LAST_TOKEN))
    if 0 <= token < max(first, intended) or 0 <= last < token:
        return None
    gaps = row.get("gaps") or ()
    if not isinstance(gaps, (list, tuple)) or any(_whole(gap) < 0 for gap in gaps) or (gaps and first < 0):
        return None
    return row


def read_demo(path: Path, whole: dict[str, Any]) -> Requests:
    """What ``python -m frostline.demo drive --output`` writes.

    Raises:
        FrostlineError: ``requests-damaged``.
    """
    try:
        rows = [dict(zip(whole["columns"], row, strict=True)) for row in whole["requests"]]
        measured = [row for row in rows if row["measured"]]
        after = int(nanoseconds(whole["load"]["timeout"]))
        columns = {name: [_whole(row[name]) for row in measured] for name in ("intended", *_TIMES, "chunks")}
        status = [str(row["status"]) for row in measured]
        if min(columns["intended"], default=0) < 0:
            raise ValueError("a request without its intended time")
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise damaged(path, f"it is no result of the demo's load client ({error!r})") from error
    deadline = [at + after for at in columns["intended"]]
    # It writes the deadline where nothing came.
    first = [
        at if ok == OK or at < end else -1
        for at, end, ok in zip(columns["first"], deadline, status, strict=True)
    ]
    nothing = np.zeros(0, np.int64)
    return Requests(
        name=path.name,
        path=path,
        format="demo",
        clock=MONOTONIC,
        loop=OPEN,
        late_bound=DEMO_BOUND,
        gap_start=nothing,
        gap_stop=nothing,
        warm_up=len(rows) - len(measured),
        **ordered(
            columns["intended"], columns["sent"], first, columns["last"], columns["chunks"], deadline, status
        ),
    )
