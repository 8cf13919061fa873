"""SIGTERM and SIGHUP as Ctrl-C, for commands that have something to bring to its end."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


def _told(number: int, frame: FrameType | None) -> None:
    # By SIGINT's own handler, where it has one: asyncio's ends its loop in order.
    action = signal.getsignal(signal.SIGINT)
    if callable(action):
        action(signal.SIGINT, frame)
    else:  # the shell has it ignored: a script's background
        raise KeyboardInterrupt


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """They end the block as Ctrl-C does. One that is ignored stays so: SIGHUP under nohup."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    ours = {number: action for number, action in before.items() if action is not signal.SIG_IGN}
    for number in ours:
        signal.signal(number, _told)
    try:
        yield
    finally:
        for number, action in ours.items():
            signal.signal(number, action)
