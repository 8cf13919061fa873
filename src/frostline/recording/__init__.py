"""Reads recordings: one segment, one series, one session; damaged ones as far as they are sound."""

from frostline.recording.loss import Loss
from frostline.recording.model import Mark, Series
from frostline.recording.notes import ProcessSeen, Run, Session
from frostline.recording.session import merge, read_session

__all__ = [
    "Loss",
    "Mark",
    "ProcessSeen",
    "Run",
    "Series",
    "Session",
    "merge",
    "read_session",
]
