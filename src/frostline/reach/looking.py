"""A look at the heap of live processes: asked for one after the other.

One after the other, since each stops its process: a server whose processes all stand still at once is a
worse stall.
"""

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from frostline import format as layout
from frostline.errors import FrostlineError
from frostline.format import request
from frostline.reach import control, files
from frostline.reach.asking import Target


class Look(NamedTuple):
    """What one process answered: ``found`` as the target wrote it, or why there is nothing."""

    target: Target
    found: "dict[str, Any] | None"
    why_not: str
    #: Seconds from the request to the answer.
    took: float
    #: Refused, since requests are in flight or may be.
    serving: bool = False


def looks(
    targets: list[Target], text: str, seconds: float, told: "Callable[[Target], None] | None" = None
) -> Iterator[Look]:
    """Asks each for a look and yields its answer.

    Args:
        text: as in ``agent.looking``.
        seconds: how long each is waited for.
        told: called before a process is asked.
    """
    for target in targets:
        if told is not None:
            told(target)
        yield _one(target, text, seconds)


def _one(target: Target, text: str, seconds: float) -> Look:
    begun = time.monotonic()

    def none(why: str) -> Look:
        return Look(target, None, why, time.monotonic() - begun)

    if target.why_not:
        return none(target.why_not)
    try:
        reply = control.send(target.mailbox, request.OP_LOOK, (), seconds, target.pid, text.encode())
    except FrostlineError as error:
        return none(error.message)
    except OSError as error:
        return none(f"it cannot be signalled: {error.strerror}")
    if reply.status == layout.REPLY_REFUSED and reply.text.startswith(request.LOOK_SERVING):
        why = f"{reply.text.partition(': ')[2]}: say --serving to stop it all the same"
        return none(why)._replace(serving=True)
    if reply.status == layout.REPLY_UNKNOWN:
        return none("its recorder is older than this command: start it anew, or detach and attach it")
    if not reply.done:
        return none(reply.detail)
    path = target.mailbox + request.LOOK_SUFFIX
    try:
        with os.fdopen(files.open_regular(path, os.O_RDONLY), "rb") as file:
            found = json.loads(file.read())
    except (OSError, ValueError) as error:
        return none(f"its answer cannot be read: {error}")
    with contextlib.suppress(OSError):
        os.unlink(path)
    if not isinstance(found, dict):
        return none("its answer is none")
    return Look(target, found, "", time.monotonic() - begun)
