"""``frostline gate``: a budget of pauses for CI, judged by counts first and by clocks second (D9)."""

from frostline.gate.baseline import Baseline, measure, read_baseline, write_baseline, write_file
from frostline.gate.config import configured
from frostline.gate.judge import Check, judge
from frostline.gate.junit import junit
from frostline.gate.limits import NAMES, Budget, Limits, with_option
from frostline.gate.output import text, workflow

__all__ = [
    "NAMES",
    "Baseline",
    "Budget",
    "Check",
    "Limits",
    "configured",
    "judge",
    "junit",
    "measure",
    "read_baseline",
    "text",
    "with_option",
    "workflow",
    "write_baseline",
    "write_file",
]
