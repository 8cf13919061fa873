"""Requests as a load client saw them: one run of it, as columns with one entry a request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from frostline.errors import FrostlineError
from frostline.recording.layout import Array, Int64

#: Clocks of the times in a file.
MONOTONIC, UNIX = "monotonic", "unix"
#: Whether arrivals were planned, or waited for answers.
OPEN, CLOSED = "open", "closed"
#: ns. A client whose p99 of sent - intended is over this was the bottleneck, where the file says no other.
LATE_BOUND = 10_000_000
OK = "ok"


@dataclass(frozen=True)
class Requests:
    """One run of a load client. Times in ns of ``clock``; -1 where the file says none."""

    name: str
    path: Path
    format: str
    clock: str
    loop: str
    #: When the plan meant it to be sent, rising; of a closed loop when it was sent.
    intended: Int64
    sent: Int64
    #: The first chunk that carries text.
    first: Int64
    #: The event of the last token, where that is not the end of the answer; -1: ``last`` is.
    last_token: Int64
    #: The last byte; of a failure when the client gave up.
    last: Int64
    #: ``ok``, ``timeout``, ``cut`` (the client ended before the answer), or what the error was.
    status: tuple[str, ...]
    tokens: Int64
    #: Gaps between chunks of text of all requests, in no order: from one chunk to the next.
    gap_start: Int64
    gap_stop: Int64
    #: When a failure counts: intended plus the client's deadline. -1 where the file says none.
    deadline: Int64
    late_bound: int = LATE_BOUND
    boot_id: str = ""
    #: Records that could not be read, requests of the warm-up, and such as were never sent: left out.
    unread: int = 0
    warm_up: int = 0
    unsent: int = 0
    #: Failures that are the client's own: it had no file or port left to send with.
    own: int = 0
    #: What the file cannot say, in words.
    notes: tuple[str, ...] = ()
    ok: Array = field(init=False, repr=False)
    cut: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ok", np.array([s == OK for s in self.status], bool))
        object.__setattr__(self, "cut", np.array([s == "cut" for s in self.status], bool))

    def __len__(self) -> int:
        return len(self.intended)

    @property
    def failed(self) -> Array:
        """Neither answered nor cut by the client's own end."""
        failed: Array = ~(self.ok | self.cut)
        return failed


def ordered(
    intended: Any,
    sent: Any,
    first: Any,
    last: Any,
    tokens: Any,
    deadline: Any,
    status: Sequence[str],
    last_token: Any = None,
) -> dict[str, Any]:
    """The columns of ``Requests`` by name, in order of the intended time."""
    at = np.asarray(intended, np.int64)
    last_token = np.full(len(at), -1) if last_token is None else last_token
    order = np.argsort(at, kind="stable")
    columns = {"sent": sent, "first": first, "last_token": last_token, "last": last}
    columns |= {"tokens": tokens, "deadline": deadline}
    found: dict[str, Any] = {name: np.asarray(column, np.int64)[order] for name, column in columns.items()}
    return {**found, "intended": at[order], "status": tuple(status[i] for i in order.tolist())}


def nanoseconds(seconds: Any) -> Int64:
    """From seconds as JSON has them."""
    found: Int64 = np.rint(np.asarray(seconds, np.float64) * 1e9).astype(np.int64)
    return found


#: Seconds and counts above are nonsense; in ns they would not fit.
MOST = 4e9


def numbers(values: Iterable[object]) -> bool:
    """Whether they all are numbers that seconds, or a count, can be; NaN is none."""
    return all(
        isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < MOST
        for value in values
    )


def damaged(path: Path, what: str) -> FrostlineError:
    """The file is of a format that is known, and not as it should be."""
    return FrostlineError(
        "requests-damaged",
        f"{path}: {what}",
        "Give the file as its client wrote it, or run the client again.",
    )
