"""Turns recordings into numbers, and numbers into a verdict with its doubts."""

from frostline.analysis.analyse import analyse
from frostline.analysis.model import (
    Advice,
    Analysis,
    CallSite,
    Doubt,
    Event,
    FullPass,
    GenerationStats,
    LabelStats,
    LongStep,
    MissedProcess,
    Options,
    ProcessReport,
    State,
    Verdict,
    Walked,
)

__all__ = [
    "Advice",
    "Analysis",
    "CallSite",
    "Doubt",
    "Event",
    "FullPass",
    "GenerationStats",
    "LabelStats",
    "LongStep",
    "MissedProcess",
    "Options",
    "ProcessReport",
    "State",
    "Verdict",
    "Walked",
    "analyse",
]
